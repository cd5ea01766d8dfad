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
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

type Sample = { hours: number; megabytes: number; descriptors: number; deadlines: number }

const sampleOf = async ({ pid, url }: Server, hours: number): Promise<Sample> => ({
  hours,
  megabytes: residentMegabytes(pid),
  descriptors: readdirSync(`/proc/${pid}/fd`).length,
  deadlines: Number(/^sluice_deadlines (\d+)/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]),
})

/**
 * Traffic for `minutes`; the first quarter warms up and is not in the slopes. `pauseMs`: of each client between two
 * requests. A signal ends it early, with the slopes until then.
 */
export async function proveSoak(
  minutes: number,
  pauseMs: number,
  progress: (text: string) => void,
): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    'billing: { startingCredit: unlimited }\nlimits: { requestsPerMinute: 1000000 }\n' + providersAt(sandbox.url),
  )
  const samples: Sample[] = []
  let asked = 0
  const report = (): void => progress(`${count(asked)} requests; ${slopesOf(samples)}`)
  const interrupted = Promise.withResolvers<void>()
  const stop = (): void => {
    report()
    interrupted.resolve()
  }
  try {
    await server.start()
    for (const signal of SIGNALS) process.once(signal, stop)
    const startedAt = performance.now()
    let endsAt = startedAt + minutes * 60_000
    void interrupted.promise.then(() => (endsAt = 0))
    const random = randomOf(1)
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (performance.now() < endsAt) {
        asked++
        await oneRequest(server, random)
        if (pauseMs > 0) await Promise.race([Bun.sleep(pauseMs * 2 * random()), interrupted.promise])
      }
    })
    while (performance.now() < endsAt) {
      await Promise.race([Bun.sleep(Math.min(SAMPLE_MS, endsAt - performance.now())), interrupted.promise])
      if (endsAt === 0 || !server.isAlive) break
      samples.push(await sampleOf(server, (performance.now() - startedAt) / 3_600_000))
      if (samples.length % 8 === 0) report()
    }
    await Promise.all(clients)
    return [await findingOf(server, samples, asked, endsAt === 0)]
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop)
    await server.remove()
    await sandbox.stop()
  }
}

/** `isCut`: a signal ended the run, of which the server may have got one, too. */
async function findingOf(server: Server, samples: Sample[], asked: number, isCut: boolean): Promise<Finding> {
  const finding = {
    what: `Soak: ${minutesOf(samples)} minutes of mixed traffic, ${FAULT_SHARE * 100} % faults`,
    tried: `${count(asked)} requests, ${CLIENTS} clients`,
    result: slopesOf(samples),
  }
  if (isCut) return { ...finding, fault: 'ended by a signal' }
  if (!server.isAlive) return { ...finding, fault: `the server ended: ${server.printed.slice(-1_000)}` }
  const rest = await restOf(server)
  const wrong = await auditFault(server)
  if (wrong !== undefined) return { ...finding, fault: wrong }
  const memory = slopeOf(samples, 'megabytes')
  const result = `${finding.result}; at rest ${rest.toFixed(2)} ms of CPU a second; book right`
  if (memory <= SLOPE_MEGABYTES) return { ...finding, result }
  return { ...finding, result, fault: `memory grows by ${memory.toFixed(1)} MB an hour` }
}

/** Milliseconds of CPU in a second without requests, while metrics are measured. */
async function restOf({ pid }: Server): Promise<number> {
  await Bun.sleep(REST_MS)
  const before = cpuTimes(pid)
  await Bun.sleep(REST_MS)
  return (cpuSecondsSince(pid, before) * 1e6) / REST_MS
}

const minutesOf = (samples: readonly Sample[]): string => ((samples.at(-1)?.hours ?? 0) * 60).toFixed(1)

/** The last values, and their growth in an hour. */
function slopesOf(samples: readonly Sample[]): string {
  const last = samples.at(-1)
  if (last === undefined) return 'no sample yet'
  const one = (name: 'megabytes' | 'descriptors' | 'deadlines', unit: string): string =>
    `${Math.round(last[name])} ${unit} (${slopeOf(samples, name).toFixed(1)} an hour)`
  const values = [one('megabytes', 'MB'), one('descriptors', 'descriptors'), one('deadlines', 'deadlines')]
  return `after ${minutesOf(samples)} min ${values.join(', ')}`
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

/** The slope in an hour, by least squares, without the first quarter. */
function slopeOf(samples: readonly Sample[], name: Exclude<keyof Sample, 'hours'>): number {
  const steady = samples.slice(Math.floor(samples.length / 4))
  const mean = (of: keyof Sample): number => steady.reduce((sum, sample) => sum + sample[of], 0) / steady.length
  const [x, y] = [mean('hours'), mean(name)]
  const spread = steady.reduce((sum, { hours }) => sum + (hours - x) ** 2, 0)
  return spread === 0 ? 0 : steady.reduce((sum, one) => sum + (one.hours - x) * (one[name] - y), 0) / spread
}
