import { afterAll, beforeAll, describe, expect, setDefaultTimeout, spyOn, test } from 'bun:test'
import { HEAVY } from '../../src/pipeline/heavy/weight.ts'
import { protocols } from '../../src/protocols/index.ts'
import { HEAVY_SANDBOX } from '../../src/providers/sandbox-process.ts'
import { startGateway, startGatewayProcess, type Gateway, type GatewayProcess } from '../server.ts'

/** Requests that take long to read and write: another process does it. */

// Starting processes takes long on a busy machine.
setDefaultTimeout(60_000)

const MODEL = 'far/model'
const answerOf = (text: string): string =>
  JSON.stringify({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'model',
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 5, output_tokens: 5 },
  })

let provider: ReturnType<typeof Bun.serve>
/** The length of the provider's answer. */
let pieces = 1
/** The last body that the provider received. */
let received = ''
let config = ''
beforeAll(() => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      received = await request.text()
      return new Response(answerOf('Done.'.repeat(pieces)), { headers: { 'content-type': 'application/json' } })
    },
  })
  config = `
billing: { startingCredit: 100 }
providers:
  far: { protocol: messages, baseUrl: "http://127.0.0.1:${provider.port}/v1", apiKey: k }
models:
  ${MODEL}: { endpoints: [{ provider: far, model: model }], price: { prompt: 1, completion: 4 } }
`
})
afterAll(() => provider.stop(true))

const parts = (count: number): object[] => Array.from({ length: count }, (_, at) => ({ type: 'text', text: `${at}` }))
const bodyWith = (count: number): object => ({
  model: MODEL,
  max_tokens: 10,
  messages: [{ role: 'user', content: parts(count) }],
})
const post = (gateway: Gateway, body: object): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

describe('a request with very many parts', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config })
  })
  afterAll(() => gateway.stop())

  test('is neither read nor written by the server itself', async () => {
    const reading = spyOn(protocols['chat.completions'].serve, 'readRequest')
    const writing = spyOn(protocols.messages.call, 'writeRequest')
    const response = await post(gateway, bodyWith(10_000))
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('Done.')])
    expect([reading.mock.calls.length, writing.mock.calls.length]).toEqual([0, 0])
    expect(JSON.parse(received).messages[0].content).toEqual(parts(10_000))
    expect((await post(gateway, bodyWith(10))).status).toBe(200)
    expect([reading.mock.calls.length, writing.mock.calls.length]).toEqual([1, 1])
    reading.mockRestore()
    writing.mockRestore()
  })

  test('is refused with the path of its fault', async () => {
    const content = [...parts(9_000), { type: 'text', text: 5 }]
    const response = await post(gateway, { model: MODEL, messages: [{ role: 'user', content }] })
    expect([response.status, ((await response.json()) as any).error.param]).toEqual([
      400,
      'messages[0].content[9000].text',
    ])
  })

  test('is refused where its items are no objects', async () => {
    const response = await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model: MODEL, input: Array.from({ length: 9_000 }, () => null) }),
    })
    expect([response.status, ((await response.json()) as any).error.param]).toEqual([400, 'input[0]'])
  })
})

describe('a conversation that grows to the weight of heavy requests', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config })
  })
  afterAll(() => gateway.stop())

  const turns = (count: number, name: string): object[] =>
    Array.from({ length: count }, (_, at) => ({
      role: at % 2 === 0 ? 'user' : 'assistant',
      content: [{ type: 'text', text: `${name} ${at}` }],
    }))
  const calls = async (counts: readonly number[], name: string): Promise<number> => {
    const reading = spyOn(protocols['chat.completions'].serve, 'readRequest')
    for (const count of counts) {
      const messages = turns(count, name)
      const response = await post(gateway, { model: MODEL, max_tokens: 10, messages })
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('Done.')])
      expect(JSON.parse(received).messages).toEqual(messages)
    }
    const { length } = reading.mock.calls
    reading.mockRestore()
    return length
  }
  /** Messages of six values. */
  const LIGHT = Math.floor(HEAVY.elements / 6) - 10

  test('is read by the server itself where it continues one that the server remembers', async () => {
    expect(await calls([LIGHT, LIGHT, LIGHT + 21, LIGHT + 41], 'one')).toBe(4)
  })

  test('is read by the server itself once it comes again', async () => {
    expect(await calls([LIGHT + 21], 'two')).toBe(0)
    expect(await calls([LIGHT + 21, LIGHT + 41], 'two')).toBe(2)
  })

  test('is not where much of it is new', async () => {
    const long = `three ${'x'.repeat(100)}`
    expect(await calls([LIGHT - 701, LIGHT - 701, LIGHT + 21], long)).toBe(2)
  })

  test('is not at twice that weight', async () => {
    expect(await calls([LIGHT, LIGHT, Math.floor(1.5 * LIGHT), 2 * LIGHT - 1, 2 * LIGHT + 41], 'four')).toBe(4)
  })
})

