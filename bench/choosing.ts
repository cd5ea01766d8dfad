/** The time to choose among one, two and ten endpoints, in microseconds: `bun bench/choosing.ts`. */
import { STRATEGIES } from '../src/config/terms.ts'
import type { Endpoint } from '../src/providers/catalogue.ts'
import { Router } from '../src/providers/routing/router.ts'

const BATCHES = 100
const RUNS = 500

/** The shortest of many batches: others were interrupted. */
function microseconds(run: () => void): number {
  let shortest = Infinity
  for (let batch = 0; batch < BATCHES; batch++) {
    const startedAt = performance.now()
    for (let count = 0; count < RUNS; count++) run()
    shortest = Math.min(shortest, performance.now() - startedAt)
  }
  return (shortest / RUNS) * 1_000
}

const endpointNamed = (name: string): Endpoint =>
  ({
    provider: { id: name },
    name,
    target: { provider: name, model: 'm' },
    routing: { weight: 1, priority: 0, tags: [], dataPolicy: {}, limits: {} },
  }) as unknown as Endpoint

/** An attempt that is answered, as far as the router has to do with it. */
function answer(router: Router, endpoint: Endpoint, firstTokenMs: number): void {
  const sending = router.begin(endpoint, 1_000)
  sending.begin()
  sending.measure(firstTokenMs, 500, 2_000)
  sending.end('success')
}

for (const strategy of STRATEGIES) {
  const times = [1, 2, 10].map((count) => {
    const price = { input: 1e-6, cachedInput: 1e-7, output: 4e-6 }
    const settings = { strategy, retryBudget: { share: 0.2, perSecond: 10 } }
    const router = new Router({ settings, priceOf: () => price })
    const endpoints = Array.from({ length: count }, (_, index) => endpointNamed(`provider-${index}`))
    for (const [index, endpoint] of endpoints.entries())
      for (let sent = 0; sent < 20; sent++) answer(router, endpoint, 300 + 10 * index)
    const request = { preferences: {}, promptTokens: 5_000, outputTokens: 500, conversation: 'one' }
    const choosing = microseconds(() => router.route(endpoints, request))
    const sending = microseconds(() => answer(router, endpoints[0]!, 300))
    return { choosing, sending }
  })
  const columns = times.map(({ choosing }) => choosing.toFixed(2).padStart(6)).join(' ')
  console.log(`${strategy.padEnd(10)} ${columns}   counters of one attempt ${times[0]!.sending.toFixed(2)}`)
}
