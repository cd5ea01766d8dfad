import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import type { Role } from '../../src/accounts/roles.ts'
import type { SessionAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { Browser, ownerOf, signedIn } from './browser.ts'

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

const ADMIN: Role = { scope: 'installation', role: 'admin' }
const idOf = async (browser: Browser): Promise<string> =>
  (await browser.get<SessionAnswer>('/session')).json.user?.id ?? ''

/** A request whose body has begun. `end`: sends the rest, and gives the status of the answer. */
async function slowly(
  browser: Browser,
  line: string,
  body: object,
  version = '*',
): Promise<{ end(): Promise<number> }> {
  const { hostname, port, host } = new URL(gateway.url)
  const text = JSON.stringify(body)
  const socket = await new Promise<Socket>((resolve) => {
    const made = connect(Number(port), hostname, () => resolve(made))
  })
  const headers = [
    `host: ${host}`,
    `cookie: ${browser.cookie}`,
    'sec-fetch-site: same-origin',
    'x-sluice-console: 1',
    `if-match: ${version}`,
    'content-type: application/json',
    `content-length: ${text.length}`,
  ]
  socket.write(`${line} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${text.slice(0, 1)}`)
  return {
    end: () =>
      new Promise((resolve, reject) => {
        socket.once('error', reject)
        socket.once('data', (bytes) => {
          socket.destroy()
          resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString())?.[1]))
        })
        socket.write(text.slice(1))
      }),
  }
}

describe('a body that comes slowly', () => {
  test('does not bring an old password back', async () => {
    const [first, second] = ['the first password', 'the second password']
    const user = await signedIn(gateway, 'Uma', [ADMIN])
    const id = await idOf(user)
    await owner.change('PATCH', `/users/${id}`, { email: 'uma@x.test' })
    await user.ask('PUT', `/users/${id}/password`, { password: first })
    const elsewhere = new Browser(gateway.url)
    expect((await elsewhere.post('/session', { email: 'uma@x.test', password: first })).status).toBe(201)
    const slow = await slowly(elsewhere, `PATCH /v1/management/users/${id}`, { name: 'Uma B' })
    const changed = await user.ask('PUT', `/users/${id}/password`, { password: second, old_password: first })
    expect(changed.status).toBe(204)
    expect(await slow.end()).toBe(401)
    const sign = (password: string) => new Browser(gateway.url).post('/session', { email: 'uma@x.test', password })
    expect([(await sign(first)).status, (await sign(second)).status]).toEqual([401, 201])
  })

  test('does not keep the roles that its sender had when it began', async () => {
    const eve = await signedIn(gateway, 'Eve', [ADMIN])
    const id = await idOf(eve)
    const slow = await slowly(eve, 'POST /v1/management/users', { name: 'Friend', roles: [ADMIN] })
    expect((await owner.change('PATCH', `/users/${id}`, { roles: [] })).status).toBe(200)
    expect(await slow.end()).toBe(403)
  })

  test('does not give roles back that its user lost meanwhile', async () => {
    const account = (await owner.post<{ id: string }>('/accounts', { name: 'slow-team' })).json.id
    const friend = await signedIn(gateway, 'Fay', [{ scope: account, role: 'admin' }])
    const mallory = await signedIn(gateway, 'Mal', [ADMIN, { scope: account, role: 'viewer' }])
    const id = await idOf(mallory)
    const roles = [{ scope: account, role: 'member' }]
    const slow = await slowly(friend, `PATCH /v1/management/users/${id}`, { roles })
    const fewer = await owner.change('PATCH', `/users/${id}`, { roles: [{ scope: account, role: 'viewer' }] })
    expect(fewer.status).toBe(200)
    expect(await slow.end()).toBe(200)
    expect((await mallory.get<SessionAnswer>('/session')).json.roles).toEqual(roles as Role[])
  })

  test('is that of a single change, where several of one version end at once', async () => {
    const path = `/accounts/${(await owner.post<{ id: string }>('/accounts', { name: 'hurried' })).json.id}`
    const version = (await owner.get(path)).headers.get('etag')!
    const changes = await Promise.all(
      Array.from({ length: 8 }, (_, discount) =>
        slowly(owner, `PATCH /v1/management${path}`, { discount: discount + 1 }, version),
      ),
    )
    const statuses = await Promise.all(changes.map((change) => change.end()))
    expect(statuses.toSorted()).toEqual([200, ...Array.from({ length: 7 }, () => 409)])
  })
})
