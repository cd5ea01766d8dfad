/**
 * The answer to a request with an `Idempotency-Key`. `key` and `digest`: 32 bytes each, of the key's text and of the
 * request. `headers`: JSON.
 */
export type StoredAnswer = {
  accountId: string
  key: Uint8Array
  digest: Uint8Array
  createdAt: number
  expiresAt: number
  status: number
  headers: string
  body: Uint8Array
}

/** The most bytes that are kept of one account, and in all. */
export type AnswerLimits = { accountBytes: number; totalBytes: number }

export interface IdempotencyStore {
  /** Replaces what has the same key. What is too much then is removed, oldest first. */
  save(answer: StoredAnswer, limits: AnswerLimits): Promise<void>
  /** Undefined for one that has expired by `now`. */
  find(accountId: string, key: Uint8Array, now: number): Promise<StoredAnswer | undefined>
  purge(now: number): Promise<void>
}
