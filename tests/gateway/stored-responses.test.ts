import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { program } from '../program.ts'
import { startGateway, startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ofSqlite, sqlIn, withStoreOption } from '../stores.ts'

/** Responses stored by Sluice: conversations continue by id with every provider, for their own account only. */

let gateway: GatewayProcess
/** A key of another account. */
let OTHER: string
beforeAll(async () => {
  gateway = await startGatewayProcess()
  const options = await withStoreOption(['--data', gateway.data, '--json'])
  const sluice = (...words: string[]) => Bun.spawnSync([program(), ...words, ...options])
  sluice('accounts', 'create', 'other')
  const made = sluice('keys', 'create', '--account', 'other')
  OTHER = (JSON.parse(made.stdout.toString()) as { text: string }).text
  // The server reads changes of another process within two seconds, and later on a busy machine.
  while ((await call('GET', '/v1/models', undefined, OTHER)).status !== 200) await Bun.sleep(50)
})
afterAll(() => gateway?.stop())

type Answer = {
  id: string
  status: string
  store: boolean
  previous_response_id: string | null
  output: { id: string; type: string; content?: { text: string }[] }[]
  error?: { message: string; code: string; param: string }
}

const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw' +
  'AAAABJRU5ErkJggg=='

const user = (content: string) => ({ role: 'user', content })

/** The request as the sandbox echoes it. */
type Echo = { turns: { role: string }[] }

const call = async (
  method: string,
  path: string,
  body?: object,
  key = gateway.key,
): Promise<{ status: number; body: Answer & Record<string, unknown> }> => {
  const response = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Answer & Record<string, unknown> }
}

const create = (body: object, key?: string) => call('POST', '/v1/responses', body, key)
const textOf = (answer: Answer): string =>
  answer.output
    .flatMap((item) => item.content ?? [])
    .map((part) => part.text)
    .join('')

/** The terminal event of a stream. */
async function streamed(body: object): Promise<Answer> {
  const response = await fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ ...body, stream: true }),
  })
  const last = (await response.text()).trim().split('\n').at(-1)!
  return (JSON.parse(last.replace('data: ', '')) as { response: Answer }).response
}

for (const model of ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']) {
  describe(model, () => {
    test('a conversation goes on by previous_response_id, streamed and not', async () => {
      const first = (await create({ model, input: 'My word is heron. [[reply: noted]]' })).body
      expect(first.store).toBe(true)
      const second = await streamed({ model, previous_response_id: first.id, input: '[[reply: again]]' })
      expect(second.previous_response_id).toBe(first.id)
      const third = (await create({ model, previous_response_id: second.id, input: '[[echo]]' })).body
      const seen = textOf(third)
      expect(third.previous_response_id).toBe(second.id)
      expect((JSON.parse(seen) as Echo).turns.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'user',
        'assistant',
        'user',
      ])
    })

    test('an item is replayed by reference, also a streamed one', async () => {
      const first = await streamed({ model, input: 'Hello [[reply: noted]]' })
      const item = first.output.find(({ type }) => type === 'message')!
      const second = (
        await create({
          model,
          input: [
            { role: 'user', content: 'Hello' },
            { type: 'item_reference', id: item.id },
            { role: 'user', content: '[[echo]]' },
          ],
        })
      ).body
      expect((JSON.parse(textOf(second)) as Echo).turns.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    })

    test('reasoning and a tool loop survive by id alone', async () => {
      const tools = [
        {
          type: 'function',
          name: 'get_weather',
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
        },
      ]
      const first = (
        await create({
          model,
          tools,
          reasoning: { effort: 'low' },
          input: '[[strict-signatures]] [[think: hmm]] [[call: get_weather {"city":"Paris"}]]',
        })
      ).body
      const call = first.output.find(({ type }) => type === 'function_call') as unknown as { call_id: string }
      const second = await create({
        model,
        tools,
        previous_response_id: first.id,
        input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }],
      })
      expect([second.status, second.body.error?.message]).toEqual([200, undefined])
      expect(textOf(second.body)).toContain('sunny')
    })
  })
}

