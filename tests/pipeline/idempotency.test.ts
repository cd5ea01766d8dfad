import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Identity } from '../../src/accounts/keys.ts'
import { readConfig } from '../../src/config/load.ts'
import { GatewayError } from '../../src/error.ts'
import type { OpenGeneration } from '../../src/ledger/ledger.ts'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { Idempotency } from '../../src/pipeline/idempotency.ts'
import { storeIn } from '../stores.ts'

/** Requests with an `Idempotency-Key`, against a complete log of what was carried out. */

const folder = mkdtempSync(join(tmpdir(), 'sluice-idempotent-'))
const store = await storeIn(folder, { exclusive: true })
afterAll(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const DAY = 86_400_000
const config = readConfig('', 'sluice.yaml', {})
let runs = 0

/** The generation of a request that was sent to a provider, or that was not. */
const generation = (sent: boolean): OpenGeneration =>
  ({
    request: { id: 'g' },
    meter: { attempts: [{ provider: 'p', sent, milliseconds: 0 }] },
  }) as unknown as OpenGeneration

type Inbound = Parameters<Idempotency['answer']>[0]

const inboundOf = (account: string, body: string): Inbound => ({
  request: new Request('http://host/v1/x', { method: 'POST', body }),
  path: '/v1/x',
  query: new URLSearchParams(),
  identity: { accountId: account } as Identity,
})

const step = fc.record({
  account: fc.constantFrom('a', 'b'),
  key: fc.constantFrom('k', 'l'),
  body: fc.constantFrom('1', '2'),
  status: fc.constantFrom(200, 200, 400, 404, 429, 500, 502, 503),
  sent: fc.boolean(),
  afterMs: fc.constantFrom(0, 0, 1_000, DAY / 2, DAY),
  /** The steps after which it is answered. */
  takes: fc.integer({ min: 0, max: 2 }),
  restarts: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
})

type Done = { body: string; status: number; text: string; until: number }

test('a key has one execution and one answer for a day, whatever is sent in whatever order', async () => {
  const seen = { carriedOut: 0, replayed: 0, conflicts: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const run = `${runs++}`
      let now = Date.UTC(2026, 0, 1)
      const clock = { now: () => now, elapsed: () => 0 }
      let idempotency = new Idempotency({ store, clock, config, memory: new MemoryBudget(2 ** 30) })
      const done = new Map<string, Done>()
      const running = new Map<string, { body: string; finish: () => Promise<void>; left: number }>()
      const finishDue = async (all = false): Promise<void> => {
        for (const one of [...running.values()]) if (one.left-- <= 0 || all) await one.finish()
      }
      for (const [index, { account, key, body, status, sent, afterMs, takes, restarts }] of steps.entries()) {
        now += afterMs
        await finishDue(restarts)
        if (restarts) idempotency = new Idempotency({ store, clock, config, memory: new MemoryBudget(2 ** 30) })
        const name = `${run}${account} ${key}`
        const known = done.get(name)
        const isKnown = known !== undefined && known.until > now
        const current = running.get(name)
        const inbound = inboundOf(run + account, body)
        const text = `answer ${index}`
        const gate = Promise.withResolvers<void>()
        let carriedOut = false
        const answering = idempotency.answer(inbound, key, async () => {
          carriedOut = true
          inbound.execution!.open = generation(sent)
          await gate.promise
          return new Response(text, { status })
        })
        if (current !== undefined || (isKnown && known.body !== body)) {
          const error = (await answering.catch((thrown: unknown) => thrown)) as GatewayError
          const differs = (current ?? known!).body !== body
          expect([error instanceof GatewayError, error.status]).toEqual([true, differs ? 400 : 409])
          seen[differs ? 'refused' : 'conflicts']++
        } else if (isKnown) {
          const response = await answering
          expect([response.status, await response.text(), response.headers.get('idempotent-replayed')]).toEqual([
            known.status,
            known.text,
            'true',
          ])
          seen.replayed++
        } else {
          const finish = async (): Promise<void> => {
            gate.resolve()
            const response = await answering
            expect([carriedOut, response.status, await response.text()]).toEqual([true, status, text])
            expect(response.headers.get('idempotent-replayed')).toBeNull()
            running.delete(name)
            const isFinal = status === 200 || (sent && ![429, 502, 503].includes(status))
            if (isFinal) done.set(name, { body, status, text, until: now + DAY })
          }
          running.set(name, { body, finish, left: takes })
          seen.carriedOut++
        }
        if (current !== undefined || isKnown) expect(carriedOut).toBe(false)
      }
      await finishDue(true)
    }),
    { numRuns: 60 },
  )
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(20)
}, 60_000)

test('answers are removed when they are too many in all, and when they have expired', async () => {
  const limits = { accountBytes: 1_000, totalBytes: 2_500 }
  const key = (text: string): Buffer => new Bun.CryptoHasher('sha256').update(text).digest()
  const save = (account: string, name: string, at: number): Promise<void> =>
    store.idempotency.save(
      {
        accountId: account,
        key: key(name),
        digest: key(''),
        createdAt: at,
        expiresAt: at + DAY,
        status: 200,
        headers: '{}',
        body: Buffer.alloc(598),
      },
      limits,
    )
  await store.idempotency.purge(Number.MAX_SAFE_INTEGER)
  for (const [at, account] of ['u', 'v', 'w', 'x', 'y', 'z', 'z'].entries()) await save(account, String(at), at)
  const found = async (account: string, name: string, at = 10): Promise<boolean> =>
    (await store.idempotency.find(account, key(name), at)) !== undefined
  expect([
    await found('u', '0'),
    await found('v', '1'),
    await found('w', '2'),
    await found('x', '3'),
    await found('y', '4'),
    await found('z', '5'),
    await found('z', '6'),
    await found('y', '4', DAY + 4),
  ]).toEqual([false, false, true, true, true, false, true, false])
  await store.idempotency.purge(DAY + 3)
  expect([await found('x', '3'), await found('y', '4')]).toEqual([false, true])
})
