import { test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inScene } from '../scene.ts'
import { startGateway, startGatewayProcess, type Gateway, type GatewayProcess } from '../server.ts'

/** Gateways before a provider of background responses, which a test controls. */

export const MESSAGE = {
  type: 'message',
  id: 'msg_bg',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'done', annotations: [] }],
}
export const USAGE = {
  input_tokens: 1000,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 500,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 1500,
}
export const PAID = { usage: 0.006, estimated: false, nativeTokens: { prompt_tokens: 1000, completion_tokens: 500 } }

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

export function backgroundTest(name: string, run: (at: Scene) => Promise<void>, as: typeof test = test): void {
  as.concurrent(
    name,
    inScene(() => new Scene(), run),
    LIMIT_MS,
  )
}
