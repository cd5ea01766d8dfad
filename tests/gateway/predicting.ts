/** A provider of predictions with Replicate's API, controlled by a test. */

export type Made = {
  id: string
  path: string
  body: string
  input: Record<string, unknown>
  version?: string
  status: string
  output: unknown
  error: string | null
  logs: string
  canceled: number
  polls: number
}

export type PredictionProvider = {
  url: string
  made: Made[]
  /** The response to a creation, or its error status. `hang`: the prediction is created without a response. */
  creates: 'answer' | 'hang' | number
  /** The error status with which polls are answered. */
  fails: number | undefined
  /** Called with each prediction when it is created. */
  onMade: (made: Made) => void
  stop(): Promise<void>
}

export function predictionProvider(): PredictionProvider {
  const made: Made[] = []
  const shown = ({ id, input, version, status, output, error, logs }: Made): object => ({
    id,
    version,
    input,
    status,
    output,
    error,
    logs,
    created_at: '2026-01-01T00:00:00Z',
    urls: {},
  })
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const path = new URL(request.url).pathname
      const [, id, cancel] = /\/predictions\/([^/]+)(\/cancel)?$/.exec(path) ?? []
      if (id === undefined) {
        const body = await request.text()
        const { input, version } = JSON.parse(body) as Pick<Made, 'input' | 'version'>
        if (typeof provider.creates === 'number')
          return Response.json(
            { title: 'No', detail: 'not now', status: provider.creates },
            { status: provider.creates },
          )
        const one: Made = {
          id: `up${made.length}x${crypto.randomUUID().slice(0, 8)}`,
          path,
          body,
          input,
          ...(version === undefined ? {} : { version }),
          status: 'starting',
          output: null,
          error: null,
          logs: '',
          canceled: 0,
          polls: 0,
        }
        made.push(one)
        provider.onMade(one)
        return provider.creates === 'hang'
          ? new Promise<Response>(() => {})
          : Response.json(shown(one), { status: 201 })
      }
      const known = made.find((one) => one.id === id)
      if (known === undefined) return Response.json({ detail: 'not found' }, { status: 404 })
      if (cancel !== undefined) {
        known.canceled++
        if (known.status === 'starting' || known.status === 'processing') known.status = 'canceled'
        return Response.json(shown(known))
      }
      known.polls++
      if (provider.fails !== undefined) return Response.json({ detail: 'broken' }, { status: provider.fails })
      return Response.json(shown(known))
    },
  })
  const provider: PredictionProvider = {
    url: `http://127.0.0.1:${server.port}/v1`,
    made,
    creates: 'answer',
    fails: undefined,
    onMade: () => {},
    stop: () => server.stop(true),
  }
  return provider
}

export type Shown = {
  id: string
  model: string
  version: string | null
  input: Record<string, unknown>
  output: unknown
  error: string | null
  logs: string
  status: string
  created_at: string
  started_at: string | null
  completed_at: string | null
  metrics: { predict_time?: number }
  urls: { get: string; cancel: string; stream: string }
}

/** A client of predictions with one key. */
export class Predictions {
  readonly #url: string
  readonly #headers: Record<string, string>

  constructor(url: string, key: string) {
    this.#url = url
    this.#headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  }

  send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(this.#url + path, {
      method,
      headers: { ...this.#headers, ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  }

  async create(model: string, input: object, more: object = {}, prefer?: string): Promise<Shown> {
    const response = await this.send(
      'POST',
      '/v1/predictions',
      { model, input, ...more },
      prefer === undefined ? {} : { prefer },
    )
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as Shown
  }

  async get(id: string): Promise<Shown> {
    return (await (await this.send('GET', `/v1/predictions/${id}`)).json()) as Shown
  }

  async cancel(id: string): Promise<Shown> {
    return (await (await this.send('POST', `/v1/predictions/${id}/cancel`)).json()) as Shown
  }

  /** Polls until the prediction has ended. */
  async ended(id: string): Promise<Shown> {
    for (let looks = 0; looks < 1_000; looks++) {
      const shown = await this.get(id)
      if (['succeeded', 'failed', 'canceled'].includes(shown.status)) return shown
      await Bun.sleep(20)
    }
    throw new Error(`${id} did not end`)
  }
}
