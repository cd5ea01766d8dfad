import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Verdict } from '../../src/providers/routing/endpoint-state.ts'
import { endpointNamed } from './endpoints.ts'
import { seeded } from './randoms.ts'

/**
 * An hour of conversations over endpoints that fail in turns, on a virtual clock. The policy that chooses among them is
 * the code that serves requests, or one to compare it with.
 */

const MINUTE = 60_000
const DURATION_MS = 60 * MINUTE
const CONVERSATIONS = 120
const TURNS = 20
const PAUSE_MS = 20_000
const TURN_TOKENS = 1_500
const OUTPUT_TOKENS = 400
const STREAM_MS = 2_500
const FAST_FAILURE_MS = 60
const CACHED_MS = 5 * MINUTE
export const ATTEMPTS = 4

/**
 * An endpoint from one minute to another. `down`: the share of requests that fail; `flapping`: it is down every other
 * five seconds; `fragile`: it fails with more requests at the same time, as after a restart; `limit`: requests per
 * second.
 */
type Weather = {
  from: number
  to: number
  down?: number
  slow?: number
  stalled?: true
  flapping?: true
  fragile?: number
  limit?: number
}

type Simulated = { price: number; firstTokenMs: number; weather: Weather[] }

/** Prices in USD per million input tokens; cached ones cost a tenth, output four times as much. */
const SIMULATED: Record<string, Simulated> = {
  alpha: {
    price: 1,
    firstTokenMs: 400,
    weather: [
      { from: 8, to: 13, down: 1 },
      { from: 13, to: 15, fragile: 4 },
      { from: 30, to: 35, slow: 20 },
      { from: 50, to: 52, down: 0.5 },
    ],
  },
  beta: {
    price: 1.2,
    firstTokenMs: 600,
    weather: [
      { from: 20, to: 24, stalled: true },
      { from: 40, to: 46, flapping: true },
    ],
  },
  gamma: {
    price: 2,
    firstTokenMs: 250,
    weather: [
      { from: 10, to: 18, limit: 1 },
      { from: 31, to: 33, down: 1 },
    ],
  },
  delta: { price: 3, firstTokenMs: 350, weather: [] },
}

export const ENDPOINTS: readonly Endpoint[] = Object.keys(SIMULATED).map((name) => endpointNamed(name))

export const priceOf = ({ name }: Endpoint): { input: number; cachedInput: number; output: number } => {
  const input = SIMULATED[name]!.price / 1e6
  return { input, cachedInput: input / 10, output: 4 * input }
}

/** One attempt. `isAllowed`: the breaker was closed, or lets it through as a probe, or no endpoint was left. */
export type Attempt = { respond(): void; end(verdict: Verdict, firstTokenMs: number): void }

/** The choice of endpoints. `patienceMs`: for the first token of one of them. */
export interface Policy {
  order(request: SimulatedRequest): readonly Endpoint[]
  begin(endpoint: Endpoint, request: SimulatedRequest): Attempt
  patienceMs(endpoint: Endpoint): number
  mayRetry(endpoint: Endpoint): boolean
}

export type SimulatedRequest = { conversation: string; tokens: number }

export type World = { now: number; random: () => number }

export type Totals = {
  requests: number
  attempts: number
  failed: number
  usd: number
  /** From the request to the first token, of those that were answered. */
  firstTokenMs: number[]
}

type Outcome = { verdict: Verdict; ms: number }

class Provider {
  readonly #facts: Simulated
  readonly #world: World
  inFlight = 0
  #second = -1
  #accepted = 0
  readonly #cache = new Map<string, { tokens: number; at: number }>()

  constructor(facts: Simulated, world: World) {
    this.#facts = facts
    this.#world = world
  }

