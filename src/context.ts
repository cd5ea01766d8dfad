import type { AbuseDetection } from './accounts/abuse-detection.ts'
import type { Clock } from './accounts/clock.ts'
import type { Identity, Keys } from './accounts/keys.ts'
import type { RateLimits } from './accounts/limits.ts'
import type { People } from './accounts/people.ts'
import type { Config } from './config/load.ts'
import type { ErrorCode } from './error.ts'
import type { Files } from './files/files.ts'
import type { MemoryBudget } from './http/memory-budget.ts'
import type { Ledger, OpenGeneration } from './ledger/ledger.ts'
import type { ConversationMemory } from './protocols/conversation-memory.ts'
import type { RoutingMembers } from './protocols/routing-members.ts'
import type { SchemaCache } from './protocols/schema/cache.ts'
import type { Prices } from './ledger/prices.ts'
import type { ServiceClasses } from './ledger/service-classes.ts'
import type { BackgroundResponses } from './pipeline/background.ts'
import type { Bodies } from './pipeline/bodies/bodies.ts'
import type { CapturedRequest } from './pipeline/bodies/captured-request.ts'
import type { KeptQuota } from './pipeline/kept-quota.ts'
import type { Execution, Idempotency } from './pipeline/idempotency.ts'
import type { InFlightRequests } from './pipeline/in-flight.ts'
import type { Concurrency } from './pipeline/concurrency.ts'
import type { IssuedIds } from './pipeline/issued-ids.ts'
import type { MediaResolver } from './pipeline/media.ts'
import type { RefusalLog } from './pipeline/refusal-log.ts'
import type { ReasoningReplay } from './pipeline/reasoning-replay.ts'
import type { RequestCounts } from './pipeline/request-counts.ts'
import type { CandidateFinder, Candidates } from './pipeline/routing/candidates.ts'
import type { RunTimeSettings } from './pipeline/settings/run-time-settings.ts'
import type { Tail } from './pipeline/tail.ts'
import type { Tracing } from './pipeline/tracing.ts'
import type { Catalogue } from './providers/catalogue.ts'
import type { Router } from './providers/routing/router.ts'
import type { DiskSpace } from './store/disk-space.ts'
import type { Store } from './store/store.ts'
import type { OtlpSettings } from './telemetry/otlp-settings.ts'
import type { RequestTrace } from './telemetry/trace.ts'

/**
 * The services of one gateway. Two gateways in one process share none of them. None of the types above imports this
 * file.
 */
export type AppContext = {
  config: Config
  clock: Clock
  store: Store
  space: DiskSpace
  keptQuota: KeptQuota
  files: Files
  keys: Keys
  people: People
  runTime: RunTimeSettings
  limits: RateLimits
  abuseDetection: AbuseDetection
  catalogue: Catalogue
  concurrency: Concurrency
  /** Endpoints: their state while running, and the choice among them. */
  router: Router
  candidates: CandidateFinder
  prices: Prices
  serviceClasses: ServiceClasses
  schemaCache: SchemaCache
  conversations: ConversationMemory
  ledger: Ledger
  reasoningReplay: ReasoningReplay
  issuedIds: IssuedIds
  media: MediaResolver
  /** The memory of large requests in flight. */
  memory: MemoryBudget
  /** Responses that providers go on with after the request. */
  background: BackgroundResponses
  /** Generations and uploads whose clients are connected. */
  inFlight: InFlightRequests
  idempotency: Idempotency
  bodies: Bodies
  refusals: RefusalLog
  counts: RequestCounts
  /** Those who watch requests begin and end. */
  tail: Tail
  otlp: OtlpSettings
  /** Undefined where no collector is configured. */
  tracing: Tracing | undefined
  /** Set when the server was asked to stop: requests in flight finish, new ones are refused. */
  draining: boolean
}

/** A request on a route that needs no key: it belongs to no account. */
export type PublicRequest = {
  request: Request
  /** Unix milliseconds. */
  receivedAt: number
  path: string
  query: URLSearchParams
  /** Groups of the route's expression, percent-decoded. */
  params: (string | undefined)[]
  /** The client's IP address, as long as it is connected. A function, because finding it costs a system call. */
  address: (() => string | undefined) | undefined
  /** 128 random bits in hexadecimal; with the protocol's prefix it is the generation's id. */
  id: string
  requestId: string
  /** The name of its route. */
  route?: string | undefined
  identity?: Identity
  /** As the client named it, once it is known. */
  model?: string | undefined
  /** The members of its body about routing, once they are known. */
  routing?: RoutingMembers | undefined
  /** The endpoints that may serve it, once they were found. */
  candidates?: Candidates | undefined
  /** Its generation, once funds are reserved. */
  open?: OpenGeneration | undefined
  /** The code of the error that its client gets. */
  errorCode?: ErrorCode | undefined
  /** Null where it is not recorded. */
  trace?: RequestTrace | null
  /** Headers of the response if the request fails. */
  errorHeaders: Record<string, string>
}

/** A request whose key was accepted on its route. */
export type AuthenticatedRequest = PublicRequest & {
  identity: Identity
  /** Set for a request with an `Idempotency-Key`. */
  execution?: Execution | undefined
  /** Set for a request whose bodies are captured. */
  capture?: CapturedRequest | undefined
}
