/** So many tries are counted within so long. */
export type TryLimit = { most: number; withinMs: number }

/** A try at a password, by hashes of 32 bytes: of the name that is tried, and of the address from which. */
export type Try = { name: Uint8Array; address: Uint8Array }

/** Tries that are kept, and places: the oldest go first, so that nothing grows with those that strangers make up. */
export const TRIES_KEPT = 50_000
export const PLACES_KEPT = 10_000

/** Wrong passwords, and the places from which right ones came. They hold over all processes. */
export interface TryStore {
  /**
   * Counts a try, unless its name or its address has as many as the limit: then nothing is written, and `waitMs` is
   * the time after which it is counted. Processes that share a store go by its clock instead of `now`.
   */
  begin(one: Try, limit: TryLimit, now: number): Promise<{ position: number } | { waitMs: number }>
  /** Takes a try back. `place`: a hash of 32 bytes, known from now on. */
  takeBack(position: number, place?: Uint8Array): Promise<void>
  isKnown(place: Uint8Array): Promise<boolean>
}
