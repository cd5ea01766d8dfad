import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig, readConfig } from '../../src/config/load.ts'
import type { ProviderAnswer, ReloadAnswer, SettingsAnswer } from '../../src/endpoints/management/answers.ts'
import { type Gateway, startGateway } from '../server.ts'
import { storeOf } from '../stores.ts'
import { type Browser, ownerOf } from './browser.ts'

/** Settings that are changed at run time, the file read again, and both written as one file. */

const FILE_KEY = 'canary-file-key-77'
const SET_KEY = 'canary-set-key-88'
const config = `
timeouts:
  idle: 40s
providers:
  fixed: { protocol: chat.completions, baseUrl: 'https://fixed.example/v1', apiKey: ${FILE_KEY} }
`
let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway({ config })
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

type Refused = { error: { param: string | null; message: string } }
const patch = <T = SettingsAnswer>(body: object) => owner.change<T>('PATCH', '/settings', body)
const setting = async (path: string) =>
  (await owner.get<SettingsAnswer>('/settings')).json.run_time.find((one) => one.path === path)
const refusal = async (body: object): Promise<unknown[]> => {
  const { status, code, json } = await patch<Refused>(body)
  return [status, code, json.error.param, json.error.message]
}
const file = (): string => join(gateway.data, 'test-config.yaml')

test('a setting is changed at once, and returns to its default', async () => {
  expect(await setting('timeouts.total')).toMatchObject({ in_force: '1h', set: null, set_in: null })
  expect((await patch({ timeouts: { total: '30s' }, strict: true })).status).toBe(200)
  expect(await setting('timeouts.total')).toMatchObject({ in_force: '30s', set: '30s' })
  const { settings } = (await owner.get<SettingsAnswer>('/settings')).json
  expect(settings).toMatchObject({ timeouts: { total: '30s', idle: '40s' }, strict: true })
  expect((await patch({ timeouts: { total: null } })).status).toBe(200)
  expect([await setting('timeouts.total'), await setting('strict')]).toMatchObject([
    { in_force: '1h', set: null },
    { in_force: true, set: true },
  ])
  await patch({ strict: null })
})

test('a member or an object with the name of a prototype is one as any other', async () => {
  for (const text of ['{"__proto__":{"idle":"1s"}}', '{"timeouts":{"__proto__":{"total":"1s"}}}'])
    expect(await refusal(JSON.parse(text) as object)).toMatchObject([
      400,
      'invalid_request',
      text.startsWith('{"t') ? 'timeouts' : 'body',
      expect.stringContaining('__proto__'),
    ])
  const provider = { protocol: 'messages', baseUrl: 'http://127.0.0.1:9' }
  expect((await owner.ask('PUT', '/providers/__proto__', provider)).status).toBe(400)
  const model = { endpoints: [{ provider: 'sandbox', model: 'chat' }] }
  const put = await owner.ask('PUT', '/models/__proto__', model)
  expect([put.status, put.json]).toMatchObject([200, { on: true, source: 'console', set: { value: model } }])
  expect((await owner.change('DELETE', '/models/__proto__')).status).toBe(204)
})

