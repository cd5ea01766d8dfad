/**
 * A provider with minimal cost: raw sockets and prepared responses. `upstream.ts [framesPerStream] [gapMs]`. Responds
 * with 1 KB of JSON, or with a stream, one write per frame so that no proxy gains by joining them; a text in the
 * request can ask for silence or a pace. Prints `listening on PORT`.
 */
import type { Socket } from 'bun'

const FRAMES = Number(process.argv[2] ?? 200)
const GAP_MS = Number(process.argv[3] ?? 2)

const TEXT = 'All water runs to the sea, and the gate only counts it. '.repeat(11)

const chatResponse = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  created: 1700000000,
  model: 'm',
  choices: [
    { index: 0, message: { role: 'assistant', content: TEXT, refusal: null }, logprobs: null, finish_reason: 'stop' },
  ],
  usage: {
    prompt_tokens: 12,
    completion_tokens: 160,
    total_tokens: 172,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  },
})
const messagesResponse = JSON.stringify({
  id: 'msg_bench',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: TEXT }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 12, output_tokens: 160 },
})

const chunk = (text: string): Buffer => Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
const sse = (value: Record<string, unknown>, named: boolean): Buffer =>
  chunk(`${named ? `event: ${value.type}\n` : ''}data: ${JSON.stringify(value)}\n\n`)

const chatChunk = (delta: object, finish: string | null, usage: object | null = null) =>
  sse(
    {
      id: 'chatcmpl-bench',
      object: 'chat.completion.chunk',
      created: 1700000000,
      model: 'm',
      service_tier: 'default',
      system_fingerprint: 'fp_bench',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      usage,
    },
    false,
  )

type StreamFrames = { first: Buffer; middle: Buffer; last: Buffer }

const chatFrames: StreamFrames = {
  first: chatChunk({ role: 'assistant', content: '' }, null),
  middle: chatChunk({ content: ' water' }, null),
  last: Buffer.concat([
    chatChunk({}, 'stop'),
    sse(
      {
        id: 'chatcmpl-bench',
        object: 'chat.completion.chunk',
        created: 1700000000,
        model: 'm',
        choices: [],
        usage: { prompt_tokens: 12, completion_tokens: FRAMES, total_tokens: FRAMES + 12 },
      },
      false,
    ),
    chunk('data: [DONE]\n\n'),
    Buffer.from('0\r\n\r\n'),
  ]),
}
const messagesFrames: StreamFrames = {
  first: Buffer.concat([
    sse(
      {
        type: 'message_start',
        message: {
          id: 'msg_bench',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 12, output_tokens: 1 },
        },
      },
      true,
    ),
    sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, true),
  ]),
  middle: sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' water' } }, true),
  last: Buffer.concat([
    sse({ type: 'content_block_stop', index: 0 }, true),
    sse(
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: FRAMES },
      },
      true,
    ),
    sse({ type: 'message_stop' }, true),
    Buffer.from('0\r\n\r\n'),
  ]),
}

const plain = (body: string): Buffer =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
const PLAIN = { chat: plain(chatResponse), messages: plain(messagesResponse) }
const STREAM_HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
)

/** Streams with a pace of their own have fewer frames: they last so long. */
const PACED_STREAM_MS = 2_000

type ClientState = {
  head: string
  body: string
  /** Bytes of the body that have not come yet; undefined before the end of the head. */
  missing: number | undefined
  /** Larger bodies are only counted. */
  isSmall: boolean
  timer: Timer | undefined
}

const SMALL_BYTES = 16_384

const newState = (timer?: Timer): ClientState => ({ head: '', body: '', missing: undefined, isSmall: false, timer })

const stream = (socket: Socket<ClientState>, written: StreamFrames, request: string): void => {
  socket.write(Buffer.concat([STREAM_HEAD, written.first]))
  // A silent stream stays open, to measure the memory of many open streams.
  if (request.includes('stay silent')) return
  const pace = /one frame in (\d+) ms/.exec(request)?.[1]
  if (pace === undefined) return sendFrames(socket, written, FRAMES, GAP_MS)
  // Streams that begin together do not stay together.
  const gapMs = Number(pace)
  const delayMs = Math.random() * gapMs
  socket.data.timer = setTimeout(() => sendFrames(socket, written, PACED_STREAM_MS / gapMs, gapMs), delayMs)
}

const sendFrames = (socket: Socket<ClientState>, written: StreamFrames, count: number, gapMs: number): void => {
  let sent = 0
  socket.data.timer = setInterval(() => {
    sent += 1
    if (sent < count) return void socket.write(written.middle)
    clearInterval(socket.data.timer)
    socket.write(written.last)
  }, gapMs)
}

const respond = (socket: Socket<ClientState>): void => {
  const { head, body } = socket.data
  socket.data = newState(socket.data.timer)
  const kind = head.includes('/messages') ? 'messages' : 'chat'
  if (/"stream": *true/.test(body)) stream(socket, kind === 'chat' ? chatFrames : messagesFrames, body)
  else socket.write(PLAIN[kind])
}

/** One request at a time: no contender pipelines them. */
const receive = (socket: Socket<ClientState>, bytes: Buffer): void => {
  const state = socket.data
  let bodyBytes = bytes
  if (state.missing === undefined) {
    const before = state.head.length
    state.head += bytes.toString('latin1')
    const end = state.head.indexOf('\r\n\r\n')
    if (end === -1) return
    state.head = state.head.slice(0, end)
    state.missing = Number(/content-length: *(\d+)/i.exec(state.head)?.[1] ?? 0)
    state.isSmall = state.missing <= SMALL_BYTES
    bodyBytes = bytes.subarray(end + 4 - before)
  }
  state.missing -= bodyBytes.length
  if (state.isSmall) state.body += bodyBytes.toString('latin1')
  if (state.missing <= 0) respond(socket)
}

const server = Bun.listen<ClientState>({
  hostname: '127.0.0.1',
  port: 0,
  socket: {
    open(socket) {
      socket.data = newState()
    },
    data: receive,
    close(socket) {
      clearInterval(socket.data.timer)
    },
    error(socket) {
      clearInterval(socket.data.timer)
    },
  },
})
console.log(`listening on ${server.port}`)
