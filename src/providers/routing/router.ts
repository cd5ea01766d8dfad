import type { RoutingConfig } from '../../config/config.ts'
import type { Strategy } from '../../config/terms.ts'
import type { Endpoint } from '../catalogue.ts'
import type { Entry } from './attempts.ts'
import { choose, type Choosable, type Chosen, type TokenPrice } from './choose.ts'
import { Conversations } from './conversations.ts'
import { EndpointState, type SavedState, type Verdict } from './endpoint-state.ts'
import { providerQuota } from './provider-limits.ts'
import type { BreakerState } from './breaker.ts'
import { RetryBudget } from './retry-budget.ts'
import type { RoutingPreferences } from './terms.ts'

/** States that are kept; unlisted names, which clients choose, would otherwise fill the memory. */
const MOST_STATES = 5_000

/** Tokens below which no provider caches a prompt. */
const FEWEST_CACHED_TOKENS = 1_024

/** The part of the outside world that routing depends on. `now`: monotonic; `wall`: Unix milliseconds. */
type RouterOptions = {
  settings: Pick<RoutingConfig, 'strategy' | 'retryBudget'>
  now?: () => number
  wall?: () => number
  /** From 0 to 1, as `Math.random`. */
  random?: () => number
  /** The list price of a provider's model. */
  priceOf?: (endpoint: Endpoint) => TokenPrice | undefined
  /** Called where an endpoint is not available any more. */
  onUnavailable?: () => void
  onStop?: () => Promise<void>
}

/** A request as far as choosing needs it. `conversation`: its identity, of one account. */
export type RoutedRequest = {
  preferences: Pick<RoutingPreferences, 'strategy' | 'order' | 'allowFallbacks'>
  strategy?: Strategy | undefined
  promptTokens: number
  outputTokens: number
  conversation: string | undefined
}

/** The state of all endpoints of a gateway, and the choice among those of one request. */
export class Router {
  readonly #settings: RouterOptions['settings']
  readonly now: () => number
  readonly wall: () => number
  readonly random: () => number
  readonly #priceOf: (endpoint: Endpoint) => TokenPrice | undefined
  readonly onUnavailable: () => void
  readonly stop: () => Promise<void>
  /** Called when a request to an endpoint ended, with those that are left. */
  onEnded: ((id: string, inFlight: number) => void) | undefined
  readonly #states = new Map<string, EndpointState>()
  readonly #known = new WeakMap<Endpoint, EndpointState>()
  readonly #budgets = new Map<string, RetryBudget>()
  readonly #conversations = new Conversations()

  constructor({ settings, now, wall, random, priceOf, onUnavailable, onStop }: RouterOptions) {
    this.#settings = settings
    this.now = now ?? performance.now.bind(performance)
    this.wall = wall ?? Date.now
    this.random = random ?? Math.random
    this.#priceOf = priceOf ?? (() => undefined)
    this.onUnavailable = onUnavailable ?? (() => {})
    this.stop = onStop ?? (() => Promise.resolve())
  }

  /** The endpoints that can serve a request, at least one, in the order in which they are tried. */
  route(endpoints: readonly Endpoint[], request: RoutedRequest): Chosen<Endpoint> {
    const now = this.now()
    const { order, allowFallbacks } = request.preferences
    const cached =
      request.conversation === undefined ? undefined : this.#conversations.cachedPrompt(request.conversation, now)
    let position = -1
    let group = 0
    let before: Endpoint | undefined
    const all: Choosable<Endpoint>[] = []
    for (const endpoint of endpoints) {
      const { routing } = endpoint
      // Endpoints of one model, and keys of one endpoint, come one after the other.
      if (endpoint.fallback !== before?.fallback && (before !== undefined || endpoint.fallback !== undefined)) group++
      if (endpoint.target !== before?.target) position++
      before = endpoint
      const state = this.stateOf(endpoint)
      all.push({
        endpoint,
        state,
        weight: routing.weight,
        group,
        named: positionIn(order, endpoint),
        priority: routing.priority,
        position,
        price: this.#priceOf(endpoint),
        unavailable: state.unavailable(routing.limits, now, request.promptTokens),
        score: 0,
        slowness: 1,
        reason: '',
      })
    }
    const strategy = request.preferences.strategy ?? request.strategy ?? this.#settings.strategy
    const { promptTokens, outputTokens } = request
    const size = { promptTokens, outputTokens, cached }
    if (allowFallbacks !== false) return choose(all, strategy, size, this.random, now)
    // Endpoints that the client named, or the first of the model.
    const own = all.filter((one) => one.group === all[0]!.group)
    const named = own.filter((one) => one.named < (order?.length ?? 0))
    if (named.length > 0) return choose(named, strategy, size, this.random, now)
    const chosen = choose(own, strategy, size, this.random, now)
    return { ...chosen, candidates: chosen.candidates.slice(0, 1) }
  }

