import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type {
  AccountAnswer,
  ChangeAnswer,
  ChangesAuditAnswer,
  KeyAnswer,
  ModelAnswer,
  Page,
  PlanAnswer,
  PlaygroundKeyAnswer,
  ProviderAnswer,
  SettingsAnswer,
  SystemAnswer,
} from '../../src/endpoints/management/answers.ts'
import { readConfig } from '../../src/config/load.ts'
import { at } from '../../src/pipeline/settings/leaves.ts'
import { shownSettings } from '../../src/endpoints/management/settings.ts'
import { managementRoutes } from '../../src/endpoints/management/routes.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ON_POSTGRES, sqlIn } from '../stores.ts'
import { type Browser, firstLink, ownerOf, signedIn } from './browser.ts'

const CANARIES = ['canary-provider-key-1234', 'canary-header-5678', 'canary-password-9012']

let gateway: GatewayProcess
let owner: Browser
let account: string
beforeAll(async () => {
  gateway = await startGatewayProcess({
    config: `
providers:
  acme:
    protocol: messages
    baseUrl: http://127.0.0.1:9/v1
    apiKey: ${CANARIES[0]}
    headers: { x-secret: ${CANARIES[1]} }
models:
  acme/large: { endpoints: [{ provider: acme, model: large }], price: { prompt: 3, completion: 15 } }
`,
  })
  owner = await ownerOf(gateway)
  account = (await owner.post<AccountAnswer>('/accounts', { name: 'team' })).json.id
})
afterAll(() => gateway.stop())

describe('what the server is', () => {
  test('the system is shown with its problems in words', async () => {
    const { json } = await owner.get<SystemAnswer>('/system')
    expect(json).toMatchObject({ data: gateway.data, open_requests: 0, problems: [] })
    expect(json.memory_bytes).toBeGreaterThan(1e6)
    expect(json.disk_free_bytes).toBeGreaterThan(0)
    expect(Date.parse(json.started_at)).toBeLessThanOrEqual(Date.parse(json.now))
  })

  test('settings are those in force, by the names and in the units of the file', async () => {
    const { settings, run_time } = (await owner.get<SettingsAnswer>('/settings')).json
    expect(settings).toMatchObject({
      limits: { requestsPerMinute: 600, body: '32MiB' },
      timeouts: { connect: '10s' },
      billing: { startingCredit: '100', unpriced: 'free', delay: '3m' },
      store: { quota: null, reserve: ON_POSTGRES ? null : '5%, at most 1GiB' },
      console: { enabled: true },
    })
    for (const { path, in_force } of run_time) expect([path, at(settings, path)]).toEqual([path, in_force])
    const shownElsewhere = ['data', 'providers', 'models', 'plans', 'keys']
    expect(Object.keys(settings).filter((name) => shownElsewhere.includes(name))).toEqual([])
  })

  test('a chosen reserve is shown as the share or the size that it is', () => {
    for (const reserve of ['2.5%', '2GiB', '0B'])
      expect(shownSettings(readConfig(`store: { reserve: ${reserve} }`, 'sluice.yaml', {}))).toMatchObject({
        store: { reserve },
      })
  })

  test('the setting of a database is shown without its password', async () => {
    const config = readConfig('store: postgres://sluice:canary-password-9012@db.example/sluice', 'sluice.yaml', {})
    const settings = shownSettings(config)
    expect(settings.store).toMatchObject({ url: 'postgres://sluice@db.example/sluice', connections: 10 })
  })

  test('providers are listed, also those that are off, with the end of their keys', async () => {
    const { data } = (await owner.get<Page<ProviderAnswer>>('/providers')).json
    expect(data.find(({ id }) => id === 'acme')).toEqual({
      id: 'acme',
      name: 'acme',
      on: true,
      found_by: 'sluice.yaml',
      switched_on_by: null,
      protocols: ['messages'],
      base_url: 'http://127.0.0.1:9/v1',
      models: 1,
      set_in: 'test-config.yaml:3',
      set: null,
      key: { set: true, last4: '1234', count: 1, source: 'sluice.yaml', at: null, by: null },
    })
    const off = data.filter(({ on }) => !on)
    expect(off.length).toBeGreaterThan(3)
    expect(off.every(({ switched_on_by: how }) => how !== null)).toBe(true)
    expect((await owner.get('/providers/acme')).status).toBe(200)
    expect((await owner.get('/providers/none')).status).toBe(404)
  })

  test('models are found by name and provider, with prices as decimal strings', async () => {
    const { data } = (await owner.get<Page<ModelAnswer>>('/models?provider=acme')).json
    expect(data).toMatchObject([
      {
        id: 'acme/large',
        on: true,
        source: 'sluice.yaml',
        endpoints: [{ provider: 'acme', model: 'large', on: true }],
        prices: { prompt: { usd: '3', tiers: [] }, completion: { usd: '15', tiers: [] } },
      },
    ])
    const seen: string[] = []
    for (let cursor = ''; ; ) {
      const page: Page<ModelAnswer> = (await owner.get<Page<ModelAnswer>>(`/models?q=sandbox&limit=3${cursor}`)).json
      seen.push(...page.data.map(({ id }) => id))
      if (page.next === null) break
      cursor = `&cursor=${page.next}`
    }
    expect(seen).toContain('sandbox/chat')
    expect(seen).toEqual([...new Set(seen)].sort())
  })

  test('a model of a provider that is off has its list price', async () => {
    const { data } = (await owner.get<Page<ModelAnswer>>('/models?on=false&q=openai/gpt-4o')).json
    const model = data.find(({ id }) => id === 'openai/gpt-4o')
    expect(model).toMatchObject({ on: false, prices: { prompt: { usd: expect.stringMatching(/^\d/) } } })
  })

  test('plans have their windows in flows and USD', async () => {
    const { data } = (await owner.get<Page<PlanAnswer>>('/plans')).json
    expect(data.find(({ tier }) => tier === 'free')?.windows.map(({ name }) => name)).toEqual([
      '5_hour',
      '7_day',
      'monthly',
    ])
  })
})

