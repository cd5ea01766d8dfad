/** Ids of objects that providers store, each with the account to which a response named it. */
export interface IssuedIdStore {
  /** Adds ids that a provider issued to an account, which keeps at most `most`, those that expire last. */
  add(accountId: string, provider: string, ids: readonly string[], expiresAt: number, most: number): Promise<void>
  /** The providers of those of the ids that were issued to the account and have not expired by `now`. */
  providersOf(accountId: string, ids: readonly string[], now: number): Promise<Map<string, string>>
  purge(now: number): Promise<void>
}
