import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { KeyAnswer, NewKeyAnswer, Page } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { beside, type Browser, ownerOf, signedIn } from './browser.ts'
import { storeOf } from '../stores.ts'

let gateway: Gateway
let owner: Browser
let account: string
let other: string
beforeAll(async () => {
  gateway = await startGateway({
    config: 'keys: [{ key: sk-ai-v1-0123456789abcdef, name: fixed, limit: 5 }]\nlimits: { requestsPerMinute: 5000 }\n',
  })
  owner = await ownerOf(gateway)
  account = (await keys(owner)).find(({ source }) => source === 'sluice.yaml')!.account.id
  other = await newAccount('other')
})
afterAll(() => gateway.stop())

const keys = async (browser: Browser, query = ''): Promise<KeyAnswer[]> =>
  (await browser.get<Page<KeyAnswer>>(`/keys${query}`)).json.data

async function newAccount(name: string): Promise<string> {
  const store = await storeOf(gateway)
  const { Accounts } = await import('../../src/accounts/accounts.ts')
  const { id } = await new Accounts({ store }).create(name, {})
  await store.close()
  return id
}

async function make(browser: Browser, body: object): Promise<NewKeyAnswer> {
  const { status, json, text } = await browser.post<NewKeyAnswer>('/keys', body)
  expect([status, text]).toEqual([201, expect.anything()])
  return json
}

const models = (key: string) => fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })

