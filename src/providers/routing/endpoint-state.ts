import type { EndpointLimits } from '../../config/config.ts'
import { Breaker } from './breaker.ts'
import { DecayingQuantiles, DecayingSum, PerMinute } from './decay.ts'
import { LONGEST_COOL_DOWN_MS, type ProviderQuota } from './provider-limits.ts'

const HEALTH_HALF_LIFE_MS = 60_000
const SPEED_HALF_LIFE_MS = 300_000
/** Half-life of the mean that shows that an endpoint is slow now. */
const RECENT_HALF_LIFE_MS = 30_000

/** Cool-downs after a 429 that names no time; they double while 429s follow each other. */
const FIRST_COOL_DOWN_MS = 1_000
const LONGEST_GUESS_MS = 30_000

/** Ages at which failures and speeds are not believed any more: one request finds out whether they still hold. */
const STALE_FAILURES_MS = 15_000
const STALE_SPEED_MS = 60_000

/** Fewer measurements say nothing about a 95th percentile. */
const FEWEST_MEASURED = 5

/** A reason not to send a request to an endpoint now, and when that ends. */
export type Unavailable = { reason: 'breaker' | 'cooling' | 'limit' | 'busy' | 'quota'; until: number }

/** The state of an endpoint after a restart. `savedAt`: Unix milliseconds, of the row. */
export type SavedState = { id: string; breaker?: { leftMs: number; pauseMs: number }; coolingMs?: number }

/** The kinds of ends that say something about an endpoint. `fault`: of the provider, never of the request. */
export type Verdict = 'success' | 'fault' | 'limited' | 'none'

/** `isProbe`: of an open breaker; `hasBegun`: its response has. */
type RequestState = { isProbe: boolean; hasBegun: boolean }

/** All that is learned of one endpoint while running. Times are in milliseconds of a monotonic clock. */
export class EndpointState {
  readonly id: string
  readonly breaker: Breaker
  inFlight = 0
  /** The last end of a request that said something. */
  #knownAt = -Infinity
  /** A request is on its way after a time without any. */
  #isRetested = false
  #coolUntil = 0
  #guessMs = 0
  readonly #good = new DecayingSum(HEALTH_HALF_LIFE_MS)
  readonly #all = new DecayingSum(HEALTH_HALF_LIFE_MS)
  #firstToken: DecayingQuantiles | undefined
  readonly #recentMs = new DecayingSum(RECENT_HALF_LIFE_MS)
  readonly #recentCount = new DecayingSum(RECENT_HALF_LIFE_MS)
  #outputTokens: DecayingSum | undefined
  #outputMs: DecayingSum | undefined
  #requests: PerMinute | undefined
  #tokens: PerMinute | undefined
  #quotaLeft = 1
  #quotaUntil = 0

  constructor(id: string, random: () => number) {
    this.id = id
    this.breaker = new Breaker(random)
  }

