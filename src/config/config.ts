import type { BodyLimits } from '../json/weight.ts'
import type { Nano } from '../money.ts'
import type { Api, Capabilities, Quirks } from '../protocols/protocol.ts'
import type { PriceText } from './model-settings.ts'
import type { Auth, MediaKind } from './provider-settings.ts'
import type { Durability, KeyKind, LimitPeriod, LogFormat, LogLevel, LogRequests, QuotaWindowName } from './terms.ts'

/** All settings, with defaults. */
export type Config = {
  /** `publicUrl`: without a trailing slash. `proxies`: addresses and ranges. */
  listen: { host: string; port: number; publicUrl?: string; proxies: string[] }
  /** Absolute path of a folder, which need not exist yet. */
  data: string
  /**
   * `quotaBytes`: for everything that is kept; without a quota, infinite. `reserve`: as a share of the disk, at most
   * these bytes.
   */
  store: {
    durability: Durability
    quotaBytes: number
    quotaWithoutCreditBytes: number
    reserve: { share: number; bytes: number }
  }
  /** Without a format: text on a terminal, JSON otherwise. */
  log: { format: LogFormat | undefined; level: LogLevel; requests: LogRequests }
  limits: BodyLimits & {
    requestsPerMinute: number
    connectionsPerAddress: number
    bodyBytes: number
    fileBytes: number
    conversationBytes: number
    memoryBytes?: number
  }
  timeouts: {
    connectMs: number
    firstByteMs: number
    idleMs: number
    totalMs: number
    clientLeftMs: number
    drainMs: number
  }
  keepAliveMs: number
  /** Refuse requests that would lose something in translation, unless they say otherwise. */
  strict: boolean
  billing: {
    startingCredit: Nano
    overdraft: Nano
    /** `auto`: free, or plain, as long as there is one account, whose owner pays the providers. */
    unpriced: 'auto' | 'refuse' | 'free'
    unpricedClasses: 'auto' | 'refuse' | 'plain'
    delayMs: number
  }
  /** `keepMs` 0: nothing is kept. */
  reasoning: { keepMs: number }
  responses: { keepDays: number } & KeptConfig
  /** `keepMs` 0: the header is ignored. Bytes of kept answers of one account, and in all. */
  idempotency: { keepMs: number; accountBytes: number; totalBytes: number }
  /** `quotaBytes`: for all files of one account together. */
  files: { quotaBytes: number; count?: never; outputKeepMs: number }
  predictions: { concurrency: number; waiting: number; keepDays: number } & KeptConfig
  /** `private`: each `host` or `host:port`, in lower case, that may be reached although it is not public. */
  fetch: { requestUrls: boolean; bytes: number; private: string[] }
  accountStatus: AccountStatusConfig
  providers: Map<string, ProviderConfig>
  models: Map<string, ModelConfig>
  /** `usdPerFlow`: USD at list prices per flow. `tiers` includes the built-in ones. */
  plans: { usdPerFlow: number; tiers: Map<string, PlanConfig> }
  keys: KeyConfig[]
  env: Environment
  /** Absolute path of the file that was read. */
  file?: string
}

/** The most that is kept for one account. */
type KeptConfig = { quotaBytes: number; count: number }

export type Environment = Record<string, string | undefined>

/** A provider in the file: a complete new one, or changes of a built-in one. */
export type ProviderConfig = {
  id: string
  enabled: boolean
  name?: string
  protocol?: Api
  baseUrl?: string
  apiKey?: string
  auth?: Auth
  headers: Record<string, string>
  unlisted?: boolean
  /** Kinds of media whose URLs it fetches itself. */
  fetches?: MediaKind[]
  /** Every account may refer to what it stores under its key. */
  sharedIds?: boolean
  quirks: Quirks
}

/** `endpoints`: empty for a model that its id names: `<provider>/<model>`. */
export type ModelConfig = {
  id: string
  name?: string
  endpoints: { provider: string; model: string; protocol?: Api }[]
  capabilities: Capabilities
  price?: PriceText
  /** Factors on the token rates of `price` by service class: `service_tier=priority`. */
  classes?: Record<string, number>
  contextLength?: number
}

/**
 * Counts per hour above which an account changes its status. `penalty` multiplies the flows of its requests;
 * `requestsPerMinute` limits each pay-as-you-go key of an abusive account.
 */
type AccountStatusConfig = Record<'refusals' | 'addresses' | 'concurrency', { monitored: number; abusive: number }> & {
  penalty: { monitored: number; abusive: number }
  requestsPerMinute: number
}

/** Flows in each quota window; `discount` in percent off pay-as-you-go bills. */
export type PlanConfig = { usdPerMonth: number; flows: Record<QuotaWindowName, number>; discount: number }

/** A fixed key in the file. `requestsPerMinute` overrides the general limit. `limit` is in nano-USD. */
export type KeyConfig = {
  key: string
  kind: KeyKind
  name: string
  account?: string
  requestsPerMinute?: number
  models?: string[]
  limit?: bigint
  limitPeriod?: LimitPeriod
  idempotency?: boolean
}

/** An invalid configuration. One problem per line: `sluice.yaml:12:5: models.acme/large requires endpoints`. */
export class ConfigError extends Error {
  readonly problems: string[]

  constructor(problems: string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}
