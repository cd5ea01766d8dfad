import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runSluice } from '../cli/run.ts'
import { startGateway, startGatewayProcess, type Gateway } from '../server.ts'
import { sqlIn } from '../stores.ts'
import { beside, Browser, firstLink, inviteFor, ownerOf, signedIn } from './browser.ts'

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway({ config: 'console: { hosts: [console.test] }\n' })
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

const PASSWORD = 'correct horse battery'

describe('the first start', () => {
  test('a link is printed as long as there is no user; it makes one owner, once', async () => {
    const started = await startGatewayProcess()
    try {
      const printed = /^console {2}(http:\S+)\/console\/enter#([\w-]{43})\n/m
      while (!printed.test(started.output().stdout)) await Bun.sleep(5)
      const [, url = '', link = ''] = printed.exec(started.output().stdout)!
      expect(url).toBe(started.url)
      const browser = new Browser(url)
      expect((await browser.post('/session/preview', { link })).json).toEqual({ kind: 'first', user: null })
      const other = await firstLink(started.data)
      const { status, json } = await browser.post('/session', { link, name: 'Ann' })
      expect([status, json]).toEqual([
        201,
        {
          user: { id: expect.stringMatching(/^usr_/), name: 'Ann', email: null },
          roles: [{ scope: 'installation', role: 'owner' }],
          expires_at: expect.stringMatching(/Z$/),
          version: expect.any(String),
          capture: { most: 'off', on: [] },
        },
      ])
      for (const used of [link, other, 'x'])
        expect((await new Browser(url).post('/session', { link: used, name: 'Bob' })).status).toBe(404)
      // Neither link nor cookie is anywhere in the output or the database.
      expect(started.output().stderr).not.toContain(link)
      expect(started.output().stderr).not.toContain(browser.cookie.split('=')[1]!)
    } finally {
      await started.stop()
    }
  })

  test('an owner with a password comes from the environment, and no link is printed then', async () => {
    const env = { SLUICE_OWNER: 'Ann@Example.com', SLUICE_OWNER_PASSWORD: PASSWORD }
    const started = await startGatewayProcess({ env })
    try {
      expect(started.output().stdout).not.toContain('/console/enter')
      const browser = new Browser(started.url)
      const signIn = { email: 'ann@example.com', password: PASSWORD }
      expect((await browser.post('/session', signIn)).json).toMatchObject({ user: { name: 'Ann' } })
      // The work of a hash outside the process of the tests.
      const stored = await sqlIn(started.data, 'SELECT substr(password, 1, 28) AS hash FROM users')
      expect(stored).toEqual([{ hash: '$argon2id$v=19$m=65536,t=2,p' }])
    } finally {
      await started.stop()
    }
  })

  test.each([
    [{ SLUICE_OWNER: 'ann' }, 'SLUICE_OWNER must be an e-mail address'],
    [{ SLUICE_OWNER: 'ann@example.com', SLUICE_OWNER_PASSWORD: 'short' }, 'SLUICE_OWNER_PASSWORD must have 12 to 200'],
  ])('a wrong owner in the environment is refused before keys are made and printed', async (env, problem) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-owner-'))
    const ran = await runSluice(['serve', '--port', '0', '--data', folder], { env })
    expect(ran).toMatchObject({ code: 1, out: '', err: expect.stringContaining(problem) })
    rmSync(folder, { recursive: true })
  })

  test('a management key from the environment is an owner', async () => {
    const text = 'sk-mg-v1-0123456789abcdef'
    const started = await startGateway({ env: { SLUICE_MANAGEMENT_KEY: text } })
    try {
      const response = await fetch(`${started.url}/v1/management/session`, {
        headers: { authorization: `Bearer ${text}` },
      })
      expect(await response.json()).toMatchObject({ user: null, roles: [{ scope: 'installation', role: 'owner' }] })
    } finally {
      await started.stop()
    }
  })
})

