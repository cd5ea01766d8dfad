import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { BodiesAnswer, KeyAnswer, UserAnswer } from '../../src/endpoints/management/answers.ts'
import { managementRoutes } from '../../src/endpoints/management/routes.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ON_POSTGRES, sqlIn } from '../stores.ts'
import { Browser, type Got, inviteFor, ownerOf } from './browser.ts'

/** A change and its line of the change log are one transaction: where the line cannot be written, nothing changes. */

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway({
    config: `
capture: { most: all, default: all }
limits: { requestsPerMinute: 100000 }
`,
  })
  owner = await ownerOf(gateway)
}, 60_000)
afterAll(() => gateway?.stop())

const run = (sql: string): Promise<unknown> => sqlIn(gateway.data, sql)

/** While the table has another name, no line of the change log can be written. */
const refuseLines = (): Promise<unknown> => run('ALTER TABLE changes RENAME TO changes_away')
const takeLines = (): Promise<unknown> => run('ALTER TABLE changes_away RENAME TO changes')

const COLUMNS = {
  accounts: '*',
  bodies: 'id',
  body_keys: 'account_id',
  files: 'id',
  keys: '*',
  predictions: 'id, completed_at',
  sessions: 'id, hash, is_stale',
  settings_set: '*',
  sign_in_links: '*',
  subscriptions: '*',
  [ON_POSTGRES ? 'operations' : 'transfers']: '*',
  user_roles: '*',
  users: '*',
}

/** Everything that a change could change. */
async function everything(): Promise<unknown> {
  const tables = Object.entries(COLUMNS).map(async ([table, columns]) => [
    table,
    (await run(
      `SELECT ${columns} FROM ${table} ORDER BY 1, 2`.replace(/(FROM (?:bod|files).*), 2/, '$1'),
    )) as unknown[],
  ])
  return JSON.stringify(await Promise.all(tables))
}

const lines = async (): Promise<number> => {
  const [row] = (await run('SELECT count(*) AS count FROM changes')) as { count: number | string }[]
  return Number(row!.count)
}

type Change = () => Promise<Got>

const made = async <T>(path: string, body: object): Promise<T> => (await owner.post<T>(path, body)).json
const newKey = (): Promise<KeyAnswer> => made('/keys', { kind: 'pay-as-you-go' })
let users = 0
const newUser = (role = 'admin'): Promise<UserAnswer> =>
  made('/users', { name: `User ${++users}`, roles: [{ scope: 'installation', role }] })
const change = (method: string, path: string, body?: object): Promise<Got> =>
  owner.ask(method, path, body, { 'if-match': '*' })

/** A person with a password and two sessions, of which one is the browser's. */
async function signedInTwice(): Promise<{ id: string; browser: Browser }> {
  const email = `${++users}@example.com`
  const password = 'long enough 123'
  const link = await inviteFor(gateway.data, { name: 'Twice', email, roles: [] })
  const first = new Browser(gateway.url)
  const { json } = await first.post<{ user: { id: string } }>('/session', { link, password })
  const browser = new Browser(gateway.url)
  await browser.post('/session', { email, password })
  return { id: json.user.id, browser }
}

/** The id of a request whose bodies are stored. */
async function captured(): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'hello' }] }),
  })
  await response.text()
  const id = response.headers.get('x-request-id')!
  for (let looks = 0; (await owner.get<BodiesAnswer>(`/requests/${id}/bodies`)).status !== 200; looks++) {
    if (looks === 300) throw new Error(`no bodies of ${id}`)
    await Bun.sleep(20)
  }
  return id
}

const TEAM = { usdPerMonth: 7, flows: { '5_hour': 1, '7_day': 2, monthly: 3 } }
const ACME = { protocol: 'messages', baseUrl: 'https://1.1.1.1', apiKey: 'secret-key-4711' }

