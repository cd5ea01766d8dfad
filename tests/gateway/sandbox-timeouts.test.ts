import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'

/** A sandbox that hangs: the timeouts of providers end its calls, as those of any other. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: 'timeouts: { firstByte: 300ms, idle: 400ms, total: 700ms }\n',
  })
})
afterAll(() => gateway?.stop())

const respond = (body: object, signal?: AbortSignal): Promise<Response> =>
  fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: 'sandbox/responses', ...body }),
    ...(signal === undefined ? {} : { signal }),
  })

test('a response that does not begin is a 504', async () => {
  const response = await respond({ input: '[[hang]]' })
  expect(response.status).toBe(504)
  expect(await response.json()).toMatchObject({
    error: { code: 'upstream_timeout', message: expect.stringContaining('The provider did not respond in time') },
  })
})

test('a stream that goes on no more ends with an error', async () => {
  const text = await (await respond({ input: '[[hang-after: 1]]', stream: true })).text()
  expect(text).toContain('The provider did not respond in time')
  expect(text).toContain('response.failed')
})

test('a stream that never ends is ended after the time of a whole call', async () => {
  const text = await (await respond({ input: '[[length: 9000]] [[pace: 100ms]]', stream: true })).text()
  expect(text).toContain('The provider did not respond in time')
})

test('a background response whose client has left is ended, too', async () => {
  const leaving = new AbortController()
  const asked = respond({ input: '[[hang]]', background: true }, leaving.signal).catch(() => undefined)
  const store = await storeOf(gateway)
  const timedOut = async (): Promise<number> =>
    (await store.ledger.generations(undefined, 100)).filter(({ ending }) => ending === 'timed-out').length
  const before = await timedOut()
  setTimeout(() => leaving.abort(), 100)
  await asked
  for (let looks = 0; looks < 400 && (await timedOut()) === before; looks++) await Bun.sleep(25)
  expect(await timedOut()).toBe(before + 1)
  await store.close()
})
