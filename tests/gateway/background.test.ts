import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway, startGatewayProcess, type Gateway, type GatewayProcess } from '../server.ts'
import { newPostgresFolder, once } from '../stores.ts'

/**
 * Background responses end long after the response to their request. They are reserved, metered and billed all the
 * same.
 */

const MESSAGE = {
  type: 'message',
  id: 'msg_bg',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'done', annotations: [] }],
}
const USAGE = {
  input_tokens: 1000,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 500,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 1500,
}
const PAID = { usage: 0.006, estimated: false, nativeTokens: { prompt_tokens: 1000, completion_tokens: 500 } }

/** The status that the provider reports; `respond` may replace its response. */
let status: string
let respond: (name: string) => Promise<Response | undefined> | Response | undefined
let calls: string[]
let upstream: Bun.Server<undefined>
let gateway: Gateway
let data: string
let config: string

const theirs = (usage: object | null = status === 'completed' ? USAGE : null): object => ({
  id: 'resp_theirs',
  object: 'response',
  created_at: 1,
  status,
  background: true,
  model: 'theirs',
  output: status === 'completed' ? [MESSAGE] : [],
  store: true,
  usage,
})

/** The beginning of a stream that its provider never ends. */
const streaming = (): Response =>
  new Response(
    new ReadableStream<string>({
      start(controller) {
        for (const type of ['response.created', 'response.in_progress'])
          controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, response: theirs() })}\n\n`)
        const item = { ...MESSAGE, status: 'in_progress', content: [] }
        const type = 'response.output_item.added'
        controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, output_index: 0, item })}\n\n`)
      },
    }),
    { headers: { 'content-type': 'text/event-stream' } },
  )

beforeEach(async () => {
  status = 'queued'
  respond = () => undefined
  calls = []
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      const name = `${request.method} ${new URL(request.url).pathname.replace('/v1/responses', '')}`
      calls.push(name)
      return (await respond(name)) ?? Response.json(theirs())
    },
  })
  data = mkdtempSync(join(tmpdir(), 'sluice-background-'))
  config = `billing: { startingCredit: 1, delay: 0s }
providers:
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1" }
models:
  up/m: { endpoints: [{ provider: up, model: m }], price: { prompt: 1, completion: 10 } }
`
})
afterEach(async () => {
  await gateway.stop()
  await upstream.stop(true)
  rmSync(data, { recursive: true, force: true })
})

const call = async (
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: Record<string, never> }> => {
  const response = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${gateway.key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, never> }
}
const create = (more: object = {}) =>
  call('POST', '/v1/responses', { model: 'up/m', input: 'Hello', background: true, max_output_tokens: 90_000, ...more })
const recordOf = (id: string) => call('GET', `/v1/management/generation?id=${id}`)
const balance = async (): Promise<number> =>
  ((await call('GET', '/v1/management/payg/balance')).body as unknown as { data: { total_credits: number } }).data
    .total_credits

/** The record of a response, once there is one. */
async function settled(id: string): Promise<Record<string, never>> {
  for (let i = 0; i < 120; i += 1) {
    const record = await recordOf(id)
    if (record.status === 200) return record.body
    await Bun.sleep(100)
  }
  throw new Error(`no record of ${id}`)
}

const start = async (): Promise<void> => void (gateway = await startGateway({ config, data }))

/** Starts one that can be killed. */
const startProcess = async (): Promise<GatewayProcess> =>
  (gateway = await startGatewayProcess({ config, data })) as GatewayProcess

async function restart(killed: GatewayProcess): Promise<void> {
  killed.kill('SIGKILL')
  await killed.exited
  await startProcess()
}

test('the error of a background response that failed shows no credential', async () => {
  await start()
  const { body } = await create()
  status = 'failed'
  const error = { code: 'server_error', message: 'Incorrect API key provided: sk-proj-0123456789abcdef' }
  respond = (name) => (name.startsWith('GET') ? Response.json({ ...theirs(), error }) : undefined)
  const shown = { ...error, message: 'Incorrect API key provided: [hidden]' }
  expect((await call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
  // As it was stored, too.
  expect((await call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
})

/** Starts a streamed response. Returns its id and a function by which its client leaves. */
async function begin(): Promise<{ id: string; leave(): void }> {
  const abort = new AbortController()
  const response = await fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    signal: abort.signal,
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true, stream: true, max_output_tokens: 90_000 }),
  })
  const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read()
  const [, data] = /^data: (.*)$/m.exec(new TextDecoder().decode(value))!
  return { id: (JSON.parse(data!) as { response: { id: string } }).response.id, leave: () => abort.abort() }
}

test('a background response is settled when its provider ends it, even after a kill and without polling', async () => {
  const killed = await startProcess()
  const { id } = (await create()).body
  expect((await recordOf(id!)).status).toBe(404)
  // The hold of the first leaves no credit for a second one.
  expect((await create()).status).toBe(402)
  await restart(killed)
  expect((await create()).status).toBe(402)
  status = 'completed'
  expect(await settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
  expect(await balance()).toBe(0.994)
  expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'completed', model: 'up/m' })
}, 30_000)

