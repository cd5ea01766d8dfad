import type { ModelRoutingConfig } from '../../config/config.ts'
import { Deadline, deadlines } from '../../deadlines.ts'
import { GatewayError } from '../../error.ts'
import type { Timeouts } from '../../http/call.ts'
import type { CallSignal } from '../../http/connection.ts'
import type { RequestContext } from '../../protocols/protocol.ts'
import type { CallTrace } from '../../telemetry/trace.ts'
import { callEndpoint, type CallRecorder, type RequestWriter, type Upstream } from '../attempt.ts'
import { recordFailure, type AttemptRecord } from '../attempt-record.ts'
import type { Endpoint } from '../catalogue.ts'
import { LoweredRequests } from '../lowered-requests.ts'
import { errorOfAttempt, UpstreamRefusal } from '../upstream-refusal.ts'
import { hedged, type HedgedCall } from './hedge.ts'
import type { Router, Sending } from './router.ts'
import type { Verdict } from './endpoint-state.ts'

/**
 * A request that an endpoint has admitted. `sent`, `end`: to be called when it was sent, and when it has ended;
 * `answered`: before that, with the tokens of its answer. `abandon`: in place of them all, where it is not sent.
 */
export type Entry = { sent?(): void; answered?(tokens: number): void; end?(): void; abandon?(): void }

/** One request as it is tried. */
export type AttemptPlan = {
  router: Router
  settings: Pick<ModelRoutingConfig, 'attempts' | 'patienceMs' | 'hedge' | 'fallbackOn'>
  /** In the order of attempts. */
  endpoints: readonly Endpoint[]
  /** Tried instead of the rest where the conversation is too long. */
  longer?: readonly Endpoint[] | undefined
  /**
   * A wait for the limits of an endpoint; undefined where none is needed. For one that is not the last it may resolve
   * to undefined: the next one is tried.
   */
  enter?(endpoint: Endpoint, isLast: boolean): Promise<Entry | undefined> | Entry | undefined
  /** The same for a hedge, which does not wait; false where it would have to. */
  enterNow?(endpoint: Endpoint): Entry | undefined | false
  promptTokens: number
  timeouts: Timeouts
  signal: CallSignal
  /** Each attempt is added. */
  records: AttemptRecord[]
  onSent?: (() => void) | undefined
  trace?: CallTrace | undefined
  recorder?: CallRecorder | undefined
}

/** A response has begun. `sending`: to be ended with it. */
export type Served = { upstream: Upstream<RequestContext>; sending: Sending }

/** Failures of the provider, not of the request: another endpoint may succeed. */
const RETRYABLE_CODES = new Set(['upstream_error', 'upstream_rate_limited', 'upstream_timeout', 'overloaded'])

/** The longest wait that a provider may ask for before the same endpoint is tried again. */
const LONGEST_WAIT_MS = 2_000
const FIRST_BACKOFF_MS = 100
/** The only endpoint is not tried again after a failure that took longer: the client has waited enough. */
const SLOW_FAILURE_MS = 5_000
const SHORTEST_BACKOFF_MS = 50

/** Patience with a streamed answer: at least this, and a multiple of the endpoint's 95th percentile. */
const LEAST_PATIENCE_MS = 10_000
const PATIENCE_FACTOR = 3
/** The same for an endpoint that was not measured. */
const UNMEASURED_PATIENCE_MS = 30_000

/**
 * The attempts of one request: other endpoints first, the same one only where there is no other, until one starts to
 * respond. Nothing is tried again after the first byte.
 */
export class Attempts {
  readonly #plan: AttemptPlan
  #requests: RequestWriter
  readonly #startedAt: number
  #left: Endpoint[]
  /** Attempts that count: a request that could not be written for an endpoint is none. */
  #count = 0
  #serving: { sending: Sending; record: AttemptRecord } | undefined
  /** The last failure of a provider after which another one was asked. */
  #failure: UpstreamRefusal | undefined

  constructor(plan: AttemptPlan, requests: RequestWriter) {
    this.#plan = plan
    this.#requests = requests
    this.#startedAt = plan.router.now()
    this.#left = [...plan.endpoints]
  }

