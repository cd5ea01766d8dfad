import type { KeyKind, LimitPeriod } from '../config/terms.ts'
import type { Operation, Subscription } from './ledger.ts'

export type { KeyKind, LimitPeriod }

export type AccountStatus = 'healthy' | 'monitored' | 'abusive' | 'suspended' | 'banned'

/** The requests of an account that its members see: those of their own keys, or of all. */
export type MemberRequests = 'own' | 'all'

/** `discount`: basis points off every bill. */
export type Account = {
  id: string
  name: string
  status: AccountStatus
  createdAt: number
  discount: number
  memberRequests: MemberRequests
}

export type KeySource = 'api' | 'playground'

/** An API key without its text: only the keyed hash and enough of the text to recognise it. */
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
  /** Allowed model ids, `*` as a wildcard; null allows all. */
  models: string[] | null
  /** Nano-USD that may be spent per period, or in total if the period is null. */
  limit: bigint | null
  limitPeriod: LimitPeriod | null
  /** The time at which it got this limit, or its period, after some of its requests; null: it was made with it. */
  limitSince: number | null
  /** False: `Idempotency-Key` is ignored. */
  idempotency: boolean
  /** Role and scope of a management key; without them it is a viewer of its account. */
  role: string | null
  scope: string | null
  /** The id of the user or management key that made it; null for the command line. */
  createdBy: string | null
  /** `api`, `playground`, or null for the first start and the command line. */
  source: KeySource | null
}

/** `accountIds`: undefined for all. `own`: accounts in which only the keys that `creator` made or is count. */
export type KeyFilter = {
  accountIds: readonly string[] | undefined
  own: readonly string[]
  creator: string
  /** With revoked keys, and those of the playground that expired before `now`. */
  withEnded: boolean
  now: number
  /** Only older ones than this. */
  after?: { createdAt: number; id: string } | undefined
  limit: number
}

export interface AccountStore {
  /** `ids`: only these. */
  list(ids?: readonly string[]): Promise<Account[]>
  /** The account with this id or name. */
  find(idOrName: string): Promise<Account | undefined>
  /** Ids of at most `limit` accounts, in order. `after`: the last id of the page before. */
  page(after: string, limit: number): Promise<string[]>
  /** The position of the last change, for `changes`. */
  lastChange(): Promise<number>
  /**
   * Accounts of which anything but the records of generations changed after a position, by any process, at most `limit`
   * of them; the position of the last.
   */
  changes(after: number, limit: number): Promise<{ position: number; accountIds: string[] }>
  /**
   * Writes an account together with its plan and its first money. False, and nothing written, if the name is taken.
   */
  add(account: Account, subscription?: Subscription, operations?: readonly Operation[]): Promise<boolean>
  /**
   * False, and nothing changed, if there is no such account, or if `before` is given and is not its present status.
   */
  setStatus(id: string, status: AccountStatus, before?: AccountStatus): Promise<boolean>
  setDiscount(id: string, discount: number): Promise<void>
  setMemberRequests(id: string, seen: MemberRequests): Promise<void>
  /** `accountIds`: only those of these accounts. */
  keys(accountIds?: readonly string[]): Promise<StoredKey[]>
  keyWithHash(hash: Uint8Array): Promise<StoredKey | undefined>
  keyWithId(id: string): Promise<StoredKey | undefined>
  /** Those that a user or key made. */
  keysBy(creator: string): Promise<StoredKey[]>
  /** The last made ones first. */
  keyPage(filter: KeyFilter): Promise<StoredKey[]>
  addKey(key: StoredKey): Promise<void>
  /** False, and nothing written, if there is a key already. */
  addFirstKeys(keys: readonly StoredKey[]): Promise<boolean>
  /** Writes what can be changed of a key: its name, limits, models, role and expiry. */
  changeKey(key: StoredKey): Promise<void>
  /** The last use of each key, as far as it is written. */
  keyUses(ids: readonly string[]): Promise<Map<string, number>>
  /** Writes the last uses of keys, without waiting for a flush. */
  useKeys(uses: readonly { id: string; at: number }[]): Promise<void>
  /** False, and nothing changed, if the key is revoked already. */
  revokeKey(id: string, at: number): Promise<boolean>
  /** False, and nothing changed, if the key is revoked, or does not expire at `was` any more (null: never). */
  expireKey(id: string, at: number, was: number | null): Promise<boolean>
}