test('a container that a background response made can be named again', async () => {
  await start()
  const naming = (container: string): Promise<{ status: number }> =>
    call('POST', '/v1/responses', {
      model: 'up/m',
      input: 'Go on',
      max_output_tokens: 10,
      tools: [{ type: 'code_interpreter', container }],
    })
  const { id } = (await create()).body
  expect((await naming('cntr_1')).status).toBe(404)
  const made = { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: '', container_id: 'cntr_1' }
  respond = () => Response.json({ ...theirs(USAGE), output: [made, MESSAGE] })
  status = 'completed'
  expect(await settled(id!)).toMatchObject({ ending: 'completed' })
  expect([(await naming('cntr_1')).status, (await naming('cntr_2')).status]).toEqual([200, 404])
}, 30_000)

test('a deleted background response is cancelled at its provider and costs the reported usage', async () => {
  await start()
  const { id } = (await create()).body
  respond = (name) => {
    if (name === 'POST /resp_theirs/cancel') status = 'cancelled'
    return Response.json(theirs(USAGE))
  }
  expect((await call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
  expect(calls).toContain('POST /resp_theirs/cancel')
  expect((await recordOf(id!)).body).toMatchObject({ ending: 'client-left', ...PAID })
  expect(await balance()).toBe(0.994)
  expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
})

test('a background response cancelled without reported usage costs its input', async () => {
  // Its worker that counts tokens starts from bytecode.
  await startProcess()
  const { id } = (await create()).body
  status = 'cancelled'
  await call('DELETE', `/v1/responses/${id}`)
  expect((await recordOf(id!)).body).toMatchObject({
    ending: 'client-left',
    estimated: true,
    nativeTokens: { completion_tokens: 0 },
  })
})

test('a failed background response costs nothing', async () => {
  await start()
  const { id } = (await create()).body
  status = 'failed'
  expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'failed' })
  expect((await recordOf(id!)).body).toMatchObject({ ending: 'failed', usage: 0 })
})

test('a response deleted while its provider is unreachable is followed until it ends, even after a kill', async () => {
  const killed = await startProcess()
  const { id } = (await create()).body
  respond = () => new Response('{}', { status: 503 })
  expect((await call('DELETE', `/v1/responses/${id}`)).status).toBe(200)
  expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
  expect((await recordOf(id!)).status).toBe(404)
  await restart(killed)
  expect((await create()).status).toBe(402)
  calls = []
  status = 'completed'
  respond = (name) => (name.endsWith('/cancel') ? new Response('{}', { status: 400 }) : undefined)
  expect(await settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
  expect(calls).toEqual(['POST /resp_theirs/cancel', 'GET /resp_theirs'])
  expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
}, 30_000)

test('a response deleted while its provider is polled stays deleted', async () => {
  await start()
  const { id } = (await create()).body
  const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  respond = async (name) => {
    if (name.startsWith('POST')) return new Response('{}', { status: 503 })
    reached.resolve()
    await gate.promise
    return undefined
  }
  const question = call('GET', `/v1/responses/${id}`)
  await reached.promise
  const deletion = call('DELETE', `/v1/responses/${id}`)
  while ((await call('GET', `/v1/responses/${id}/input_items`)).status !== 404) await Bun.sleep(5)
  status = 'completed'
  gate.resolve()
  expect((await question).body).toMatchObject({ status: 'completed' })
  expect((await deletion).status).toBe(200)
  expect(await settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
  expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
  expect(
    (await call('POST', '/v1/responses', { model: 'up/m', input: [{ type: 'item_reference', id: 'msg_bg' }] })).status,
  ).toBe(404)
})

test('a background response is cancelled if its client left before receiving its id', async () => {
  await start()
  const [gate, abort] = [Promise.withResolvers<void>(), new AbortController()]
  respond = async (name) => {
    if (name === 'POST ') await gate.promise
    if (name.endsWith('/cancel')) status = 'cancelled'
    return Response.json(theirs(name === 'POST ' ? null : USAGE))
  }
  const gone = fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    signal: abort.signal,
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true }),
  }).catch(() => {})
  while (calls.length === 0) await Bun.sleep(5)
  abort.abort()
  await gone
  await Bun.sleep(100)
  gate.resolve()
  while (!calls.includes('POST /resp_theirs/cancel')) await Bun.sleep(20)
  while ((await balance()) === 1) await Bun.sleep(20)
  expect(await balance()).toBe(0.994)
}, 30_000)

test('a background response can be followed up once it has ended', async () => {
  await start()
  const { id } = (await create()).body as unknown as { id: string }
  const followUp = { background: false, previous_response_id: id }
  expect(await create(followUp)).toMatchObject({
    status: 400,
    body: { error: { param: 'previous_response_id', message: expect.stringContaining('has not ended yet') } },
  })
  expect(calls.filter((name) => name === 'POST ')).toHaveLength(1)
  status = 'completed'
  await call('GET', `/v1/responses/${id}`)
  expect((await create(followUp)).status).toBe(200)
})

