import type { AbuseDetection } from './accounts/abuse-detection.ts'
import type { Identity, Keys } from './accounts/keys.ts'
import type { Limits } from './accounts/limits.ts'
import type { Config } from './config/load.ts'
import type { Predictor } from './endpoints/predictions/predictor.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { SchemaCache } from './protocols/schema/cache.ts'
import type { Prices } from './ledger/prices.ts'
import type { InFlightRequests } from './pipeline/in-flight.ts'
import type { Catalogue } from './providers/catalogue.ts'
import type { ReasoningReplay } from './pipeline/reasoning-replay.ts'
import type { Files } from './files/files.ts'
import type { Store } from './store/store.ts'

/** Every room, joined. */
export type AppContext = {
  config: Config
  store: Store
  files: Files
  keys: Keys
  limits: Limits
  abuseDetection: AbuseDetection
  catalogue: Catalogue
  prices: Prices
  schemaCache: SchemaCache
  ledger: Ledger
  reasoningReplay: ReasoningReplay
  predictor: Predictor
  /** Generations under way. */
  inFlight: InFlightRequests
  /** Set when the server was told to stop: what is under way goes on, nothing new begins. */
  draining: boolean
}

/** One request on its way through the rooms. */
export type InboundRequest = {
  request: Request
  /** Unix milliseconds. */
  receivedAt: number
  path: string
  query: URLSearchParams
  /** What the route's expression found in the path. */
  params: (string | undefined)[]
  identity: Identity
  /**
   * Tells where the client is, as long as it is connected: asked for only when that matters, because it costs a system
   * call.
   */
  address: (() => string | undefined) | undefined
  /** 128 random bits; with the protocol's prefix it is the generation's id. */
  id: string
  requestId: string
  /** Model and streaming, where the path says them. */
  fromPath: { model: string; stream: boolean } | undefined
  /** A stream leaves as the pieces of one JSON array (Google's form without `alt=sse`). */
  jsonArray: boolean
  /** Added to the answer when the request fails. */
  errorHeaders: Record<string, string>
}
