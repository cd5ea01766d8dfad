/** Several processes over one PostgreSQL: no sum is exceeded, nothing is lost or billed twice, whatever is killed. */
import { type Proxy, startProxy } from '../tests/postgres/proxy.ts'
import { auditFault, balanceOf, recordOf } from './book.ts'
import { isWhole, PROTOCOLS, providersAt, randomRequest, send } from './requests.ts'
import type { Server } from './servers.ts'
import { ALIVE_MS, type Several, withSeveral } from './several.ts'
import { count, type Finding, pick, randomOf } from './table.ts'

const PROCESSES = 3
const CLIENTS = 24
const CREDIT = 1_000_000
/** The longest that a takeover lasts on a busy machine. */
const TAKEOVER_MS = 60_000

const config = (sandbox: string): string =>
  `billing: { startingCredit: ${CREDIT}, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n${providersAt(sandbox)}`

const TEXTS = [
  '[[length: 30]] [[usage: in=10 out=30]]',
  '[[length: 60]] [[pace: 5ms]] [[usage: in=10 out=60 reasoning=7]]',
  '[[delay: 30ms]] [[reply: Hello]] [[usage: in=5 out=2]]',
  '[[length: 100]] [[pace: 20ms]]',
]

/** Clients of all processes. A request that fails is sent to another process by the next round of its client. */
class Load {
  readonly whole = new Set<string>()
  readonly faults: string[] = []
  asked = 0
  /** Answers with an error of ours, and connections that broke. */
  refused = 0
  refusal: string | undefined
  cut = 0
  #servers: readonly Server[]
  readonly #underWay = new Map<Server, number>()
  readonly #random = randomOf(17)
  readonly #clients: Promise<void>[]
  #isEnding = false

  constructor(servers: readonly Server[], clients = CLIENTS) {
    this.#servers = servers
    this.#clients = Array.from({ length: clients }, () => this.#run())
  }

