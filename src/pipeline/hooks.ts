import type { AppContext, AuthenticatedRequest } from '../context.ts'
import type { GatewayError } from '../error.ts'
import type { GenerationEvent } from '../generation/event.ts'
import type { ReplayRecorder } from '../generation/replay.ts'
import type { ProtocolName, RequestSettings } from '../generation/request.ts'
import type { Frame } from '../http/frames.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import type { RawRequest, RequestContext, TranslationContext } from '../protocols/protocol.ts'
import type { FromPath } from '../protocols/raw-request.ts'
import type { Upstream } from '../providers/attempt.ts'
import type { Sending } from '../providers/routing/router.ts'
import type { WrittenResponse } from '../store/store.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { CapturedRequest } from './bodies/captured-request.ts'
import type { Slot } from './concurrency.ts'
import type { IssuedIdRecorder } from './issued-ids.ts'
import type { InFlightRequest } from './in-flight.ts'
import type { ChosenRoute } from './routing/route-text.ts'
import type { ResolvedMedia } from './media.ts'

/** The options of a route for its generations. */
export type GenerationRoute = {
  protocol: ProtocolName
  hooks: GenerationHooks
  fromPath?: FromPath | undefined
  /** A stream leaves as the elements of one JSON array (Google's form without `alt=sse`). */
  jsonArray?: boolean
}

/** One generation from its reservation to its last byte. */
export type Generation = {
  app: AppContext
  inbound: AuthenticatedRequest
  /** Fires when the client leaves. */
  clientSignal: AbortSignal
  route: GenerationRoute
  open: OpenGeneration
  inFlight: InFlightRequest
  media: ResolvedMedia | undefined
  replayRecorder: ReplayRecorder | undefined
  issuedIds: IssuedIdRecorder | undefined
  /** The choice of its endpoint, where the client asks for it. */
  chosen?: ChosenRoute | undefined
  /** Its slot among those in flight, where they are limited. */
  slot?: Slot | undefined
  capture?: CapturedRequest | undefined
  /** The attempt that is answered. */
  sending: Sending | undefined
}

/** A generation as far as closing needs it: a stream keeps only this of it until its end. */
export type ClosableGeneration = Omit<Generation, 'inbound'>

/**
 * Additions of one API to the path that all generations take, in the order of that path. One object may serve one
 * request only; the route makes it.
 */
export interface GenerationHooks {
  /** May replace body and text of a request before it is read. Throws a GatewayError to refuse it. */
  beforeRead?(rawRequest: RawRequest): Promise<void>
  /** The same for a request that another process reads: gives what its `ApiReader` needs, and takes what it found. */
  supply?(needed: unknown): Promise<unknown>
  adopt?(found: unknown, bytes: Buffer, bodyBytes: number): void
  /** Members of the translation context that the writers of this API use. */
  translation?(rawRequest: RawRequest): Pick<TranslationContext, 'keep' | 'follow'>
  /** Reports whether the call to these endpoints goes on when the client leaves. */
  survivesClient?(request: RequestSettings, endpoints: readonly Endpoint[]): boolean
  /** Before the funds are reserved. Throws a GatewayError to refuse the request. */
  beforeReserve?(model: string, endpoints: readonly Endpoint[], rawRequest: RawRequest): Promise<void> | undefined
  /** Called where the request is refused after that. */
  onRefused?(): void
  onReserve?(open: OpenGeneration): void
  /**
   * The text of a whole response, before it is read. A body given here is sent at once, and the generation stays open
   * without its client.
   */
  onResponse?(generation: Generation, upstream: Upstream, text: string): Promise<string | undefined>
  /** A whole response that another process wrote, as it is stored. */
  keepTexts?(written: WrittenResponse): void
  /** The events of a whole response, before they are metered and written. */
  onEvents?(
    generation: Generation,
    upstream: Upstream<RequestContext>,
    events: GenerationEvent[],
  ): Promise<GenerationEvent[]>
  /**
   * Takes over a generation that did not complete here because its provider goes on with it; undefined where it is to
   * be closed. Rejects where it could not be left open; then it is closed.
   */
  onInterrupt?(generation: ClosableGeneration, outcome: Outcome): Promise<void> | undefined
  /** Writes to the store that began during the generation; awaited together with its record. */
  saved?(): Promise<void> | undefined
  /** The frames in place of `last` when the generation could not be recorded. */
  onUnrecorded?(last: Frame[], error: GatewayError): Frame[]
}