describe('a short request that refers to a lot', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config })
  })
  afterAll(() => gateway.stop())

  const send = async (path: string, body: object | FormData): Promise<any> => {
    const isForm = body instanceof FormData
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.key}`,
        ...(isForm ? {} : { 'content-type': 'application/json' }),
      },
      body: isForm ? body : JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    return response.json()
  }

  test('to a stored conversation, is not read by the server itself', async () => {
    const reading = spyOn(protocols.responses.serve, 'readRequest')
    const long = 'many words '.repeat(100_000)
    for (const [text, calls] of [
      [long, 0],
      ['few words', 2],
    ] as const) {
      reading.mockClear()
      const first = await send('/v1/responses', { model: MODEL, input: text })
      const second = await send('/v1/responses', { model: MODEL, previous_response_id: first.id, input: 'And?' })
      expect(second.previous_response_id).toBe(first.id)
      expect(JSON.parse(received).messages.map(({ content }: any) => content[0]?.text ?? content)).toEqual([
        text,
        'Done.',
        'And?',
      ])
      expect(reading.mock.calls.length).toBe(calls)
    }
    reading.mockRestore()
  })

  test('to a file, is not read by the server itself', async () => {
    const reading = spyOn(protocols['chat.completions'].serve, 'readRequest')
    for (const [length, calls] of [
      [1_500_000, 0],
      [1_000, 1],
    ] as const) {
      const form = new FormData()
      const text = 'x'.repeat(length)
      form.set('purpose', 'user_data')
      form.set('file', new File([text], 'a.txt', { type: 'text/plain' }))
      const { id } = await send('/v1/files', form)
      await send('/v1/chat/completions', {
        model: MODEL,
        max_tokens: 10,
        messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: id } }] }],
      })
      expect(received).toContain(length < 2_000 ? text : text.slice(0, 1_400_000))
      expect(reading.mock.calls.length).toBe(calls)
    }
    reading.mockRestore()
  })
})

describe('a long answer in one piece', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config })
  })
  afterAll(async () => {
    pieces = 1
    await gateway.stop()
  })

  test.each(['chat/completions', 'messages'])('is neither read nor written by the server itself (%s)', async (api) => {
    const reading = spyOn(protocols.messages.call, 'readResponse')
    const writing = spyOn(protocols['chat.completions'].serve, 'writeResponse')
    for (const [length, calls] of [
      [100_000, 0],
      [10, 1],
    ] as const) {
      pieces = length
      const response = await fetch(`${gateway.url}/v1/${api}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }),
      })
      const answer = (await response.json()) as any
      expect(answer.choices?.[0].message.content ?? answer.content[0].text).toBe('Done.'.repeat(length))
      expect(answer.usage).toMatchObject(api === 'messages' ? { output_tokens: 5 } : { completion_tokens: 5 })
      expect([reading.mock.calls.length, writing.mock.calls.length]).toEqual([calls, api === 'messages' ? 0 : calls])
      const id = response.headers.get('x-generation-id')
      const record = await fetch(`${gateway.url}/v1/generation?id=${id}`, {
        headers: { authorization: `Bearer ${gateway.key}` },
      })
      expect(await record.json()).toMatchObject({ nativeTokens: { completion_tokens: 5 }, ending: 'completed' })
    }
    reading.mockRestore()
    writing.mockRestore()
  })
})

