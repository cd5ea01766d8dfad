import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { NewKeyAnswer } from '../../src/endpoints/management/answers.ts'
import { ask } from '../gateway/asking.ts'
import { type Gated, gatedConfig, gatedProvider } from '../gateway/gated.ts'
import { type Browser, ownerOf } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Keys that get a limit after some of their requests. Each server is audited when it stops. */

let provider: Gated
let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  provider = gatedProvider()
  gateway = await startGateway({ config: gatedConfig({ one: provider }) })
  owner = await ownerOf(gateway)
  await owner.post('/accounts', { name: 'team' })
  await owner.post('/accounts/team/credits', { amount_usd: '1' })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
})

const newKey = async (options: object = {}): Promise<NewKeyAnswer> =>
  (await owner.post<NewKeyAnswer>('/keys', { kind: 'pay-as-you-go', account: 'team', ...options })).json

const setLimit = (id: string, limit: object): Promise<unknown> =>
  owner.ask('PATCH', `/keys/${id}`, limit, { 'if-match': '*' })

async function use(key: string): Promise<void> {
  const answer = await ask({ url: gateway.url, protocol: 'messages', model: 'one/messages', stream: false, key })
  expect(answer.status).toBe(200)
}

test.each([{ limit_usd: '0.5' }, { limit_usd: '0.5', limit_period: 'month' }])(
  'the book is right for a key that gets the limit %p after it was used',
  async (limit) => {
    provider.open()
    const key = await newKey()
    await use(key.text)
    await setLimit(key.id, limit)
    await use(key.text)
  },
)

test('and for one whose limit gets another period, or ends and begins again', async () => {
  provider.open()
  const key = await newKey({ limit_usd: '0.5', limit_period: 'day' })
  for (const limit of [
    { limit_period: null },
    { limit_period: 'month' },
    { limit_usd: null },
    { limit_usd: '0.4' },
    { limit_usd: '0.3' },
  ]) {
    await use(key.text)
    await setLimit(key.id, limit)
  }
  await use(key.text)
})

test('and for one that gets its limit while it is used', async () => {
  provider.shut()
  const { begun } = provider
  const key = await newKey()
  const using = use(key.text)
  while (provider.begun === begun) await Bun.sleep(5)
  await setLimit(key.id, { limit_usd: '0.5' })
  provider.open()
  await using
})