test('a setting decides about the next request', async () => {
  const limits = (requestsPerMinute: number | null): Promise<unknown> => patch({ limits: { requestsPerMinute } })
  const ask = async (): Promise<number> =>
    (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` } })).status
  await limits(100)
  const statuses = await Promise.all(Array.from({ length: 101 }, ask))
  await limits(null)
  expect([statuses.filter((status) => status === 422).length, await ask()]).toEqual([1, 200])
})

test('a setting of the file, one that only a start reads, and a wrong one are refused', async () => {
  const before = (await owner.get('/settings')).text
  expect(await refusal({ timeouts: { idle: '9s' } })).toEqual([
    409,
    'set_in_file',
    'timeouts.idle',
    'timeouts.idle is set up by test-config.yaml:3: change it there.',
  ])
  expect(await refusal({ listen: { port: 1 } })).toEqual([
    400,
    'invalid_request',
    'listen.port',
    'listen.port: cannot be changed while Sluice runs: set it in test-config.yaml',
  ])
  expect((await refusal({ capture: { most: 'all' } }))[2]).toBe('capture.most')
  expect(await refusal({ capture: { default: 'errors' } })).toEqual([
    400,
    'invalid_request',
    'capture.default',
    "capture.default: must be at most 'off': sluice.yaml has capture.most",
  ])
  expect((await refusal({ timeouts: { total: '9' }, strict: true })).slice(0, 3)).toEqual([
    400,
    'invalid_request',
    'timeouts.total',
  ])
  expect((await refusal({ strictly: true }))[3]).toContain('did you mean strict?')
  expect((await owner.ask('PATCH', '/settings', { strict: true })).code).toBe('precondition_required')
  expect(JSON.parse(before).settings).toEqual((await owner.get<SettingsAnswer>('/settings')).json.settings)
})

test('the file is read again as a whole, and a mistake in it changes nothing', async () => {
  const text = readFileSync(file(), 'utf8')
  const reload = () => owner.post<ReloadAnswer & Refused>('/settings/reload', {})
  const name = async (): Promise<string> => (await owner.get<ProviderAnswer>('/providers/fixed')).json.name
  try {
    writeFileSync(file(), text.replace('apiKey', 'name: Other, colour: 1, apiKey'))
    const wrong = await reload()
    expect([wrong.status, wrong.json.error.message]).toEqual([
      400,
      expect.stringMatching(/^\S*test-config\.yaml:5:\d+: /),
    ])
    expect(await name()).toBe('fixed')
    writeFileSync(
      file(),
      `${text.replace('apiKey', 'name: Other, apiKey')}\nfetch: { requestUrls: true }\nstrict: true\n`,
    )
    const { status, json } = await reload()
    expect([status, json]).toMatchObject([200, { restart: ['fetch.requestUrls'] }])
    // It still does not hold, though the file is as it was read last.
    expect((await reload()).json.restart).toEqual(['fetch.requestUrls'])
    expect([await name(), (await setting('strict'))?.in_force]).toEqual(['Other', true])
    expect((await refusal({ strict: false }))[1]).toBe('set_in_file')
  } finally {
    writeFileSync(file(), text)
    // Another server reads its file again, and this one follows.
    const store = await storeOf(gateway)
    await store.setSettings.put({ kind: 'reload', name: '', value: '', at: 1, by: 'other' })
    await store.close()
    while ((await name()) !== 'fixed') await Bun.sleep(20)
  }
  expect([await name(), (await setting('strict'))?.in_force]).toEqual(['fixed', false])
})

test('file and console are written as one file without secrets, which another server accepts', async () => {
  const acme = { protocol: 'messages', baseUrl: 'https://acme.example', headers: { 'X-Team': SET_KEY } }
  await owner.ask('PUT', '/providers/acme', { ...acme, apiKey: SET_KEY })
  await owner.ask('PUT', '/models/big', {
    endpoints: [{ provider: 'acme', model: 'm' }],
    price: { prompt: 1, completion: 2 },
  })
  await owner.ask('PUT', '/plans/team', { usdPerMonth: 7, flows: { '5_hour': 1, '7_day': 2, monthly: 3 } })
  await patch({ timeouts: { total: '30s' } })
  const text = await owner.text('/settings/export.yaml')
  expect([text.includes('canary'), text.split('\n')[0]]).toEqual([
    false,
    '# Secrets are not exported. Set these variables: FIXED_API_KEY, ACME_API_KEY, ACME_HEADER_X_TEAM',
  ])
  const env = { FIXED_API_KEY: FILE_KEY, ACME_API_KEY: SET_KEY, ACME_HEADER_X_TEAM: SET_KEY }
  const exported = readConfig(text, 'sluice.yaml', env)
  const before = loadConfig({ file: file() }, {})
  expect(exported.providers.get('fixed')).toEqual(before.providers.get('fixed'))
  expect(exported.providers.get('acme')).toMatchObject({
    apiKey: SET_KEY,
    baseUrl: acme.baseUrl,
    headers: { 'x-team': SET_KEY },
  })
  expect(exported.models.get('big')).toMatchObject({ endpoints: [{ provider: 'acme', model: 'm' }] })
  expect(exported.plans.tiers.get('team')).toMatchObject({ usdPerMonth: 7 })
  expect(exported.timeouts).toMatchObject({ idleMs: 40_000, totalMs: 30_000 })
  expect(exported.billing).toEqual(before.billing)
})
