import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { LOSS_CODES } from '../../src/protocols/loss-codes.ts'
import { startGateway, type Gateway } from '../server.ts'
import { PROTOCOLS } from './asking.ts'
import { COUNTED, framed, protocolOf, RESPONSE_PIECES } from './scripted.ts'

/** Losses of a translation are reported in header, record and body, and are refused in strict mode. */

let gateway: Gateway, strict: Gateway
let upstream: ReturnType<typeof Bun.serve>
const requests: { protocol: ConversationName; body: Record<string, unknown> }[] = []

async function respond(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url)
  const protocol = protocolOf(pathname)
  const body = (await request.json()) as Record<string, unknown>
  requests.push({ protocol, body })
  const pieces = RESPONSE_PIECES[protocol]
  if (body.stream !== true && !pathname.includes(':stream')) return Response.json(pieces.whole(COUNTED))
  return new Response(framed([...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)]), {
    headers: { 'content-type': 'text/event-stream' },
  })
}

const nameOf = (protocol: ConversationName): string => `on-${protocol.split('.')[0]!.toLowerCase()}`

beforeAll(async () => {
  upstream = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: respond })
  const baseUrl = `http://127.0.0.1:${upstream.port}/v1`
  const providers = PROTOCOLS.map(
    (protocol) =>
      `  ${nameOf(protocol)}: { protocol: ${protocol}, baseUrl: "${baseUrl}", apiKey: secret, unlisted: true }\n`,
  ).join('')
  const both = `
models:
  both: { endpoints: [{ provider: on-messages, model: m }, { provider: on-chat, model: m }] }
  chat-first: { endpoints: [{ provider: on-chat, model: m }, { provider: on-messages, model: m }] }
`
  ;[gateway, strict] = await Promise.all([
    startGateway({ config: `providers:\n${providers}${both}\n` }),
    startGateway({ config: `strict: true\nproviders:\n${providers}` }),
  ])
})

afterAll(async () => {
  await Promise.all([gateway?.stop(), strict?.stop()])
  await upstream?.stop(true)
})

type Asking = { at?: Gateway; headers?: Record<string, string>; stream?: boolean; more?: object }

/** A request that is translated without losses. `more`: members added to its body. */
function ask(
  protocol: ConversationName,
  model: string,
  { at = gateway, headers = {}, stream = false, more = {} }: Asking = {},
): Promise<Response> {
  const messages = [{ role: 'user', content: 'Hello' }]
  const [path, body] = (
    {
      'chat.completions': ['/v1/chat/completions', { model, stream, max_tokens: 100, messages }],
      responses: ['/v1/responses', { model, stream, max_output_tokens: 100, input: 'Hello' }],
      messages: ['/v1/messages', { model, stream, max_tokens: 100, messages }],
      generateContent: [
        `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
        { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }], generationConfig: { maxOutputTokens: 100 } },
      ],
    } satisfies Record<ConversationName, [string, object]>
  )[protocol]
  return fetch(at.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${at.key}`, ...headers },
    body: JSON.stringify({ ...body, ...more }),
  })
}

const UNKNOWN = { vendor_extra: { a: 1 } }
const LOSS = {
  code: 'native_field',
  path: 'vendor_extra',
  effect: 'dropped',
  reason: LOSS_CODES.native_field[1],
}

async function recordOf(response: Response, at = gateway): Promise<Record<string, unknown>> {
  const record = await fetch(`${at.url}/v1/management/generation?id=${response.headers.get('x-generation-id')}`, {
    headers: { authorization: `Bearer ${at.key}` },
  })
  return (await record.json()) as Record<string, unknown>
}

const lossesOf = (response: Response): unknown => JSON.parse(response.headers.get('x-sluice-translation') ?? '[]')

/** The `sluice` members of a response or of the frames of a stream, at their top level or in `response`. */
function reportsIn(text: string): unknown[] {
  const frames = text.startsWith('{') ? [text] : [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => data!)
  return frames.flatMap((frame) => {
    const value = JSON.parse(frame) as { sluice?: unknown; response?: { sluice?: unknown } }
    return [value.sluice, value.response?.sluice].filter((one) => one !== undefined)
  })
}

const ROUTES = PROTOCOLS.flatMap((client) => PROTOCOLS.map((provider) => [client, provider] as const))