describe('stored responses', () => {
  test('a stored response is read, listed and deleted by its account, and unknown to any other', async () => {
    const { id } = (await create({ model: 'sandbox/chat', input: 'Hello' })).body
    expect((await call('GET', `/v1/responses/${id}`)).body.id).toBe(id)
    expect((await call('GET', `/v1/responses/${id}/input_items`)).body).toMatchObject({
      object: 'list',
      has_more: false,
    })
    const unknown = await call('GET', '/v1/responses/resp_00000000000000000000000000000000', undefined, OTHER)
    const native = await call('GET', `/v1/responses/${id}`, undefined, OTHER)
    expect([native.status, JSON.stringify(native.body).replaceAll(id, 'ID')]).toEqual([
      404,
      JSON.stringify(unknown.body).replaceAll('resp_00000000000000000000000000000000', 'ID'),
    ])
    expect((await create({ model: 'sandbox/chat', previous_response_id: id, input: 'x' }, OTHER)).status).toBe(404)
    expect((await call('DELETE', `/v1/responses/${id}`, undefined, OTHER)).status).toBe(404)
    expect((await call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
    expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
  })

  test('input items are listed with all that their short forms leave out', async () => {
    const input = [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Look' },
          { type: 'input_image', image_url: PIXEL },
        ],
      },
      { role: 'assistant', content: 'A red dot.' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'o', status: 'incomplete' },
      { type: 'message', role: 'user', content: 'Hi' },
    ]
    const { id } = (await create({ model: 'sandbox/chat', input })).body
    const { data } = (await call('GET', `/v1/responses/${id}/input_items?order=asc`)).body as unknown as {
      data: { id: string }[]
    }
    const text = (type: string, value: string, more: object = {}): object => ({ type, text: value, ...more })
    expect(data.map(({ id: _, ...item }) => item as object)).toEqual([
      { type: 'message', status: 'completed', role: 'system', content: [text('input_text', 'Be brief.')] },
      {
        type: 'message',
        status: 'completed',
        role: 'user',
        content: [text('input_text', 'Look'), { type: 'input_image', detail: 'auto', image_url: PIXEL }],
      },
      {
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content: [text('output_text', 'A red dot.', { annotations: [], logprobs: [] })],
      },
      { ...input[3], status: 'completed' },
      input[4]!,
      { type: 'message', status: 'completed', role: 'user', content: [text('input_text', 'Hi')] },
    ])
  })

  test('a stored response is refused as a stream, rather than sent as one without events', async () => {
    const { id } = (await create({ model: 'sandbox/chat', input: 'x' })).body
    const { status, body } = await call('GET', `/v1/responses/${id}?stream=true`)
    expect([status, body.error?.code, body.error?.param]).toEqual([400, 'unsupported_parameter', 'stream'])
    expect((await call('GET', `/v1/responses/${id}?stream=false`)).status).toBe(200)
  })

  test('the provider gets no id that its client did not send', async () => {
    const model = 'sandbox/responses'
    const first = (await create({ model, input: [{ role: 'user', content: 'Hi', id: 'msg_own' }, user('Look')] })).body
    const listed = (await call('GET', `/v1/responses/${first.id}/input_items`)).body.data as { id: string }[]
    const made = listed.map(({ id }) => id).find((id) => id.startsWith('in_'))
    const received = async (body: object): Promise<(string | undefined)[]> => {
      const { input } = JSON.parse(textOf((await create({ model, ...body })).body)) as { input: { id?: string }[] }
      return input.map(({ id }) => id)
    }
    const echo = user('[[echo: body]]')
    const output = first.output[0]!.id
    expect(await received({ previous_response_id: first.id, input: [echo] })).toEqual([
      'msg_own',
      undefined,
      output,
      undefined,
    ])
    const reference = { type: 'item_reference', id: made }
    expect(await received({ input: [reference, ...listed, echo] })).toEqual([
      undefined,
      undefined,
      'msg_own',
      undefined,
    ])
  })

  test('a response with store: false is not stored', async () => {
    const { body } = await create({ model: 'sandbox/chat', input: 'Hello', store: false })
    expect(body.store).toBe(false)
    const next = await create({ model: 'sandbox/chat', previous_response_id: body.id, input: 'x' })
    expect([next.status, next.body.error?.param]).toEqual([404, 'previous_response_id'])
    const reference = await create({
      model: 'sandbox/chat',
      input: [{ type: 'item_reference', id: body.output[0]!.id }],
    })
    expect([reference.status, reference.body.error?.param]).toEqual([404, 'input[0].id'])
  })

  test('a stored item may be referenced only as often as a body could contain it', async () => {
    const small = await startGateway({ config: 'limits: { body: 64KiB }\n' })
    const ask = async (body: object): Promise<{ status: number; body: Answer }> => {
      const response = await fetch(`${small.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${small.key}` },
        body: JSON.stringify({ model: 'sandbox/chat', ...body }),
      })
      return { status: response.status, body: (await response.json()) as Answer }
    }
    const long = { type: 'message', role: 'user', content: 'x'.repeat(40_000) }
    const first = await ask({ input: [{ ...long, id: 'msg_long' }] })
    const reference = { type: 'item_reference', id: 'msg_long' }
    expect((await ask({ input: [reference] })).status).toBe(200)
    const twice = await ask({ input: [reference, reference] })
    expect([twice.status, twice.body.error!.code]).toEqual([413, 'request_too_large'])
    const second = await ask({ input: [long], previous_response_id: first.body.id })
    expect(second.status).toBe(200)
    expect((await ask({ input: 'Go on', previous_response_id: second.body.id })).status).toBe(413)
    await small.stop()
  }, 15_000)

  test('a response that cannot be stored fails the request, streamed and not', async () => {
    const broken = await startGatewayProcess()
    await sqlIn(broken.data, 'ALTER TABLE responses RENAME TO missing')
    const ask = (model: string, stream: boolean): Promise<Response> =>
      fetch(`${broken.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${broken.key}` },
        body: JSON.stringify({ model, stream, input: '[[chunk: 1]] [[pace: 20ms]] [[reply: one two]]' }),
      })
    for (const model of ['sandbox/responses', 'sandbox/chat']) {
      expect((await ask(model, false)).status).toBe(503)
      const text = await (await ask(model, true)).text()
      const events = text
        .trim()
        .split('\n\n')
        .map(
          (frame) =>
            JSON.parse(frame.slice(frame.indexOf('data: ') + 6)) as {
              type: string
              sequence_number: number
              response?: Answer
            },
        )
      expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index))
      expect(events.slice(-2).map(({ type }) => type)).toEqual(['error', 'response.failed'])
      expect(events.at(-1)!.response!.status).toBe('failed')
      expect(text).not.toContain('response.completed')
    }
    await sqlIn(broken.data, 'ALTER TABLE missing RENAME TO responses')
    await broken.stop()
  }, 15_000)

  test('a stored response is found after a kill', async () => {
    const data = gateway.data
    const { id } = (await create({ model: 'sandbox/chat', input: 'Hello' })).body
    gateway.kill('SIGKILL')
    await gateway.exited
    gateway = await startGatewayProcess({ data, key: gateway.key })
    expect((await call('GET', `/v1/responses/${id}`)).body.id).toBe(id)
  })
})