describe('a key', () => {
  test('a new key works at once, and its text is shown once', async () => {
    const made = await make(owner, {
      kind: 'pay-as-you-go',
      name: 'ci',
      models: ['sandbox/*'],
      limit_usd: '12.500000001',
      limit_period: 'month',
      requests_per_minute: 7,
      expires_at: '2099-01-01T00:00:00.123456Z',
    })
    expect((await models(made.text)).status).toBe(200)
    const { json, text } = await owner.get(`/keys/${made.id}`)
    expect(json).toEqual({
      ...made,
      text: undefined,
      account: { id: account, name: 'default' },
      prefix: made.text.slice(0, 12),
      last4: made.text.slice(-4),
      limit_usd: '12.500000001',
      spent_usd: '0',
      period_ends_at: expect.stringMatching(/-01T00:00:00.000Z$/),
      expires_at: '2099-01-01T00:00:00.123Z',
      last_used_at: expect.stringMatching(/Z$/),
      created_by: expect.stringMatching(/^usr_/),
      source: 'api',
    })
    expect(text).not.toContain(made.text)
    expect(JSON.stringify(await keys(owner))).not.toContain(made.text)
  })

  test('a change takes the version that was read, and counts at once; null clears a member', async () => {
    const { id, text } = await make(owner, { kind: 'pay-as-you-go', models: ['none/*'], limit_usd: '1' })
    const { headers } = await owner.get(`/keys/${id}`)
    const etag = { 'if-match': headers.get('etag')! }
    expect((await owner.ask('PATCH', `/keys/${id}`, { name: 'x' })).code).toBe('precondition_required')
    // The use of a key is no other version of it.
    expect((await models(text)).status).toBe(200)
    const changed = await owner.ask('PATCH', `/keys/${id}`, { name: 'renamed', models: null, limit_usd: null }, etag)
    expect([changed.status, changed.json]).toMatchObject([200, { name: 'renamed', models: null, limit_usd: null }])
    const late = await owner.ask('PATCH', `/keys/${id}`, { name: 'late' }, etag)
    expect([late.status, late.code]).toEqual([409, 'conflict'])
  })

  test('wrong members are refused with their path', async () => {
    const param = async (body: object) => {
      const { status, json } = await owner.post('/keys', body)
      return [status, (json['error'] as { param: string }).param]
    }
    expect(await param({ kind: 'pay-as-you-go', limit_usd: 5 })).toEqual([400, 'limit_usd'])
    expect(await param({ kind: 'pay-as-you-go', limit_usd: '-5' })).toEqual([400, 'limit_usd'])
    expect(await param({ kind: 'pay-as-you-go', expires_at: '2001-01-01T00:00:00Z' })).toEqual([400, 'expires_at'])
    expect(await param({ kind: 'pay-as-you-go', expires_at: '2099-02-29T00:00:00Z' })).toEqual([400, 'expires_at'])
    expect(await param({ kind: 'pay-as-you-go', limit_period: 'day' })).toEqual([400, 'limit_period'])
    expect(await param({ kind: 'pay-as-you-go', models: ['a', ''] })).toEqual([400, 'models[1]'])
    expect(await param({ kind: 'pay-as-you-go', role: 'viewer' })).toEqual([400, 'role'])
    expect(await param({ kind: 'management', role: 'member', scope: 'installation' })).toEqual([400, 'role'])
    expect(await param({ kind: 'pay-as-you-go', account: 'nothing' })).toEqual([404, 'account'])
    expect(await param({ kind: 'management', role: 'viewer', scope: 'nothing' })).toEqual([404, 'scope'])
    expect(await param({})).toEqual([400, 'body'])
  })

  test('the scope of a management key may be the name of an account', async () => {
    const made = await make(owner, { kind: 'management', role: 'member', scope: 'default' })
    expect(made.scope).toBe(account)
    const { json } = await owner.change<KeyAnswer>('PATCH', `/keys/${made.id}`, { role: 'viewer', scope: 'default' })
    expect([json.role, json.scope]).toEqual(['viewer', account])
  })

  test('a revoked key is refused, and listed on demand alone', async () => {
    const { id, text } = await make(owner, { kind: 'pay-as-you-go', name: 'gone' })
    expect((await owner.ask('DELETE', `/keys/${id}`)).status).toBe(204)
    expect((await owner.ask('DELETE', `/keys/${id}`)).status).toBe(204)
    expect((await models(text)).status).toBe(401)
    expect((await keys(owner)).some((key) => key.id === id)).toBe(false)
    expect((await keys(owner, '?revoked=true')).find((key) => key.id === id)?.revoked_at).toMatch(/Z$/)
    expect((await owner.change('PATCH', `/keys/${id}`, { name: 'again' })).code).toBe('conflict')
    expect((await owner.post(`/keys/${id}/rotate`, {})).code).toBe('conflict')
  })

  test('a rotated key has a new text; the old one works for its grace', async () => {
    const old = await make(owner, { kind: 'pay-as-you-go', name: 'turning' })
    const kept = await owner.post(`/keys/${old.id}/rotate`, { grace_seconds: 3600 })
    const { text } = kept.json as NewKeyAnswer
    expect([(await models(text)).status, (await models(old.text)).status]).toEqual([200, 200])
    const { id } = kept.json as NewKeyAnswer
    const next = (await owner.post(`/keys/${id}/rotate`, {})).json as NewKeyAnswer
    expect([(await models(next.text)).status, (await models(text)).status]).toEqual([200, 401])
  })

  test('a key of sluice.yaml is listed, and changed there alone', async () => {
    const [fixed] = (await keys(owner)).filter(({ source }) => source === 'sluice.yaml')
    expect(fixed).toMatchObject({ name: 'fixed', prefix: 'sk-ai-v1-012', last4: 'cdef', limit_usd: '5' })
    expect((await owner.get(`/keys/${fixed!.id}`)).json).toEqual({ ...fixed! })
    expect((await owner.ask('DELETE', `/keys/${fixed!.id}`)).code).toBe('set_in_file')
  })

  test('pages follow one another, each key once', async () => {
    for (let made = 0; made < 5; made++) await make(owner, { kind: 'subscription', account: 'other' })
    const all: string[] = []
    let cursor = ''
    do {
      const { data, next } = (await owner.get<Page<KeyAnswer>>(`/keys?account=other&limit=2${cursor}`)).json
      all.push(...data.map(({ id }) => id))
      cursor = next === null ? '' : `&cursor=${next}`
    } while (cursor !== '')
    expect(all.length).toBe(5)
    expect(new Set(all).size).toBe(5)
  })
})

