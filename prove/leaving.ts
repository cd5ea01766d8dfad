/** Clients that leave at every phase of an answer: what is paid, against what the provider generated until it ended. */
import { auditFault, recordOf } from './book.ts'
import { type Asked, PROTOCOLS, type ProtocolName, providersAt, send } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import { count, type Finding, inParallel, percentile, pick, randomOf } from './table.ts'

const WIDTH = 12
const WORDS = 90
const HIDDEN = 410
const TEXT = `[[length: ${WORDS}]] [[pace: 4ms]] [[usage: in=10 out=${WORDS} reasoning=${HIDDEN}]]`

/** The answer takes about 120 ms; some clients leave before its head, some at the last word. */
const LEAVE_MS = 140

type Left = { client: ProtocolName; stream: boolean; id: string }

/** Has `total` clients leave, a quarter of them in each protocol. */
export async function proveLeaving(total: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    'billing: { startingCredit: 1000000, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n' +
      providersAt(sandbox.url),
  )
  const random = randomOf(5)
  const left: Left[] = []
  try {
    await server.start()
    await inParallel(total, WIDTH, async (index) => {
      const client = PROTOCOLS[index % PROTOCOLS.length]!
      const asked: Asked = { client, provider: pick(PROTOCOLS, random), stream: true, text: TEXT, limit: 2_000 }
      const id = await leave(server, asked, random() * LEAVE_MS)
      if (id !== undefined) left.push({ client, stream: true, id })
    })
    progress(`${left.length} clients left answers that had begun`)
    const findings = await Promise.all(PROTOCOLS.map((client) => paidBy(server, client, left)))
    const wrong = await auditFault(server)
    return wrong === undefined ? findings : [...findings, { what: 'Audit', tried: '', result: '', fault: wrong }]
  } finally {
    await server.remove()
    await sandbox.stop()
  }
}

/** Undefined where the client left before it knew the id of its generation. */
async function leave(server: Server, asked: Asked, afterMs: number): Promise<string | undefined> {
  const leaving = new AbortController()
  setTimeout(() => leaving.abort(), afterMs)
  try {
    const response = await send(server, asked, leaving.signal)
    const id = response.headers.get('x-generation-id') ?? undefined
    await response.text().catch(() => {})
    return id
  } catch {
    return undefined
  }
}

const RECORD_TRIES = 100

/** The record, which follows the end of the provider. */
async function settled(server: Server, id: string): ReturnType<typeof recordOf> {
  for (let tries = 0; tries < RECORD_TRIES; tries++) {
    const record = await recordOf(server, id)
    if (record !== undefined) return record
    await Bun.sleep(100)
  }
  return undefined
}

async function paidBy(server: Server, client: ProtocolName, left: readonly Left[]): Promise<Finding> {
  const shares: number[] = []
  const faults: string[] = []
  for (const { id } of left.filter((one) => one.client === client)) {
    const record = await settled(server, id)
    if (record === undefined) faults.push(`${id} has no record`)
    else shares.push(record.outputTokens / (WORDS + HIDDEN))
  }
  const least = Math.min(...shares)
  if (least < 0.95) faults.push(`one paid ${(least * 100).toFixed(1)} %`)
  return {
    what: `Leaving a stream, ${client}`,
    tried: `${count(shares.length)} clients, at any moment`,
    result:
      `paid of what was generated: median ${(percentile(shares, 0.5) * 100).toFixed(1)} %, ` +
      `least ${(least * 100).toFixed(1)} %`,
    ...(faults[0] === undefined ? {} : { fault: faults[0] }),
  }
}
