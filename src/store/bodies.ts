/** A body as lists show it. `bytes`: on the wire; `cut`: of those, the bytes that were left out. */
export type BodyPart = { name: string; bytes: number; cut: number }

/** The place of one request's bodies: encrypted, in a file of the data folder that is called a segment. */
export type StoredBodies = {
  /** The id of the request. */
  id: string
  accountId: string
  keyId: string
  segment: string
  offset: number
  length: number
  expiresAt: number
  parts: BodyPart[]
}

/** Where bodies are, and the keys that they are encrypted with. Another process may have removed any of it. */
export interface BodyStore {
  /** The encrypted key of an account. `fresh`: stored and given where it has none. */
  keyOf(accountId: string, fresh?: Uint8Array): Promise<Uint8Array | undefined>
  /** Without waiting for a flush: what a power cut takes is not found. */
  add(bodies: StoredBodies): Promise<void>
  /** Undefined where there are none, or none any more at `now`. */
  find(id: string, now: number): Promise<StoredBodies | undefined>
  /** Those of these requests that have bodies. */
  among(ids: readonly string[], now: number): Promise<Set<string>>
  /** False, and nothing changed, where there are none. */
  remove(id: string): Promise<boolean>
  /** Removes the key of an account, without which its bodies cannot be read, and where they are. False as above. */
  removeAccount(accountId: string): Promise<boolean>
  /** Those of a segment that is not there any more. */
  removeSegment(segment: string): Promise<void>
  purge(now: number): Promise<void>
}
