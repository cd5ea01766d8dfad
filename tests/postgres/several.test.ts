import { expect, test } from 'bun:test'
import { proveLeases } from '../../prove/lease-simulation.ts'
import { providersAt, send } from '../../prove/requests.ts'
import {
  proveBrokenConnections,
  proveKilledDatabase,
  proveKilledProcesses,
  provePausedProcess,
  proveRaces,
  proveRollingRestart,
} from '../../prove/scale.ts'
import { runWith, type Server } from '../../prove/servers.ts'
import { ALIVE_MS, withSeveral } from '../../prove/several.ts'
import type { Finding } from '../../prove/table.ts'
import { LATE_COMPILERS, program } from '../program.ts'

runWith(program(), LATE_COMPILERS)

/**
 * Short forms of `npm run prove -- scale`: real processes over one PostgreSQL. Those that wait for takeovers run at the
 * same time, two or three of them.
 */

const PROOF_MS = 180_000

const expectHeld = (findings: readonly Finding[]): void =>
  expect(findings.filter(({ fault }) => fault !== undefined)).toEqual([])

test.concurrent(
  'processes that race for credit, windows and limits serve exactly what they cover',
  async () => {
    expectHeld(await proveRaces(1, () => {}))
  },
  PROOF_MS,
)

test.concurrent(
  'a process that is killed loses no answer, and bills none twice',
  async () => {
    expectHeld(await proveKilledProcesses(3, () => {}))
  },
  PROOF_MS,
)

test(
  'processes that are restarted one after the other refuse nothing',
  async () => {
    expectHeld(await proveRollingRestart(1, () => {}))
  },
  PROOF_MS,
)

test.concurrent(
  'a process that sleeps for longer than its death settles nothing when it wakes up',
  async () => {
    expectHeld(await provePausedProcess(1, () => {}))
  },
  PROOF_MS,
)

test.concurrent(
  'the death of PostgreSQL loses no answer',
  async () => {
    expectHeld(await proveKilledDatabase(2, () => {}))
  },
  PROOF_MS,
)

test.concurrent(
  'connections to PostgreSQL that are cut, delayed or lose an acknowledgement lose no answer',
  async () => {
    expectHeld(await proveBrokenConnections(6, () => {}))
  },
  PROOF_MS,
)

/** Requests of at most 1 USD that cost a cent. */
const cheap = (server: Server, count: number): Promise<number[]> =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const asked = { client: 'messages', provider: 'messages', stream: false, limit: 1_000 } as const
      const response = await send(server, { ...asked, text: '[[reply: Hello]] [[usage: in=5 out=10]]' })
      await response.text()
      return response.status
    }),
  )

test(
  'money that another process has leased and does not use is given back to who needs it',
  () =>
    withSeveral(
      2,
      (sandbox) =>
        'limits: { requestsPerMinute: 1000000 }\nbilling: { startingCredit: 5, delay: 0s }\n' +
        providersAt(sandbox).replaceAll(/price: \{[^}]*\}/g, 'price: { prompt: 0, completion: 1000 }'),
      async ({ servers: [first, second] }) => {
        expect(await cheap(first!, 5)).toEqual([200, 200, 200, 200, 200])
        expect(await cheap(second!, 4)).toEqual([200, 200, 200, 200])
        expect(await cheap(first!, 4)).toEqual([200, 200, 200, 200])
      },
      { deadMs: ALIVE_MS },
    ),
  PROOF_MS,
)

test('no lease exceeds what is free, and none is refused while money is idle', async () => {
  const sizes = { processes: 50, accounts: 2_000, requests: 10_000, seconds: 60, deaths: 3 }
  expectHeld(await proveLeases(sizes, () => {}))
})
