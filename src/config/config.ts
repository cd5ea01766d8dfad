import type { BodyLimits } from '../json/weight.ts'
import type { Nano } from '../money.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { Quirks } from '../protocols/quirks.ts'
import type { PriceText } from './model-settings.ts'
import type { Auth, MediaKind } from './provider-settings.ts'
import type { Api } from './provider-terms.ts'
import type {
  CaptureMode,
  Durability,
  FileStoreName,
  KeyKind,
  LimitPeriod,
  LogFormat,
  LogLevel,
  LogRequests,
  Quantization,
  RedactedText,
  QuotaWindowName,
  Strategy,
  WhenExhausted,
} from './terms.ts'

/** Objects whose keys begin with `prefix/`, or all if it is empty. */
export type S3Location = { bucket: string; prefix: string }

/** All settings, with defaults. */
export type Config = {
  /** `publicUrl`: without a trailing slash. `proxies`: addresses and ranges. */
  listen: { host: string; port: number; publicUrl?: string; proxies: string[] }
  /** Processes that share the port. `worker`: the number of this one among them, from 1; undefined for a single one. */
  workers: number
  worker?: number
  /** Absolute path of a folder, which need not exist yet. */
  data: string
  /** `quotaBytes`: for everything that is kept; without a quota, infinite. */
  store: { quotaBytes: number; quotaWithoutCreditBytes: number } & (SqliteConfig | PostgresConfig)
  /** Without a format: text on a terminal, JSON otherwise. */
  log: { format: LogFormat | undefined; level: LogLevel; requests: LogRequests }
  /** With a port, they have a listener of their own. */
  metrics: { enabled: boolean; host: string; port: number | undefined }
  limits: BodyLimits & {
    requestsPerMinute: number
    connectionsPerAddress: number
    bodyBytes: number
    fileBytes: number
    conversationBytes: number
    memoryBytes?: number
    /** Generations at the same time, in all and of one account. */
    concurrency?: number
    accountConcurrency?: number
  }
  timeouts: {
    connectMs: number
    firstByteMs: number
    idleMs: number
    totalMs: number
    clientLeftMs: number
    clientStalledMs: number
    drainMs: number
  }
  keepAliveMs: number
  /** Refuse requests that would lose something in translation, unless they say otherwise. */
  strict: boolean
  billing: {
    startingCredit: Nano
    overdraft: Nano
    whenExhausted: { payAsYouGo: WhenExhausted; subscription: WhenExhausted }
    /** `auto`: free, or plain, as long as there is one account, whose owner pays the providers. */
    unpriced: 'auto' | 'refuse' | 'free'
    unpricedClasses: 'auto' | 'refuse' | 'plain'
    unpricedTools: 'auto' | 'refuse' | 'free'
    delayMs: number
  }
  /** `keepMs` 0: nothing is kept. */
  reasoning: { keepMs: number }
  responses: { keepDays: number } & KeptConfig
  /** Whole months that records are kept; undefined: for ever. */
  retention: { recordMonths: number | undefined }
  /** `keepMs` 0: the header is ignored. Bytes of kept answers of one account, and in all. */
  idempotency: { keepMs: number; accountBytes: number; totalBytes: number }
  /** `quotaBytes`: for all files of one account together. */
  files: { store: FileStoreName | S3Location; quotaBytes: number; count?: never; outputKeepMs: number }
  predictions: { concurrency: number; waiting: number; keepDays: number } & KeptConfig
  /** `private`: each `host` or `host:port`, in lower case, that may be reached although it is not public. */
  fetch: { requestUrls: boolean; bytes: number; private: string[] }
  capture: CaptureConfig
  accountStatus: AccountStatusConfig
  /** `hosts`: besides loopback, `listen.host` and the host of `listen.publicUrl`. */
  console: { enabled: boolean; hosts: string[]; sessionHours: number }
  providers: Map<string, ProviderConfig>
  models: Map<string, ModelConfig>
  routing: RoutingConfig
  /** `usdPerFlow`: USD at list prices per flow. `tiers` includes the built-in ones. */
  plans: { usdPerFlow: number; tiers: Map<string, PlanConfig> }
  keys: KeyConfig[]
  env: Environment
  /** Absolute path of the file that was read. */
  file?: string
  /** The text of that file. */
  text?: string
}

