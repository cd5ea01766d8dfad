import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { everythingIn } from '../stores.ts'
import { Browser } from './browser.ts'

/** Secrets that pass through a server: none is in its log, its answers to others or its data. */

const OWNER = 'owner@example.com'
const PASSWORDS = {
  owner: 'canary owner password 1',
  changed: 'canary owner password 2',
  wrong: 'canary wrong password 3',
}
const PROVIDER_KEY = 'canary.provider.key.4711'
const UNKNOWN_KEY = 'sk-ai-v1-canaryUnknownKey0123456789abcdef'

/** A provider that quotes its key in every error. */
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { stream } = (await request.json()) as { stream?: boolean }
    const error = { error: { message: `Quota of ${request.headers.get('authorization')} is used up`, code: 'x' } }
    if (stream !== true) return Response.json(error, { status: 400 })
    return new Response(`data: ${JSON.stringify(error)}\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  },
})

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = await startGatewayProcess({
    config: 'providers: { openai: { protocol: chat.completions } }\nlimits: { requestsPerMinute: 1000 }\n',
    env: {
      OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}/v1`,
      SLUICE_OWNER: OWNER,
      SLUICE_OWNER_PASSWORD: PASSWORDS.owner,
    },
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

const ask = async (key: string, protocol: 'chat/completions' | 'messages', stream: boolean): Promise<string> =>
  (
    await fetch(`${gateway.url}/v1/${protocol}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: 'openai/gpt-4o-mini',
        max_tokens: 10,
        stream,
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    })
  ).text()

test('no secret is in the log, in the change log, in records, in errors or in what is stored', async () => {
  const owner = new Browser(gateway.url)
  const sessions: string[] = []
  const signIn = async (browser: Browser, password: string): Promise<number> => {
    const { status } = await browser.post('/session', { email: OWNER, password })
    sessions.push(browser.cookie.split('=').slice(1).join('='))
    return status
  }
  expect(await signIn(new Browser(gateway.url), PASSWORDS.wrong)).toBe(401)
  expect(await signIn(owner, PASSWORDS.owner)).toBe(201)
  const { user } = (await owner.get<{ user: { id: string } }>('/session')).json
  const passwords = { password: PASSWORDS.changed, old_password: PASSWORDS.owner }
  expect((await owner.change('PUT', `/users/${user.id}/password`, passwords)).status).toBeLessThan(300)
  expect((await owner.ask('PUT', '/providers/openai/key', { key: PROVIDER_KEY })).status).toBe(204)
  const made = await owner.post<{ text: string; id: string }>('/keys', { kind: 'pay-as-you-go', name: 'ci' })
  expect(made.status).toBe(201)
  const rotated = await owner.post<{ text: string }>(`/keys/${made.json.id}/rotate`, { grace_seconds: 60 })
  const invited = await owner.post<{ id: string }>('/users', { name: 'Bob', email: 'bob@example.com', roles: [] })
  const link = await owner.post<{ url: string }>(`/users/${invited.json.id}/links`, {})
  const linkText = link.json.url.split('#')[1]!

  const shown = [await ask(UNKNOWN_KEY, 'chat/completions', false)]
  for (const key of [made.json.text, rotated.json.text])
    for (const protocol of ['chat/completions', 'messages'] as const)
      for (const stream of [false, true]) shown.push(await ask(key, protocol, stream))
  expect(shown.filter((text) => text.includes('is used up')).length).toBeGreaterThan(3)

  const lists = ['/changes', '/requests', '/keys', '/users', '/providers', '/settings', '/system', `/users/${user.id}`]
  for (const path of [...lists, '/requests/export?format=jsonl']) shown.push(await owner.text(path))
  shown.push(await (await fetch(`${gateway.url}/metrics`)).text())
  const printed = gateway.output()
  const everything = [...shown, printed.stdout, printed.stderr, await everythingIn(gateway.data)].join('\n')
  const texts = [made.json.text, rotated.json.text, linkText, ...sessions.filter((text) => text !== '')]
  const secrets = [...Object.values(PASSWORDS), PROVIDER_KEY, UNKNOWN_KEY, ...texts]
  expect([secrets.length, Math.min(...secrets.map(({ length }) => length)) > 15]).toEqual([9, true])
  expect(secrets.filter((secret) => everything.includes(secret))).toEqual([])
  expect(everything).toContain('Bob')
}, 60_000)
