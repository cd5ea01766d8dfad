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

/** Keys of requests that several processes are answering. */
export interface IdempotencyClaims {
  /**
   * Claims a key for this process until it is released or the process ends. Gives the digest of the request that
   * another process is answering, where that has the key.
   */
  claim(accountId: string, key: Uint8Array, digest: Uint8Array): Promise<Uint8Array | undefined>
  release(accountId: string, key: Uint8Array): Promise<void>
}

export interface IdempotencyStore {
  /** Set where several processes share the store. */
  readonly claims?: IdempotencyClaims
  /** Replaces what has the same key. What is too much then is removed, oldest first. */
  save(answer: StoredAnswer, limits: AnswerLimits): Promise<void>
  /** Undefined for one that has expired by `now`. */
  find(accountId: string, key: Uint8Array, now: number): Promise<StoredAnswer | undefined>
  purge(now: number): Promise<void>
}