describe('links', () => {
  test('an expired link is refused like an unknown one', async () => {
    const text = await inviteFor(gateway.data, { name: 'Late', roles: [] })
    const browser = new Browser(gateway.url)
    const unknown = await browser.post('/session/preview', { link: 'unknown' })
    expect(unknown.status).toBe(404)
    expect((await browser.post('/session/preview', { link: text })).json).toEqual({
      kind: 'invite',
      user: { name: 'Late', email: null },
    })
    await expireLinks()
    expect((await browser.post('/session/preview', { link: text })).text.replace(/req_\w+/, '')).toBe(
      unknown.text.replace(/req_\w+/, ''),
    )
    expect((await browser.post('/session', { link: text })).status).toBe(404)
  })

  async function expireLinks(): Promise<void> {
    await sqlIn(gateway.data, 'UPDATE sign_in_links SET expires_at = 1')
  }

  test('an invited person chooses a name and a password, and comes back with it', async () => {
    const link = await inviteFor(gateway.data, { name: 'bob', email: 'bob@example.com', roles: [] })
    const browser = new Browser(gateway.url)
    const weak = await browser.post('/session', { link, name: 'Bob', password: 'short' })
    expect([weak.status, weak.json]).toMatchObject([400, { error: { param: 'password' } }])
    expect((await browser.post('/session', { link, name: 'Bob', password: PASSWORD })).status).toBe(201)
    const again = await new Browser(gateway.url).post('/session', { email: 'BOB@example.com', password: PASSWORD })
    expect(again.json).toMatchObject({ user: { name: 'Bob' } })
  })

  test('of two that use a link at once, one gets in', async () => {
    const link = await inviteFor(gateway.data, { name: 'Twice', roles: [] })
    const both = await Promise.all([1, 2].map(() => new Browser(gateway.url).post('/session', { link })))
    expect(both.map(({ status }) => status).sort()).toEqual([201, 404])
  })
})

describe('passwords', () => {
  test('behind a proxy, the wrong passwords of each client are counted apart', async () => {
    const started = await startGateway({ config: 'limits: { requestsPerMinute: 1000 }\n' })
    try {
      const sign = (client: string, email: string) =>
        new Browser(started.url).ask('POST', '/session', { email, password: 'wrong' }, { 'x-forwarded-for': client })
      for (let tries = 0; tries < 10; tries++) await sign('9.9.9.9, 203.0.113.1', `user${tries}@example.com`)
      expect((await sign('203.0.113.1', 'other@example.com')).status).toBe(422)
      expect((await sign('203.0.113.1, 203.0.113.2', 'other@example.com')).status).toBe(401)
    } finally {
      await started.stop()
    }
  }, 60_000)

  test('a name that is tried from many addresses is slowed, but not for the address of its owner', async () => {
    const env = { SLUICE_OWNER: 'ann@example.com', SLUICE_OWNER_PASSWORD: PASSWORD }
    const started = await startGateway({ config: 'limits: { requestsPerMinute: 1000 }\n', env })
    try {
      const sign = async (client: string, password: string): Promise<number> => {
        const body = { email: 'ann@example.com', password }
        return (await new Browser(started.url).ask('POST', '/session', body, { 'x-forwarded-for': client })).status
      }
      expect(await sign('203.0.113.1', PASSWORD)).toBe(201)
      const strangers = Array.from({ length: 40 }, (_, n) => sign(`198.51.100.${n}`, 'wrong'))
      expect((await Promise.all(strangers)).filter((status) => status === 401)).toHaveLength(10)
      expect(await sign('198.51.100.99', PASSWORD)).toBe(422)
      expect(await sign('203.0.113.1', PASSWORD)).toBe(201)
      for (let tries = 0; tries < 10; tries++) expect(await sign('203.0.113.1', 'wrong')).toBe(401)
      expect(await sign('203.0.113.1', PASSWORD)).toBe(422)
    } finally {
      await started.stop()
    }
  }, 60_000)

  test('ten wrong ones in 15 minutes are the most, for known and unknown names alike', async () => {
    const started = await startGateway()
    try {
      const browser = new Browser(started.url)
      const sign = (email: string) => browser.post('/session', { email, password: 'a wrong password' })
      const first = await sign('no-one@example.com')
      expect([first.status, first.code]).toEqual([401, 'sign_in_required'])
      for (let tries = 1; tries < 10; tries++) expect((await sign(`user${tries}@example.com`)).status).toBe(401)
      const refused = await sign('other@example.com')
      expect([refused.status, refused.code]).toEqual([422, 'rate_limit_exceeded'])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(600)
    } finally {
      await started.stop()
    }
  }, 60_000)
})