ofSqlite('folder')('a second server is refused on the folder of a running one', async () => {
  const { data, key } = gateway
  expect(await startGatewayProcess({ data, key }).catch(String)).toContain('in use by another Sluice')
})

describe('a response in the background', () => {
  test("a background response is polled and cancelled under Sluice's id, by its account only", async () => {
    const states = ['in_progress', 'completed']
    const calls: string[] = []
    let broken = false
    const upstream = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname } = new URL(request.url)
        calls.push(`${request.method} ${pathname}`)
        if (request.method === 'POST' && pathname.endsWith('/responses'))
          expect(((await request.json()) as { background: boolean }).background).toBe(true)
        if (broken) return new Response('<html>', { headers: { 'content-type': 'text/html' } })
        const status =
          request.method === 'POST'
            ? pathname.endsWith('/cancel')
              ? 'cancelled'
              : 'queued'
            : (states.shift() ?? 'completed')
        const output =
          status === 'completed'
            ? [
                {
                  type: 'message',
                  id: 'msg_bg',
                  role: 'assistant',
                  status: 'completed',
                  content: [{ type: 'output_text', text: 'done', annotations: [] }],
                },
              ]
            : []
        return Response.json({
          id: 'resp_theirs',
          object: 'response',
          created_at: 1,
          status,
          background: true,
          model: 'theirs',
          output,
          store: true,
          previous_response_id: null,
        })
      },
    })
    const other = await startGateway({
      config: `
providers:
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1", unlisted: true }
`,
    })
    const ask = async (method: string, path: string, body?: object): Promise<Answer> =>
      (
        await fetch(other.url + path, {
          method,
          headers: { authorization: `Bearer ${other.key}` },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
      ).json() as Promise<Answer>
    try {
      const first = await ask('POST', '/v1/responses', { model: 'up/m', input: 'Hello', background: true })
      expect(first.status).toBe('queued')
      expect(first.id).not.toBe('resp_theirs')
      expect((await ask('GET', `/v1/responses/${first.id}`)).status).toBe('in_progress')
      const done = await ask('GET', `/v1/responses/${first.id}`)
      expect([done.id, done.status, textOf(done)]).toEqual([first.id, 'completed', 'done'])
      const polls = calls.length
      expect((await ask('GET', `/v1/responses/${first.id}`)).status).toBe('completed')
      expect(calls.length).toBe(polls)
      const second = await ask('POST', '/v1/responses', { model: 'up/m', input: 'Hello', background: true })
      broken = true
      expect((await ask('GET', `/v1/responses/${second.id}`)).error!.code).toBe('upstream_error')
      broken = false
      expect((await ask('POST', `/v1/responses/${second.id}/cancel`)).status).toBe('cancelled')
      expect(calls.at(-1)).toBe('POST /v1/responses/resp_theirs/cancel')
      const plain = await ask('POST', `/v1/responses/resp_00000000000000000000000000000000/cancel`)
      expect(plain.error?.code).toBe('not_found')
    } finally {
      await other.stop()
      await upstream.stop(true)
    }
  })
})
