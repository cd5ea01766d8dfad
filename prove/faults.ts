/** Providers that fail, send wrong data or hang: no broken response looks complete, and no client waits forever. */
import type { Socket } from 'bun'
import { auditFault } from './book.ts'
import { type Asked, isWhole, PROTOCOLS, providersAt, send } from './requests.ts'
import { Server } from './servers.ts'
import { count, type Finding, inParallel } from './table.ts'

const WIDTH = 16
const TIMEOUT_MS = 30_000
const SECRET = 'sk-proving-0123456789abcdef'

type Answer = (socket: Socket) => void

const head = (status: number | string, headers: string[], body = ''): string =>
  [`HTTP/1.1 ${status} X`, ...headers, '', body].join('\r\n')
const json =
  (body: string, status: number | string = 200, more: string[] = []): Answer =>
  (socket) =>
    void socket.end(
      head(status, ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`, ...more], body),
    )
const sse =
  (text: string, end = true): Answer =>
  (socket) => {
    socket.write(head(200, ['content-type: text/event-stream', 'connection: close'], text))
    if (end) socket.end()
  }

const BODIES: Record<string, string> = {
  'no JSON': '<html>busy</html>',
  'an empty object': '{}',
  'an empty list': '[]',
  null: 'null',
  'a text': '"hello"',
  'half of an object': '{"choices":[{"message":{"content":"Hel',
  'choices that are none': '{"choices":"no","content":3,"output":{},"candidates":7}',
  'an error with the key': `{"error":{"message":"Incorrect API key provided: ${SECRET}","code":"invalid_api_key"}}`,
  'usage that lies':
    '{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],' +
    '"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"total_tokens":"x"}}',
  'deep nesting': `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
}
const FRAMES: Record<string, string> = {
  nothing: '',
  'no frame': 'hello',
  'a frame that is no JSON': 'data: {"choices":[{"del\n\n',
  'half of a stream': 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',
  'only the end': 'data: [DONE]\n\n',
  'an error with the key': `event: error\ndata: {"type":"error","error":{"message":"key ${SECRET}"}}\n\n`,
  'comments alone': ': x\n\n'.repeat(1_000),
  'a frame without an end': `data: ${'x'.repeat(20 * 1024 * 1024)}`,
  'zero bytes': '\0'.repeat(10_000),
  'invalid UTF-8': 'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n',
}
const RAW: Record<string, Answer> = {
  'a connection that closes': (socket) => void socket.end(),
  'a reset': (socket) => void socket.terminate(),
  'half of a head': (socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-ty'),
  'no HTTP': (socket) => void socket.end('SSH-2.0-x\r\n'),
  'a body shorter than its length': (socket) => void socket.end(head(200, ['content-length: 100'], '{}')),
  'a body longer than its length': (socket) => void socket.end(head(200, ['content-length: 2'], '{}{}{}')),
  'bad chunks': (socket) => void socket.end(head(200, ['transfer-encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n')),
  'two lengths': (socket) => void socket.end(head(200, ['content-length: 2', 'content-length: 3'], '{}')),
  'a head of 1 MB': (socket) => void socket.end(head(200, [`x: ${'y'.repeat(1_000_000)}`], '{}')),
  'a redirect': (socket) => void socket.end(head(302, ['location: http://127.0.0.1:9/', 'content-length: 0'])),
  'many 1xx': (socket) =>
    void socket.end(`${'HTTP/1.1 103 Early\r\n\r\n'.repeat(1_000)}${head(200, ['content-length: 2'], '{}')}`),
  silence: () => {},
  'silence after the head': (socket) =>
    void socket.write(head(200, ['content-type: application/json', 'content-length: 9'])),
  'a cookie': json('{}', 200, [`set-cookie: a=${SECRET}`, `x-goog-api-key: ${SECRET}`]),
}

/** Every behaviour of the provider, by its name. */
const FAULTS: [name: string, answer: Answer][] = [
  ...Object.entries(RAW),
  ...Object.entries(BODIES).map(([name, body]): [string, Answer] => [`200 with ${name}`, json(body)]),
  ...[400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529, 599, 777].flatMap(
    (status): [string, Answer][] => [
      [`${status} with an error`, json(BODIES['an error with the key']!, status, ['retry-after: 1e9'])],
      [`${status} with HTML`, json(BODIES['no JSON']!, status)],
    ],
  ),
  ...Object.entries(FRAMES).flatMap(([name, text]): [string, Answer][] => [
    [`a stream of ${name}`, sse(text)],
    [`a stream of ${name} and silence`, sse(text, false)],
  ]),
]

/** Each fault on each of the 16 routes, streamed and not. */
export async function proveFaults(progress: (text: string) => void): Promise<Finding[]> {
  const upstream = Bun.listen<{ text: string }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: '' }
      },
      data(socket, bytes) {
        socket.data.text += bytes.toString('latin1')
        const found = /@@(\d+)@@/.exec(socket.data.text)?.[1]
        if (found === undefined) return
        socket.data.text = ''
        FAULTS[Number(found)]![1](socket as unknown as Socket)
      },
    },
  })
  const server = new Server(
    'billing: { startingCredit: unlimited, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n' +
      'timeouts: { firstByte: 2s, idle: 2s, total: 5s }\n' +
      providersAt(`http://127.0.0.1:${upstream.port}`).replaceAll('apiKey: proving', `apiKey: ${SECRET}`),
  )
  const routes = PROTOCOLS.flatMap((client) =>
    PROTOCOLS.flatMap((provider) => [true, false].map((stream) => ({ client, provider, stream }))),
  )
  const faults: string[] = []
  let tried = 0
  try {
    await server.start()
    await inParallel(FAULTS.length * routes.length, WIDTH, async (index) => {
      const fault = Math.floor(index / routes.length)
      const asked: Asked = { ...routes[index % routes.length]!, text: `@@${fault}@@`, limit: 100 }
      const where = `${FAULTS[fault]![0]}, ${asked.client} -> ${asked.provider}, ${asked.stream ? 'streamed' : 'whole'}`
      const problem = await problemOf(server, asked, FAULTS[fault]![0])
      if (problem !== undefined) faults.push(`${where}: ${problem}`)
      if (++tried % 1_000 === 0) progress(`${tried} of ${FAULTS.length * routes.length} faults of providers`)
    })
    const wrong = await auditFault(server)
    if (wrong !== undefined) faults.push(wrong)
  } finally {
    await server.remove()
    upstream.stop(true)
  }
  return [
    {
      what: 'Providers that break, lie or hang, on all routes',
      tried: `${FAULTS.length} faults, ${count(tried)} requests`,
      result: `${faults.length} looked whole, were a 500 or let a secret pass; every client got its end; book right`,
      ...(faults[0] === undefined ? {} : { fault: faults[0] }),
    },
  ]
}

async function problemOf(server: Server, asked: Asked, fault: string): Promise<string | undefined> {
  try {
    const response = await send(server, asked, AbortSignal.timeout(TIMEOUT_MS))
    const text = await response.text().catch(() => '')
    if (text.includes(SECRET) || JSON.stringify([...response.headers]).includes(SECRET)) return 'a secret passed'
    // A client of the provider's protocol receives its status.
    const isOwn = fault.startsWith('500') && asked.client === asked.provider
    if (response.status === 500 && !isOwn) return `500 ${text.slice(0, 100)}`
    // An answer that is whole but for its usage may look so.
    const isBroken = !fault.includes('usage that lies')
    if (isBroken && response.ok && asked.stream && isWhole(text, asked) && !/error/.test(text))
      return `looks whole: ${text.slice(-120)}`
    return undefined
  } catch (error) {
    return (error as Error).name === 'TimeoutError' ? 'the client waited for ever' : undefined
  }
}
