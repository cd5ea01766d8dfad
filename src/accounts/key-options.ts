import type { KeyKind, LimitPeriod } from '../config/terms.ts'
import type { Account, AccountStatus, KeySource, StoredKey } from '../store/store.ts'
import { allowedModels, anyModel, type AllowedModels } from './allowed-models.ts'
import type { KeyLimit } from './budget.ts'
import type { Role, RoleName } from './roles.ts'

export type Identity = {
  readonly keyId: string
  readonly keyName?: string
  readonly accountId: string
  readonly accountStatus: AccountStatus
  /** The account's discount in basis points. */
  readonly discount: number
  readonly kind: KeyKind
  readonly allows: AllowedModels
  readonly limit?: KeyLimit
  readonly requestsPerMinute?: number
  /** False: `Idempotency-Key` is ignored. */
  readonly idempotency?: boolean
  /** The role of a management key. */
  readonly role?: Role
  /** Made for requests of the console's playground. */
  readonly isPlayground?: boolean
}

/** Restrictions of a key. */
export type KeyOptions = {
  /** Patterns of model names. */
  models?: string[]
  /** Nano-USD that may be spent, per period where there is one. */
  limit?: bigint
  limitPeriod?: LimitPeriod
  requestsPerMinute?: number
  idempotency?: boolean
  /** The role of a management key; without it, it is a viewer of its account. */
  role?: Role
}

/** A key of the configuration file: never stored. Without `kind` its prefix decides, else it is pay-as-you-go. */
export type ConfiguredKey = KeyOptions & { key: string; kind: KeyKind; account?: string; name?: string }

/** Such a key as shown. `prefix`: empty where the text has none of ours. */
export type ListedConfiguredKey = KeyOptions & {
  id: string
  accountId: string
  kind: KeyKind
  name: string | null
  prefix: string
  last4: string
}

export type NewKey = KeyOptions & {
  kind: KeyKind
  /** An account's name or id. */
  account?: string
  name?: string
  /** Unix milliseconds. */
  expiresAt?: number
  /** Chosen by the operator; random by default. */
  text?: string
  createdBy?: string | undefined
  source?: KeySource
}

/** A key as shown to the operator. `text` has only the beginning and the end of the key's text. */
export type ListedKey = Pick<
  StoredKey,
  | 'id'
  | 'kind'
  | 'name'
  | 'createdAt'
  | 'expiresAt'
  | 'revokedAt'
  | 'requestsPerMinute'
  | 'models'
  | 'limit'
  | 'limitPeriod'
> & { account: string; text: string }

export function optionsOf({
  models,
  limit,
  limitPeriod,
  requestsPerMinute,
  idempotency,
  role,
  scope,
}: StoredKey): KeyOptions {
  return {
    idempotency,
    ...(models === null ? {} : { models }),
    ...(limit === null ? {} : { limit }),
    ...(limitPeriod === null ? {} : { limitPeriod }),
    ...(requestsPerMinute === null ? {} : { requestsPerMinute }),
    ...(role === null || scope === null ? {} : { role: { role: role as RoleName, scope } }),
  }
}

export function identityOf(
  { id, name, source }: Pick<StoredKey, 'id' | 'name'> & { source?: KeySource | null },
  account: Account,
  kind: KeyKind,
  { models, limit, limitPeriod, requestsPerMinute, idempotency, role }: KeyOptions,
): Identity {
  return {
    keyId: id,
    ...(name === null ? {} : { keyName: name }),
    accountId: account.id,
    accountStatus: account.status,
    discount: account.discount,
    kind,
    allows: models === undefined ? anyModel : allowedModels(models),
    ...(limit === undefined ? {} : { limit: { amount: limit, period: limitPeriod ?? null } }),
    ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
    ...(idempotency === false ? { idempotency } : {}),
    ...(role === undefined ? {} : { role }),
    ...(source === 'playground' ? { isPlayground: true } : {}),
  }
}
