/** Endpoints that fail beside a healthy one: no request fails that could be served, and retries multiply no load. */
import { ask, ENDED, PROTOCOLS } from '../tests/gateway/asking.ts'
import { type Behaviour, poolConfig, type Upstream, upstream } from '../tests/routing/upstreams.ts'
import { auditFault } from './book.ts'
import { Server } from './servers.ts'
import { count, type Finding, inParallel, percentile } from './table.ts'

const WIDTH = 8
/** Requests after which the router has met all endpoints. */
const LEARNING = 20
const MOST_PER_REQUEST = 1.2
const MOST_BESIDE = 10
const MOST_SLOWER = 1.5
/** Shorter differences are those of the machine. */
const NOISE_MS = 50
/** A percentile of fewer requests is that of one of them. */
const ENOUGH = 1_000
const RECOVERY_MS = 30_000

type ProtocolName = (typeof PROTOCOLS)[number]
type Pattern = Behaviour | 'down' | 'flapping'

/** Two faults at a time, beside a third, healthy endpoint. */
const PATTERNS: [Pattern, Pattern][] = [
  ['down', 'failing'],
  ['stalled', 'limited'],
  ['slow', 'resetting'],
  ['flapping', 'error-first'],
]

type Sent = { isWhole: boolean; firstByteMs: number; provider: string | null }

async function send(server: Server, protocol: ProtocolName, stream: boolean): Promise<Sent> {
  const startedAt = performance.now()
  const { url, key } = server
  const response = await ask({ url, key, protocol, model: 'pool', stream, limit: 50 })
  const firstByteMs = performance.now() - startedAt
  const text = await response.text()
  const isWhole = response.status === 200 && (!stream || ENDED[protocol].whole.test(text))
  return { isWhole, firstByteMs, provider: response.headers.get('x-sluice-provider') }
}

const ROUTING = { strategy: 'latency', patience: '1s' }

/** A server over three endpoints in the strategy that avoids slow ones. */
async function pool(
  protocol: ProtocolName,
  patterns: readonly Pattern[],
): Promise<{ server: Server; upstreams: Upstream[]; stop(): Promise<void> }> {
  const upstreams = patterns.map((pattern) =>
    upstream(pattern === 'down' || pattern === 'flapping' ? 'failing' : pattern),
  )
  for (const [index, pattern] of patterns.entries()) if (pattern === 'down') upstreams[index]!.stop()
  const flapping = setInterval(() => {
    for (const [index, pattern] of patterns.entries())
      if (pattern === 'flapping')
        upstreams[index]!.behaviour = upstreams[index]!.behaviour === 'well' ? 'failing' : 'well'
  }, 400)
  const server = new Server(poolConfig(protocol, upstreams, { routing: ROUTING }))
  await server.start()
  const stop = async (): Promise<void> => {
    clearInterval(flapping)
    await server.remove()
    for (const one of upstreams) one.stop()
  }
  return { server, upstreams, stop }
}

const requestsTo = (upstreams: readonly Upstream[]): number => upstreams.reduce((sum, one) => sum + one.requests, 0)

/** The 99th percentile of the healthy endpoint alone, under the same load. */
async function healthyMs(protocol: ProtocolName, requests: number): Promise<number> {
  const { server, stop } = await pool(protocol, ['well'])
  const times: number[] = []
  await inParallel(requests, WIDTH, async (index) => {
    const { firstByteMs } = await send(server, protocol, index % 2 === 0)
    if (index >= LEARNING) times.push(firstByteMs)
  })
  await stop()
  return percentile(times, 0.99)
}

async function proveFailover(
  protocol: ProtocolName,
  pattern: [Pattern, Pattern],
  requests: number,
  healthy: number,
): Promise<Finding> {
  const { server, upstreams, stop } = await pool(protocol, [...pattern, 'well'])
  let failed = 0
  const times: number[] = []
  await inParallel(requests, WIDTH, async (index) => {
    const { isWhole, firstByteMs } = await send(server, protocol, index % 2 === 0)
    if (!isWhole) failed++
    if (index >= LEARNING) times.push(firstByteMs)
  })
  // A request to an endpoint that is down arrives nowhere.
  const attempts = requestsTo(upstreams)
  const slowest = percentile(times, 0.99)
  const book = await auditFault(server)
  await stop()
  const fault =
    failed > 0
      ? `${failed} requests failed`
      : attempts > MOST_PER_REQUEST * requests + MOST_BESIDE
        ? 'too many attempts'
        : requests >= ENOUGH && slowest > MOST_SLOWER * healthy + NOISE_MS
          ? `p99 is ${Math.round(healthy)} ms without the faults`
          : book
  return {
    what: `One endpoint well, one ${pattern[0]}, one ${pattern[1]}`,
    tried: `${count(requests)} requests, ${protocol}`,
    result: `${failed} failed, ${(attempts / requests).toFixed(3)} attempts per request, p99 ${Math.round(slowest)} ms`,
    ...(fault === undefined ? {} : { fault }),
  }
}

/** An endpoint that has recovered gets its requests back, first a few. */
async function proveRecovery(): Promise<Finding> {
  const protocol = 'chat.completions'
  const { server, upstreams, stop } = await pool(protocol, ['failing', 'well'])
  const [first] = upstreams as [Upstream]
  await inParallel(100, WIDTH, async () => void (await send(server, protocol, true)))
  first.behaviour = 'well'
  const startedAt = performance.now()
  const servedAt: number[] = []
  while (servedAt.length < 100 && performance.now() - startedAt < RECOVERY_MS) {
    const { provider } = await send(server, protocol, true)
    if (provider === 'up-0') servedAt.push(performance.now() - startedAt)
    await Bun.sleep(10)
  }
  await stop()
  const [after = Infinity] = servedAt
  const early = servedAt.filter((at) => at < after + 1_000).length
  return {
    what: 'An endpoint recovers',
    tried: 'a request every 10 ms, 30 s at most',
    result: `first request after ${(after / 1_000).toFixed(1)} s, ${early} in the second after that`,
    ...(servedAt.length === 100 ? {} : { fault: 'its traffic did not return' }),
  }
}

/** A restart forgets neither a cool-down nor a healthy endpoint. */
async function proveRestart(requests: number): Promise<Finding> {
  const protocol = 'messages'
  const { server, upstreams, stop } = await pool(protocol, ['limited', 'well', 'well'])
  const [limited] = upstreams as [Upstream]
  limited.retryAfter = '500'
  let failed = 0
  const half = (): Promise<void> =>
    inParallel(requests / 2, WIDTH, async () => void ((await send(server, protocol, true)).isWhole || failed++))
  await half()
  const before = limited.requests
  await server.kill('SIGTERM')
  await server.start()
  await half()
  const after = limited.requests - before
  await stop()
  return {
    what: 'A restart while an endpoint cools down',
    tried: `${count(requests)} requests, half of them after it`,
    result: `${failed} failed, ${after} requests to the endpoint that cools down`,
    ...(failed + after === 0 ? {} : { fault: 'something was forgotten' }),
  }
}

/** `requests`: for each protocol and pair of faults. */
export async function proveRouting(requests: number, progress: (text: string) => void): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const protocol of PROTOCOLS) {
    const healthy = await healthyMs(protocol, Math.min(requests, 300))
    for (const pattern of PATTERNS) {
      progress(`${protocol}: ${pattern.join(', ')}`)
      findings.push(await proveFailover(protocol, pattern, requests, healthy))
    }
  }
  progress('recovery')
  findings.push(await proveRecovery())
  progress('restart')
  findings.push(await proveRestart(requests))
  return findings
}