describe('sessions', () => {
  test('the cookie is for scripts out of reach, for this port, and of one site', async () => {
    const link = await inviteFor(gateway.data, { name: 'C', roles: [] })
    const got = await new Browser(gateway.url).post('/session', { link })
    expect(got.headers.get('set-cookie')).toMatch(
      new RegExp(
        `^sluice_${new URL(gateway.url).port}=[\\w-]{43}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000$`,
      ),
    )
  })

  test('over https the cookie is secure and of the host alone', async () => {
    const started = await startGateway({ config: "listen: { publicUrl: 'https://console.test' }\n" })
    try {
      const link = await firstLink(started.data)
      const got = await new Browser(started.url).ask('POST', '/session', { link }, { host: 'console.test' })
      expect(got.headers.get('set-cookie')).toMatch(
        /^__Host-sluice=[\w-]{43}; Secure; HttpOnly; SameSite=Strict; Path=\/; Max-Age=604800$/,
      )
    } finally {
      await started.stop()
    }
  })

  test('signing out ends the session, also for a copy of its cookie', async () => {
    const browser = await signedIn(gateway, 'Out', [])
    const copy = new Browser(gateway.url)
    copy.cookie = browser.cookie
    expect((await copy.get('/session')).status).toBe(200)
    expect((await browser.ask('DELETE', '/session')).status).toBe(204)
    expect([browser.cookie, (await copy.get('/session')).code]).toEqual(['', 'sign_in_required'])
  })

  test('a change of roles gives the session a new text, and counts at once', async () => {
    const browser = await signedIn(gateway, 'Risen', [])
    const { json } = await browser.get('/session')
    const before = browser.cookie
    const { id } = json['user'] as { id: string }
    await beside(gateway.data, ({ users }) => users.setRoles(id, [{ scope: 'installation', role: 'viewer' }]))
    const { json: after } = await browser.get('/session')
    expect(after['roles'] as unknown).toEqual([{ scope: 'installation', role: 'viewer' }])
    expect(browser.cookie).not.toBe(before)
    expect((await browser.get('/session')).status).toBe(200)
  })

  test('a session is one of the management API alone', async () => {
    for (const [method, path] of [
      ['GET', '/v1/models'],
      ['POST', '/v1/chat/completions'],
      ['GET', '/v1/management/payg/balance'],
    ] as const) {
      const response = await fetch(gateway.url + path, { method, headers: { cookie: owner.cookie } })
      expect([path, response.status]).toEqual([path, 401])
    }
  })

  test('where the console is off, there are no sessions', async () => {
    const started = await startGateway({ config: 'console: { enabled: false }\n' })
    try {
      const browser = new Browser(started.url)
      expect((await browser.post('/session', { link: await firstLink(started.data) })).status).toBe(404)
      expect((await fetch(`${started.url}/console`)).status).toBe(404)
    } finally {
      await started.stop()
    }
  })
})