  /** Undefined where a request of so many prompt tokens may be sent now. */
  unavailable(limits: EndpointLimits | undefined, now: number, promptTokens: number): Unavailable | undefined {
    if (this.#coolUntil > now) return { reason: 'cooling', until: this.#coolUntil }
    const opensAt = this.breaker.opensAt(now)
    if (opensAt > now) return { reason: 'breaker', until: opensAt }
    if (this.#quotaLeft === 0 && this.#quotaUntil > now) return { reason: 'quota', until: this.#quotaUntil }
    return limits && this.#overLimits(limits, now, promptTokens)
  }

  /** A request of so many prompt tokens is sent. True where it is a probe of an open breaker. */
  begin(promptTokens: number, limits: EndpointLimits | undefined, now: number): boolean {
    this.#isRetested ||= this.#isStale(STALE_FAILURES_MS, now)
    this.inFlight++
    if (limits?.requestsPerMinute !== undefined) (this.#requests ??= new PerMinute()).add(1, now)
    this.count(promptTokens, limits, now)
    return this.breaker.begin(now)
  }

  /** The response to a request began: its stream may take minutes, for which no probe can wait. */
  respond(isProbe: boolean, now: number): void {
    this.#guessMs = 0
    if (!this.breaker.succeed(isProbe, now)) return
    this.#forgetFailures()
  }

  /** The request ended. `retryAfterMs`: of one that was limited, where the provider says so. */
  end(verdict: Verdict, { isProbe, hasBegun }: RequestState, now: number, retryAfterMs?: number): void {
    this.inFlight--
    const isProbing = isProbe && !hasBegun
    if (verdict === 'success' || verdict === 'fault') {
      if (this.#isRetested && verdict === 'success') this.#forgetFailures()
      this.#isRetested = false
      this.#all.add(1, now)
      this.#knownAt = now
    }
    if (verdict === 'success') this.#good.add(1, now)
    if (verdict === 'success' && !hasBegun) this.respond(isProbe, now)
    else if (verdict === 'fault') this.breaker.fail(isProbing, now, hasBegun)
    else this.breaker.abandon(isProbing)
    if (verdict === 'limited') this.#cool(retryAfterMs, now)
  }

  measure(firstTokenMs: number, now: number): void {
    this.#firstToken ??= new DecayingQuantiles(SPEED_HALF_LIFE_MS)
    this.#firstToken.add(firstTokenMs, now)
    this.#recentMs.add(firstTokenMs, now)
    this.#recentCount.add(1, now)
  }

  /** Counts tokens of a prompt or an answer. */
  count(tokens: number, limits: EndpointLimits | undefined, now: number): void {
    if (limits?.tokensPerMinute !== undefined) (this.#tokens ??= new PerMinute()).add(tokens, now)
  }

  /** Tokens of one answer, and the time that they took after the first. */
  measureOutput(tokens: number, ms: number, now: number): void {
    if (ms <= 0) return
    ;(this.#outputTokens ??= new DecayingSum(SPEED_HALF_LIFE_MS)).add(tokens, now)
    ;(this.#outputMs ??= new DecayingSum(SPEED_HALF_LIFE_MS)).add(ms, now)
  }

  setQuota({ left, resetMs }: ProviderQuota, now: number): void {
    this.#quotaLeft = left
    this.#quotaUntil = now + Math.min(resetMs ?? 0, LONGEST_COOL_DOWN_MS)
  }

  /** From 0 to 1; 1 for an endpoint of which it is not known. */
  successRate(now: number): number {
    return this.knownSuccessRate(now) ?? 1
  }

  /** Undefined for an endpoint that has not been used, or that has to be probed to know. */
  knownSuccessRate(now: number): number | undefined {
    if (this.breaker.state !== 'closed' || this.#isStale(STALE_FAILURES_MS, now)) return undefined
    const all = this.#all.of(now)
    // One request more than there were: a single failure is no rate of 0.
    return (this.#good.of(now) + 1) / (all + 1)
  }

  firstTokenMs(share: number): number | undefined {
    return this.#firstToken?.quantile(share)
  }

  /** The median time to the first token; undefined where it has to be measured again. */
  usualFirstTokenMs(now: number): number | undefined {
    return this.#isStale(STALE_SPEED_MS, now) ? undefined : this.firstTokenMs(0.5)
  }

  /** The mean time to the first token in the last minute or so; undefined after a minute without any. */
  recentFirstTokenMs(now: number): number | undefined {
    const count = this.#recentCount.of(now)
    return count < 0.5 ? undefined : this.#recentMs.of(now) / count
  }

  /** The 95th percentile of the time to the first token, once enough is measured. */
  slowMs(now: number): number | undefined {
    const measured = this.#firstToken
    return measured === undefined || measured.count(now) < FEWEST_MEASURED ? undefined : measured.quantile(0.95)
  }

  /** The same for tokens per second. */
  tokensPerSecond(now: number): number | undefined {
    if (this.#isStale(STALE_SPEED_MS, now)) return undefined
    const ms = this.#outputMs?.of(now) ?? 0
    return ms < 1 ? undefined : (this.#outputTokens!.of(now) / ms) * 1_000
  }

  /** The share of the provider's limits that is left, as far as it said so. */
  quotaLeft(now: number): number {
    return this.#quotaUntil > now ? this.#quotaLeft : 1
  }

  /** True where a restart would forget nothing of importance. */
  isForgettable(now: number): boolean {
    return this.#coolUntil <= now && this.breaker.state === 'closed'
  }

  saved(now: number): SavedState {
    const breaker = this.breaker.saved(now)
    const coolingMs = this.#coolUntil - now
    return {
      id: this.id,
      ...(breaker === undefined ? {} : { breaker }),
      ...(coolingMs > 0 ? { coolingMs } : {}),
    }
  }

  restore({ breaker, coolingMs }: SavedState, ageMs: number, now: number): void {
    if (coolingMs !== undefined) this.#coolUntil = now + Math.min(coolingMs, LONGEST_COOL_DOWN_MS) - ageMs
    if (breaker !== undefined) this.breaker.restore({ ...breaker, leftMs: Math.max(0, breaker.leftMs - ageMs) }, now)
  }

  /** One request counts more than what was before it: an endpoint that is well again must not wait for minutes. */
  #forgetFailures(): void {
    this.#good.clear()
    this.#all.clear()
  }

  /** True where nothing was learned for so long, and no request is about to change that. */
  #isStale(ms: number, now: number): boolean {
    return this.inFlight === 0 && now - this.#knownAt > ms
  }

  #cool(retryAfterMs: number | undefined, now: number): void {
    this.#guessMs = Math.min(LONGEST_GUESS_MS, this.#guessMs === 0 ? FIRST_COOL_DOWN_MS : this.#guessMs * 2)
    const ms = Math.min(retryAfterMs ?? this.#guessMs, LONGEST_COOL_DOWN_MS)
    this.#coolUntil = Math.max(this.#coolUntil, now + ms)
  }

  #overLimits(limits: EndpointLimits, now: number, promptTokens: number): Unavailable | undefined {
    if (limits.concurrency !== undefined && this.inFlight >= limits.concurrency)
      return { reason: 'busy', until: now + 1 }
    const { requestsPerMinute = Infinity, tokensPerMinute = Infinity } = limits
    const requests = this.#requests?.of(now) ?? 0
    // A request that is larger than the limit needs a whole minute.
    const tokens = Math.floor(this.#tokens?.of(now) ?? 0) + Math.min(Math.max(1, promptTokens), tokensPerMinute)
    return requests >= requestsPerMinute || tokens > tokensPerMinute
      ? { reason: 'limit', until: now + 60_000 - (now % 60_000) }
      : undefined
  }
}
