import { describe, expect, test } from 'bun:test'
import { useGateway } from './kit.ts'
import { ERRORS, expectError, ROUTES, type Route } from './wire-kit.ts'

/** Keys, statuses and error bodies of every route. */

const LIMITED = 'sk-ai-v1-limitedlimitedlimited1'
const gateway = useGateway(`
limits: { requestsPerMinute: 1000000, body: 1MiB }
keys: [{ key: "${LIMITED}", requestsPerMinute: 2 }]
`)
const keyOf = (kind: string): string => gateway.createdKeys()[kind]!

const GETS: Route[] = [
  { name: 'models', path: '/v1/models', body: {}, format: 'openai' },
  { name: 'a stored response', path: '/v1/responses/resp_x', body: {}, format: 'openai' },
]

const ask = (route: Route, headers: Record<string, string>, body: unknown = route.body): Promise<Response> =>
  fetch(gateway.url() + route.path, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

describe.each(ROUTES.map((route) => [route.name, route] as const))('%s', (_, route) => {
  const withKey = (): Record<string, string> => ({ authorization: `Bearer ${gateway.key()}` })

  test('a valid key of either kind is accepted', async () => {
    expect((await ask(route, withKey())).status).toBe(200)
    expect((await ask(route, { authorization: `Bearer ${keyOf('subscription')}` })).status).toBe(200)
  })

  test('every invalid key is refused with the same 401, and a request without one with another', async () => {
    const key = gateway.key()
    const without: Record<string, string>[] = [
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: key },
      { authorization: `Basic ${key}` },
      { authorization: `Bearer ${key} x` },
      { authorization: `Bearer ' OR 1=1 --` },
      { authorization: `Bearer\t\t${key}x` },
    ]
    const wrong: Record<string, string>[] = [
      { authorization: `Bearer ${key}x` },
      { authorization: `Bearer ${key.toUpperCase()}` },
      { authorization: `Bearer ${'a'.repeat(8000)}` },
      { 'x-api-key': 'wrong' },
      { 'x-goog-api-key': `${key}x` },
      { 'x-api-key': `Bearer ${key}` },
      { authorization: 'Bearer sk-ai-v1-0000000000000000000000000000000000000000000' },
      { authorization: `Bearer ${new Bun.CryptoHasher('sha256').update(key).digest('hex')}` },
    ]
    const refusal = async (headers: Record<string, string>, path = route.path): Promise<string> =>
      expectError(await ask({ ...route, path }, headers), route.format, ERRORS.key!)
    const of = async (all: readonly Record<string, string>[]): Promise<Set<string>> =>
      new Set(await Promise.all(all.map((headers) => refusal(headers))))
    expect((await of(wrong)).size).toBe(1)
    expect((await of(without)).size).toBe(1)
    expect([await refusal({}), await refusal({}, `${route.path}?key=${key}`)]).toEqual(
      Array(2).fill(await refusal({ cookie: `key=${key}` })),
    )
  })

  test('the key may be in any of three headers', async () => {
    for (const headers of [
      { authorization: `bearer ${gateway.key()}` },
      { 'x-api-key': gateway.key() },
      { 'x-goog-api-key': gateway.key() },
      { authorization: 'Bearer other', 'x-api-key': gateway.key() },
    ] as Record<string, string>[]) {
      expect((await ask(route, headers)).status).toBe(200)
    }
  })

  test('a management key is refused with 403', async () => {
    await expectError(await ask(route, { authorization: `Bearer ${keyOf('management')}` }), route.format, ERRORS.kind!)
  })

  test('every kind of invalid request has its own status', async () => {
    await expectError(await ask(route, withKey(), '{"a":'), route.format, ERRORS.invalid!)
    await expectError(
      await ask(route, withKey(), { ...route.body, [route.format === 'google' ? 'contents' : 'model']: 5 }),
      route.format,
      ERRORS.invalid!,
    )
    await expectError(await ask(route, { ...withKey(), 'content-encoding': 'gzip' }), route.format, ERRORS.media!)
    await expectError(await ask(route, withKey(), `{"a":"${'x'.repeat(1024 * 1024)}"}`), route.format, ERRORS.large!)
    await expectError(
      await fetch(gateway.url() + route.path, { headers: withKey() }),
      route.format,
      route.path === '/v1/responses' ? { ...ERRORS.method!, status: 426, code: 'upgrade_required' } : ERRORS.method!,
    )
    await expectError(
      await fetch(gateway.url() + route.path, { method: 'PUT', headers: withKey(), body: '{}' }),
      route.format,
      ERRORS.method!,
    )
  })

  test('an unknown model is refused with the nearest name', async () => {
    const wrong =
      route.format === 'google'
        ? { ...route, path: route.path.replace('gemini:', 'gemni:') }
        : { ...route, body: { ...route.body, model: 'sandbox/mesages' } }
    const message = await expectError(await ask(wrong, withKey()), route.format, ERRORS.model!)
    expect(message).toContain(route.format === 'google' ? 'sandbox/gemini' : 'sandbox/messages')
  })

  test('a request over the per-minute limit is refused with 422 and a time to wait, and is not counted', async () => {
    const limited = { authorization: `Bearer ${LIMITED}` }
    for (let i = 0; i < 2; i++) expect((await ask(route, limited)).status).toBe(200)
    for (let i = 0; i < 2; i++) {
      const response = await ask(route, limited)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(response.headers.get('x-should-retry')).toBe('true')
      await expectError(response, route.format, ERRORS.rate!)
    }
  })

  test('Content-Type and Accept are ignored', async () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=utf-8' },
      { accept: 'text/event-stream' },
      { accept: 'nonsense' },
    ] as Record<string, string>[]) {
      expect((await ask(route, { ...withKey(), ...headers })).status).toBe(200)
    }
  })
})

describe.each(GETS.map((route) => [route.name, route] as const))('%s', (_, route) => {
  test('a missing key is refused with 401 and a management key with 403', async () => {
    await expectError(await fetch(gateway.url() + route.path), route.format, ERRORS.key!)
    await expectError(
      await fetch(gateway.url() + route.path, { headers: { authorization: `Bearer ${keyOf('management')}` } }),
      route.format,
      ERRORS.kind!,
    )
  })
})

test('public routes need no key', async () => {
  expect((await fetch(`${gateway.url()}/api/hello`, { method: 'HEAD' })).status).toBe(200)
  for (const path of ['/livez', '/readyz']) expect((await fetch(gateway.url() + path)).status).toBe(200)
})