  answer(patienceMs: number): Outcome {
    const { now, random } = this.#world
    const minute = now / MINUTE
    const {
      down = 0,
      slow = 1,
      stalled,
      flapping,
      fragile,
      limit,
    } = this.#facts.weather.find(({ from, to }) => minute >= from && minute < to) ?? ({} as Partial<Weather>)
    if (limit !== undefined && !this.#accepts(limit)) return { verdict: 'limited', ms: FAST_FAILURE_MS }
    const fails =
      random() < down ||
      (flapping === true && Math.floor(now / 5_000) % 2 === 0) ||
      this.inFlight > (fragile ?? Infinity)
    if (fails) return { verdict: 'fault', ms: FAST_FAILURE_MS }
    const spread = Math.exp(0.35 * (random() + random() + random() - 1.5) * 2)
    const ms = this.#facts.firstTokenMs * spread * slow
    return stalled === true || ms > patienceMs ? { verdict: 'fault', ms: patienceMs } : { verdict: 'success', ms }
  }

  /** The bill of a prompt, which is in the cache from now on. */
  usd(endpoint: Endpoint, { conversation, tokens }: SimulatedRequest): number {
    const { now } = this.#world
    const place = this.#cache.get(conversation)
    const cached = place !== undefined && now - place.at < CACHED_MS ? Math.min(place.tokens, tokens) : 0
    this.#cache.set(conversation, { tokens, at: now })
    const { input, cachedInput, output } = priceOf(endpoint)
    return (tokens - cached) * input + cached * cachedInput + OUTPUT_TOKENS * output
  }

  #accepts(limit: number): boolean {
    const second = Math.floor(this.#world.now / 1_000)
    if (second !== this.#second) this.#accepted = 0
    this.#second = second
    return ++this.#accepted <= limit
  }
}

/** Steps of a process on the virtual clock: each yields the milliseconds to its next one. */
type Steps = Generator<number, void>

/** Runs an hour of traffic; the same seed gives the same traffic and the same weather. */
export function simulate(policyOf: (world: World) => Policy, seed = 1): Totals {
  const world: World = { now: 0, random: seeded(seed) }
  const policy = policyOf(world)
  const providers = new Map(ENDPOINTS.map((endpoint) => [endpoint, new Provider(SIMULATED[endpoint.name]!, world)]))
  const totals: Totals = { requests: 0, attempts: 0, failed: 0, usd: 0, firstTokenMs: [] }
  const queue = new EventQueue()

  function* respond(provider: Provider, attempt: Attempt, firstTokenMs: number): Steps {
    yield STREAM_MS
    provider.inFlight--
    attempt.end('success', firstTokenMs)
  }

  function* request(one: SimulatedRequest): Steps {
    totals.requests++
    const startedAt = world.now
    let tried = 0
    for (const endpoint of policy.order(one)) {
      if (tried === ATTEMPTS) break
      if (tried > 0 && !policy.mayRetry(endpoint)) continue
      tried++
      totals.attempts++
      const provider = providers.get(endpoint)!
      const attempt = policy.begin(endpoint, one)
      provider.inFlight++
      const { verdict, ms } = provider.answer(policy.patienceMs(endpoint))
      yield ms
      if (verdict === 'success') {
        attempt.respond()
        totals.firstTokenMs.push(world.now - startedAt)
        totals.usd += provider.usd(endpoint, one)
        return queue.add(world.now, respond(provider, attempt, ms))
      }
      provider.inFlight--
      attempt.end(verdict, ms)
    }
    totals.failed++
  }

  function* conversations(number: number): Steps {
    for (let count = 0; ; count++)
      for (let turn = 1; turn <= TURNS; turn++) {
        yield -Math.log(1 - world.random()) * PAUSE_MS
        queue.add(world.now, request({ conversation: `${number}-${count}`, tokens: turn * TURN_TOKENS }))
      }
  }

  for (let number = 0; number < CONVERSATIONS; number++) queue.add(0, conversations(number))
  for (let next = queue.take(); next !== undefined && next.at < DURATION_MS; next = queue.take()) {
    world.now = next.at
    const { value } = next.steps.next()
    if (value !== undefined) queue.add(world.now + value, next.steps)
  }
  totals.firstTokenMs.sort((a, b) => a - b)
  return totals
}

type Event = { at: number; order: number; steps: Steps }

/** A binary heap; events of the same time come in the order in which they were added. */
class EventQueue {
  readonly #heap: Event[] = []
  #added = 0

  add(at: number, steps: Steps): void {
    const heap = this.#heap
    let index = heap.push({ at, order: this.#added++, steps }) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(heap[index]!, heap[parent]!)) return
      swap(heap, index, parent)
      index = parent
    }
  }

  take(): Event | undefined {
    const heap = this.#heap
    const [first] = heap
    const last = heap.pop()
    if (heap.length === 0 || last === undefined) return first
    heap[0] = last
    for (let index = 0; ; ) {
      const left = 2 * index + 1
      const least = [left, left + 1].reduce(
        (best, child) => (child < heap.length && isBefore(heap[child]!, heap[best]!) ? child : best),
        index,
      )
      if (least === index) return first
      swap(heap, index, least)
      index = least
    }
  }
}

const isBefore = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

function swap(heap: Event[], one: number, other: number): void {
  const event = heap[one]!
  heap[one] = heap[other]!
  heap[other] = event
}
