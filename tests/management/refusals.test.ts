import { afterEach, beforeEach, expect, test } from 'bun:test'
import { RefusalLog } from '../../src/pipeline/refusal-log.ts'
import type { Refusal } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ownerOf } from './browser.ts'
import { ON_POSTGRES, sqlIn } from '../stores.ts'

let gateway: Gateway
beforeEach(async () => {
  gateway = await startGateway()
})
afterEach(() => gateway.stop())

const send = (path: string, body: unknown, key: string | undefined = gateway.key): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'user-agent': 'a-client/1.0' },
    body: JSON.stringify(body),
  })

const stored = (): Promise<Record<string, unknown>[]> => {
  const text = (column: string): string =>
    ON_POSTGRES
      ? `nullif(${column}, '') AS ${column}`
      : `(SELECT text FROM names WHERE names.id = refusals.${column}) AS ${column}`
  const names = ['key', 'route', 'code', 'model', 'client'].map(text).join(', ')
  return sqlIn(gateway.data, `SELECT ${names}, status, param, message FROM refusals ORDER BY id`)
}

async function untilStored(count: number): Promise<Record<string, unknown>[]> {
  let rows = await stored()
  for (const end = Date.now() + 20_000; rows.length < count; rows = await stored()) {
    if (Date.now() > end) throw new Error(`only ${rows.length} refusals are stored after 20 seconds`)
    await Bun.sleep(20)
  }
  return rows
}

test('requests that never become a generation are kept with their reason; others are not', async () => {
  const hello = { model: 'sandbox/chat', messages: [{ role: 'user', content: 'Hello' }] }
  await (await send('/v1/chat/completions', hello)).text()
  await send('/v1/chat/completions', hello, 'sk-ai-v1-wrong')
  await send('/v1/chat/completions', { messages: hello.messages })
  await send('/v1/messages', { ...hello, model: 'no/such', max_tokens: 5 })
  await send('/v1/chat/complet', hello)
  await fetch(`${gateway.url}/v1/management/nothing`)
  await fetch(`${gateway.url}/console/assets/nothing.js`)
  const kept = await untilStored(4)
  expect(kept.map(({ key, route, code, status }) => [typeof key, route, code, status])).toEqual([
    ['object', 'chat.completions', 'invalid_api_key', 401],
    ['string', 'chat.completions', 'invalid_request', 400],
    ['string', 'messages', 'model_not_found', 404],
    ['object', 'POST /v1/chat/*', 'not_found', 404],
  ])
  expect(kept[1]).toMatchObject({
    param: 'model',
    message: expect.stringContaining('model: is required'),
    client: 'a-client/1.0',
  })
}, 30_000)

test('refusals that are only counted are in the usage of the present hour', async () => {
  const hello = { model: 'sandbox/chat', messages: [{ role: 'user', content: 'Hello' }] }
  for (let number = 0; number < 25; number++) await send('/v1/chat/completions', hello, 'sk-ai-v1-wrong')
  const owner = await ownerOf(gateway)
  for (const bucket of ['none', 'minute', 'hour', 'day'])
    expect((await owner.get(`/usage?from=-30m&bucket=${bucket}&group=code`)).json).toMatchObject({
      total: { refused: 25 },
      groups: [{ key: 'invalid_api_key', total: { refused: 25 } }],
    })
}, 30_000)

test('of a long message the beginning is kept, with the sign that there was more', async () => {
  const lost = { seed: 1, presence_penalty: 1, frequency_penalty: 1, logit_bias: { 1: 1 } }
  const messages = [{ role: 'user', content: 'Hello' }]
  await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'x-sluice-strict': 'true' },
    body: JSON.stringify({ model: 'sandbox/messages', messages, ...lost }),
  })
  const [kept] = await untilStored(1)
  expect([String(kept!.message).length, String(kept!.message).slice(-3)]).toEqual([300, '...'])
})

const refusal = (keyId: string | null, at: number): Refusal => ({
  id: '0'.repeat(32),
  at,
  accountId: keyId === null ? null : 'a',
  keyId,
  route: 'messages',
  code: 'invalid_request',
  status: 400,
  param: null,
  message: 'no',
  model: null,
  client: null,
})

test('of a key and code 60 a minute are kept, of requests without a key 10; all are counted', () => {
  const added: { keyId: string | null; isKept: boolean }[] = []
  const log = new RefusalLog({ addRefusal: ({ keyId }, isKept) => void added.push({ keyId, isKept }) })
  for (let number = 0; number < 100; number++) for (const key of ['k', 'l', null]) log.add(refusal(key, 1_000))
  const kept = (key: string | null): number => added.filter(({ keyId, isKept }) => keyId === key && isKept).length
  expect([added.length, kept('k'), kept('l'), kept(null)]).toEqual([300, 60, 60, 10])
  log.add(refusal('k', 61_000))
  expect(kept('k')).toBe(61)
  for (let number = 0; number < 20_000; number++) log.add(refusal(`key ${number}`, 62_000))
  expect(added.filter(({ isKept }) => isKept).length).toBe(20_000)
  log.add(refusal('k', 3_600_000))
  expect(kept('k')).toBe(62)
})
