import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Refusals of requests that are wrong as a whole: key, path, method, syntax, number. */

const LIMITED = 'sk-ai-v1-limited-0123456789abcdef'
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: `keys: [{ key: ${LIMITED}, requestsPerMinute: 1 }]\n` })
})
afterAll(() => gateway?.stop())

async function send(
  method: string,
  path: string,
  { key = gateway.key, body }: { key?: string; body?: string } = {},
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(gateway.url + path, {
    method,
    headers: key === '' ? {} : { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test('every 401 has WWW-Authenticate, and every 405 the methods of the path in Allow', async () => {
  for (const [method, path] of [
    ['POST', '/v1/chat/completions'],
    ['POST', '/v1/messages'],
    ['POST', '/v1beta/models/sandbox/gemini:generateContent'],
    ['GET', '/v1/files'],
    ['GET', '/v1/management/generation?id=x'],
  ] as const) {
    const { status, headers } = await send(method, path, { key: '' })
    expect([path, status, headers.get('www-authenticate')]).toEqual([path, 401, 'Bearer'])
  }
  for (const [method, path, allow] of [
    ['GET', '/v1/chat/completions', 'POST'],
    ['PUT', '/v1/responses/resp_1', 'GET, HEAD, DELETE'],
    ['DELETE', '/v1/files', 'POST, GET, HEAD'],
    ['GET', '/v1beta/models/sandbox/gemini:generateContent', 'POST'],
    ['HEAD', '/v1beta/models/sandbox/gemini:generateContent', 'POST'],
    ['POST', '/livez', 'GET, HEAD'],
    ['GET', '/api/hello', 'HEAD'],
  ] as const) {
    const { status, headers } = await send(method, path)
    expect([path, status, headers.get('allow')]).toEqual([path, 405, allow])
  }
})

test.each([
  ['POST', '/chat/completions', '/v1/chat/completions'],
  ['POST', '/v1/v1/messages', '/v1/messages'],
  ['POST', '/v1/messages/', '/v1/messages'],
  ['POST', '/openai/v1/chat/completions', '/v1/chat/completions'],
  ['GET', '/models', '/v1/models'],
  ['POST', '/models/sandbox/gemini:generateContent', '/v1/models/sandbox/gemini:generateContent'],
  [
    'POST',
    '/relay/v1/publishers/sandbox/models/gemini:generateContent',
    '/v1/publishers/sandbox/models/gemini:generateContent',
  ],
  [
    'POST',
    '/v1/publishers/sandbox/models/gemini:generateContent/',
    '/v1/publishers/sandbox/models/gemini:generateContent',
  ],
  ['POST', '/v1beta/models/sandbox/gemini:countTokens/', '/v1beta/models/sandbox/gemini:countTokens'],
])('%s %s is answered with 404, which names %s', async (method, path, meant) => {
  const { status, text } = await send(method, path, { body: method === 'POST' ? '{}' : undefined! })
  expect([status, text]).toEqual([404, expect.stringContaining(`Did you mean ${meant}?`)])
})

test("a path with a slash behind a model's method is refused in Google's error format", async () => {
  const { text } = await send('POST', '/v1/publishers/sandbox/models/gemini:generateContent/', { body: '{}' })
  expect(JSON.parse(text)).toMatchObject({ error: { code: 404, status: 'NOT_FOUND' } })
})

test.each([
  '/v1beta/models/sandbox/gemini:embedContent',
  '/v1/publishers/sandbox/models/gemini:predict',
  '/v1beta1/publishers/google/models/imagen-4:predictLongRunning',
])('POST %s is answered with 404, which names the methods of a model', async (path) => {
  const { status, text } = await send('POST', path, { body: '{}' })
  const methods = 'The methods of a model are :generateContent, :streamGenerateContent and :countTokens.'
  expect([status, text]).toEqual([404, expect.stringContaining(methods)])
})

test('an unknown path of the management API is answered with its own paths', async () => {
  expect((await send('GET', '/v1/management/key')).text).toContain('Did you mean /v1/management/keys?')
  for (const path of ['/v1/management', '/v1/management/balance', '/v1/management/keys/a/b/c']) {
    const { status, text } = await send('GET', path)
    expect([path, status, text]).toEqual([path, 404, expect.stringMatching(/accounts, .*keys, .*payg, .*users/)])
    expect(text).not.toContain('chat/completions')
  }
})

test('a path that resembles none has no suggestion', async () => {
  for (const path of ['/', '/nothing', `/${'a/'.repeat(50)}v1/models`])
    expect([path, (await send('GET', path)).text.includes('Did you mean')]).toEqual([path, false])
})

test('a body that is not JSON is refused with the line and column of the mistake, in every protocol', async () => {
  const body = '{\n  "model": "sandbox/chat",\n  "messages": [},\n}'
  for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses', '/v1/predictions']) {
    const { status, text } = await send('POST', path, { body })
    expect([path, status, text]).toEqual([path, 400, expect.stringContaining('is not valid JSON at line 3, column 16')])
  }
})

test('the refusal of a rate limit names the path', async () => {
  expect((await send('GET', '/v1/models', { key: LIMITED })).status).toBe(200)
  const { status, text } = await send('GET', '/v1/models', { key: LIMITED })
  expect([status, text]).toEqual([422, expect.stringContaining('1 requests per minute to /v1/models. Retry in')])
})
