/** `kill -9` under load: no whole answer is lost, billed twice or recorded otherwise than it was seen. */
import { auditFault, balanceOf, recordOf } from './book.ts'
import { isWhole, outputTokensIn, providersAt, randomRequest, send } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import { count, type Finding, percentile, randomOf } from './table.ts'

const CLIENTS = 24
const CREDIT = 1_000_000
/** Milliseconds of load before each kill. */
const LOAD_MS = { min: 100, max: 700 }

type Seen = { id: string; outputTokens: number | undefined }

const TEXTS = [
  '[[length: 30]] [[usage: in=10 out=30]]',
  '[[length: 60]] [[pace: 5ms]] [[usage: in=10 out=60 reasoning=7]]',
  '[[delay: 30ms]] [[reply: Hello]] [[usage: in=5 out=2]]',
  '[[length: 200]] [[pace: 20ms]]',
  '[[cut-after: 3]] [[length: 60]] [[pace: 5ms]]',
]

/** Kills a server `kills` times while clients ask, leave, and meet providers that break. */
export async function proveKills(kills: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    `billing: { startingCredit: ${CREDIT}, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n` +
      providersAt(sandbox.url),
  )
  const random = randomOf(9)
  const [whole, starts]: [Seen[], number[]] = [[], []]
  const faults: string[] = []
  try {
    for (let kill = 0; kill < kills; kill++) {
      const startedAt = performance.now()
      await server.start()
      starts.push(performance.now() - startedAt)
      const load = new Load(server, random)
      await Bun.sleep(LOAD_MS.min + random() * (LOAD_MS.max - LOAD_MS.min))
      // Every tenth dies while it ends its streams.
      if (kill % 10 === 9) process.kill(server.pid, 'SIGTERM')
      await server.kill()
      whole.push(...(await load.end()))
      if (kill % 25 === 24) progress(`${kill + 1} of ${kills} kills, ${whole.length} whole answers`)
    }
    await server.start()
    faults.push(...(await compare(server, whole)))
    const wrong = await auditFault(server)
    if (wrong !== undefined) faults.push(wrong)
    const [balance] = [await balanceOf(server)]
    if (!(balance >= 0 && balance <= CREDIT)) faults.push(`a balance of ${balance}`)
  } finally {
    await server.remove()
    await sandbox.stop()
  }
  const [median, worst] = [percentile(starts, 0.5), Math.max(...starts)].map((ms) => (ms / 1000).toFixed(2))
  return [
    {
      what: 'kill -9 under load, all 16 routes',
      tried: `${count(kills)} kills`,
      result:
        `${count(whole.length)} whole answers: ${faults.length} lost, billed twice or recorded otherwise than seen; ` +
        `book right; start ${median} s, at most ${worst} s`,
      ...(faults[0] === undefined ? {} : { fault: faults[0] }),
    },
  ]
}

async function compare(server: Server, whole: readonly Seen[]): Promise<string[]> {
  const faults: string[] = []
  const ids = new Set<string>()
  for (const { id, outputTokens } of whole) {
    if (ids.has(id)) faults.push(`${id} was given twice`)
    ids.add(id)
    const record = await recordOf(server, id)
    if (record === undefined) faults.push(`${id} has no record`)
    else if (record.ending !== 'completed' || (outputTokens !== undefined && record.outputTokens !== outputTokens))
      faults.push(`${id} was seen whole with ${outputTokens} tokens, its record has ${JSON.stringify(record)}`)
  }
  return faults
}

/** Clients that ask until their server dies. */
class Load {
  readonly #server: Server
  readonly #random: () => number
  readonly #clients: Promise<void>[]
  readonly #whole: Seen[] = []
  #isEnding = false

  constructor(server: Server, random: () => number) {
    this.#server = server
    this.#random = random
    this.#clients = Array.from({ length: CLIENTS }, () => this.#run())
  }

  /** The whole answers, when all clients have seen the end of the server. */
  async end(): Promise<Seen[]> {
    this.#isEnding = true
    await Promise.all(this.#clients)
    return this.#whole
  }

  async #run(): Promise<void> {
    const random = this.#random
    while (!this.#isEnding) {
      const asked = randomRequest(TEXTS, random)
      const leaving = new AbortController()
      if (random() < 0.15) setTimeout(() => leaving.abort(), random() * 200)
      try {
        const response = await send(this.#server, asked, leaving.signal)
        const text = await response.text()
        if (response.ok && isWhole(text, asked))
          this.#whole.push({ id: response.headers.get('x-generation-id')!, outputTokens: outputTokensIn(text) })
      } catch {
        // The server died, or this client left.
        await Bun.sleep(5)
      }
    }
  }
}
