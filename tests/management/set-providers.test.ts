import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type {
  ChangeAnswer,
  ModelAnswer,
  Page,
  PlanAnswer,
  ProviderAnswer,
} from '../../src/endpoints/management/answers.ts'
import { everythingIn, storeOf } from '../stores.ts'
import { type Gateway, startGateway, startGatewayProcess } from '../server.ts'
import { type Browser, ownerOf, signedIn } from './browser.ts'

/** Providers, models and plans that are set up at run time. */

const KEY = 'canary-acme-key-0815'
const HEADER = 'canary-header-2342'
type Seen = { path: string; key: string | null; team: string | null }
const seen: Seen[] = []
/** Answers wait for it. */
let gate: Promise<void> = Promise.resolve()
let arrived = Promise.withResolvers<void>()
const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { headers, url } = request
    seen.push({ path: new URL(url).pathname, key: headers.get('authorization'), team: headers.get('x-team') })
    arrived.resolve()
    await gate
    return Response.json({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'OK' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 },
    })
  },
})
const BASE = `http://127.0.0.1:${upstream.port}/v1`
const ACME = { protocol: 'chat.completions', baseUrl: BASE, headers: { 'X-Team': HEADER } }

const config = `
providers:
  fixed: { protocol: chat.completions, baseUrl: '${BASE}', apiKey: something-else }
models:
  fixed/small: { endpoints: [{ provider: fixed, model: small }] }
plans:
  tiers:
    own: { usdPerMonth: 5, flows: { 5_hour: 10, 7_day: 20, monthly: 30 } }
`
const env = { GROQ_API_KEY: 'canary-env-key' }

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway({ config, env })
  owner = await ownerOf(gateway)
})
afterAll(async () => {
  await gateway.stop()
  await upstream.stop(true)
})

type Problem = { error: { param: string; message: string; metadata?: { problems: { path: string }[] } } }
const put = (path: string, body: object) => owner.ask<Problem>('PUT', path, body)
const provider = async (id: string): Promise<ProviderAnswer | undefined> =>
  (await owner.get<Page<ProviderAnswer>>('/providers')).json.data.find((one) => one.id === id)
const ask = async (model: string): Promise<number> => (await send(model)).status
const send = (model: string): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
  })