  /** Sends no request to a server while `run` runs, which begins when those under way there have ended. */
  async without(server: Server, run: () => Promise<void>): Promise<void> {
    this.#servers = this.#servers.filter((one) => one !== server)
    while ((this.#underWay.get(server) ?? 0) > 0) await Bun.sleep(10)
    await run()
    this.#servers = [...this.#servers, server]
  }

  async end(): Promise<this> {
    this.#isEnding = true
    await Promise.all(this.#clients)
    return this
  }

  async #run(): Promise<void> {
    const random = this.#random
    while (!this.#isEnding) {
      const asked = randomRequest(TEXTS, random)
      const server = pick(this.#servers, random)
      this.asked += 1
      this.#underWay.set(server, (this.#underWay.get(server) ?? 0) + 1)
      try {
        const response = await send(server, asked, AbortSignal.timeout(60_000))
        const text = await response.text()
        const id = response.headers.get('x-generation-id')
        if (!response.ok) {
          this.refused += 1
          this.refusal ??= text.slice(0, 200)
        } else if (id === null || !isWhole(text, asked)) this.cut += 1
        else if (this.whole.has(id)) this.faults.push(`${id} was given twice`)
        else this.whole.add(id)
      } catch {
        this.cut += 1
        await Bun.sleep(10)
      } finally {
        this.#underWay.set(server, this.#underWay.get(server)! - 1)
      }
    }
  }
}

/** Compares what clients saw with the records, and audits the book. */
async function compare(server: Server, { whole, faults }: Load): Promise<string[]> {
  const wrong = [...faults]
  for (const id of whole) {
    const record = await recordOf(server, id)
    if (record === undefined) wrong.push(`${id} has no record`)
    else if (record.ending !== 'completed') wrong.push(`${id} was seen whole, its record says ${record.ending}`)
  }
  const audit = await auditFault(server)
  if (audit !== undefined) wrong.push(audit)
  const balance = await balanceOf(server)
  if (!(balance >= 0 && balance <= CREDIT)) wrong.push(`a balance of ${balance}`)
  return wrong
}

const finding = (what: string, tried: string, result: string, faults: readonly string[]): Finding => ({
  what,
  tried,
  result,
  ...(faults[0] === undefined ? {} : { fault: `${faults.length} faults, the first: ${faults[0]}` }),
})

const summary = ({ asked, whole, refused, cut }: Load): string =>
  `${count(asked)} requests: ${count(whole.size)} whole, ${count(refused)} refused, ${count(cut)} cut; ` +
  'each whole one has one record, and the book is right'

/** `kill -9` of one process after the other under load. */
export const proveKilledProcesses = (kills: number, progress: (text: string) => void): Promise<Finding[]> =>
  withSeveral(PROCESSES, config, (several) => killProcesses(several, kills, progress))

async function killProcesses(
  { servers, settled }: Several,
  kills: number,
  progress: (text: string) => void,
): Promise<Finding[]> {
  const random = randomOf(23)
  const load = new Load(servers)
  for (let kill = 0; kill < kills; kill++) {
    await Bun.sleep(100 + random() * 600)
    const server = pick(servers, random)
    await server.kill()
    await server.start()
    if (kill % 10 === 9) progress(`${kill + 1} of ${kills} kills, ${load.whole.size} whole answers`)
  }
  await load.end()
  await settled()
  const faults = await compare(servers[0]!, load)
  return [finding(`kill -9 of one of ${PROCESSES} processes`, `${count(kills)} kills`, summary(load), faults)]
}

const times = (line: string, { printed }: Server): number => printed.split(line).length - 1

/** True once it is so, false after the longest time. */
async function until(isSo: () => boolean, longestMs: number): Promise<boolean> {
  for (const end = performance.now() + longestMs; !isSo(); await Bun.sleep(20))
    if (performance.now() > end) return false
  return true
}

/** A process that sleeps for longer than its death, and wakes up. */
export const provePausedProcess = (rounds: number, progress: (text: string) => void): Promise<Finding[]> =>
  withSeveral(2, config, (several) => pauseProcess(several, rounds, progress))

async function pauseProcess(
  { servers, settled }: Several,
  rounds: number,
  progress: (text: string) => void,
): Promise<Finding[]> {
  const [sleeper, other] = servers as [Server, Server]
  const faults: string[] = []
  const load = new Load(servers)
  for (let round = 0; round < rounds; round++) {
    await Bun.sleep(1_000)
    process.kill(sleeper.pid, 'SIGSTOP')
    const isDead = await until(() => times('took over from process', other) > round, TAKEOVER_MS)
    process.kill(sleeper.pid, 'SIGCONT')
    const hasBegunAnew = await until(() => times('taken over from this one', sleeper) > round, TAKEOVER_MS)
    if (!isDead) faults.push(`round ${round + 1}: the process was not declared dead`)
    if (!hasBegunAnew) faults.push(`round ${round + 1}: the process was not fenced`)
    // It serves again.
    await Bun.sleep(1_000)
    progress(`${round + 1} of ${rounds} pauses, ${load.whole.size} whole answers`)
  }
  await load.end()
  await settled()
  faults.push(...(await compare(other, load)))
  const what = 'A process that sleeps for longer than its death'
  return [
    finding(what, `${rounds} times SIGSTOP, SIGCONT`, `${summary(load)}; fenced each time, and began anew`, faults),
  ]
}

/** True once answers are whole that were asked for after the call, false after the longest time. */
function servesAnew({ whole }: Load, longestMs: number): Promise<boolean> {
  const before = whole.size
  return until(() => whole.size > before + CLIENTS, longestMs)
}

/** The database killed and started again under load. */
export const proveKilledDatabase = (kills: number, progress: (text: string) => void): Promise<Finding[]> =>
  withSeveral(
    2,
    config,
    async ({ postgres, servers, settled }) => {
      const load = new Load(servers)
      for (let kill = 0; kill < kills; kill++) {
        await servesAnew(load, 10_000)
        postgres.kill()
        await Bun.sleep(kill % 4 === 3 ? 4_000 : 200)
        await postgres.start()
        progress(`${kill + 1} of ${kills} deaths of PostgreSQL, ${load.whole.size} whole answers`)
      }
      const faults = (await servesAnew(load, 30_000)) ? [] : ['nothing is served after PostgreSQL is back']
      await load.end()
      await settled()
      faults.push(...(await compare(servers[0]!, load)))
      return [finding('PostgreSQL killed and started again', `${kills} deaths`, summary(load), faults)]
    },
    { isKilled: true },
  )

/** Connections to the database that are cut, that stall, and that break after a write, before its answer. */
export async function proveBrokenConnections(faults: number, progress: (text: string) => void): Promise<Finding[]> {
  let proxy: Proxy | undefined
  const route = async (url: string): Promise<string> => (proxy = await startProxy(url)).url
  const prove = async ({ servers, settled }: Several): Promise<Finding[]> => {
    const random = randomOf(31)
    const load = new Load(servers)
    for (let fault = 0; fault < faults; fault++) {
      await Bun.sleep(50 + random() * 300)
      if (fault % 3 === 0) proxy!.cut()
      else if (fault % 3 === 1) proxy!.dropAnswer()
      else await proxy!.delay((random() * ALIVE_MS) / 4)
      if (fault % 30 === 29) progress(`${fault + 1} of ${faults} faults, ${load.whole.size} whole answers`)
    }
    await load.end()
    await settled()
    const wrong = await compare(servers[0]!, load)
    if (load.cut > 0) wrong.push(`${load.cut} answers were cut`)
    const tried = `${count(faults)} times, in turn; ${count(proxy!.dropped)} acknowledgements dropped`
    return [finding('Connections to PostgreSQL cut, delayed, acknowledgements dropped', tried, summary(load), wrong)]
  }
  return withSeveral(2, config, prove, { route, deadMs: ALIVE_MS }).finally(() => proxy?.stop())
}

/** All processes replaced one after the other under load. */
export const proveRollingRestart = (rounds: number, progress: (text: string) => void): Promise<Finding[]> =>
  withSeveral(2, config, (several) => restartAll(several, rounds, progress), { deadMs: ALIVE_MS })

async function restartAll({ servers }: Several, rounds: number, progress: (text: string) => void): Promise<Finding[]> {
  const faults: string[] = []
  const load = new Load(servers, 8)
  for (let round = 0; round < rounds; round++) {
    for (const server of servers) await restart(server, load)
    progress(`${round + 1} of ${rounds} rounds, ${load.refused} refused, ${load.cut} cut`)
  }
  await load.end()
  faults.push(...(await compare(servers[0]!, load)))
  if (load.refused > 0) faults.push(`${load.refused} requests were refused: ${load.refusal}`)
  const tried = `${rounds * servers.length} restarts`
  return [finding('Processes restarted one after the other', tried, summary(load), faults)]
}

/** As a proxy does it: no new request is sent to a process that is about to end. */
async function restart(server: Server, load: Load): Promise<void> {
  await load.without(server, async () => {
    await server.kill('SIGTERM')
    await server.start()
  })
}

type Race = { name: string; setUp: (server: Server) => Promise<string>; served: number }

const created = async <T>(server: Server, ...command: string[]): Promise<T> =>
  JSON.parse(await server.sluice(...command, '--json')) as T

const keyOf = async (server: Server, ...options: string[]): Promise<string> =>
  (await created<{ text: string }>(server, 'keys', 'create', ...options)).text

const RACERS = 64
const COVERED = 5
/** The limit per minute of keys without one of their own. */
const PER_MINUTE = 20
const UNLIMITED = ['--requests-per-minute', '1000000']

/** Sums that cover so many requests of 1 USD, or of one permit. Each is another account's, or another key's. */
const RACES: Race[] = [
  {
    name: 'credit',
    setUp: async (server) => {
      await created(server, 'accounts', 'create', 'poor', '--credit', `${COVERED}`)
      return keyOf(server, '--account', 'poor', ...UNLIMITED)
    },
    served: COVERED,
  },
  {
    name: 'a limit of a key',
    setUp: (server) => keyOf(server, '--limit', `${COVERED}`, ...UNLIMITED),
    served: COVERED,
  },
  {
    name: 'quota windows',
    setUp: async (server) => {
      await created(server, 'accounts', 'create', 'subscribed')
      return keyOf(server, '--account', 'subscribed', '--kind', 'subscription', ...UNLIMITED)
    },
    served: COVERED,
  },
  { name: 'a limit per minute', setUp: async ({ key }) => key, served: PER_MINUTE },
]

/** Clients of all processes that race for a sum which covers few of them, one sum after the other. */
export async function proveRaces(rounds: number, progress: (text: string) => void): Promise<Finding[]> {
  const outcomes = new Map(RACES.map((race) => [race, { served: [] as number[], faults: [] as string[] }]))
  const wrong: string[] = []
  for (let round = 0; round < rounds; round++)
    await withRacers(async (servers) => {
      const keys = await Promise.all(RACES.map(({ setUp }) => setUp(servers[0]!)))
      // All processes know the accounts and keys by then.
      await Bun.sleep(2_500)
      for (const [index, race] of RACES.entries()) {
        const { served, faults } = await run(race, keys[index]!, servers)
        outcomes.get(race)!.served.push(served)
        outcomes.get(race)!.faults.push(...faults)
        progress(`${race.name}: ${served} served`)
      }
      const fault = await auditFault(servers[0]!)
      if (fault !== undefined) wrong.push(fault)
    })
  return [...outcomes].map(([{ name, served: covered }, { served, faults }]) =>
    finding(
      `Race over ${PROCESSES} processes: ${name}`,
      `${RACERS * rounds} clients, ${covered} covered`,
      `${[...new Set(served)].join(' or ')} served; book right`,
      [...faults, ...wrong],
    ),
  )
}

const FLOWS = `{ "5_hour": ${COVERED}, "7_day": ${COVERED}, monthly: ${COVERED} }`

const withRacers = (race: (servers: readonly Server[]) => Promise<void>): Promise<void> =>
  withSeveral(
    PROCESSES,
    (sandbox) =>
      `limits: { requestsPerMinute: ${PER_MINUTE} }\nbilling: { startingCredit: 1000, delay: 0s }\n` +
      `plans: { usdPerFlow: 1, tiers: { free: { usdPerMonth: 0, flows: ${FLOWS} } } }\n` +
      providersAt(sandbox).replaceAll(/price: \{[^}]*\}/g, 'price: { prompt: 0, completion: 1000 }'),
    ({ servers }) => race(servers),
    { deadMs: ALIVE_MS },
  )

async function run(
  { served: covered }: Race,
  key: string,
  servers: readonly Server[],
): Promise<{ served: number; faults: string[] }> {
  const statuses = await Promise.all(
    Array.from({ length: RACERS }, async (_, index) => {
      const response = await send(servers[index % PROCESSES]!, {
        client: 'chat.completions',
        provider: PROTOCOLS[index % 4]!,
        stream: false,
        text: '[[reply: Hello]] [[delay: 50ms]] [[usage: in=5 out=1000]]',
        limit: 1_000,
        key,
      })
      await response.text()
      return response.status
    }),
  )
  const served = statuses.filter((status) => status === 200).length
  const faults: string[] = []
  if (served !== covered) faults.push(`${served} were served, ${covered} are covered`)
  const odd = statuses.find((status) => ![200, 402, 422, 429].includes(status))
  if (odd !== undefined) faults.push(`one was answered ${odd}`)
  return { served, faults }
}
