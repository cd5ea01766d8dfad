import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { newPostgresFolder, storeIn } from '../stores.ts'
import { until } from '../transport/raw-server.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'

/** Requests with an `Idempotency-Key` at several processes over one PostgreSQL. */

let provider: Gated
let folder: string
let processes: GatewayProcess[] = []
beforeAll(() => {
  provider = gatedProvider()
})
afterAll(() => provider.stop())

beforeEach(async () => {
  folder = newPostgresFolder()
  provider.shut()
  provider.begun = 0
  processes = [await start(), await start()]
}, 60_000)
afterEach(async () => {
  provider.open()
  for (const one of processes) await one.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const start = (): Promise<GatewayProcess> =>
  startGatewayProcess({
    data: folder,
    config: `${gatedConfig({ up: provider })}\nstore: { deadAfter: 2s }\n`,
  })

async function ask(
  { url, key }: GatewayProcess,
  text: string,
  name: string,
): Promise<{ status: number; text: string; replayed: string | null }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': name },
    body: JSON.stringify({
      model: 'up/chat.completions',
      stream: true,
      max_tokens: 10,
      messages: [{ role: 'user', content: text }],
    }),
  })
  return { status: response.status, text: await response.text(), replayed: response.headers.get('idempotent-replayed') }
}

test('a request is carried out by one process, and answered from the store by another', async () => {
  const [first, second] = processes as [GatewayProcess, GatewayProcess]
  const running = ask(first, 'Hello', 'one')
  await until(() => provider.begun === 1)
  expect(await ask(second, 'Hello', 'one')).toMatchObject({
    status: 409,
    text: expect.stringContaining('is in progress'),
  })
  expect(await ask(second, 'Another', 'one')).toMatchObject({
    status: 400,
    text: expect.stringContaining('another request'),
  })
  provider.open()
  const answer = await running
  expect(answer).toMatchObject({ status: 200, replayed: null })
  let again = await ask(second, 'Hello', 'one')
  // The answer of a stream is stored after its last byte.
  while (again.status === 409) again = await ask(second, 'Hello', 'one')
  expect(again).toEqual({ ...answer, replayed: 'true' })
  expect(provider.begun).toBe(1)
}, 60_000)

test('the key of a process that was killed is free once that has been declared dead', async () => {
  const [first, second] = processes as [GatewayProcess, GatewayProcess]
  const running = ask(first, 'Hello', 'two').catch(() => undefined)
  await until(() => provider.begun === 1)
  first.kill('SIGKILL')
  await first.exited
  await running
  expect((await ask(second, 'Hello', 'two')).status).toBe(409)
  provider.open()
  let again = await ask(second, 'Hello', 'two')
  while (again.status === 409) {
    await Bun.sleep(100)
    again = await ask(second, 'Hello', 'two')
  }
  expect([again.status, provider.begun]).toEqual([200, 2])
}, 60_000)

test('of many processes that ask at the same time one has the key', async () => {
  const stores = await Promise.all(Array.from({ length: 4 }, () => storeIn(folder, { exclusive: true })))
  const [key, digest] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
  try {
    for (let round = 0; round < 10; round++) {
      const others = await Promise.all(stores.map(({ idempotency }) => idempotency.claims!.claim('a', key, digest)))
      expect(others.filter((other) => other === undefined).length).toBe(1)
      expect(others.filter((other) => other !== undefined)).toEqual(Array(3).fill(digest))
      // Only the one that has it can release it.
      await Promise.all(stores.map(({ idempotency }, at) => others[at] && idempotency.claims!.release('a', key)))
      const winner = stores[others.indexOf(undefined)]!
      expect(await winner.idempotency.claims!.claim('a', key, digest)).toBeUndefined()
      await winner.idempotency.claims!.release('a', key)
    }
  } finally {
    for (const store of stores) await store.close()
  }
}, 60_000)