describe('the playground', () => {
  test('a key of the playground works for its user and account for at most an hour, and is made once', async () => {
    const member = await signedIn(gateway, 'member', [{ scope: account, role: 'member' }])
    const made = await member.post<PlaygroundKeyAnswer>('/playground/keys', {})
    expect([made.status, made.json.account.name]).toEqual([201, 'team'])
    const minutes = (Date.parse(made.json.expires_at) - Date.now()) / 60_000
    expect(minutes).toBeGreaterThan(29)
    expect(minutes).toBeLessThan(61)
    const models = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${made.json.text}` } })
    expect(models.status).toBe(200)
    const [key] = (await member.get<Page<KeyAnswer>>('/keys')).json.data
    expect([key?.id, key?.source, key?.name]).toEqual([made.json.id, 'playground', 'playground'])
    const again = await member.post<PlaygroundKeyAnswer>('/playground/keys', {})
    // Between the two, the time for which a key is used again may have ended.
    if (again.json.expires_at === made.json.expires_at) expect([again.status, again.json]).toEqual([200, made.json])
    const other = await signedIn(gateway, 'other', [{ scope: account, role: 'member' }])
    const together = await Promise.all([1, 2, 3].map(() => other.post<PlaygroundKeyAnswer>('/playground/keys', {})))
    expect(together.map(({ status }) => status).sort()).toEqual([200, 200, 201])
    expect(new Set(together.map(({ json }) => json.id)).size).toBe(1)
    expect(together[0]!.json.text).not.toBe(again.json.text)
    await member.ask('DELETE', `/keys/${again.json.id}`, undefined, { 'if-match': '*' })
    const replaced = await member.post<PlaygroundKeyAnswer>('/playground/keys', {})
    expect([replaced.status, replaced.json.text === again.json.text]).toEqual([201, false])
    const reused = await member.post<PlaygroundKeyAnswer>('/playground/keys', {})
    if (reused.json.expires_at === replaced.json.expires_at)
      expect([reused.status, reused.json]).toEqual([200, replaced.json])
    const viewer = await signedIn(gateway, 'viewer', [{ scope: account, role: 'viewer' }])
    expect((await viewer.post('/playground/keys', {})).code).toBe('role_required')
    expect((await member.post('/playground/keys', { account: 'default' })).status).toBe(404)
  })
})

describe('the change log', () => {
  test('it has who did what, is filtered and paged, and shows an account admin that account alone', async () => {
    await owner.post(`/accounts/${account}/credits`, { amount_usd: '3', note: 'thanks' })
    const find = async (browser: Browser, query: string) =>
      (await browser.get<Page<ChangeAnswer>>(`/changes${query}`)).json.data
    const [credit] = await find(owner, '?action=account.credit')
    expect(credit).toMatchObject({
      actor: { name: 'Owner' },
      address: '127.0.0.1',
      target: account,
      account: { id: account, name: 'team' },
      after: { amount_usd: '3', note: 'thanks' },
    })
    const admin = await signedIn(gateway, 'admin', [{ scope: account, role: 'admin' }])
    const seen = await find(admin, '')
    expect(seen.map(({ action }) => action)).toContain('account.credit')
    expect(seen.every((change) => change.account?.id === account)).toBe(true)
    const first = (await owner.get<Page<ChangeAnswer>>('/changes?limit=1')).json
    const second = (await owner.get<Page<ChangeAnswer>>(`/changes?limit=1&cursor=${first.next}`)).json
    expect(second.data[0]!.id).toBeLessThan(first.data[0]!.id)
  })

  test('the audit finds a line that was changed or removed', async () => {
    const audit = async () => (await owner.post<ChangesAuditAnswer>('/changes/audit', {})).json
    expect(await audit()).toEqual({ right: true, first_wrong: null })
    const [{ position, after } = { position: 0, after: '' }] = await sqlIn<{ position: number; after: string }>(
      gateway.data,
      'SELECT position, after FROM changes WHERE after IS NOT NULL ORDER BY position LIMIT 1 OFFSET 1',
    )
    await sqlIn(gateway.data, 'UPDATE changes SET after = ? WHERE position = ?', '{}', position)
    expect(await audit()).toEqual({ right: false, first_wrong: position })
    await sqlIn(gateway.data, 'UPDATE changes SET after = ? WHERE position = ?', after, position)
    expect(await audit()).toEqual({ right: true, first_wrong: null })
    await sqlIn(gateway.data, 'DELETE FROM changes WHERE position = ?', position)
    expect(await audit()).toEqual({ right: false, first_wrong: position + 1 })
  })
})

test('no answer of the API and no line of the log has a secret', async () => {
  const link = await firstLink(gateway.data)
  const { text } = (await owner.post<{ text: string }>('/keys', { kind: 'management' })).json
  const cookie = owner.cookie.split('=')[1]!
  const secrets = [...CANARIES, link, text, cookie]
  await owner.post('/session', { email: 'a@b.test', password: CANARIES[2] })
  await owner.post('/session', { link, password: CANARIES[2] })
  const paths = managementRoutes.filter(({ method }) => method === 'GET').map(({ template }) => template)
  expect(paths.length).toBeGreaterThan(10)
  const ids = (await owner.get<Page<{ id: string }>>('/users')).json.data
  for (const template of paths) {
    const path = template.replace('/v1/management', '')
    // It would not end.
    if (path.endsWith('/stream')) continue
    for (const id of [ids[0]!.id, account, 'acme']) {
      const got = await owner.get(path.replace('{id}', id).replace('{sid}', id))
      for (const secret of secrets) expect([path, secret, got.text.includes(secret)]).toEqual([path, secret, false])
    }
  }
  const { stdout, stderr } = gateway.output()
  for (const secret of secrets) expect([secret, `${stdout}${stderr}`.includes(secret)]).toEqual([secret, false])
})
