/**
 * The signed reasoning of one response that called tools, which its provider requires in the next request.
 * `key`: a digest of the account and of the first call's id. `sealed`: encrypted under that call id.
 */
export type StoredReasoning = {
  accountId: string
  key: string
  provider: string
  model: string
  expiresAt: number
  sealed: Uint8Array
}

/** Bytes stored of the reasoning that one model signed for one account. */
export type ReasoningUsage = { accountId: string; provider: string; model: string; bytes: number }

export interface ReasoningStore {
  /** Replaces what has the same key. Before that, removes at least `toFree` bytes of the account's, oldest first. */
  save(reasoning: StoredReasoning, toFree: number): Promise<void>
  /** The entries with these keys that have not expired by `now`, in the order of the keys, up to `maxBytes`. */
  find(accountId: string, keys: readonly string[], maxBytes: number, now: number): Promise<Map<string, Uint8Array>>
  usage(): Promise<ReasoningUsage[]>
  purge(now: number): Promise<void>
}