  /** The number of endpoints by the state of their breakers. */
  get breakers(): Record<BreakerState, number> {
    const counts: Record<BreakerState, number> = { closed: 0, open: 0, 'half-open': 0 }
    for (const { breaker } of this.#states.values()) counts[breaker.state]++
    return counts
  }

  /** The number of endpoints of which something is known. */
  get size(): number {
    return this.#states.size
  }

  /** The state of an endpoint, which begins with its first use. */
  stateOf(endpoint: Endpoint): EndpointState {
    const known = this.#known.get(endpoint)
    if (known !== undefined) return known
    // Provider, credential and model: what is learned is of these three.
    const id = `${endpoint.name}/${endpoint.target.model}`
    let state = this.#states.get(id)
    if (state === undefined) {
      if (this.#states.size >= MOST_STATES) this.#forget()
      this.#states.set(id, (state = new EndpointState(id, this.random)))
    }
    this.#known.set(endpoint, state)
    return state
  }

  budgetOf({ provider }: Endpoint): RetryBudget {
    let budget = this.#budgets.get(provider.id)
    if (budget === undefined) this.#budgets.set(provider.id, (budget = new RetryBudget(this.#settings.retryBudget)))
    return budget
  }

  /** A request is sent to an endpoint. */
  begin(endpoint: Endpoint, promptTokens: number): Sending {
    return new Sending(this, endpoint, this.stateOf(endpoint), promptTokens)
  }

  /** A conversation was answered: its prompt is now in the cache of this endpoint. */
  remember(conversation: string, endpoint: Endpoint, promptTokens: number): void {
    if (promptTokens < FEWEST_CACHED_TOKENS) return
    this.#conversations.remember(conversation, this.stateOf(endpoint).id, promptTokens, this.now())
  }

  /** Open breakers and cool-downs, as JSON; undefined where there are none. */
  save(): string | undefined {
    const now = this.now()
    const states = [...this.#states.values()].map((state) => state.saved(now))
    const kept = states.filter(({ breaker, coolingMs }) => breaker !== undefined || coolingMs !== undefined)
    return kept.length === 0 ? undefined : JSON.stringify({ savedAt: this.wall(), states: kept } satisfies SavedStates)
  }

  /** Goes on with what a process saved that has ended. Text that cannot be read is ignored. */
  restore(text: string): void {
    let saved: SavedStates
    try {
      saved = JSON.parse(text) as SavedStates
    } catch {
      return
    }
    const ageMs = Math.max(0, this.wall() - saved.savedAt)
    for (const one of saved.states.slice(0, MOST_STATES)) {
      const state = this.#states.get(one.id) ?? new EndpointState(one.id, this.random)
      this.#states.set(one.id, state)
      state.restore(one, ageMs, this.now())
    }
  }

  #forget(): void {
    const now = this.now()
    for (const [id, state] of this.#states)
      if (state.inFlight === 0 && state.isForgettable(now)) return void this.#states.delete(id)
  }
}

type SavedStates = { savedAt: number; states: SavedState[] }

const positionIn = (order: readonly string[] = [], { provider, name }: Endpoint): number => {
  const position = order.findIndex((one) => one === provider.id || one === name)
  return position < 0 ? order.length : position
}

/** A request on its way to an endpoint, until its answer ends. */
export class Sending {
  readonly #router: Router
  readonly endpoint: Endpoint
  readonly #state: EndpointState
  readonly isProbe: boolean
  hasBegun = false
  /** Ends with it. */
  entry: Entry | undefined
  readonly #sentAt: number
  #ended = false

  constructor(router: Router, endpoint: Endpoint, state: EndpointState, promptTokens: number) {
    this.#router = router
    this.endpoint = endpoint
    this.#state = state
    this.#sentAt = router.now()
    router.budgetOf(endpoint).request(this.#sentAt)
    this.isProbe = state.begin(promptTokens, endpoint.routing.limits, this.#sentAt)
  }

  /** Milliseconds since it was sent. */
  get ageMs(): number {
    return this.#router.now() - this.#sentAt
  }

  /** Only the first call has an effect. */
  end(verdict: Verdict, retryAfterMs?: number): void {
    if (this.#ended) return
    this.#ended = true
    const now = this.#router.now()
    this.#state.end(verdict, this, now, retryAfterMs)
    this.entry?.end?.()
    this.#router.onEnded?.(this.#state.id, this.#state.inFlight)
    if ((verdict === 'fault' || verdict === 'limited') && !this.#state.isForgettable(now)) this.#router.onUnavailable()
  }

  /** The head of the response came. */
  begin(): void {
    this.hasBegun = true
    this.#state.respond(this.isProbe, this.#router.now())
  }

  /** The head of a response: what its provider says about its limits. */
  readHeaders(headers: { get(name: string): string | null }): void {
    const quota = providerQuota(headers, this.#router.wall())
    if (quota !== undefined) this.#state.setQuota(quota, this.#router.now())
  }

  /** An answer that was streamed to its end. `firstTokenMs`: since it was sent; `streamMs`: after that. */
  measure(firstTokenMs: number, tokens: number, streamMs: number): void {
    const now = this.#router.now()
    this.#state.measure(firstTokenMs, now)
    this.#state.measureOutput(tokens, streamMs, now)
  }

  /** An answer has ended that has so many tokens, whole or not. */
  answered(tokens: number): void {
    this.#state.count(tokens, this.endpoint.routing.limits, this.#router.now())
    this.entry?.answered?.(tokens)
  }
}