/** For each route that changes something: a change that succeeds, once what it needs is there. */
const CHANGES: Record<string, () => Promise<Change> | Change> = {
  'POST /session': async () => {
    const link = await inviteFor(gateway.data, { name: 'Late', roles: [] })
    return () => new Browser(gateway.url).post('/session', { link, password: 'long enough 123' })
  },
  'POST /keys': () => () => owner.post('/keys', { kind: 'pay-as-you-go', capture: { mode: 'off' } }),
  'PATCH /keys/{id}': async () => {
    const { id } = await newKey()
    return () => change('PATCH', `/keys/${id}`, { name: 'other', capture: { mode: 'errors' } })
  },
  'DELETE /keys/{id}': async () => {
    const { id } = await newKey()
    return () => change('DELETE', `/keys/${id}`)
  },
  'POST /keys/{id}/rotate': async () => {
    const { id } = await newKey()
    return () => owner.post(`/keys/${id}/rotate`, { grace_seconds: 0 })
  },
  'POST /accounts': () => () => owner.post('/accounts', { name: 'made' }),
  'PATCH /accounts/{id}': () => () =>
    change('PATCH', '/accounts/default', {
      status: 'monitored',
      discount: 5,
      plan: { tier: 'pro' },
      capture: { mode: 'all' },
    }),
  'POST /accounts/{id}/credits': () => () => owner.post('/accounts/default/credits', { amount_usd: '3' }),
  'DELETE /accounts/{id}/bodies': async () => {
    await captured()
    return () => change('DELETE', '/accounts/default/bodies')
  },
  'POST /users': () => () => owner.post('/users', { name: 'made', roles: [{ scope: 'installation', role: 'viewer' }] }),
  'PATCH /users/{id}': async () => {
    const { id } = await newUser()
    return () => change('PATCH', `/users/${id}`, { name: 'other', roles: [{ scope: 'installation', role: 'viewer' }] })
  },
  'DELETE /users/{id}': async () => {
    const { id } = await newUser()
    return () => change('DELETE', `/users/${id}`)
  },
  'POST /users/{id}/links': async () => {
    const { id } = await newUser()
    return () => owner.post(`/users/${id}/links`, {})
  },
  'DELETE /users/{id}/sessions': async () => {
    const { id } = await signedInTwice()
    return () => change('DELETE', `/users/${id}/sessions`)
  },
  'DELETE /users/{id}/sessions/{sid}': async () => {
    const { id } = await signedInTwice()
    const { data } = (await owner.get<{ data: { id: string }[] }>(`/users/${id}/sessions`)).json
    return () => change('DELETE', `/users/${id}/sessions/${data[0]!.id}`)
  },
  'PUT /users/{id}/password': async () => {
    const { id, browser } = await signedInTwice()
    return () =>
      browser.ask('PUT', `/users/${id}/password`, { password: 'another one 123', old_password: 'long enough 123' })
  },
  'GET /requests/{id}/bodies': async () => {
    const id = await captured()
    return () => owner.get(`/requests/${id}/bodies`)
  },
  'DELETE /requests/{id}/bodies': async () => {
    const id = await captured()
    return () => change('DELETE', `/requests/${id}/bodies`)
  },
  'DELETE /files/{id}': async () => {
    const form = new FormData()
    form.set('purpose', 'user_data')
    form.set('file', new File(['hello'], 'hello.txt', { type: 'text/plain' }))
    const headers = { authorization: `Bearer ${gateway.key}` }
    const sent = await fetch(`${gateway.url}/v1/files`, { method: 'POST', headers, body: form })
    const { id } = (await sent.json()) as { id: string }
    return () => change('DELETE', `/files/${id}`)
  },
  'PATCH /settings': () => () => change('PATCH', '/settings', { strict: true }),
  'PATCH /settings/capture': () => () => change('PATCH', '/settings/capture', { capture: { mode: 'errors' } }),
  'POST /settings/reload': () => () => owner.post('/settings/reload', {}),
  'PUT /providers/{id}': () => () => change('PUT', '/providers/acme', ACME),
  'PATCH /providers/{id}': () => () => change('PATCH', '/providers/acme', { unlisted: true }),
  'DELETE /providers/{id}': () => () => change('DELETE', '/providers/acme'),
  'PUT /providers/{id}/key': () => () => change('PUT', '/providers/openai/key', { key: 'secret-key-4712' }),
  'DELETE /providers/{id}/key': () => () => change('DELETE', '/providers/openai/key'),
  'PUT /models/{name}': () => () =>
    change('PUT', '/models/own', { endpoints: [{ provider: 'sandbox', model: 'chat' }] }),
  'DELETE /models/{name}': () => () => change('DELETE', '/models/own'),
  'PUT /plans/{tier}': () => () => change('PUT', '/plans/team', TEAM),
  'DELETE /plans/{tier}': () => () => change('DELETE', '/plans/team'),
  'POST /jobs/{id}/cancel': async () => {
    const response = await fetch(`${gateway.url}/v1/predictions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sandbox/prediction', input: { prompt: 'x', hang: true } }),
    })
    const { id } = (await response.json()) as { id: string }
    return () => owner.post(`/jobs/${id}/cancel`, {})
  },
  'POST /playground/keys': () => () => owner.post('/playground/keys', { account: 'default' }),
}

/** Routes that ask, or end the caller's own session, which have no line. */
const WITHOUT_LINE = [
  'POST /session/preview',
  'DELETE /session',
  'POST /changes/audit',
  'POST /providers/{id}/test',
  'POST /route',
  'POST /explain',
  'POST /book/audit',
]

describe('without its line in the change log, nothing changes:', () => {
  for (const [route, prepare] of Object.entries(CHANGES))
    test(route, async () => {
      const act = await prepare()
      const [before, known] = [await everything(), await lines()]
      await refuseLines()
      try {
        expect((await act()).status).toBeGreaterThanOrEqual(500)
      } finally {
        await takeLines()
      }
      expect(await everything()).toBe(before)
      const { status, text } = await act()
      expect([status < 300, text, (await lines()) > known]).toEqual([true, text, true])
    })
})

test('each route that may change something is one of these', () => {
  const changing = managementRoutes.flatMap(({ method, template }) =>
    method === 'GET' ? [] : [`${method} ${template.replace('/v1/management', '')}`],
  )
  expect(changing.filter((route) => !(route in CHANGES) && !WITHOUT_LINE.includes(route))).toEqual([])
})