describe('other sites', () => {
  const json = { 'content-type': 'application/json' }
  const crossSite: [string, Record<string, string | null>][] = [
    ['a request of another site', { 'sec-fetch-site': 'cross-site' }],
    ['a request of another port or subdomain', { 'sec-fetch-site': 'same-site' }],
    ['a navigation', { 'sec-fetch-site': 'none' }],
    ['another Origin', { 'sec-fetch-site': null, origin: 'http://evil.test' }],
    ['a null Origin', { 'sec-fetch-site': null, origin: 'null' }],
    ['a request without any mark', { 'sec-fetch-site': null, 'x-sluice-console': null }],
  ]
  test.each(crossSite)('%s is refused with a session', async (_, headers) => {
    expect([(await owner.ask('GET', '/session', undefined, headers)).code]).toEqual(['permission_denied'])
    expect((await owner.ask('DELETE', '/session', undefined, headers)).status).toBe(403)
    const signIn = await new Browser(gateway.url).ask('POST', '/session', { link: 'x' }, headers)
    expect(signIn.status).toBe(403)
  })

  test('a form cannot send JSON, and a change without the header of the console is refused', async () => {
    const form = { 'content-type': 'text/plain' }
    expect((await new Browser(gateway.url).ask('POST', '/session', { link: 'x' }, form)).status).toBe(415)
    const unmarked = { 'x-sluice-console': null }
    expect(
      (await new Browser(gateway.url).ask('POST', '/session', { link: 'x' }, { ...json, ...unmarked })).status,
    ).toBe(403)
    expect((await owner.ask('DELETE', '/session', undefined, unmarked)).status).toBe(403)
  })

  test('the same Origin is enough where a browser sends no Sec-Fetch-Site', async () => {
    const headers = { 'sec-fetch-site': null, origin: gateway.url }
    expect((await owner.ask('GET', '/session', undefined, headers)).status).toBe(200)
    expect((await owner.ask('GET', '/session', undefined, { 'sec-fetch-site': null })).status).toBe(200)
  })

  test('an unknown Host is refused on session routes and the console, and a configured one is not', async () => {
    const port = new URL(gateway.url).port
    for (const [host, status] of [
      ['evil.test', 421],
      [`127.0.0.1.evil.test:${port}`, 421],
      ['console.test', 200],
      [`localhost:${port}`, 200],
    ] as const) {
      const cookie = owner.cookie.replace(/^sluice_\d+/, `sluice_${host.split(':')[1] ?? '80'}`)
      expect([host, (await owner.ask('GET', '/session', undefined, { host, cookie })).status]).toEqual([host, status])
      const page = await fetch(`${gateway.url}/console`, { headers: { host } })
      expect([host, page.status === 421]).toEqual([host, status === 421])
      const keys = { host, authorization: `Bearer ${gateway.createdKeys['management']}` }
      expect((await fetch(`${gateway.url}/v1/management/session`, { headers: keys })).status).toBe(200)
    }
  })
})

describe('management keys', () => {
  const withKey = (kind: string) => ({ authorization: `Bearer ${gateway.createdKeys[kind]}` })
  const get = (headers: Record<string, string>) => fetch(`${gateway.url}/v1/management/session`, { headers })

  test('a management key without a role is a viewer of its account', async () => {
    const response = await get(withKey('management'))
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        user: null,
        roles: [{ scope: expect.stringMatching(/^acct_/), role: 'viewer' }],
        expires_at: null,
        version: expect.any(String),
        capture: { most: 'off', on: [] },
      },
    ])
  })

  test('other requests are refused: without a key, with a wrong one, and with one for inference', async () => {
    const refused = async (headers: Record<string, string>) => {
      const response = await get(headers)
      return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
    }
    expect(await refused({})).toEqual([401, 'sign_in_required'])
    expect(await refused({ authorization: 'Bearer sk-mg-v1-wrong' })).toEqual([401, 'invalid_api_key'])
    expect(await refused(withKey('pay-as-you-go'))).toEqual([403, 'permission_denied'])
  })
})
