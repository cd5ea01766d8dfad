/**
 * A provider of predictions with Replicate's API, whose behaviour the input of each prediction sets. It runs in the
 * test process, so that it survives a gateway that is killed.
 */

/** `key`: the name by which a test finds the prediction; the others set how it runs and ends. */
type Input = { key: string; ms?: number; fail?: string; output?: unknown; steps?: number }
type Made = { input: Input; at: number; canceledAt?: number }

export type PredictionUpstream = {
  url: string
  /** Keys of created predictions, one for each creation. */
  creates: string[]
  /** Keys of cancelled predictions, one for each cancellation. */
  cancels: string[]
  polls: number
  /** Replaces the response to a request, where it gives one. */
  instead: ((kind: 'GET' | 'POST' | 'cancel') => Response | Promise<Response | undefined> | undefined) | undefined
  stop(): Promise<void>
}

export function predictionUpstream(): PredictionUpstream {
  const made = new Map<string, Made>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const [, id, cancel] = /\/predictions\/([^/]+)(\/cancel)?$/.exec(new URL(request.url).pathname) ?? []
      const kind = cancel !== undefined ? 'cancel' : id === undefined ? 'POST' : 'GET'
      if (kind === 'POST') {
        const { input } = (await request.json()) as { input: Input }
        const number = `made-${made.size}`
        made.set(number, { input, at: Date.now() })
        upstream.creates.push(input.key)
        return (await upstream.instead?.('POST')) ?? Response.json(stateOf(number, made.get(number)!), { status: 201 })
      }
      const one = made.get(id!)
      if (one === undefined) return Response.json({ detail: 'Not found.' }, { status: 404 })
      if (kind === 'GET') upstream.polls++
      else {
        upstream.cancels.push(one.input.key)
        one.canceledAt ??= Date.now()
      }
      return (await upstream.instead?.(kind)) ?? Response.json(stateOf(id!, one))
    },
  })
  const upstream: PredictionUpstream = {
    url: `http://127.0.0.1:${server.port}/v1`,
    creates: [],
    cancels: [],
    polls: 0,
    instead: undefined,
    stop: () => server.stop(true),
  }
  return upstream
}

function stateOf(
  id: string,
  { input: { ms = 0, fail, output = ['done'], steps = 4 }, at, canceledAt = Infinity }: Made,
): object {
  const over = Math.min(at + ms, canceledAt)
  const isOver = Date.now() >= over
  const status = !isOver
    ? 'processing'
    : canceledAt < at + ms
      ? 'canceled'
      : fail === undefined
        ? 'succeeded'
        : 'failed'
  const passed = ms === 0 ? steps : Math.floor(((Math.min(Date.now(), over) - at) / ms) * steps)
  return {
    id,
    status,
    output: status === 'succeeded' ? output : null,
    error: status === 'failed' ? fail : null,
    logs: Array.from({ length: passed }, (_, step) => `step ${step + 1}\n`).join(''),
    created_at: new Date(at).toISOString(),
    started_at: new Date(at).toISOString(),
    completed_at: isOver ? new Date(over).toISOString() : null,
    metrics: isOver ? { predict_time: (over - at) / 1000 } : {},
  }
}