describe.each(ROUTES)('%s on %s', (client, provider) => {
  const passes = client === provider
  const expected = passes ? [] : [LOSS]

  test.each([false, true])('a loss is reported in header, record and body, streamed: %p', async (stream) => {
    const response = await ask(client, `${nameOf(provider)}/m`, {
      stream,
      more: UNKNOWN,
      headers: { 'x-sluice-report': 'body' },
    })
    const text = await response.text()
    expect([response.status, lossesOf(response)]).toEqual([200, expected])
    expect(reportsIn(text)).toEqual(passes ? [] : [{ translation: expected }])
    expect((await recordOf(response)).translation).toEqual(passes ? undefined : expected)
    expect(requests.at(-1)!.body.vendor_extra).toEqual(passes ? UNKNOWN.vendor_extra : undefined)
  })

  test('the body has no report unless requested, and there is none if nothing is lost', async () => {
    const lossy = await ask(client, `${nameOf(provider)}/m`, { more: UNKNOWN })
    expect(await lossy.text()).not.toContain('"sluice"')
    const whole = await ask(client, `${nameOf(provider)}/m`, {
      headers: { 'x-sluice-report': 'body', 'x-sluice-strict': 'true' },
    })
    const text = await whole.text()
    expect([whole.status, lossesOf(whole), reportsIn(text)]).toEqual([200, [], passes ? [] : [{ translation: [] }]])
    expect('translation' in (await recordOf(whole))).toBe(false)
  })

  test.each([false, true])(
    'a strict request with losses is refused before anything is sent, streamed: %p',
    async (stream) => {
      const before = requests.length
      const response = await ask(client, `${nameOf(provider)}/m`, {
        stream,
        more: UNKNOWN,
        headers: { 'x-sluice-strict': 'true' },
      })
      const text = await response.text()
      if (passes) return expect(response.status).toBe(200)
      expect([response.status, requests.length, response.headers.get('x-generation-id')]).toEqual([400, before, null])
      expect(text).toContain('vendor_extra would be dropped for ')
      expect(text.toLowerCase()).toContain(client === 'messages' ? 'invalid_request_error' : 'unsupported_parameter')
    },
  )
})

describe('strict mode', () => {
  test('a strict request uses only endpoints that lose nothing', async () => {
    const usual = await ask('chat.completions', 'both', { more: UNKNOWN })
    const kept = await ask('chat.completions', 'both', { more: UNKNOWN, headers: { 'x-sluice-strict': 'true' } })
    expect([usual, kept].map((response) => [response.status, response.headers.get('x-sluice-provider')])).toEqual([
      [200, 'on-messages'],
      [200, 'on-chat'],
    ])
  })

  const AUDIO = {
    messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }] }],
  }

  test.each(['true', 'false'])(
    'an endpoint that cannot represent the request is skipped, strict: %s',
    async (strict) => {
      const headers = { 'x-sluice-strict': strict }
      const response = await ask('chat.completions', 'both', { more: AUDIO, headers })
      expect([response.status, response.headers.get('x-sluice-provider'), lossesOf(response)]).toEqual([
        200,
        'on-chat',
        [],
      ])
      const refused = await ask('chat.completions', 'on-messages/m', { more: AUDIO, headers })
      expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('audio input')])
    },
  )

  test("a strict request goes to the endpoint of the client's own protocol, wherever it is listed", async () => {
    const response = await ask('messages', 'chat-first', { more: UNKNOWN, headers: { 'x-sluice-strict': 'true' } })
    expect([response.status, response.headers.get('x-sluice-provider')]).toEqual([200, 'on-messages'])
  })

  test('a strict refusal names what each endpoint would lose', async () => {
    const response = await ask('generateContent', 'both', { more: UNKNOWN, headers: { 'x-sluice-strict': 'true' } })
    expect(await response.text()).toMatch(
      /vendor_extra would be dropped for on-messages .*vendor_extra would be dropped for on-chat/,
    )
    const asOpenAi = await ask('chat.completions', 'on-messages/m', {
      more: UNKNOWN,
      headers: { 'x-sluice-strict': 'true' },
    })
    expect(await asOpenAi.json()).toMatchObject({
      error: { param: 'vendor_extra', metadata: { translation: [{ ...LOSS, provider: 'on-messages' }] } },
    })
  })

  test('strict mode is taken from the configuration unless the request sets it', async () => {
    const at = { at: strict, more: UNKNOWN }
    const statuses = [
      await ask('messages', 'on-chat/m', at),
      await ask('messages', 'on-chat/m', { ...at, headers: { 'x-sluice-strict': 'false' } }),
      await ask('messages', 'on-chat/m', { at: strict }),
    ]
    expect(statuses.map(({ status }) => status)).toEqual([400, 200, 200])
  })

  test.each([
    ['x-sluice-strict', 'yes'],
    ['x-sluice-strict', ''],
    ['x-sluice-report', 'header'],
  ])('an invalid %s header is refused: %p', async (name, value) => {
    const response = await ask('chat.completions', 'on-chat/m', { headers: { [name]: value } })
    expect([response.status, ((await response.json()) as { error: { param: string } }).error.param]).toEqual([
      400,
      name,
    ])
  })
})

test('a loss found after the header of a stream was sent is recorded and not refused', async () => {
  const frames = [
    ...RESPONSE_PIECES.messages.begin(COUNTED),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: 'X' }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ]
  const other = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(framed(frames), { headers: { 'content-type': 'text/event-stream' } }),
  })
  const at = await startGateway({
    config: `
providers: { other: { protocol: messages, baseUrl: "http://127.0.0.1:${other.port}/v1", apiKey: secret } }
`,
  })
  try {
    const response = await ask('chat.completions', 'other/m', {
      at,
      stream: true,
      headers: { 'x-sluice-report': 'body', 'x-sluice-strict': 'true' },
    })
    const loss = {
      code: 'response_field_dropped',
      path: 'response.stop_sequence',
      effect: 'dropped',
      reason: LOSS_CODES.response_field_dropped[1],
    }
    expect(reportsIn(await response.text())).toEqual([{ translation: [loss] }])
    expect((await recordOf(response, at)).translation).toEqual([loss])
  } finally {
    await at.stop()
    await other.stop(true)
  }
})
