/** The most attempts that are counted within a time. */
export type AttemptLimit = { most: number; withinMs: number }

/** Hashes of 32 bytes: of the name for which a password was given, and of the address from which. */
export type PasswordAttempt = { name: Uint8Array; address: Uint8Array }

/** Rows that are kept: the oldest go first, so that nothing grows with the names that strangers make up. */
export const ATTEMPTS_KEPT = 50_000
export const ORIGINS_KEPT = 10_000

/** Wrong passwords, and the origins of right ones: a name at an address. They hold over all processes. */
export interface PasswordAttemptStore {
  /**
   * Counts an attempt, unless its name or its address has as many as the limit: then nothing is written, and `waitMs`
   * is the time after which it is counted. Processes that share a store go by its clock instead of `now`.
   */
  begin(one: PasswordAttempt, limit: AttemptLimit, now: number): Promise<{ position: number } | { waitMs: number }>
  /** Removes an attempt. `origin`: a hash of 32 bytes, known from now on. */
  withdraw(position: number, origin?: Uint8Array): Promise<void>
  isKnownOrigin(origin: Uint8Array): Promise<boolean>
}
