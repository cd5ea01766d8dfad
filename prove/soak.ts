/** Hours of mixed traffic with some faults: memory, descriptors and rest. */
import { readdirSync } from 'node:fs'
import { cpuSecondsSince, cpuTimes, residentMegabytes } from '../bench/process.ts'
import { auditFault } from './book.ts'
import { type Asked, PROTOCOLS, providersAt, send } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import { count, type Finding, pick, randomOf } from './table.ts'

const CLIENTS = 12
const SAMPLE_MS = 15_000
const REST_MS = 20_000
const FAULTS = ['[[error: 500]]', '[[cut-after: 2]] [[length: 30]]', '[[html: 502]]', '[[error-after: 2 529 busy]]']
const FAULT_SHARE = 0.02
const TEXTS = ['[[length: 40]]', '[[length: 80]] [[pace: 10ms]]', '[[think]] [[reply: Hello]]', '[[call: f {"a":1}]]']
/** Growth per hour that is noise of the allocator over a run of minutes. */
const SLOPE_MEGABYTES = 20

type Sample = { hours: number; megabytes: number; descriptors: number }

const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** Traffic for `minutes`; the first quarter warms up and is not in the slopes. */
export async function proveSoak(minutes: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    'billing: { startingCredit: unlimited }\nlimits: { requestsPerMinute: 1000000 }\n' + providersAt(sandbox.url),
  )
  const random = randomOf(1)
  const samples: Sample[] = []
  let asked = 0
  try {
    await server.start()
    const startedAt = performance.now()
    const endsAt = startedAt + minutes * 60_000
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (performance.now() < endsAt) {
        asked++
        await oneRequest(server, random)
      }
    })
    while (performance.now() < endsAt) {
      await Bun.sleep(Math.min(SAMPLE_MS, endsAt - performance.now()))
      const hours = (performance.now() - startedAt) / 3_600_000
      samples.push({ hours, megabytes: residentMegabytes(server.pid), descriptors: descriptorsOf(server.pid) })
      const { megabytes, descriptors } = samples.at(-1)!
      if (samples.length % 8 === 0)
        progress(`${(hours * 60).toFixed(1)} min, ${asked} requests, ${Math.round(megabytes)} MB, ${descriptors} fd`)
    }
    await Promise.all(clients)
    const steady = samples.slice(Math.floor(samples.length / 4))
    const memory = slopeOf(steady.map(({ hours, megabytes }) => [hours, megabytes]))
    const descriptors = slopeOf(steady.map(({ hours, descriptors: open }) => [hours, open]))
    await Bun.sleep(REST_MS)
    const before = cpuTimes(server.pid)
    await Bun.sleep(REST_MS)
    const rest = (cpuSecondsSince(server.pid, before) * 1e6) / REST_MS
    const wrong = await auditFault(server)
    const fault = wrong ?? (memory > SLOPE_MEGABYTES ? `memory grows by ${memory.toFixed(1)} MB an hour` : undefined)
    return [
      {
        what: `Soak: ${minutes} minutes of mixed traffic, ${FAULT_SHARE * 100} % faults`,
        tried: `${count(asked)} requests, ${CLIENTS} clients`,
        result:
          `memory ${memory.toFixed(1)} MB an hour (${Math.round(samples.at(-1)!.megabytes)} MB at the end), ` +
          `descriptors ${descriptors.toFixed(1)} an hour; at rest ${rest.toFixed(2)} ms of CPU a second; book right`,
        ...(fault === undefined ? {} : { fault }),
      },
    ]
  } finally {
    await server.remove()
    await sandbox.stop()
  }
}

async function oneRequest(server: Server, random: () => number): Promise<void> {
  const asked: Asked = {
    client: pick(PROTOCOLS, random),
    provider: pick(PROTOCOLS, random),
    stream: random() < 0.7,
    text: random() < FAULT_SHARE ? pick(FAULTS, random) : pick(TEXTS, random),
    limit: 500,
  }
  const leaving = new AbortController()
  const timer = random() < FAULT_SHARE ? setTimeout(() => leaving.abort(), random() * 100) : undefined
  await send(server, asked, leaving.signal)
    .then((response) => response.text())
    .catch(() => {})
  clearTimeout(timer)
}

/** The slope of the line through these points by least squares. */
function slopeOf(points: [x: number, y: number][]): number {
  const mean = (index: 0 | 1): number => points.reduce((sum, point) => sum + point[index], 0) / points.length
  const [x, y] = [mean(0), mean(1)]
  const spread = points.reduce((sum, [a]) => sum + (a - x) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0) / spread
}