describe('a provider', () => {
  test('that is set up serves requests at once, with its key and headers, which are never shown', async () => {
    expect(await ask('acme/large')).toBe(404)
    const made = await owner.ask<ProviderAnswer>('PUT', '/providers/acme', { ...ACME, apiKey: KEY })
    expect([made.status, made.headers.get('etag')]).toEqual([200, expect.stringMatching(/^"/)])
    expect(made.json).toMatchObject({ id: 'acme', on: true, found_by: 'console', base_url: BASE, set_in: null })
    expect(made.json.set).toMatchObject({ value: { ...ACME, headers: { 'X-Team': '(hidden)' } }, by: 'Owner' })
    expect(made.json.key).toMatchObject({ last4: '0815', source: 'console', by: 'Owner' })
    expect(await ask('acme/large')).toBe(200)
    expect(seen.at(-1)).toEqual({ path: '/v1/chat/completions', key: `Bearer ${KEY}`, team: HEADER })
    for (const path of ['/providers', '/providers/acme', '/changes', '/settings']) {
      const { text } = await owner.get(path)
      expect([path, text.includes(KEY), text.includes(HEADER)]).toEqual([path, false, false])
    }
    const everything = await everythingIn(gateway.data)
    expect([everything.includes(KEY), everything.includes(HEADER)]).toEqual([false, false])
  })

  test('is changed only as it was last seen, and keeps its secrets', async () => {
    expect((await owner.ask('PATCH', '/providers/acme', { name: 'Acme' })).code).toBe('precondition_required')
    const { headers } = await owner.get('/providers/acme')
    const ifMatch = { 'if-match': headers.get('etag')! }
    const changed = await owner.ask<ProviderAnswer>('PATCH', '/providers/acme', { name: 'Acme' }, ifMatch)
    expect([changed.status, changed.json.name, changed.json.set?.value.baseUrl]).toEqual([200, 'Acme', BASE])
    expect((await owner.ask('PATCH', '/providers/acme', { name: 'Other' }, ifMatch)).code).toBe('conflict')
    const { json } = await owner.get<ProviderAnswer>('/providers/acme')
    expect((await owner.change('PUT', '/providers/acme', json.set!.value)).status).toBe(200)
    expect(await ask('acme/large')).toBe(200)
    expect(seen.at(-1)).toMatchObject({ key: `Bearer ${KEY}`, team: HEADER })
    const { data } = (await owner.get<Page<ChangeAnswer>>('/changes?action=provider.set&target=acme')).json
    expect(data.map(({ before, after }) => [(before as typeof ACME | null)?.headers['X-Team'] ?? null, after])).toEqual(
      [
        ['(hidden)', { ...ACME, name: 'Acme', headers: { 'X-Team': '(hidden)' } }],
        ['(hidden)', { ...ACME, name: 'Acme', headers: { 'X-Team': '(hidden)' } }],
        [null, { ...ACME, key: '(hidden)', headers: { 'X-Team': '(hidden)' } }],
      ],
    )
  })

  test.each([
    [{ ...ACME, protocol: 'chat' }, 'protocol', 'must be one of'],
    [{ ...ACME, color: 1 }, 'body', 'has the unknown key "color"'],
    [{ protocol: 'messages' }, 'body', 'requires baseUrl'],
    [{ ...ACME, baseUrl: 'ftp://x' }, 'baseUrl', 'must be an http:// or https:// URL'],
    [{ ...ACME, baseUrl: 'http://10.0.0.5:8080/v1' }, 'baseUrl', "fetch: { private: ['10.0.0.5:8080'] }"],
    [{ ...ACME, name: '${HOME}' }, 'name', 'must not contain ${'],
    [{ ...ACME, headers: { 'x-a': '(hidden)' } }, 'x-a', 'nothing is stored'],
    [{ ...ACME, apiKey: 'a b' }, 'apiKey', 'must be printable ASCII'],
  ])('is refused as in the file: %j', async (body, param, message) => {
    const before = (await owner.get('/providers')).text
    const { status, json } = await put('/providers/wrong', body)
    expect([status, json.error.param]).toEqual([400, param])
    expect(json.error.message).toContain(message)
    expect((await owner.get('/providers')).text).toBe(before)
  })

  test('of the file or the environment is changed there alone', async () => {
    for (const [id, where] of [
      ['fixed', 'test-config.yaml:3'],
      ['groq', 'GROQ_API_KEY'],
    ] as const) {
      const refused = await put(`/providers/${id}`, ACME)
      expect([refused.code, refused.json.error.message.includes(where)]).toEqual(['set_in_file', true])
      expect((await provider(id))?.set_in).toBe(where)
    }
    const viewer = await signedIn(gateway, 'viewer', [{ scope: 'installation', role: 'viewer' }])
    expect((await viewer.ask('PUT', '/providers/x', ACME)).code).toBe('role_required')
  })

  test('that gets another address gets no secret that was set for the one before', async () => {
    const other = { baseUrl: `http://localhost:${upstream.port}/v1` }
    const withoutKey = await owner.change<Problem>('PATCH', '/providers/acme', other)
    expect([withoutKey.status, withoutKey.json.error.param]).toEqual([400, 'apiKey'])
    const withKey = await owner.change<Problem>('PATCH', '/providers/acme', { ...other, apiKey: KEY })
    expect([withKey.status, withKey.json.error.param]).toEqual([400, 'X-Team'])
    const whole = { ...other, apiKey: KEY, headers: { 'X-Team': 'other' } }
    expect((await owner.change('PATCH', '/providers/acme', whole)).status).toBe(200)
    await owner.change('PATCH', '/providers/acme', { ...ACME, apiKey: KEY })
  })

  test('that models need stays', async () => {
    await put('/models/big', { endpoints: [{ provider: 'acme', model: 'large' }] })
    const refused = await owner.change<Problem>('DELETE', '/providers/acme')
    expect([refused.status, refused.json.error.param]).toEqual([400, 'models.big.endpoints[0]'])
    expect(await ask('big')).toBe(200)
    expect((await owner.change('DELETE', '/models/big')).status).toBe(204)
  })

  test('that is removed serves the requests that have begun to their end', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    gate = promise
    arrived = Promise.withResolvers()
    const answering = send('acme/large')
    await arrived.promise
    expect((await owner.change('DELETE', '/providers/acme')).status).toBe(204)
    expect(await ask('acme/large')).toBe(404)
    resolve()
    expect((await answering).status).toBe(200)
    expect([await provider('acme'), (await owner.ask('DELETE', '/providers/acme')).status]).toEqual([undefined, 404])
    // The key was removed with it.
    await put('/providers/acme', ACME)
    expect((await provider('acme'))?.key).toBe(null)
    await owner.change('DELETE', '/providers/acme')
  })
})

describe('a model', () => {
  const BIG = {
    endpoints: [{ provider: 'fixed', model: 'large' }],
    contextLength: 1000,
    price: { prompt: 1, completion: 2 },
  }
  const model = async (id: string): Promise<ModelAnswer> =>
    (await owner.get<ModelAnswer>(`/models/${encodeURIComponent(id)}`)).json

  test('is set up with a price, listed, changed and removed', async () => {
    expect((await put('/models/acme%2Fbig', BIG)).status).toBe(200)
    expect(await model('acme/big')).toMatchObject({
      source: 'console',
      on: true,
      context_length: 1000,
      prices: { prompt: { usd: '1' } },
      set: { value: BIG },
    })
    expect(await ask('acme/big')).toBe(200)
    await owner.change('PUT', '/models/acme%2Fbig', { ...BIG, price: { prompt: 3, completion: 2 } })
    expect((await model('acme/big')).prices?.prompt?.usd).toBe('3')
    expect((await owner.change('DELETE', '/models/acme%2Fbig')).status).toBe(204)
    expect([await ask('acme/big'), (await owner.get('/models/acme%2Fbig')).status]).toEqual([404, 404])
  })

  test('is refused with the path of the problem, and where the file has it', async () => {
    const wrong = await put('/models/acme%2Fbig', { endpoints: [{ provider: 'nobody', model: 'x' }] })
    expect([wrong.status, wrong.json.error.param]).toEqual([400, 'endpoints[0]'])
    expect((await put('/models/fixed%2Fsmall', BIG)).json.error.message).toContain('test-config.yaml:5')
  })
})

describe('a plan', () => {
  const TEAM = { usdPerMonth: 7, flows: { '5_hour': 1, '7_day': 2, monthly: 3 }, discount: 5 }
  const plan = async (tier: string): Promise<PlanAnswer | undefined> =>
    (await owner.get<Page<PlanAnswer>>('/plans')).json.data.find((one) => one.tier === tier)

  test('is set up, given to accounts, and stays while one has it', async () => {
    expect((await put('/plans/team', TEAM)).status).toBe(200)
    expect(await plan('team')).toMatchObject({ price_usd: '7', discount: 5, set: { value: TEAM } })
    const { json } = await owner.post<{ id: string }>('/accounts', { name: 'crew', plan: { tier: 'team' } })
    expect((await owner.change('DELETE', '/plans/team')).code).toBe('conflict')
    await owner.change('PATCH', `/accounts/${json.id}`, { plan: { tier: 'free', now: true } })
    expect((await owner.change('DELETE', '/plans/team')).status).toBe(204)
    expect(await plan('team')).toBe(undefined)
  })

  test('that is built in is changed, and returns to what it was', async () => {
    const before = await plan('free')
    await put('/plans/free', { discount: 1 })
    expect((await plan('free'))?.discount).toBe(1)
    expect((await owner.change('DELETE', '/plans/free')).status).toBe(204)
    expect(await plan('free')).toEqual(before)
  })

  test('is refused without what it requires, and where the file has it', async () => {
    const wrong = await put('/plans/team', { usdPerMonth: 7 })
    expect([wrong.status, wrong.json.error.message]).toEqual([400, expect.stringContaining('requires flows.5_hour')])
    expect((await put('/plans/own', TEAM)).code).toBe('set_in_file')
  })
})

test('settings outlive the server, hide where the file names them later, and follow other servers', async () => {
  const data = gateway.data
  const process = await startGatewayProcess({ config: 'providers: {}\n' })
  const first = await ownerOf(process)
  await first.ask('PUT', '/providers/acme', { ...ACME, apiKey: KEY })
  await first.ask('PUT', '/models/big', { endpoints: [{ provider: 'acme', model: 'm' }] })
  expect(process.data).not.toBe(data)
  process.kill('SIGTERM')
  await process.exited
  // The file has a provider of this name now.
  const file = `providers:\n  acme: { protocol: messages, baseUrl: '${BASE}', name: Other }\n`
  const second = await startGatewayProcess({ config: file, data: process.data })
  try {
    const signed = await signedIn(second, 'Second', [{ scope: 'installation', role: 'owner' }])
    const shown = (await signed.get<ProviderAnswer>('/providers/acme')).json
    expect(shown).toMatchObject({ name: 'Other', found_by: 'sluice.yaml', set_in: 'test-config.yaml:2' })
    expect(shown.set).toMatchObject({ hidden_by: 'test-config.yaml:2' })
    expect((await signed.get<ModelAnswer>('/models/big')).json).toMatchObject({ on: true, source: 'console' })
    // Another process removes the model.
    const store = await storeOf(second)
    await store.setSettings.remove('model', 'big')
    await store.close()
    while ((await signed.get('/models/big')).status !== 404) await Bun.sleep(20)
  } finally {
    await second.stop()
  }
})
