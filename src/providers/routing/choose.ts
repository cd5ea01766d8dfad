import type { Strategy } from '../../config/terms.ts'
import type { EndpointState, Unavailable } from './endpoint-state.ts'

/** USD per token. `cachedInput`: of a prompt that the provider has in its cache. */
export type TokenPrice = { input: number; cachedInput: number; output: number }

/** An endpoint as choosing sees it. The last members are filled in by it. */
export type Choosable<Endpoint> = {
  endpoint: Endpoint
  state: EndpointState
  weight: number
  /** 0 for the requested model, then one for each fallback model: conversations do not stay at a fallback. */
  group: number
  /** The position in the client's order, behind which all others are. */
  named: number
  /** Among those of one position there, a lower one precedes others, whatever the strategy. */
  priority: number
  /** In the order of the file; the same for all keys of one endpoint. */
  position: number
  price: TokenPrice | undefined
  unavailable: Unavailable | undefined
  /** Lower is better. */
  score: number
  /** The factor by which its cost is raised, because it is slow now. */
  slowness: number
  reason: string
}

/** The size of the request. `cached`: where its conversation was before, and the tokens that are in the cache there. */
type RequestSize = {
  promptTokens: number
  outputTokens: number
  cached: { id: string; tokens: number } | undefined
}

export type Chosen<Endpoint> = {
  candidates: { endpoint: Endpoint; state: EndpointState; score: number; reason: string }[]
  dropped: { endpoint: Endpoint; state: EndpointState; unavailable: Unavailable }[]
  /** Set where no endpoint is available: the one that recovers first is the only candidate, from then on. */
  panicUntil: number | undefined
  missedCacheTokens: number
  /** Where the conversation was sent before. */
  cached: RequestSize['cached']
}

/** Scores that differ by less are equal. */
const NEAR = 0.1

/** The lowest success rate that counts, so that no score is infinite. */
const LOWEST_SUCCESS = 0.05

/**
 * The order in which endpoints are tried. Endpoints that are not available are left out, or the one that recovers first
 * is the only candidate. Others come in the client's order, then by priority, then by the strategy; among near-equals
 * the first is drawn by weight. A conversation stays where its prompt is cached as long as that is cheaper.
 */
export function choose<Endpoint>(
  all: readonly Choosable<Endpoint>[],
  strategy: Strategy,
  size: RequestSize,
  random: () => number,
  now: number,
): Chosen<Endpoint> {
  const dropped: Chosen<Endpoint>['dropped'] = []
  const candidates: Choosable<Endpoint>[] = []
  for (const one of all) {
    const { endpoint, state, unavailable } = one
    if (unavailable === undefined) candidates.push(one)
    else dropped.push({ endpoint, state, unavailable })
  }
  const { cached } = size
  if (candidates.length === 0) return { ...panic(all, dropped), cached }
  score(candidates, strategy, size, now)
  candidates.sort((a, b) => a.group - b.group || a.named - b.named || a.priority - b.priority || a.score - b.score)
  draw(candidates, strategy, random)
  holdBack(candidates, random, now)
  const missedCacheTokens = stick(candidates, size)
  return { candidates, dropped, panicUntil: undefined, missedCacheTokens, cached }
}

function panic<Endpoint>(
  all: readonly Choosable<Endpoint>[],
  dropped: Chosen<Endpoint>['dropped'],
): Omit<Chosen<Endpoint>, 'cached'> {
  const first = all.reduce((best, one) => (one.unavailable!.until < best.unavailable!.until ? one : best))
  const { endpoint, state, unavailable } = first
  return {
    candidates: [{ endpoint, state, score: 0, reason: `recovers first (${unavailable!.reason})` }],
    dropped: dropped.filter((one) => one.endpoint !== endpoint),
    panicUntil: unavailable!.until,
    missedCacheTokens: 0,
  }
}

/** Cheap endpoints may be slower by this factor. */
const TOLERATED = 5

/** Beyond that, an endpoint that is so many times slower than the fastest one counts as that many times costlier. */
function slow<Endpoint>(all: readonly Choosable<Endpoint>[], now: number): void {
  let fastest = Infinity
  for (const one of all) {
    one.slowness = one.state.recentFirstTokenMs(now) ?? 0
    if (one.slowness > 0 && one.slowness < fastest) fastest = one.slowness
  }
  for (const one of all) one.slowness = Math.max(1, one.slowness / (TOLERATED * fastest))
}