describe('roles', () => {
  test('a member sees and changes own keys alone; others are unknown', async () => {
    const member = await signedIn(gateway, 'member', [{ scope: account, role: 'member' }])
    const own = await make(member, { kind: 'pay-as-you-go', name: 'mine' })
    const [another] = (await keys(owner)).filter(
      ({ created_by, source }) => created_by === null && source !== 'sluice.yaml',
    )
    expect((await keys(member)).map(({ id }) => id)).toEqual([own.id])
    const unknown = await member.get('/keys/nothing')
    for (const method of ['GET', 'DELETE']) {
      const got = await member.ask(method, `/keys/${another!.id}`)
      expect([got.status, got.text.replace(/req_\w+/, '')]).toEqual([404, unknown.text.replace(/req_\w+/, '')])
    }
    expect((await member.change('PATCH', `/keys/${own.id}`, { name: 'ours' })).status).toBe(200)
    expect((await member.post('/keys', { kind: 'pay-as-you-go', account: other })).status).toBe(404)
    expect((await member.ask('DELETE', `/keys/${own.id}`)).status).toBe(204)
  })

  test('an account admin manages the keys of that account; a viewer sees them', async () => {
    const admin = await signedIn(gateway, 'admin', [{ scope: other, role: 'admin' }])
    const viewer = await signedIn(gateway, 'viewer', [{ scope: other, role: 'viewer' }])
    const made = await make(admin, { kind: 'pay-as-you-go' })
    expect(made.account.id).toBe(other)
    expect((await keys(viewer)).map(({ id }) => id)).toContain(made.id)
    expect((await viewer.post('/keys', { kind: 'pay-as-you-go' })).code).toBe('role_required')
    expect((await viewer.ask('DELETE', `/keys/${made.id}`)).code).toBe('role_required')
    expect((await admin.ask('DELETE', `/keys/${made.id}`)).status).toBe(204)
  })

  test('a management key has at most the rights of its maker', async () => {
    const admin = await signedIn(gateway, 'second', [{ scope: other, role: 'admin' }])
    const withRole = (role?: string, scope?: string) => admin.post('/keys', { kind: 'management', role, scope })
    expect((await withRole('owner', 'installation')).code).toBe('role_required')
    expect((await withRole('viewer', 'installation')).code).toBe('role_required')
    expect((await withRole('admin', account)).code).toBe('role_required')
    const made = (await withRole('admin')).json as NewKeyAnswer
    const session = await fetch(`${gateway.url}/v1/management/session`, {
      headers: { authorization: `Bearer ${made.text}` },
    })
    expect(await session.json()).toMatchObject({ user: null, roles: [{ scope: other, role: 'admin' }] })
    expect((await withRole()).json).toMatchObject({ role: 'viewer', scope: other })
  })
})

test('each change is in the log, with the chain whole and without the texts of keys', async () => {
  const { text } = await make(owner, { kind: 'management', name: 'logged' })
  await beside(gateway.data, async ({ changes }) => {
    const rows = await changes.list({ limit: 200 })
    const actions = new Set(rows.map(({ action }) => action))
    expect([...actions].sort()).toEqual(['key.change', 'key.create', 'key.revoke', 'key.rotate', 'session.begin'])
    expect(JSON.stringify(rows)).not.toContain(text)
    // Its name is in no other list, once it is revoked.
    const revoked = rows.filter(({ action }) => action === 'key.revoke')
    expect(revoked.map(({ before }) => JSON.parse(before ?? '{}').name)).toContain('ours')
    expect(await changes.firstWrong()).toBeUndefined()
  })
})
