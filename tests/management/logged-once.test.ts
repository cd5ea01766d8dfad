import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { startGateway, type Gateway } from '../server.ts'
import { heldWrites, newPostgresFolder, sqlIn, waitingIn } from '../stores.ts'
import { Browser, type Got, inviteFor, ownerOf } from './browser.ts'

/** The same change at two gateways over one PostgreSQL in the same instant has one line in the change log. */

let folder: string
let gateways: [Gateway, Gateway]
let owners: [Browser, Browser]
beforeAll(async () => {
  folder = newPostgresFolder()
  const config = 'capture: { most: all, default: all }\nlimits: { requestsPerMinute: 100000 }\n'
  gateways = [await startGateway({ data: folder, config }), await startGateway({ data: folder, config })]
  const first = await ownerOf(gateways[0])
  const second = new Browser(gateways[1].url)
  second.cookie = first.cookie.replace(/^sluice_\d+/, `sluice_${new URL(second.url).port}`)
  owners = [first, second]
}, 60_000)
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const made = async (path: string, body: object): Promise<string> =>
  (await owners[0].post<{ id: string }>(path, body)).json.id

/** The actions of the lines that `act` adds to the change log. */
async function linesOf(act: () => Promise<unknown>): Promise<string[]> {
  const [{ last } = { last: 0 }] = await sqlIn<{ last: number }>(folder, 'SELECT max(position) AS last FROM changes')
  await act()
  const rows = await sqlIn<{ action: string }>(folder, 'SELECT action FROM changes WHERE position > ?', last)
  return rows.map(({ action }) => action).sort()
}

/** Sends a request to both, which read before either writes to the table. */
async function atBoth(table: string, send: (owner: Browser) => Promise<Got>): Promise<number[]> {
  const release = await heldWrites(folder, table)
  const sent = owners.map(send)
  while ((await waitingIn(folder)) < 2) await Bun.sleep(10)
  await release()
  return (await Promise.all(sent)).map(({ status }) => status).sort()
}

async function captured(): Promise<string> {
  const response = await fetch(`${gateways[0].url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateways[0].key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'hello' }] }),
  })
  await response.text()
  const id = response.headers.get('x-request-id')!
  while ((await owners[0].get(`/requests/${id}/bodies`)).status !== 200) await Bun.sleep(20)
  return id
}

const invited = (): Promise<string> => inviteFor(folder, { name: 'Twice', roles: [] })

/** A session of a new user: the path of its removal. */
async function session(): Promise<string> {
  const { json } = await new Browser(gateways[0].url).post<{ user: { id: string } }>('/session', {
    link: await invited(),
  })
  const { data } = (await owners[0].get<{ data: { id: string }[] }>(`/users/${json.user.id}/sessions`)).json
  return `/users/${json.user.id}/sessions/${data[0]!.id}`
}

async function uploaded(): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'user_data')
  form.set('file', new File(['hello'], 'hello.txt', { type: 'text/plain' }))
  const headers = { authorization: `Bearer ${gateways[0].key}` }
  const sent = await fetch(`${gateways[0].url}/v1/files`, { method: 'POST', headers, body: form })
  return ((await sent.json()) as { id: string }).id
}

const NEW_KEY = { kind: 'pay-as-you-go' }
const newUser = (): Promise<string> =>
  made('/users', { name: 'User', roles: [{ scope: 'installation', role: 'viewer' }] })

/** By name: the table that it writes, what it answers at each, the path of a removal, and the action of its line. */
const REMOVALS: Record<string, [table: string, statuses: number[], path: () => Promise<string>, action: string]> = {
  'a key that is revoked': ['keys', [204, 204], async () => `/keys/${await made('/keys', NEW_KEY)}`, 'key.revoke'],
  'a user who is removed': ['users', [204, 404], async () => `/users/${await newUser()}`, 'user.remove'],
  'a session that is ended': ['sessions', [204, 404], session, 'session.end'],
  'a file that is deleted': ['files', [204, 404], async () => `/files/${await uploaded()}`, 'file.delete'],
  'bodies that are deleted': [
    'bodies',
    [204, 404],
    async () => `/requests/${await captured()}/bodies`,
    'bodies.delete',
  ],
  'bodies of an account that are deleted': [
    'body_keys',
    [204, 204],
    async () => (await captured(), '/accounts/default/bodies'),
    'bodies.delete',
  ],
}

describe('one line at two processes for', () => {
  for (const [name, [table, statuses, prepare, action]] of Object.entries(REMOVALS))
    test(name, async () => {
      const path = await prepare()
      const lines = await linesOf(async () =>
        expect(await atBoth(table, (owner) => owner.ask('DELETE', path))).toEqual(statuses),
      )
      expect(lines).toEqual([action])
    }, 60_000)

  test('a key that is rotated, which is replaced once', async () => {
    const id = await made('/keys', NEW_KEY)
    const lines = await linesOf(async () =>
      expect(await atBoth('keys', (owner) => owner.post(`/keys/${id}/rotate`, {}))).toEqual([201, 409]),
    )
    expect(lines).toEqual(['key.rotate'])
  }, 60_000)

  test('the keys of a user who is removed while one of them is revoked elsewhere', async () => {
    const link = await invited()
    const browser = new Browser(gateways[0].url)
    const { json } = await browser.post<{ user: { id: string } }>('/session', { link })
    const roles = [{ scope: 'default', role: 'admin' }]
    await owners[0].ask('PATCH', `/users/${json.user.id}`, { roles }, { 'if-match': '*' })
    const mine = await Promise.all(
      [1, 2].map(() => browser.post<{ id: string }>('/keys', { kind: 'management', account: 'default' })),
    )
    const sends = [`/keys/${mine[0]!.json.id}`, `/users/${json.user.id}`]
    const lines = await linesOf(() => atBoth('keys', (owner) => owner.ask('DELETE', sends[owners.indexOf(owner)]!)))
    expect(lines).toEqual(['key.revoke', 'key.revoke', 'user.remove'])
  }, 60_000)
})
