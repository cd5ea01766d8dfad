import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inScene } from '../scene.ts'
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

/** A provider and the gateway in front of it. Each test has its own: all run at the same time, and wait for polls. */
class Scene {
  /** The status that the provider reports; `respond` may replace its response. */
  status = 'queued'
  respond: (name: string) => Promise<Response | undefined> | Response | undefined = () => undefined
  calls: string[] = []
  gateway!: Gateway
  readonly #data = mkdtempSync(join(tmpdir(), 'sluice-background-'))
  readonly #upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      const name = `${request.method} ${new URL(request.url).pathname.replace('/v1/responses', '')}`
      this.calls.push(name)
      return (await this.respond(name)) ?? Response.json(this.theirs())
    },
  })
  readonly config = `billing: { startingCredit: 1, delay: 0s }
providers:
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${this.#upstream.port}/v1" }
models:
  up/m: { endpoints: [{ provider: up, model: m }], price: { prompt: 1, completion: 10 } }
`

  async end(): Promise<void> {
    await this.gateway.stop()
    await this.#upstream.stop(true)
    rmSync(this.#data, { recursive: true, force: true })
  }

  async start(): Promise<void> {
    this.gateway = await startGateway({ config: this.config, data: this.#data })
  }

  /** Starts one that can be killed. */
  async startProcess(): Promise<GatewayProcess> {
    const started = await startGatewayProcess({ config: this.config, data: this.#data })
    this.gateway = started
    return started
  }

  async restart(killed: GatewayProcess): Promise<void> {
    killed.kill('SIGKILL')
    await killed.exited
    await this.startProcess()
  }

  theirs(usage: object | null = this.status === 'completed' ? USAGE : null): object {
    const { status } = this
    return {
      id: 'resp_theirs',
      object: 'response',
      created_at: 1,
      status,
      background: true,
      model: 'theirs',
      output: status === 'completed' ? [MESSAGE] : [],
      store: true,
      usage,
    }
  }

  async call(method: string, path: string, body?: object): Promise<{ status: number; body: Record<string, never> }> {
    const response = await fetch(this.gateway.url + path, {
      method,
      headers: { authorization: `Bearer ${this.gateway.key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, never> }
  }

  create(more: object = {}): Promise<{ status: number; body: Record<string, never> }> {
    const asked = { model: 'up/m', input: 'Hello', background: true, max_output_tokens: 90_000 }
    return this.call('POST', '/v1/responses', { ...asked, ...more })
  }

  recordOf(id: string): Promise<{ status: number; body: Record<string, never> }> {
    return this.call('GET', `/v1/management/generation?id=${id}`)
  }

  async balance(): Promise<number> {
    const { body } = await this.call('GET', '/v1/management/payg/balance')
    return (body as unknown as { data: { total_credits: number } }).data.total_credits
  }

  /** The record of a response, once there is one. */
  async settled(id: string): Promise<Record<string, never>> {
    for (let i = 0; i < 600; i += 1) {
      const record = await this.recordOf(id)
      if (record.status === 200) return record.body
      await Bun.sleep(100)
    }
    throw new Error(`no record of ${id}`)
  }

  /** Starts a streamed response. Returns its id and a function by which its client leaves. */
  async begin(): Promise<{ id: string; leave(): void }> {
    const abort = new AbortController()
    const asked = { model: 'up/m', input: 'Hello', background: true, stream: true, max_output_tokens: 90_000 }
    const response = await fetch(`${this.gateway.url}/v1/responses`, {
      method: 'POST',
      signal: abort.signal,
      headers: { authorization: `Bearer ${this.gateway.key}` },
      body: JSON.stringify(asked),
    })
    const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read()
    const [, data] = /^data: (.*)$/m.exec(new TextDecoder().decode(value))!
    return { id: (JSON.parse(data!) as { response: { id: string } }).response.id, leave: () => abort.abort() }
  }

  /** The beginning of a stream that its provider never ends. */
  streaming(): Response {
    const body = new ReadableStream<string>({
      start: (controller) => {
        for (const type of ['response.created', 'response.in_progress'])
          controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, response: this.theirs() })}\n\n`)
        const item = { ...MESSAGE, status: 'in_progress', content: [] }
        const type = 'response.output_item.added'
        controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, output_index: 0, item })}\n\n`)
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }

  /** A stream that is cut where its provider cancels the response, or ends with an event of that. */
  cancellable(isCut: boolean): Response {
    let cancelled = (): void => {}
    const body = new ReadableStream<string>({
      start: (controller) => {
        const send = (type: string): void =>
          controller.enqueue(`event: ${type}\ndata: ${JSON.stringify({ type, response: this.theirs(USAGE) })}\n\n`)
        send('response.created')
        cancelled = () => {
          if (!isCut) send('response.cancelled')
          controller.close()
        }
      },
    })
    this.respond = (name) => {
      if (name !== 'POST /resp_theirs/cancel') return Response.json(this.theirs(USAGE))
      if (this.status !== 'cancelled') {
        this.status = 'cancelled'
        cancelled()
      }
      return Response.json(this.theirs(USAGE))
    }
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
}

/** All begin at once, on a machine that may be busy. */
const LIMIT_MS = 180_000

function backgroundTest(name: string, run: (at: Scene) => Promise<void>, as: typeof test = test): void {
  as.concurrent(
    name,
    inScene(() => new Scene(), run),
    LIMIT_MS,
  )
}

backgroundTest('the error of a background response that failed shows no credential', async (at) => {
  await at.start()
  const { body } = await at.create()
  at.status = 'failed'
  const error = { code: 'server_error', message: 'Incorrect API key provided: sk-proj-0123456789abcdef' }
  at.respond = (name) => (name.startsWith('GET') ? Response.json({ ...at.theirs(), error }) : undefined)
  const shown = { ...error, message: 'Incorrect API key provided: [hidden]' }
  expect((await at.call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
  // As it was stored, too.
  expect((await at.call('GET', `/v1/responses/${body.id}`)).body).toMatchObject({ status: 'failed', error: shown })
})

backgroundTest(
  'a background response is settled when its provider ends it, even after a kill and without polling',
  async (at) => {
    const killed = await at.startProcess()
    const { id } = (await at.create()).body
    expect((await at.recordOf(id!)).status).toBe(404)
    // The hold of the first leaves no credit for a second one.
    expect((await at.create()).status).toBe(402)
    await at.restart(killed)
    expect((await at.create()).status).toBe(402)
    at.status = 'completed'
    expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
    expect(await at.balance()).toBe(0.994)
    expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'completed', model: 'up/m' })
  },
)

backgroundTest('a container that a background response made can be named again', async (at) => {
  await at.start()
  const naming = (container: string): Promise<{ status: number }> =>
    at.call('POST', '/v1/responses', {
      model: 'up/m',
      input: 'Go on',
      max_output_tokens: 10,
      tools: [{ type: 'code_interpreter', container }],
    })
  const { id } = (await at.create()).body
  expect((await naming('cntr_1')).status).toBe(404)
  const made = { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: '', container_id: 'cntr_1' }
  at.respond = () => Response.json({ ...at.theirs(USAGE), output: [made, MESSAGE] })
  at.status = 'completed'
  expect(await at.settled(id!)).toMatchObject({ ending: 'completed' })
  expect([(await naming('cntr_1')).status, (await naming('cntr_2')).status]).toEqual([200, 404])
})

backgroundTest(
  'a deleted background response is cancelled at its provider and costs the reported usage',
  async (at) => {
    await at.start()
    const { id } = (await at.create()).body
    at.respond = (name) => {
      if (name === 'POST /resp_theirs/cancel') at.status = 'cancelled'
      return Response.json(at.theirs(USAGE))
    }
    expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
    expect(at.calls).toContain('POST /resp_theirs/cancel')
    expect((await at.recordOf(id!)).body).toMatchObject({ ending: 'client-left', ...PAID })
    expect(await at.balance()).toBe(0.994)
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  },
)

backgroundTest('a background response cancelled without reported usage costs its input', async (at) => {
  // Its worker that counts tokens starts from bytecode.
  await at.startProcess()
  const { id } = (await at.create()).body
  at.status = 'cancelled'
  await at.call('DELETE', `/v1/responses/${id}`)
  expect((await at.recordOf(id!)).body).toMatchObject({
    ending: 'client-left',
    estimated: true,
    nativeTokens: { completion_tokens: 0 },
  })
})

backgroundTest('a failed background response costs nothing', async (at) => {
  await at.start()
  const { id } = (await at.create()).body
  at.status = 'failed'
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'failed' })
  expect((await at.recordOf(id!)).body).toMatchObject({ ending: 'failed', usage: 0 })
})

backgroundTest(
  'a response deleted while its provider is unreachable is followed until it ends, even after a kill',
  async (at) => {
    const killed = await at.startProcess()
    const { id } = (await at.create()).body
    at.respond = () => new Response('{}', { status: 503 })
    expect((await at.call('DELETE', `/v1/responses/${id}`)).status).toBe(200)
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
    expect((await at.recordOf(id!)).status).toBe(404)
    await at.restart(killed)
    expect((await at.create()).status).toBe(402)
    at.calls = []
    at.status = 'completed'
    at.respond = (name) => (name.endsWith('/cancel') ? new Response('{}', { status: 400 }) : undefined)
    expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
    expect(at.calls).toEqual(['POST /resp_theirs/cancel', 'GET /resp_theirs'])
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  },
)

backgroundTest('a response deleted while its provider is polled stays deleted', async (at) => {
  await at.start()
  const { id } = (await at.create()).body
  const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  at.respond = async (name) => {
    if (name.startsWith('POST')) return new Response('{}', { status: 503 })
    reached.resolve()
    await gate.promise
    return undefined
  }
  const question = at.call('GET', `/v1/responses/${id}`)
  await reached.promise
  const deletion = at.call('DELETE', `/v1/responses/${id}`)
  while ((await at.call('GET', `/v1/responses/${id}/input_items`)).status !== 404) await Bun.sleep(5)
  at.status = 'completed'
  gate.resolve()
  expect((await question).body).toMatchObject({ status: 'completed' })
  expect((await deletion).status).toBe(200)
  expect(await at.settled(id!)).toMatchObject({ ending: 'completed', ...PAID })
  expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
  expect(
    (await at.call('POST', '/v1/responses', { model: 'up/m', input: [{ type: 'item_reference', id: 'msg_bg' }] }))
      .status,
  ).toBe(404)
})

backgroundTest('a background response is cancelled if its client left before receiving its id', async (at) => {
  await at.start()
  const [gate, abort] = [Promise.withResolvers<void>(), new AbortController()]
  at.respond = async (name) => {
    if (name === 'POST ') await gate.promise
    if (name.endsWith('/cancel')) at.status = 'cancelled'
    return Response.json(at.theirs(name === 'POST ' ? null : USAGE))
  }
  const gone = fetch(`${at.gateway.url}/v1/responses`, {
    method: 'POST',
    signal: abort.signal,
    headers: { authorization: `Bearer ${at.gateway.key}` },
    body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true }),
  }).catch(() => {})
  while (at.calls.length === 0) await Bun.sleep(5)
  abort.abort()
  await gone
  await Bun.sleep(100)
  gate.resolve()
  while (!at.calls.includes('POST /resp_theirs/cancel')) await Bun.sleep(20)
  while ((await at.balance()) === 1) await Bun.sleep(20)
  expect(await at.balance()).toBe(0.994)
})

backgroundTest('a background response can be followed up once it has ended', async (at) => {
  await at.start()
  const { id } = (await at.create()).body as unknown as { id: string }
  const followUp = { background: false, previous_response_id: id }
  expect(await at.create(followUp)).toMatchObject({
    status: 400,
    body: { error: { param: 'previous_response_id', message: expect.stringContaining('has not ended yet') } },
  })
  expect(at.calls.filter((name) => name === 'POST ')).toHaveLength(1)
  at.status = 'completed'
  await at.call('GET', `/v1/responses/${id}`)
  expect((await at.create(followUp)).status).toBe(200)
})

backgroundTest('a background response is refused with store: false', async (at) => {
  await at.start()
  const refused = await at.create({ store: false })
  expect([refused.status, (refused.body as { error?: { param: string } }).error?.param]).toEqual([400, 'background'])
  expect(at.calls).toEqual([])
})

backgroundTest('a background response whose client leaves its stream is followed like any other', async (at) => {
  await at.start()
  at.respond = (name) => (name === 'POST ' ? at.streaming() : undefined)
  const { id, leave } = await at.begin()
  leave()
  while ((await at.call('GET', `/v1/responses/${id}`)).status === 404) await Bun.sleep(5)
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
  expect((await at.recordOf(id)).status).toBe(404)
  at.status = 'completed'
  expect(await at.settled(id)).toMatchObject({ ending: 'completed', streamed: true, ...PAID })
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, output: [MESSAGE] })
})

for (const isCut of [true, false])
  backgroundTest(
    `a background response that streams is cancelled, and ${isCut ? 'cut' : 'ended'} by its provider`,
    async (at) => {
      await at.start()
      at.respond = (name) => (name === 'POST ' ? at.cancellable(isCut) : undefined)
      const { id } = await at.begin()
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued', model: 'up/m' })
      const cancel = () => at.call('POST', `/v1/responses/${id}/cancel`)
      expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
      // What its client asked for is no failure of the provider.
      const { estimated: _, ...paid } = PAID
      const record = await at.settled(id)
      expect(record).toMatchObject({ streamed: true, ending: 'client-left', ...paid })
      if (!isCut) expect(JSON.stringify(record)).not.toContain('upstream_error')
      const health = await (await fetch(`${at.gateway.url}/metrics`)).text()
      expect(health).toMatch(/^sluice_attempts_total\{[^}]*provider="up"/m)
      expect(health).not.toMatch(/^sluice_attempts_total\{[^}]*upstream_error/m)
      expect(await cancel()).toMatchObject({ status: 200, body: { id, status: 'cancelled' } })
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'cancelled' })
      expect([at.calls.filter((name) => name.endsWith('/cancel')).length, await at.balance()]).toEqual([1, 0.994])
    },
  )

backgroundTest(
  'a background response deleted while it streams is cancelled at its provider and stays deleted',
  async (at) => {
    await at.start()
    at.respond = (name) => (name === 'POST ' ? at.cancellable(true) : undefined)
    const { id } = await at.begin()
    expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
    expect(at.calls).toContain('POST /resp_theirs/cancel')
    expect(await at.settled(id)).toMatchObject({ ending: 'client-left', ...PAID })
    expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
    expect(await at.balance()).toBe(0.994)
  },
)

backgroundTest('a background response that streams is stored once, as it ends', async (at) => {
  await at.start()
  const whole = (): Response => {
    const frames = ['response.created', 'response.completed'].map((type) => {
      at.status = type === 'response.created' ? 'in_progress' : 'completed'
      return `event: ${type}\ndata: ${JSON.stringify({ type, response: at.theirs() })}\n\n`
    })
    return new Response(frames.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  at.respond = (name) => (name === 'POST ' ? whole() : undefined)
  const { id } = await at.begin()
  expect(await at.settled(id)).toMatchObject({ ending: 'completed', ...PAID })
  at.calls = []
  expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({
    id,
    status: 'completed',
    output: [MESSAGE],
  })
  expect((await at.call('GET', `/v1/responses/${id}/input_items`)).body).toMatchObject({ data: [{ role: 'user' }] })
  expect(at.calls).toEqual([])
})

backgroundTest(
  'a background response that was streaming when the server was killed is followed after the restart',
  async (at) => {
    const killed = await at.startProcess()
    at.respond = (name) => (name === 'POST ' ? at.streaming() : undefined)
    const { id } = await at.begin()
    // A generation of this age is stored as open.
    await Bun.sleep(400)
    await at.restart(killed)
    at.status = 'completed'
    expect(await at.settled(id)).toMatchObject({ ending: 'completed', ...PAID })
  },
)

backgroundTest(
  'a response is read and deleted at a process that does not follow it, and cancelled at its provider',
  async (at) => {
    await at.start()
    const folder = newPostgresFolder()
    const own = at.gateway
    const both = [
      await startGatewayProcess({ config: at.config, data: folder }),
      await startGatewayProcess({ config: at.config, data: folder }),
    ] as const
    try {
      at.gateway = both[0]
      const { body } = await at.create()
      const id = String(body.id)
      at.gateway = both[1]
      expect((await at.call('GET', `/v1/responses/${id}`)).body).toMatchObject({ id, status: 'queued' })
      at.respond = (name) => {
        if (name === 'POST /resp_theirs/cancel') at.status = 'cancelled'
        return undefined
      }
      expect((await at.call('DELETE', `/v1/responses/${id}`)).body).toMatchObject({ id, deleted: true })
      expect(at.calls).toContain('POST /resp_theirs/cancel')
      expect((await at.call('GET', `/v1/responses/${id}`)).status).toBe(404)
      expect(await at.settled(id)).toMatchObject({ ending: 'client-left', streamed: false })
    } finally {
      at.gateway = own
      for (const one of both) await one.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  once,
)