function score<Endpoint>(
  all: readonly Choosable<Endpoint>[],
  strategy: Strategy,
  size: RequestSize,
  now: number,
): void {
  if (strategy === 'price') slow(all, now)
  let best = Infinity
  for (const one of all) {
    one.reason = strategy
    one.score = measureOf(one, strategy, size, now)
    if (one.score < best) best = one.score
  }
  if (strategy === 'order' || strategy === 'weights' || strategy === 'least-busy') return
  // One that was not measured counts as the best, so that it is. A failure costs another attempt.
  for (const one of all) {
    if (one.score === Infinity) one.score = best === Infinity ? 1 : best
    one.score /= Math.max(LOWEST_SUCCESS, one.state.successRate(now))
  }
}

/** Lower is better; infinite where it is not known. */
function measureOf<Endpoint>(
  { position, state, weight, price, slowness }: Choosable<Endpoint>,
  strategy: Strategy,
  size: RequestSize,
  now: number,
): number {
  switch (strategy) {
    case 'order':
      return position
    case 'weights':
      return 0
    case 'least-busy':
      return (state.inFlight + 1) / weight
    case 'price':
      return price === undefined ? Infinity : costOf(price, size, 0) * slowness
    case 'latency':
      return state.usualFirstTokenMs(now) ?? Infinity
    case 'throughput':
      return 1 / (state.tokensPerSecond(now) ?? 0)
  }
}

/** USD that a request costs with so many of its prompt tokens in the cache. */
const costOf = (price: TokenPrice, { promptTokens, outputTokens }: RequestSize, cached: number): number =>
  Math.max(0, promptTokens - cached) * price.input + cached * price.cachedInput + outputTokens * price.output

/** Draws the order of those that are as good as the best, by weight: what is written first must not get everything. */
function draw<Endpoint>(ranked: Choosable<Endpoint>[], strategy: Strategy, random: () => number): void {
  const near = strategy === 'order' ? 1 : 1 + NEAR
  for (let from = 0; from < ranked.length; ) {
    const first = ranked[from]!
    let to = from + 1
    while (to < ranked.length && isNear(ranked[to]!, first, near)) to++
    if (to - from > 1) shuffle(ranked, from, to, random)
    from = to
  }
}

const isNear = <Endpoint>(one: Choosable<Endpoint>, first: Choosable<Endpoint>, near: number): boolean =>
  one.group === first.group &&
  one.named === first.named &&
  one.priority === first.priority &&
  one.score <= first.score * near

/** A draw without replacement, in which each is next with a probability in proportion to its weight. */
function shuffle<Endpoint>(ranked: Choosable<Endpoint>[], from: number, to: number, random: () => number): void {
  for (let at = from; at < to - 1; at++) {
    let total = 0
    for (let index = at; index < to; index++) total += ranked[index]!.weight
    let drawn = random() * total
    let chosen = at
    while (chosen < to - 1 && (drawn -= ranked[chosen]!.weight) >= 0) chosen++
    const swapped = ranked[at]!
    ranked[at] = ranked[chosen]!
    ranked[chosen] = swapped
  }
}

/** An endpoint that has just recovered gets a growing share of its requests: all at once would be a herd. */
function holdBack<Endpoint>(ranked: Choosable<Endpoint>[], random: () => number, now: number): void {
  if (ranked.length < 2) return
  const { state, group } = ranked[0]!
  const share = state.breaker.share(now)
  if (share === 1 || random() < share) return
  const others = ranked.findIndex((one) => one.group !== group)
  ranked.splice(others < 0 ? ranked.length : others, 0, ranked[0]!)
  ranked.shift()
}

/**
 * Puts the endpoint that has the conversation's prompt in its cache first, unless another one is cheaper even so, or
 * precedes it in the client's order. Gives the tokens that are lost where it is not first.
 */
function stick<Endpoint>(ranked: Choosable<Endpoint>[], size: RequestSize): number {
  const { cached } = size
  const [first] = ranked
  if (cached === undefined || first === undefined) return 0
  if (first.state.id === cached.id) {
    first.reason = 'cache'
    return 0
  }
  const at = ranked.findIndex(
    ({ state, group, named }) => state.id === cached.id && group === first.group && named === first.named,
  )
  if (at < 0) return cached.tokens
  const there = ranked[at]!
  // Without prices a full prompt is assumed to cost more than a cached one.
  const stays =
    there.price === undefined ||
    first.price === undefined ||
    costOf(there.price, size, Math.min(cached.tokens, size.promptTokens)) * there.slowness <=
      costOf(first.price, size, 0) * first.slowness
  if (!stays) return cached.tokens
  ranked.splice(at, 1)
  ranked.unshift(there)
  there.reason = 'cache'
  return 0
}
