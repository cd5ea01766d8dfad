import type { Strategy } from '../../src/config/terms.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { Router } from '../../src/providers/routing/router.ts'
import { ENDPOINTS, type Policy, priceOf, type World } from './simulation.ts'

/** The time for a first token that policies without measurements give. */
const FIXED_PATIENCE_MS = 30_000

const OUTPUT_TOKENS = 400

/** Breaches of the rules that the router has to keep. */
export type Breaches = { openBreaker: number; dearMoves: number; moves: number; probes: number }

/** The router that serves requests. */
export function ours(strategy: Strategy, breaches: Breaches): (world: World) => Policy {
  return (world) => {
    const router = new Router({
      settings: { strategy, retryBudget: { share: 0.2, perSecond: 10 } },
      now: () => world.now,
      wall: () => world.now,
      random: world.random,
      priceOf,
    })
    const places = new Map<string, { endpoint: Endpoint; tokens: number; at: number }>()
    let isPanic = false
    return {
      order({ conversation, tokens }) {
        const request = { preferences: {}, promptTokens: tokens, outputTokens: OUTPUT_TOKENS, conversation }
        const { candidates, dropped, panicUntil } = router.route(ENDPOINTS, request)
        isPanic = panicUntil !== undefined
        const place = places.get(conversation)
        const [first] = candidates
        if (place !== undefined && first!.endpoint !== place.endpoint && world.now - place.at < 300_000) {
          breaches.moves++
          const recent = candidates.map(({ state }) => state.recentFirstTokenMs(world.now) ?? Infinity)
          // With the strategy `price`, an endpoint that is slow now may be left for that.
          const slownessOf = (endpoint: Endpoint): number =>
            strategy === 'price'
              ? Math.max(1, (router.stateOf(endpoint).recentFirstTokenMs(world.now) ?? 0) / (5 * Math.min(...recent)))
              : 1
          const isAvailable = dropped.every(({ endpoint }) => endpoint !== place.endpoint)
          if (isAvailable && !isCheaper(first!.endpoint, place, tokens, slownessOf)) breaches.dearMoves++
        }
        return candidates.map(({ endpoint }) => endpoint)
      },
      begin(endpoint, { conversation, tokens }) {
        const { breaker } = router.stateOf(endpoint)
        const { state } = breaker
        const sending = router.begin(endpoint, tokens)
        if (sending.isProbe) breaches.probes++
        else if (state !== 'closed' && !isPanic) breaches.openBreaker++
        return {
          respond() {
            sending.begin()
            router.remember(conversation, endpoint, tokens)
            if (tokens >= 1_024) places.set(conversation, { endpoint, tokens, at: world.now })
          },
          end(verdict, firstTokenMs) {
            if (verdict === 'success') sending.measure(firstTokenMs, OUTPUT_TOKENS, 2_500)
            sending.end(verdict)
          },
        }
      },
      patienceMs(endpoint) {
        const slow = router.stateOf(endpoint).slowMs(world.now)
        return slow === undefined ? FIXED_PATIENCE_MS : Math.max(10_000, 3 * slow)
      },
      mayRetry: (endpoint) =>
        router.stateOf(endpoint).unavailable(undefined, world.now, 0) === undefined &&
        router.budgetOf(endpoint).take(world.now),
    }
  }
}

/** The cost at another endpoint without a cache, against that at the place of the conversation with it. */
function isCheaper(
  other: Endpoint,
  place: { endpoint: Endpoint; tokens: number },
  tokens: number,
  slownessOf: (endpoint: Endpoint) => number,
): boolean {
  const [there, here] = [priceOf(place.endpoint), priceOf(other)]
  const cached = Math.min(place.tokens, tokens)
  const stay = (tokens - cached) * there.input + cached * there.cachedInput + OUTPUT_TOKENS * there.output
  const leave = tokens * here.input + OUTPUT_TOKENS * here.output
  return leave * slownessOf(other) < stay * slownessOf(place.endpoint)
}

const NO_STATE = { respond() {}, end() {} }

const fixed = { patienceMs: () => FIXED_PATIENCE_MS, mayRetry: () => true }

export function roundRobin(): Policy {
  let next = 0
  return {
    ...fixed,
    order: () => rotated(next++ % ENDPOINTS.length),
    begin: () => NO_STATE,
  }
}

const rotated = (from: number): Endpoint[] => [...ENDPOINTS.slice(from), ...ENDPOINTS.slice(0, from)]

/** A draw by the inverse square of the price; endpoints that failed in the last 30 seconds come last. */
export function inverseSquarePrice(world: World): Policy {
  const failedAt = new Map<Endpoint, number>()
  return {
    ...fixed,
    order() {
      const isStable = (endpoint: Endpoint): boolean => world.now - (failedAt.get(endpoint) ?? -Infinity) > 30_000
      const keyOf = (endpoint: Endpoint): number => -Math.log(1 - world.random()) * priceOf(endpoint).input ** 2
      const keyed = ENDPOINTS.map((endpoint) => ({ endpoint, isStable: isStable(endpoint), key: keyOf(endpoint) }))
      keyed.sort((a, b) => Number(b.isStable) - Number(a.isStable) || a.key - b.key)
      return keyed.map(({ endpoint }) => endpoint)
    },
    begin: (endpoint) => ({
      respond() {},
      end(verdict) {
        if (verdict !== 'success') failedAt.set(endpoint, world.now)
      },
    }),
  }
}

/** The lowest moving average of the time to the first token; a failure counts as its time. */
export function leastLatency(): Policy {
  const average = new Map<Endpoint, number>()
  return {
    ...fixed,
    order: () => [...ENDPOINTS].sort((a, b) => (average.get(a) ?? 0) - (average.get(b) ?? 0)),
    begin: (endpoint) => ({
      respond() {},
      end(_verdict, firstTokenMs) {
        const before = average.get(endpoint)
        average.set(endpoint, before === undefined ? firstTokenMs : 0.9 * before + 0.1 * firstTokenMs)
      },
    }),
  }
}
