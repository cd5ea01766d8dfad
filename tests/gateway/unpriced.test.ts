import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Accounts } from '../../src/accounts/accounts.ts'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'

let gateway: Gateway
const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () =>
    Response.json({
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
    }),
})
beforeAll(async () => {
  gateway = await startGateway({
    config: `billing: { startingCredit: 1 }
providers: { up: { protocol: chat.completions, baseUrl: "${upstream.url.origin}/v1", auth: none, unlisted: true } }
models:
  up/new: {}
  up/priced: { price: { prompt: 1, completion: 1 } }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstream.stop(true)
})

const headers = (): Record<string, string> => ({ authorization: `Bearer ${gateway.key}` })
const ask = (model: string): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: headers(),
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
  })
async function listed(): Promise<string[]> {
  const { data } = (await (await fetch(`${gateway.url}/v1/models?owned_by=up`, { headers: headers() })).json()) as {
    data: { id: string }[]
  }
  return data.map(({ id }) => id)
}

test('a model without a price is free for a single account, refused and not listed from the second on', async () => {
  expect(await listed()).toEqual(['up/new', 'up/priced'])
  const answer = await ask('up/new')
  expect(answer.status).toBe(200)
  const id = answer.headers.get('x-generation-id')!
  const record = await fetch(`${gateway.url}/v1/management/generation?id=${id}`, { headers: headers() })
  expect(await record.json()).toMatchObject({ model: 'up/new', ending: 'completed' })

  const store = await storeOf(gateway)
  await new Accounts({ store }).create('second', {})
  await store.close()
  let status = 200
  for (let looks = 0; status === 200 && looks < 200; looks++) {
    await Bun.sleep(50)
    status = (await ask('up/new')).status
  }
  expect(status).toBe(400)
  expect(await (await ask('up/brand-new')).text()).toContain('has no price')
  expect((await ask('up/priced')).status).toBe(200)
  expect(await listed()).toEqual(['up/priced'])
}, 30_000)
