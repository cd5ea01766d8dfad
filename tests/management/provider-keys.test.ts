import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ModelAnswer, Page, ProviderAnswer, ProviderTestAnswer } from '../../src/endpoints/management/answers.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { type Browser, ownerOf, signedIn } from './browser.ts'
import { everythingIn, storeOf } from '../stores.ts'

const KEY = 'canary-console-key-4711'
const seen: { path: string; key: string | null }[] = []
let answers: () => Response
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch(request) {
    seen.push({ path: new URL(request.url).pathname, key: request.headers.get('authorization') })
    return answers()
  },
})
const completion = (): Response =>
  Response.json({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'OK' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 },
  })

const options = {
  config: `
providers:
  openai: { protocol: chat.completions }
  fixed: { protocol: messages, baseUrl: 'http://127.0.0.1:9/v1', apiKey: something-else }
  mistral: { enabled: false }
`,
  env: { OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}/v1` },
}

let gateway: GatewayProcess
let owner: Browser
beforeAll(async () => {
  gateway = await startGatewayProcess(options)
  owner = await ownerOf(gateway)
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

const shown = async (browser = owner): Promise<ProviderAnswer | undefined> =>
  (await browser.get<Page<ProviderAnswer>>('/providers')).json.data.find(({ id }) => id === 'openai')
const set = (id: string, key: string) => owner.ask('PUT', `/providers/${id}/key`, { key })
const ask = (key = gateway.key) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'openai/gpt-4o-mini', messages: [{ role: 'user', content: 'Hi' }] }),
  })

test('a key switches a provider on at once, without a restart, and is never shown', async () => {
  answers = completion
  expect([(await shown())?.on, (await ask()).status]).toEqual([false, 404])
  expect((await set('openai', KEY)).status).toBe(204)
  const on = await shown()
  expect(on?.on).toBe(true)
  expect(on?.found_by).toBe('console')
  expect(on?.key).toMatchObject({ last4: '4711', source: 'console', by: 'Owner' })
  expect((await ask()).status).toBe(200)
  expect(seen.at(-1)).toEqual({ path: '/v1/chat/completions', key: `Bearer ${KEY}` })
  const { data } = (await owner.get<Page<ModelAnswer>>('/models?provider=openai&on=true&limit=1')).json
  expect(data.length).toBe(1)
  for (const path of ['/providers', '/providers/openai', '/changes', '/settings'])
    expect((await owner.get(path)).text).not.toContain(KEY)
  expect(gateway.output().stderr + gateway.output().stdout).not.toContain(KEY)
  const everything = await everythingIn(gateway.data)
  expect([everything.includes('provider-key'), everything.includes(KEY)]).toEqual([true, false])
})

test('a test makes one small call, and reports an answer or the error without the key', async () => {
  answers = completion
  const test = async (body: object) => (await owner.post<ProviderTestAnswer>('/providers/openai/test', body)).json
  expect(await test({ model: 'gpt-4o-mini' })).toMatchObject({
    model: 'openai/gpt-4o-mini',
    protocol: 'chat.completions',
    status: 200,
    error: null,
  })
  expect(seen.length).toBe(2)
  answers = () => Response.json({ error: { message: `Incorrect API key: ${KEY}`, code: 'x' } }, { status: 401 })
  const refused = await test({})
  expect([refused.status, refused.error === null]).toEqual([401, false])
  expect(JSON.stringify(refused)).not.toContain(KEY)
  answers = () => new Response('<html>')
  expect(await test({})).toMatchObject({ status: 200, error: expect.stringContaining('not JSON') })
  expect((await owner.post('/providers/none/test', {})).text).toContain('No such provider')
  const off = await owner.post('/providers/anthropic/test', {})
  expect([off.status, off.text]).toEqual([404, expect.stringContaining('anthropic is off: set ANTHROPIC_API_KEY.')])
})

test('what the file or the environment sets up is changed there alone', async () => {
  for (const id of ['fixed', 'mistral', 'sandbox']) expect([id, (await set(id, KEY)).code]).toEqual([id, 'set_in_file'])
  expect((await set('none', KEY)).status).toBe(404)
  expect((await set('openai', 'short')).json).toMatchObject({ error: { param: 'key' } })
  const viewer = await signedIn(gateway, 'viewer', [{ scope: 'installation', role: 'viewer' }])
  expect((await viewer.ask('PUT', '/providers/openai/key', { key: KEY })).code).toBe('role_required')
})

test('the key outlives the server, is followed by others, and is removed', async () => {
  answers = completion
  gateway.kill('SIGTERM')
  await gateway.exited
  gateway = await startGatewayProcess({ ...options, data: gateway.data })
  owner = await signedIn(gateway, 'Second', [{ scope: 'installation', role: 'owner' }])
  expect((await ask()).status).toBe(200)
  // Another process removes it.
  const store = await storeOf(gateway)
  await store.setSettings.remove('provider-key', 'openai')
  await store.close()
  while ((await shown())?.on === true) await Bun.sleep(20)
  expect((await ask()).status).toBe(404)
  await set('openai', KEY)
  expect((await ask()).status).toBe(200)
  expect((await owner.ask('DELETE', '/providers/openai/key')).status).toBe(204)
  expect([(await shown())?.on, (await ask()).status]).toEqual([false, 404])
})
