/** Clients that race for credit that covers five of their requests. */
import { auditFault, balanceOf } from './book.ts'
import { type Asked, providersAt, PROTOCOLS, send } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import type { Finding } from './table.ts'

const RACERS = 64
const COVERED = 5
/** Each request costs 1 USD: 1,000 output tokens at 1,000 USD per million, and a free prompt. */
const PRICE = 'price: { prompt: 0, completion: 1000 }'
const TEXT = '[[reply: Hello]] [[delay: 50ms]] [[usage: in=5 out=1000]]'

type Way = { name: string; setUp(server: Server): Promise<string[]>; staggerMs?: number; usd: number }

const keyIn = (printed: string): string => (JSON.parse(printed) as { text: string }).text
const newKey = async (server: Server, ...options: string[]): Promise<string> =>
  keyIn(await server.sluice('keys', 'create', '--json', ...options))

const WAYS: Way[] = [
  { name: 'one balance, one key', usd: COVERED, setUp: async (server) => [server.key] },
  { name: 'one balance, staggered', usd: COVERED, setUp: async (server) => [server.key], staggerMs: 3 },
  {
    name: 'one balance, four keys',
    usd: COVERED,
    setUp: (server) => Promise.all([1, 2, 3, 4].map(() => newKey(server))),
  },
  { name: 'a spending limit', usd: 1_000, setUp: async (server) => [await newKey(server, '--limit', `${COVERED}`)] },
  {
    name: 'quota windows of a subscription',
    usd: 0,
    setUp: async (server) => [await newKey(server, '--kind', 'subscription')],
  },
]

/** Each way `rounds` times, with all clients at once. */
export async function proveOverspend(rounds: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const findings: Finding[] = []
  try {
    for (const way of WAYS) {
      const served: number[] = []
      const faults: string[] = []
      for (let round = 0; round < rounds; round++) {
        const outcome = await race(way, sandbox.url)
        served.push(outcome.served)
        faults.push(...outcome.faults)
      }
      progress(`overspend, ${way.name}: ${served.join(', ')} served`)
      findings.push({
        what: `Overspend: ${way.name}`,
        tried: `${RACERS * rounds} racing clients, credit for ${COVERED}`,
        result: `${[...new Set(served)].join(' or ')} served, no balance below zero, book right`,
        ...(faults[0] === undefined ? {} : { fault: faults[0] }),
      })
    }
  } finally {
    await sandbox.stop()
  }
  return findings
}

async function race(
  { usd, setUp, staggerMs = 0 }: Way,
  upstream: string,
): Promise<{ served: number; faults: string[] }> {
  const providers = providersAt(upstream).replaceAll(/price: \{[^}]*\}/g, PRICE)
  // One flow is 1 USD, so that the windows cover five requests, too.
  const flows = `{ "5_hour": ${COVERED}, "7_day": ${COVERED}, monthly: ${COVERED} }`
  const server = new Server(
    `billing: { startingCredit: ${usd}, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n` +
      `plans: { usdPerFlow: 1, tiers: { free: { usdPerMonth: 0, flows: ${flows} } } }\n${providers}`,
  )
  const faults: string[] = []
  try {
    await server.start()
    const keys = await setUp(server)
    await Bun.sleep(2_500)
    const statuses = await Promise.all(
      Array.from({ length: RACERS }, async (_, index) => {
        await Bun.sleep(index * staggerMs)
        const asked: Asked = {
          client: PROTOCOLS[index % 4]!,
          provider: PROTOCOLS[(index >> 2) % 4]!,
          stream: false,
          text: TEXT,
          limit: 1_000,
          key: keys[index % keys.length]!,
        }
        const response = await send(server, asked)
        await response.text()
        return response.status
      }),
    )
    const served = statuses.filter((status) => status === 200).length
    if (served > COVERED) faults.push(`${served} were served`)
    const odd = statuses.find((status) => ![200, 402, 429].includes(status))
    if (odd !== undefined) faults.push(`one was answered ${odd}`)
    const balance = await balanceOf(server)
    if (balance < 0) faults.push(`the balance is ${balance}`)
    const wrong = await auditFault(server)
    if (wrong !== undefined) faults.push(wrong)
    return { served, faults }
  } finally {
    await server.remove()
  }
}