  /** True where a stream whose first event is an error can still be had from another endpoint. */
  get hasOthers(): boolean {
    return this.#left.length > 0 && this.#count < this.#plan.settings.attempts
  }

  /** The next response that begins. Throws the UpstreamRefusal of the last attempt. */
  async next(): Promise<Served> {
    for (;;) {
      const served = await this.tryNext()
      if (served !== undefined) return served
    }
  }

  /** The same; undefined after an attempt that failed where another one may follow. */
  async tryNext(): Promise<Served | undefined> {
    for (;;) {
      const endpoint = this.#take()
      const waiting = this.#plan.enter?.(endpoint, this.#left.length === 0)
      const entry = waiting instanceof Promise ? await waiting : waiting
      if (entry === undefined && waiting !== undefined) continue
      try {
        const hedge = this.#left.length === 0 ? undefined : this.#hedgeAfterMs(endpoint)
        const call =
          hedge === undefined ? this.#call(endpoint, this.#plan.signal, entry) : this.#hedge(endpoint, hedge, entry)
        entry?.sent?.()
        const { upstream, sending, record } = await call
        moveToEnd(this.#plan.records, record)
        this.#serving = { sending, record }
        return { upstream, sending }
      } catch (error) {
        const wait = this.#recover(error, endpoint)
        if (wait > 0) await this.#pause(wait)
        if (this.#isOver) throw this.#refusalOf(error, endpoint)
        return undefined
      }
    }
  }

  /** The first event of a stream was an error. True where `next` goes on with another endpoint. */
  again(error: GatewayError): boolean {
    const { sending, record } = this.#serving!
    if (this.#isOver || !RETRYABLE_CODES.has(error.code) || !this.hasOthers || !this.#takeRetry()) return false
    recordFailure(record, error)
    record.reason = 'first event'
    sending.end(...verdictOf(error))
    return true
  }

  /** The next endpoint that is available, or the last one. */
  #take(): Endpoint {
    const { router, promptTokens } = this.#plan
    while (this.#left.length > 1) {
      const endpoint = this.#left.shift()!
      const isFirst = this.#plan.records.length === 0
      const { limits } = endpoint.routing
      const now = router.now()
      if (isFirst || router.stateOf(endpoint).unavailable(limits, now, promptTokens) === undefined) return endpoint
    }
    return this.#left.shift()!
  }

  get #isOver(): boolean {
    const { signal } = this.#plan
    return signal.aborted || signal.left === true
  }

  async #call(endpoint: Endpoint, signal: CallSignal, entry?: Entry): Promise<HedgedCall> {
    const { router, promptTokens, records, onSent, recorder } = this.#plan
    const sending = router.begin(endpoint, promptTokens)
    sending.entry = entry
    const startedAt = router.now()
    const record = recordOf(endpoint, startedAt - this.#startedAt)
    records.push(record)
    this.#count++
    const recordSent = (): void => {
      record.sent = true
      onSent?.()
    }
    const traceHeaders = this.#plan.trace?.headersFor(record)
    const options = {
      timeouts: this.#timeouts(endpoint, startedAt),
      signal,
      onSent: recordSent,
      traceHeaders,
      recorder,
    }
    try {
      const upstream = await callEndpoint(endpoint, this.#requests, options, records.length)
      record.milliseconds = Math.round(router.now() - startedAt)
      sending.begin()
      if (this.#plan.endpoints.length > 1) sending.readHeaders(upstream.incoming.headers)
      return { upstream, sending, record }
    } catch (error) {
      record.milliseconds = Math.round(router.now() - startedAt)
      const response = error instanceof UpstreamRefusal ? error.response : undefined
      const failure = errorOfAttempt(error)
      recordFailure(record, failure)
      if (response !== undefined) record.status = response.status
      if (signal.aborted) {
        sending.end('none')
        if (!this.#isOver) this.#loseHedge(sending, record)
      } else if (isUnsent(error, record)) {
        this.#count--
        sending.end('none')
      } else sending.end(...verdictOf(failure, response?.retryAfterMs))
      throw error
    }
  }

  /** The time that it took so far counts: an endpoint that always loses must not look fast. */
  #loseHedge(sending: Sending, record: AttemptRecord): void {
    record.reason = 'hedge lost'
    sending.measure(record.milliseconds, 0, 0)
  }

  /** The milliseconds to wait before the next attempt. Throws the error where there is none. */
  #recover(error: unknown, endpoint: Endpoint): number {
    const refusal = this.#refusalOf(error, endpoint)
    if (!(refusal instanceof UpstreamRefusal) || this.#isOver) throw refusal
    const { longer, settings, records } = this.#plan
    const { code } = refusal.error
    // The refused call may be the other one of two.
    if (refusal.allowedLimit !== undefined && this.#mayTry && refusal.provider === endpoint.provider.id) {
      const lowering = { limit: refusal.allowedLimit, reason: 'the provider allows no more', only: endpoint }
      this.#requests = new LoweredRequests(this.#requests, lowering)
      this.#left.unshift(endpoint)
      return 0
    }
    if (code === 'context_length_exceeded' && longer !== undefined) {
      this.#left = longer.filter((one) => !this.#plan.endpoints.includes(one) || this.#left.includes(one))
      if (this.#left.length > 0 && this.#mayTry) return 0
    }
    // Another endpoint's protocol may be able to represent a request that this one's cannot.
    if (isUnsent(error, records.at(-1)!)) {
      if (this.#left.length === 0) throw refusal
      return 0
    }
    if (refusal.lacksRoute) {
      // The failure of a provider that may have the route says more: the client can try again.
      if (this.#left.length === 0 || !this.#mayTry) throw this.#failure ?? refusal
      return 0
    }
    const isRetryable = RETRYABLE_CODES.has(code) || (settings.fallbackOn.length > 0 && isContentRefusal(refusal.error))
    if (!isRetryable || !this.#mayTry) throw refusal
    const wait = this.#left.length > 0 ? 0 : this.#waitMs(refusal, endpoint)
    if (wait === undefined || !this.#takeRetry(endpoint)) throw refusal
    if (this.#left.length === 0) this.#left.push(endpoint)
    this.#failure = refusal
    return wait
  }

  get #mayTry(): boolean {
    return this.#count < this.#plan.settings.attempts && this.#leftMs > 0
  }

  get #leftMs(): number {
    return this.#startedAt + this.#plan.timeouts.firstByteMs - this.#plan.router.now()
  }

  /** The wait before the only endpoint is tried again; undefined where that would not help. */
  #waitMs(refusal: UpstreamRefusal, endpoint: Endpoint): number | undefined {
    const { router, endpoints, records } = this.#plan
    const { status, retryAfterMs } = refusal.response ?? {}
    if (records.at(-1)!.milliseconds > SLOW_FAILURE_MS) return undefined
    // The sandbox answers the same again.
    if (endpoints.length > 1 || endpoint.provider.inProcess !== undefined) return undefined
    if (status !== undefined && status < 500 && status !== 408 && status !== 429) return undefined
    if (router.stateOf(endpoint).breaker.state !== 'closed') return undefined
    if (status === 429 && retryAfterMs === undefined) return undefined
    if (retryAfterMs !== undefined && retryAfterMs > LONGEST_WAIT_MS) return undefined
    const most = Math.min(LONGEST_WAIT_MS, FIRST_BACKOFF_MS * 2 ** (this.#count - 1))
    const wait = Math.max(SHORTEST_BACKOFF_MS, router.random() * most, retryAfterMs ?? 0)
    return wait < this.#leftMs ? wait : undefined
  }

  /** Takes a retry from the budget of the provider that gets it. */
  #takeRetry(endpoint = this.#left[0]!): boolean {
    const { router } = this.#plan
    return router.budgetOf(this.#left[0] ?? endpoint).take(router.now())
  }

  /** Ends early where the client leaves. */
  #pause(ms: number): Promise<void> {
    const { signal } = this.#plan
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = new Deadline({ onDeadline: resolve })
    deadlines.set(deadline, ms)
    signal.addEventListener('abort', resolve, { once: true })
    return promise.finally(() => {
      deadlines.clear(deadline)
      signal.removeEventListener('abort', resolve)
    })
  }

  /** Each attempt gets what is left of the time for a first byte, and less where another endpoint could be asked. */
  #timeouts(endpoint: Endpoint, now: number): Timeouts {
    const { timeouts, records, endpoints } = this.#plan
    if (endpoints.length === 1 && records.length === 1) return timeouts
    const left = this.#startedAt + timeouts.firstByteMs - now
    const patience = this.#left.length === 0 ? Infinity : this.#patienceMs(endpoint, now)
    const firstByteMs = Math.max(1, Math.min(left, patience))
    return { ...timeouts, connectMs: Math.min(timeouts.connectMs, firstByteMs), firstByteMs }
  }

  #patienceMs(endpoint: Endpoint, now: number): number {
    const { settings, router } = this.#plan
    if (settings.patienceMs !== undefined) return settings.patienceMs
    // The head of an answer in one piece comes with its end.
    if (!this.#requests.context.request.stream) return Infinity
    const slow = router.stateOf(endpoint).slowMs(now)
    if (slow !== undefined) return Math.max(LEAST_PATIENCE_MS, PATIENCE_FACTOR * slow)
    const { reasoning = 'none' } = endpoint.target.capabilities
    return reasoning === 'none' ? UNMEASURED_PATIENCE_MS : Infinity
  }

  #hedgeAfterMs(endpoint: Endpoint): number | undefined {
    const { settings, router } = this.#plan
    if (settings.hedge === 'off' || !this.#requests.context.request.stream) return undefined
    return router.stateOf(endpoint).slowMs(router.now())
  }

  #hedge(endpoint: Endpoint, afterMs: number, entry: Entry | undefined): Promise<HedgedCall> {
    return hedged(
      (signal) => this.#call(endpoint, signal, entry),
      (signal) => this.#callOther(signal),
      afterMs,
      this.#plan.signal,
    )
  }

  #callOther(signal: CallSignal): Promise<HedgedCall> | undefined {
    if (!this.hasOthers || !this.#takeRetry()) return undefined
    const endpoint = this.#take()
    const entry = this.#plan.enterNow?.(endpoint)
    return entry === false ? undefined : this.#call(endpoint, signal, entry)
  }

  #refusalOf(error: unknown, { provider }: Endpoint): unknown {
    return error instanceof GatewayError ? new UpstreamRefusal(error, provider.id, this.#plan.records.length) : error
  }
}

const recordOf = ({ provider, credential, target, protocol }: Endpoint, startedMs: number): AttemptRecord => ({
  provider: provider.id,
  ...(credential === undefined ? {} : { credential }),
  model: target.model,
  protocol,
  startedMs: Math.round(startedMs),
  milliseconds: 0,
})

/** The attempt that is answered is the latest, whatever began after it. */
function moveToEnd(records: AttemptRecord[], record: AttemptRecord): void {
  if (records.at(-1) === record) return
  records.splice(records.indexOf(record), 1)
  records.push(record)
}

/** True where the request could not be written for the endpoint: nothing was sent. */
const isUnsent = (error: unknown, { sent }: AttemptRecord): boolean =>
  error instanceof GatewayError && sent !== true && !RETRYABLE_CODES.has(error.code)

/** The verdict on the provider: an error of the request says nothing about it. */
function verdictOf({ code, retryAfterSeconds }: GatewayError, retryAfterMs?: number): [Verdict, number?] {
  if (code === 'upstream_rate_limited')
    return ['limited', retryAfterMs ?? (retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1_000)]
  return RETRYABLE_CODES.has(code) ? ['fault'] : ['none']
}

const CONTENT_REFUSAL = /content.?(policy|filter|management)|safety|moderation|prohibited/i

const isContentRefusal = ({ code, message, metadata }: GatewayError): boolean =>
  code === 'invalid_request' && CONTENT_REFUSAL.test(`${JSON.stringify([metadata?.type, metadata?.code])} ${message}`)
