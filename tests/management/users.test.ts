import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Role } from '../../src/accounts/roles.ts'
import type {
  AccountAnswer,
  NewLinkAnswer,
  Page,
  SessionAnswer,
  UserAnswer,
  UserSessionAnswer,
} from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { Browser, ownerOf, signedIn } from './browser.ts'

let gateway: Gateway
let owner: Browser
let account: string
let other: string
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
  account = (await owner.post<AccountAnswer>('/accounts', { name: 'team' })).json.id
  other = (await owner.post<AccountAnswer>('/accounts', { name: 'others' })).json.id
})
afterAll(() => gateway.stop())

const idOf = async (browser: Browser): Promise<string> =>
  (await browser.get<SessionAnswer>('/session')).json.user?.id ?? ''
const on = (scope: string, role: Role['role']): Role => ({ scope, role })
const invite = async (browser: Browser, id: string): Promise<string> =>
  (await browser.post<NewLinkAnswer>(`/users/${id}/links`, {})).json.url.split('#')[1]!

describe('people', () => {
  test('a person is invited by a link, joins, and leaves with sessions and management keys', async () => {
    const made = await owner.post<UserAnswer>('/users', {
      name: 'Ann',
      email: 'Ann@x.test',
      roles: [on(account, 'admin')],
    })
    expect([made.status, made.json]).toMatchObject([
      201,
      { name: 'Ann', email: 'ann@x.test', roles: [on(account, 'admin')], joined_at: null, has_password: false },
    ])
    const { id } = made.json
    const link = await owner.post<NewLinkAnswer>(`/users/${id}/links`, {})
    expect(link.json.kind).toBe('invite')
    expect(link.json.url).toStartWith(`${gateway.url}/console/enter#`)
    expect(Date.parse(link.json.expires_at) - Date.now()).toBeGreaterThan(71 * 3_600_000)
    const second = await invite(owner, id)
    const ann = new Browser(gateway.url)
    expect((await ann.post('/session', { link: link.json.url.split('#')[1] })).status).toBe(201)
    // Another link of the same person is used up with it.
    expect((await ann.post('/session/preview', { link: second })).status).toBe(404)
    const { text } = (await ann.post<{ text: string }>('/keys', { kind: 'management', role: 'admin' })).json
    const asKey = () =>
      fetch(`${gateway.url}/v1/management/session`, { headers: { authorization: `Bearer ${text}` } }).then(
        ({ status }) => status,
      )
    expect(await asKey()).toBe(200)
    expect((await owner.ask('DELETE', `/users/${id}`)).status).toBe(204)
    expect([(await ann.get('/session')).status, await asKey(), (await owner.get(`/users/${id}`)).status]).toEqual([
      401, 401, 404,
    ])
  })

  test('fewer roles revoke the management keys that have more', async () => {
    const bob = await signedIn(gateway, 'Bob', [on('installation', 'admin')])
    const { text } = (
      await bob.post<{ text: string }>('/keys', { kind: 'management', role: 'admin', scope: 'installation' })
    ).json
    const id = await idOf(bob)
    const changed = await owner.change<UserAnswer>('PATCH', `/users/${id}`, { roles: [on(account, 'viewer')] })
    expect([changed.status, changed.json.roles]).toEqual([200, [on(account, 'viewer')]])
    const asKey = await fetch(`${gateway.url}/v1/management/session`, { headers: { authorization: `Bearer ${text}` } })
    expect(asKey.status).toBe(401)
    expect((await bob.get('/users')).status).toBe(200)
  })

  test('management keys that were made with those of a user end with them', async () => {
    const cleo = await signedIn(gateway, 'Cleo', [on('installation', 'admin')])
    const admin = { kind: 'management', role: 'admin', scope: 'installation' }
    const first = (await cleo.post<{ text: string }>('/keys', admin)).json.text
    const send = (text: string, method: string, path: string, body?: object) =>
      fetch(`${gateway.url}/v1/management${path}`, {
        method,
        headers: { authorization: `Bearer ${text}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    const { text } = (await (await send(first, 'POST', '/keys', admin)).json()) as { text: string }
    expect((await send(text, 'GET', '/users')).status).toBe(200)
    expect((await owner.ask('DELETE', `/users/${await idOf(cleo)}`)).status).toBe(204)
    expect([(await send(first, 'GET', '/users')).status, (await send(text, 'GET', '/users')).status]).toEqual([
      401, 401,
    ])
  })

  test('the last owner stays an owner, and stays', async () => {
    const id = await idOf(owner)
    expect((await owner.change('PATCH', `/users/${id}`, { roles: [] })).code).toBe('conflict')
    expect((await owner.change('PATCH', `/users/${id}`, { roles: [on('installation', 'admin')] })).code).toBe(
      'conflict',
    )
    expect((await owner.ask('DELETE', `/users/${id}`)).code).toBe('conflict')
    expect((await owner.get('/session')).json).toMatchObject({ roles: [on('installation', 'owner')] })
  })

  test('other people can be changed and removed where a management key is the only owner', async () => {
    const key = 'sk-mg-v1-0123456789abcdef'
    const alone = await startGateway({ env: { SLUICE_MANAGEMENT_KEY: key } })
    const send = async (method: string, path: string, body?: object): Promise<[number, { id: string }]> => {
      const response = await fetch(`${alone.url}/v1/management/users${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'if-match': '*', 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return [response.status, response.status === 204 ? { id: '' } : ((await response.json()) as { id: string })]
    }
    const [, { id }] = await send('POST', '', { name: 'Admin', roles: [on('installation', 'admin')] })
    expect((await send('PATCH', `/${id}`, { roles: [on('installation', 'viewer')] }))[0]).toBe(200)
    expect((await send('DELETE', `/${id}`))[0]).toBe(204)
    const [, owning] = await send('POST', '', { name: 'Owner', roles: [on('installation', 'owner')] })
    expect((await send('DELETE', `/${owning.id}`))[0]).toBe(409)
    await alone.stop()
  })

  test('two people cannot have one e-mail address', async () => {
    await owner.post('/users', { name: 'One', email: 'same@x.test', roles: [] })
    const two = await owner.post('/users', { name: 'Two', email: 'SAME@x.test', roles: [] })
    expect([two.code, two.json]).toMatchObject(['conflict', { error: { param: 'email' } }])
  })
})

describe('rights', () => {
  test('an admin gives any role but owner, and cannot take an owner in', async () => {
    const admin = await signedIn(gateway, 'Admin', [on('installation', 'admin')])
    const asOwner = await admin.post('/users', { name: 'X', roles: [on('installation', 'owner')] })
    expect(asOwner.code).toBe('role_required')
    expect((await admin.post('/users', { name: 'X', roles: [on('installation', 'viewer')] })).status).toBe(201)
    const id = await idOf(owner)
    for (const [method, path, body] of [
      ['POST', `/users/${id}/links`, {}],
      ['DELETE', `/users/${id}`, undefined],
      ['DELETE', `/users/${id}/sessions`, undefined],
      ['GET', `/users/${id}/sessions`, undefined],
    ] as const)
      expect([path, (await admin.ask(method, path, body)).code]).toEqual([path, 'role_required'])
    expect((await admin.change('PATCH', `/users/${id}`, { name: 'taken' })).code).toBe('role_required')
    const myself = await idOf(admin)
    const raised = await admin.change('PATCH', `/users/${myself}`, { roles: [on('installation', 'owner')] })
    expect(raised.code).toBe('role_required')
  })

  test('an account admin manages the people of that account alone', async () => {
    const admin = await signedIn(gateway, 'Team admin', [on(account, 'admin')])
    const both = await signedIn(gateway, 'Both', [on(account, 'viewer'), on(other, 'admin')])
    const outside = await signedIn(gateway, 'Outside', [on(other, 'viewer')])
    const names = (await admin.get<Page<UserAnswer>>('/users')).json.data.map(({ name }) => name)
    expect(names).toContain('Both')
    expect(names).not.toContain('Outside')
    expect((await admin.get(`/users/${await idOf(outside)}`)).status).toBe(404)
    const id = await idOf(both)
    // Roles elsewhere are neither shown nor changed, and a link would give them away.
    const seen = await admin.get<UserAnswer>(`/users/${id}`)
    expect(seen.json.roles).toEqual([on(account, 'viewer')])
    expect((await admin.post(`/users/${id}/links`, {})).code).toBe('role_required')
    expect((await admin.change('PATCH', `/users/${id}`, { roles: [on(account, 'member')] })).status).toBe(200)
    expect(
      (await both.get<SessionAnswer>('/session')).json.roles.toSorted((a, b) => (a.role < b.role ? -1 : 1)),
    ).toEqual([on(other, 'admin'), on(account, 'member')])
    for (const roles of [[], [on(other, 'viewer')], [on('installation', 'viewer')]])
      expect([roles, (await admin.post('/users', { name: 'Y', roles })).status >= 400]).toEqual([roles, true])
    expect((await admin.post('/users', { name: 'Y', roles: [on(account, 'member')] })).status).toBe(201)
  })

  test('a member sees people, changes the own name, and nothing else', async () => {
    const member = await signedIn(gateway, 'Member', [on(account, 'member')])
    const id = await idOf(member)
    expect((await member.post('/users', { name: 'Z', roles: [on(account, 'viewer')] })).code).toBe('role_required')
    expect((await member.change<UserAnswer>('PATCH', `/users/${id}`, { name: 'Renamed' })).json.name).toBe('Renamed')
    const raised = await member.change('PATCH', `/users/${id}`, { roles: [on(account, 'admin')] })
    expect(raised.code).toBe('role_required')
  })
})

describe('sessions and passwords', () => {
  test('people see their sessions, end one, and sign out everywhere', async () => {
    const here = await signedIn(gateway, 'Twice', [on(account, 'viewer')])
    const id = await idOf(here)
    const there = new Browser(gateway.url)
    await there.post('/session', { link: await invite(owner, id) })
    const listed = (await here.get<Page<UserSessionAnswer>>(`/users/${id}/sessions`)).json.data
    expect(listed.map(({ current }) => current).toSorted()).toEqual([false, true])
    const far = listed.find(({ current }) => !current)!.id
    expect((await here.ask('DELETE', `/users/${id}/sessions/${far}`)).status).toBe(204)
    expect((await here.ask('DELETE', `/users/${id}/sessions/${far}`)).status).toBe(404)
    expect([(await there.get('/session')).status, (await here.get('/session')).status]).toEqual([401, 200])
    expect((await here.ask('DELETE', `/users/${id}/sessions`)).status).toBe(204)
    expect((await here.get('/session')).status).toBe(401)
  })

  test('a password is set by its user alone, with the old one where there is one', async () => {
    const { id } = (await owner.post<UserAnswer>('/users', { name: 'P', email: 'p@x.test', roles: [] })).json
    const browser = new Browser(gateway.url)
    await browser.post('/session', { link: await invite(owner, id) })
    const set = (body: object, by = browser) => by.ask('PUT', `/users/${id}/password`, body)
    const [first, second] = ['a long enough one', 'another long one']
    expect((await set({ password: first }, owner)).code).toBe('permission_denied')
    expect((await set({ password: 'short' })).json).toMatchObject({ error: { param: 'password' } })
    expect((await set({ password: first })).status).toBe(204)
    expect((await set({ password: second, old_password: 'wrong' })).json).toMatchObject({
      error: { param: 'old_password' },
    })
    expect((await set({ password: second, old_password: first })).status).toBe(204)
    const signIn = (password: string) => new Browser(gateway.url).post('/session', { email: 'p@x.test', password })
    expect([(await signIn(first)).status, (await signIn(second)).status]).toEqual([401, 201])
  }, 60_000)
})