/** `reserve`: as a share of the disk of `data`, at most these bytes. */
type SqliteConfig = { postgres?: never; durability: Durability; reserve: { share: number; bytes: number } }

/**
 * `url`: with its password. `patienceMs`: the time for which writes wait for a server that is away. `deadAfterMs`: the
 * time without a report after which others take over from a process.
 */
type PostgresConfig = { postgres: { url: string; connections: number; patienceMs: number; deadAfterMs: number } }

/** `bytes`: of each body. `quotaBytes`: of all bodies together. */
export type CaptureConfig = {
  most: CaptureMode
  default: CaptureMode
  bytes: number
  keepMs: number
  quotaBytes: number
  redact: RedactedText[]
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
  apiKeys?: CredentialConfig[]
  auth?: Auth
  headers: Record<string, string>
  unlisted?: boolean
  /** Kinds of media whose URLs it fetches itself. */
  fetches?: MediaKind[]
  /** `gs://bucket/prefix`: what every account may name of the storage that the provider reads with its key. */
  buckets?: string[]
  /** Every account may refer to what it stores under its key. */
  sharedIds?: boolean
  quirks: Quirks
  /** Set for one that was set up at run time, or has its key from there. */
  setBy?: 'console'
} & ServingFacts

/** Facts that requests can demand. A missing one is not known. */
export type ServingFacts = {
  region?: string
  dataPolicy?: { retains?: boolean; trains?: boolean }
  zdr?: boolean
}

/** Limits of Sluice towards a provider. */
export type EndpointLimits = { requestsPerMinute?: number; tokensPerMinute?: number; concurrency?: number }

/** One of several keys of a provider. */
export type CredentialConfig = { name: string; key: string; weight?: number; limits?: EndpointLimits }

/** The settings of a model's endpoint that decide about its use. */
export type EndpointRoutingConfig = ServingFacts & {
  weight?: number
  /** Endpoints with a lower number precede others. */
  priority?: number
  tags?: string[]
  quantization?: Quantization
  limits?: EndpointLimits
}

/** Without `patienceMs`: three times what is usual at the endpoint, at least ten seconds. */
export type ModelRoutingConfig = {
  strategy: Strategy
  patienceMs?: number
  hedge: 'off' | 'p95'
  attempts: number
  fallbackOn: 'refusal'[]
}

export type RoutingConfig = ModelRoutingConfig & {
  /** Repetitions at one provider: a share of its requests, and so many per second beside that. */
  retryBudget: { share: number; perSecond: number }
  /** Requests that wait because of a limit of concurrency. */
  queue: { waitMs: number; requests: number }
}

/** `endpoints`: empty for a model that its id names: `<provider>/<model>`. */
export type ModelConfig = {
  id: string
  name?: string
  endpoints: ({ provider: string; model: string; protocol?: Api } & EndpointRoutingConfig)[]
  capabilities: Capabilities
  price?: PriceText
  /** Factors on the token rates of `price` by service class: `service_tier=priority`. */
  classes?: Record<string, number>
  contextLength?: number
  /** Names of models that are asked where this one fails, and where a request is too long for it. */
  fallbacks?: string[]
  contextFallback?: string
  /** The differences from the routing of all models. */
  routing?: Partial<ModelRoutingConfig>
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
export type PlanConfig = {
  usdPerMonth: number
  flows: Record<QuotaWindowName, number>
  discount: number
  /** Generations of one account at the same time. */
  concurrency?: number
}

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
