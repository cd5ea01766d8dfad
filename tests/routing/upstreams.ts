import type { ConversationName } from '../../src/generation/request.ts'
import { framed, protocolOf, RESPONSE_PIECES, COUNTED } from '../gateway/scripted.ts'
import { rawServer, type RawSocket } from '../transport/raw-server.ts'

/** The behaviour of an upstream at the moment. `slow`: the head comes late; `stalled`: it never comes. */
export type Behaviour =
  | 'well'
  | 'stalled'
  | 'slow'
  | 'limited'
  | 'failing'
  | 'resetting'
  | 'dying'
  | 'error-first'
  | 'refusing'
  | 'overflowing'
  | 'prudish'

/** One provider on a socket of its own, in all four protocols. */
export type Upstream = {
  url: string
  behaviour: Behaviour
  slowMs: number
  requests: number
  /** Connections that are open. */
  open(): number
  retryAfter: string | undefined
  stop(): void
}

const piece = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const END = '0\r\n\r\n'
const head = (status: number, type: string, more = ''): string =>
  `HTTP/1.1 ${status} Scripted\r\ncontent-type: ${type}\r\n${more}transfer-encoding: chunked\r\n\r\n`

/** An error as the first event of a stream, as each protocol has it. */
const OVERLOADED: Record<ConversationName, object> = {
  'chat.completions': { error: { message: 'overloaded', type: 'overloaded_error', code: 503 } },
  responses: { type: 'error', message: 'overloaded', code: 'server_is_overloaded' },
  messages: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
  generateContent: { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } },
}

export function upstream(behaviour: Behaviour = 'well', slowMs = 150): Upstream {
  const server = rawServer((socket, request) => {
    state.requests++
    const path = request.split(' ')[1]!
    const stream = path.includes(':stream') || /"stream":\s*true/.test(request)
    answer(socket, state, protocolOf(path), stream)
  })
  const state: Upstream = {
    url: `${server.url}/v1`,
    behaviour,
    slowMs,
    requests: 0,
    open: () => server.open,
    retryAfter: undefined,
    stop: server.stop,
  }
  return state
}

function answer(
  socket: RawSocket,
  { behaviour, slowMs, retryAfter }: Upstream,
  protocol: ConversationName,
  stream: boolean,
): void {
  const pieces = RESPONSE_PIECES[protocol]
  const refuse = (status: number, body: object = pieces.failure): void => {
    const wait = retryAfter === undefined ? '' : `retry-after: ${retryAfter}\r\n`
    socket.write(head(status, 'application/json', wait) + piece(JSON.stringify(body)) + END)
  }
  const respond = (): void => {
    const text = stream
      ? framed([...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)])
      : JSON.stringify(pieces.whole(COUNTED))
    socket.write(head(200, stream ? 'text/event-stream' : 'application/json') + piece(text) + END)
  }
  switch (behaviour) {
    case 'stalled':
      return
    case 'slow':
      return void setTimeout(respond, slowMs)
    case 'limited':
      return refuse(429)
    case 'failing':
      return refuse(500)
    case 'refusing':
      return refuse(400)
    case 'prudish':
      return refuse(400, { error: { message: 'No.', type: 'x', code: 'content_policy_violation' } })
    case 'overflowing':
      return refuse(400, { error: { message: 'This model has a maximum context length of 5 tokens.', type: 'x' } })
    case 'resetting':
      return void socket.terminate()
    case 'dying':
      socket.write(head(200, 'text/event-stream') + piece(framed(pieces.begin(COUNTED))))
      return void setTimeout(() => socket.terminate(), 5)
    case 'error-first':
      if (!stream) return refuse(529)
      return void socket.write(head(200, 'text/event-stream') + piece(framed([OVERLOADED[protocol]])) + END)
    default:
      respond()
  }
}

/** The configuration of a model `pool` with these upstreams as its endpoints, in their order. */
export const poolConfig = (protocol: ConversationName, upstreams: readonly Upstream[], more: object = {}): string =>
  Object.entries({
    limits: { requestsPerMinute: 1_000_000 },
    billing: { unpriced: 'refuse', startingCredit: 10 },
    accountStatus: { refusals: { monitored: 1_000_000, abusive: 1_000_000 } },
    providers: Object.fromEntries(
      upstreams.map(({ url }, index) => [`up-${index}`, { protocol, baseUrl: url, apiKey: 'none', unlisted: true }]),
    ),
    models: {
      pool: {
        endpoints: upstreams.map((_, index) => ({ provider: `up-${index}`, model: 'm' })),
        price: { prompt: 1, completion: 2 },
      },
    },
    ...more,
  })
    .map(([setting, value]) => `${setting}: ${JSON.stringify(value)}\n`)
    .join('')

/** Runs so many jobs, some of them at a time. */
export async function inParallel(jobs: number, atATime: number, run: (job: number) => Promise<void>): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: atATime }, async () => {
      while (next < jobs) await run(next++)
    }),
  )
}