test('a background response is refused with store: false', async () => {
  await start()
  const refused = await create({ store: false })
  expect([refused.status, (refused.body as { error?: { param: string } }).error?.param]).toEqual([400, 'background'])
  expect(calls).toEqual([])
})

test('a background response whose client leaves its stream is followed like any other', async () => {
  await start()
  respond = (name) => (name === 'POST ' ? streaming() : undefined)
  const { id, leave } = await begin()
  leave()
  while ((await call('GET', `/v1/responses/${id}`)).status === 404) await Bun.sleep(5)
  expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
  expect((await recordOf(id)).status).toBe(404)
  status = 'completed'
  expect(await settled(id)).toMatchObject({ ending: 'completed', streamed: true, ...PAID })
  expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, output: [MESSAGE] })
}, 30_000)

/** A stream that is cut where its provider cancels the response, or ends with an event of that. */
function cancellable(isCut: boolean): Response {
  let cancelled = (): void => {}
  const body = new ReadableStream<string>({
    start(controller) {
      const send = (type: string): void =>
        controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, response: theirs(USAGE) })}\n\n`)
      send('response.created')
      cancelled = () => {
        if (!isCut) send('response.cancelled')
        controller.close()
      }
    },
  })
  respond = (name) => {
    if (name !== 'POST /resp_theirs/cancel') return Response.json(theirs(USAGE))
    if (status !== 'cancelled') {
      status = 'cancelled'
      cancelled()
    }
    return Response.json(theirs(USAGE))
  }
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

for (const isCut of [true, false])
  test(`a background response that streams is cancelled, and ${isCut ? 'cut' : 'ended'} by its provider`, async () => {
    await start()
    respond = (name) => (name === 'POST ' ? cancellable(isCut) : undefined)
    const { id } = await begin()
    expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
    const cancel = () => call('POST', `/v1/responses/${id}/cancel`)
    expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
    // What its client asked for is no failure of the provider.
    const { estimated: _, ...paid } = PAID
    const record = await settled(id)
    expect(record).toMatchObject({ streamed: true, ending: 'client-left', ...paid })
    if (!isCut) expect(JSON.stringify(record)).not.toContain('upstream_error')
    const health = await (await fetch(`${gateway.url}/metrics`)).text()
    expect(health).toMatch(/^sluice_attempts_total\{[^}]*provider="up"/m)
    expect(health).not.toMatch(/^sluice_attempts_total\{[^}]*upstream_error/m)
    expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
    expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'cancelled' })
    expect([calls.filter((name) => name.endsWith('/cancel')).length, await balance()]).toEqual([1, 0.994])
  }, 30_000)

test('a background response deleted while it streams is cancelled at its provider and stays deleted', async () => {
  await start()
  respond = (name) => (name === 'POST ' ? cancellable(true) : undefined)
  const { id } = await begin()
  expect((await call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
  expect(calls).toContain('POST /resp_theirs/cancel')
  expect(await settled(id)).toMatchObject({ ending: 'client-left', ...PAID })
  expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
  expect(await balance()).toBe(0.994)
}, 30_000)

test('a background response that streams is stored once, as it ends', async () => {
  await start()
  const whole = (): Response => {
    const frames = ['response.created', 'response.completed'].map((type) => {
      status = type === 'response.created' ? 'in_progress' : 'completed'
      return `event: ${type}\ndata: ${JSON.stringify({ type, response: theirs() })}\n\n`
    })
    return new Response(frames.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  respond = (name) => (name === 'POST ' ? whole() : undefined)
  const { id } = await begin()
  expect(await settled(id)).toMatchObject({ ending: 'completed', ...PAID })
  calls = []
  expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'completed', output: [MESSAGE] })
  expect((await call('GET', `/v1/responses/${id}/input_items`)).body).toMatchObject({ data: [{ role: 'user' }] })
  expect(calls).toEqual([])
})

test('a background response that was streaming when the server was killed is followed after the restart', async () => {
  const killed = await startProcess()
  respond = (name) => (name === 'POST ' ? streaming() : undefined)
  const { id } = await begin()
  // A generation of this age is stored as open.
  await Bun.sleep(400)
  await restart(killed)
  status = 'completed'
  expect(await settled(id)).toMatchObject({ ending: 'completed', ...PAID })
}, 30_000)

once(
  'a response is read and deleted at a process that does not follow it, and cancelled at its provider',
  async () => {
    await start()
    const folder = newPostgresFolder()
    const own = gateway
    const both = [
      await startGatewayProcess({ config, data: folder }),
      await startGatewayProcess({ config, data: folder }),
    ] as const
    try {
      gateway = both[0]
      const { body } = await create()
      const id = String(body.id)
      gateway = both[1]
      expect((await call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued' })
      respond = (name) => {
        if (name === 'POST /resp_theirs/cancel') status = 'cancelled'
        return undefined
      }
      expect((await call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
      expect(calls).toContain('POST /resp_theirs/cancel')
      expect((await call('GET', `/v1/responses/${id}`)).status).toBe(404)
      expect(await settled(id)).toMatchObject({ ending: 'client-left', streamed: false })
    } finally {
      gateway = own
      for (const one of both) await one.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  60_000,
)
