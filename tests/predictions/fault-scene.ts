import { test } from 'bun:test'
import { inScene } from '../scene.ts'
import { startGateway, startGatewayProcess, type Gateway, type GatewayOptions, type GatewayProcess } from '../server.ts'
import { predictionUpstream } from './upstream.ts'
import { once } from '../stores.ts'

/** A gateway before a provider of predictions with faults, and a receiver of webhooks. */

export type Shown = {
  id: string
  status: string
  output: unknown
  error: string | null
  logs: string
  metrics: { predict_time?: number }
  completed_at: string | null
}

type Sections = { models?: string; providers?: string; settings?: string }

class Scene {
  readonly upstream = predictionUpstream()
  readonly hooks: ReturnType<typeof Bun.serve>
  /** Path and status of each webhook call. */
  readonly calls: { path: string; status: string }[] = []
  readonly gateways: Gateway[] = []

  constructor() {
    this.hooks = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { status } = (await request.json()) as Shown
        this.calls.push({ path: new URL(request.url).pathname, status })
        return new Response(null, { status: 204 })
      },
    })
  }

  async start({ url = this.upstream.url, ...sections }: Sections & { url?: string } = {}): Promise<Gateway> {
    const gateway = await startGateway(this.#configured(url, sections))
    this.gateways.push(gateway)
    return gateway
  }

  async startProcess({ data, ...sections }: Sections & { data?: string } = {}): Promise<GatewayProcess> {
    const options = this.#configured(this.upstream.url, sections)
    const gateway = await startGatewayProcess({ ...options, ...(data === undefined ? {} : { data }) })
    this.gateways.push(gateway)
    return gateway
  }

  #configured(url: string, { models = '', providers = '', settings = '' }: Sections): GatewayOptions {
    return {
      config: `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1, delay: 0s }
fetch: { private: ["127.0.0.1:${this.hooks.port}"] }
${settings}providers:
  up: { protocol: predictions, baseUrl: "${url}" }
${providers}
models:
  job: { endpoints: [{ provider: up, model: owner/name }], price: { request: 0.01 } }
${models}`,
    }
  }

  create(gateway: Gateway, input: { key: string; ms?: number }): Promise<Shown> {
    return ask(gateway, 'POST', '/v1/predictions', {
      model: 'job',
      input,
      webhook: `http://127.0.0.1:${this.hooks.port}/${input.key}`,
      webhook_events_filter: ['completed'],
    })
  }

  createsOf(name: string): number {
    return this.upstream.creates.filter((key) => key === name).length
  }

  async end(): Promise<void> {
    for (const gateway of this.gateways) await gateway.stop()
    await this.upstream.stop()
    await this.hooks.stop(true)
  }
}

/** They mostly wait, so they run at the same time. */
const LIMIT_MS = 90_000

export function faultTest(name: string, run: (at: Scene) => Promise<void>, as: typeof test = once.concurrent): void {
  as(
    name,
    inScene(() => new Scene(), run),
    LIMIT_MS,
  )
}

export const send = ({ url, key }: Gateway, method: string, path: string, body?: object): Promise<Response> =>
  fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

export const ask = async <T = Shown>(...request: Parameters<typeof send>): Promise<T> =>
  (await (await send(...request)).json()) as T

export async function ended(gateway: Gateway, { id }: Shown): Promise<Shown> {
  for (;;) {
    const now = await ask(gateway, 'GET', `/v1/predictions/${id}`)
    if (now.completed_at !== null) return now
    await Bun.sleep(20)
  }
}

export const billOf = async (gateway: Gateway, { id }: Shown): Promise<number> =>
  (await ask<{ usage: number }>(gateway, 'GET', `/v1/management/generation?id=${id}`)).usage
