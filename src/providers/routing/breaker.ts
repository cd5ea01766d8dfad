/** Faults that open a breaker: so many in a row, or this share of at least so many requests in the window. */
const IN_A_ROW = 5
const SHARE = 0.5
const FEWEST_REQUESTS = 10
const SLOT_MS = 5_000
const SLOTS = 6

/** The pause before the first probe doubles with each probe that fails. Its longest still ends within 30 s. */
const FIRST_PAUSE_MS = 2_000
const LONGEST_PAUSE_MS = 20_000
/** A share of each pause is random: the breakers of several servers must not probe together. */
const JITTER = 0.2

/** Probes that must succeed, one after the other. */
const GOOD_PROBES = 3

/** A breaker that closed takes its whole share again only after this time. */
const RAMP_MS = 10_000
const FIRST_SHARE = 0.1

export type BreakerState = 'closed' | 'open' | 'half-open'

/**
 * Keeps requests from an endpoint that fails. It counts faults of the provider alone, never those of a request. After a
 * pause it lets single requests through as probes.
 */
export class Breaker {
  readonly #random: () => number
  readonly #requests = new Uint32Array(SLOTS)
  readonly #faults = new Uint32Array(SLOTS)
  #slot = 0
  #inARow = 0
  #state: BreakerState = 'closed'
  #pauseMs = 0
  /** The end of the pause. */
  #until = 0
  #goodProbes = 0
  #probing = false
  #closedAt = -Infinity

  constructor(random: () => number) {
    this.#random = random
  }

  get state(): BreakerState {
    return this.#state
  }

  /** The time at which a request may be sent; in the past where one may be sent now. */
  opensAt(now: number): number {
    if (this.#state === 'closed') return 0
    if (now < this.#until) return this.#until
    return this.#probing ? now + FIRST_PAUSE_MS : 0
  }

  /** The share of its requests that an endpoint gets that has just recovered. */
  share(now: number): number {
    const age = now - this.#closedAt
    return age >= RAMP_MS ? 1 : FIRST_SHARE + (1 - FIRST_SHARE) * (age / RAMP_MS)
  }

  /** A request is sent. True where it is a probe. */
  begin(now: number): boolean {
    if (this.#state === 'closed' || now < this.#until || this.#probing) return false
    this.#state = 'half-open'
    return (this.#probing = true)
  }

  /** A request that ends without a verdict on the provider. */
  abandon(isProbe: boolean): void {
    if (isProbe) this.#probing = false
  }

  /** A response has begun. True where that closes it. */
  succeed(isProbe: boolean, now: number): boolean {
    this.#count(now, 1, 0)
    this.#inARow = 0
    if (!isProbe) return false
    this.#probing = false
    if (this.#state !== 'half-open' || ++this.#goodProbes < GOOD_PROBES) return false
    this.#state = 'closed'
    this.#pauseMs = 0
    this.#closedAt = now
    this.#requests.fill(0)
    this.#faults.fill(0)
    return true
  }

  /** `hadBegun`: the response had, and was counted then. */
  fail(isProbe: boolean, now: number, hadBegun = false): void {
    this.#count(now, hadBegun ? 0 : 1, 1)
    this.#inARow++
    if (isProbe) {
      this.#probing = false
      return this.#open(now)
    }
    if (this.#state !== 'closed') return
    const requests = sum(this.#requests)
    if (this.#inARow >= IN_A_ROW || (requests >= FEWEST_REQUESTS && sum(this.#faults) >= requests * SHARE))
      this.#open(now)
  }

  /** The rest of the pause and its length, to be continued after a restart; undefined while it is closed. */
  saved(now: number): { leftMs: number; pauseMs: number } | undefined {
    return this.#state === 'closed' ? undefined : { leftMs: Math.max(0, this.#until - now), pauseMs: this.#pauseMs }
  }

  restore({ leftMs, pauseMs }: { leftMs: number; pauseMs: number }, now: number): void {
    this.#state = 'open'
    this.#pauseMs = Math.min(pauseMs, LONGEST_PAUSE_MS)
    this.#until = now + Math.min(leftMs, LONGEST_PAUSE_MS * (1 + JITTER))
  }

  #open(now: number): void {
    this.#state = 'open'
    this.#goodProbes = 0
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs === 0 ? FIRST_PAUSE_MS : this.#pauseMs * 2)
    this.#until = now + this.#pauseMs * (1 + (2 * this.#random() - 1) * JITTER)
  }

  #count(now: number, requests: number, faults: number): void {
    const slot = Math.floor(now / SLOT_MS)
    for (let stale = Math.max(this.#slot + 1, slot - SLOTS + 1); stale <= slot; stale++)
      this.#requests[stale % SLOTS] = this.#faults[stale % SLOTS] = 0
    this.#slot = Math.max(this.#slot, slot)
    this.#requests[this.#slot % SLOTS]! += requests
    this.#faults[this.#slot % SLOTS]! += faults
  }
}

const sum = (counts: Uint32Array): number => counts.reduce((total, count) => total + count, 0)
