/** What Sluice keeps, as one interface. `sqlite.ts` implements it; nothing outside this folder says SQL. */

export type AccountStatus = 'healthy' | 'monitored' | 'abusive' | 'suspended' | 'banned'
export type KeyKind = 'pay-as-you-go' | 'subscription' | 'management'

/** All instants are Unix milliseconds. */
export type Account = { id: string; name: string; status: AccountStatus; createdAt: number }

/** A key as it is kept: its text is not in it, only the keyed hash and enough of the text to recognise it. */
export type StoredKey = {
  id: string
  accountId: string
  kind: KeyKind
  /** 32 bytes, unique. */
  hash: Uint8Array
  prefix: string
  last4: string
  name: string | null
  createdAt: number
  expiresAt: number | null
  revokedAt: number | null
  requestsPerMinute: number | null
}

export type Json = Record<string, unknown>

/** An answer kept for `previous_response_id`. `inputItems` are whole items: references are resolved before they come here. */
export type ResponseToSave = { id: string; response: Json; inputItems: readonly unknown[]; expiresAt: number; upstream?: BackgroundWork | undefined }
export type StoredResponse = { id: string; response: Json; inputItems: unknown[]; createdAt: number; expiresAt: number; upstream?: BackgroundWork }

/** Where a provider works on a response in the background: its id in the catalogue, and its own id of the response. */
export type BackgroundWork = { provider: string; id: string }

/**
 * Every method that names a tenant takes the account first, and another account's id answers exactly as an unknown one.
 * A store that does not answer fails with GatewayError `store_unavailable` (503), never as "unknown".
 */
export interface Store {
  accounts(): Promise<Account[]>
  keys(): Promise<StoredKey[]>
  /** False, and nothing written, when the name is taken. */
  addAccount(account: Account): Promise<boolean>
  addKey(key: StoredKey): Promise<void>
  /** A key revoked earlier keeps its first instant. */
  revokeKey(id: string, at: number): Promise<void>
  setting(name: string): Promise<string | undefined>
  /** Keeps the first value ever given and returns what is kept. */
  settleSetting(name: string, value: string): Promise<string>

  /** Resolves when it is committed. The same id again replaces what was kept. */
  saveResponse(accountId: string, response: ResponseToSave): Promise<void>
  findResponse(accountId: string, id: string): Promise<StoredResponse | undefined>
  /** The newest input or output item with this id. */
  findItem(accountId: string, itemId: string): Promise<Json | undefined>
  deleteResponse(accountId: string, id: string): Promise<boolean>
  /** Removes what has expired by `now`; gives the number of responses removed. */
  purgeExpired(now: number): Promise<number>

  /** Calls back within two seconds of another process's change; again and again until the call succeeds. One listener. */
  watch(listener: () => Promise<void>): void
  close(): Promise<void>
}