describe('a process that dies while it works on a request', () => {
  let gateway: GatewayProcess
  beforeAll(async () => {
    gateway = await startGatewayProcess({ config })
  })
  afterAll(() => gateway.stop())

  const workers = (): string[] =>
    Bun.spawnSync(['ps', '-o', 'pid=', '--ppid', String(gateway.pid)])
      .stdout.toString()
      .split(/\s+/)
      .filter((pid) => pid !== '')

  const balance = async (): Promise<unknown> => {
    const headers = { authorization: `Bearer ${gateway.key}` }
    return ((await (await fetch(`${gateway.url}/v1/management/payg/balance`, { headers })).json()) as { data: unknown })
      .data
  }

  /** The response to a request whose process is killed. It is sent again where the process has answered sooner. */
  async function killedRequest(): Promise<{ refused: Response; before: unknown }> {
    for (;;) {
      while (workers().length > 0) await Bun.sleep(1)
      const before = await balance()
      const sent = post(gateway, bodyWith(10_000))
      let found: string[] = []
      while (found.length === 0) {
        found = workers()
        await Bun.sleep(1)
      }
      for (const pid of found) process.kill(Number(pid), 'SIGKILL')
      const refused = await sent
      if (refused.status !== 200) return { refused, before }
    }
  }

  test('costs that request only', async () => {
    const { refused, before } = await killedRequest()
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('send less in one request')])
    expect(await balance()).toEqual(before)
    const next = await post(gateway, bodyWith(10_000))
    expect([next.status, await next.text()]).toEqual([200, expect.stringContaining('Done.')])
  })
})

describe('a long request to the sandbox', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config })
  })
  afterAll(() => gateway.stop())

  const children = (): string => Bun.spawnSync(['ps', '-o', 'args=', '--ppid', String(process.pid)]).stdout.toString()

  test.each([true, false])('is answered as a short one, by a process of its own (stream: %p)', async (stream) => {
    const text = `[[echo: body]] [[think: so]] ${'some words '.repeat(20_000)}`
    const body = { model: 'sandbox/chat', stream, messages: [{ role: 'user', content: text }] }
    const usual = HEAVY_SANDBOX.bytes
    HEAVY_SANDBOX.bytes = Infinity
    const expected = await (await post(gateway, body)).text()
    HEAVY_SANDBOX.bytes = usual
    const response = await post(gateway, body)
    const masked = (answer: string): string => answer.replace(/chatcmpl-\w+/g, 'id').replace(/"created":\d+/g, '')
    expect([response.status, masked(await response.text())]).toEqual([200, masked(expected)])
    expect(expected.length).toBeGreaterThan(text.length)
    expect(children()).toContain('src/cli/sandbox.ts')
  })

  test('can be left, and be refused', async () => {
    const refused = await post(gateway, {
      model: 'sandbox/chat',
      messages: [{ role: 'user', content: `[[error: 429]] ${'some words '.repeat(20_000)}` }],
    })
    expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining('sandbox')])
    const leaving = new AbortController()
    const left = fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      signal: leaving.signal,
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sandbox/chat',
        stream: true,
        messages: [{ role: 'user', content: `[[hang]] ${'some words '.repeat(20_000)}` }],
      }),
    })
    await Bun.sleep(1)
    leaving.abort()
    expect(await left.then(String, ({ name }) => name)).toBe('AbortError')
  })
})

/** The same tests again, every request taken for a heavy one. */
describe.each([
  'media-files',
  'media-ids',
  'media-urls',
  'reasoning',
  'stored-responses',
  'issued-ids',
  'own-protocol',
])('with all requests in another process, the tests of %s', async (name) => {
  const usual = { ...HEAVY }
  beforeAll(() => void Object.assign(HEAVY, { bytes: 0, elements: 0, unscanned: 0, settings: 0, answer: 0 }))
  afterAll(() => void Object.assign(HEAVY, usual))
  await import(`./${name}.test.ts?heavy`)
})
