import type { ConversationName } from '../../src/generation/request.ts'
import { rawServer, type RawServer, type RawSocket } from '../transport/raw-server.ts'

/**
 * A provider on a raw socket with all four protocols. The name of the model is the script that it follows.
 */

export const TEXT = 'one two three'

/** The usage that the provider reports. */
export const COUNTED = { prompt: 10, completion: 5 }

type Count = { prompt: number; completion: number }

/** Usage that no answer can have. */
const IMPOSSIBLE: Count = { prompt: -5, completion: 1e308 }

const countOf = (script: Script): Count | undefined =>
  script === 'unmetered' || script === 'in-one-piece' ? undefined : script === 'impossible' ? IMPOSSIBLE : COUNTED

/** One response in one protocol, in pieces. */
type ResponsePieces = {
  /** The usage that a stream reports before its end. */
  early?: Partial<Count>
  begin(count: Count | undefined): object[]
  /** The end of a stream without its last frame, which is `last`. */
  end(count: Count | undefined): object[]
  last(count: Count | undefined): (object | string)[]
  /** A frame in mid-stream with other usage. */
  also(count: Count): object
  whole(count: Count | undefined): object
  failure: object
}

const chunk = (delta: object, finish: string | null, more: object = {}): object => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
})
const chatUsage = ({ prompt, completion }: Count): object => ({
  usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
})
const response = (status: string, more: object = {}): object => ({
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status,
  output: [],
  usage: null,
  ...more,
})
const message = {
  id: 'i',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: TEXT, annotations: [] }],
}
const responsesUsage = (count: Count | undefined): object =>
  count === undefined
    ? {}
    : {
        usage: {
          input_tokens: count.prompt,
          output_tokens: count.completion,
          total_tokens: count.prompt + count.completion,
        },
      }
const googleUsage = (count: Partial<Count> | undefined): object =>
  count === undefined
    ? {}
    : {
        usageMetadata: {
          promptTokenCount: count.prompt,
          ...(count.completion === undefined
            ? {}
            : { candidatesTokenCount: count.completion, totalTokenCount: count.prompt! + count.completion }),
        },
      }
const candidate = (text: string, more: object = {}): object => ({
  responseId: 'g',
  modelVersion: 'm',
  candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0, ...more }],
})

export const RESPONSE_PIECES: Record<ConversationName, ResponsePieces> = {
  'chat.completions': {
    begin: () => [chunk({ role: 'assistant', content: 'one' }, null), chunk({ content: ' two three' }, null)],
    end: () => [chunk({}, 'stop')],
    last: (count) => [
      ...(count === undefined ? [] : [{ ...chunk({}, null), choices: [], ...chatUsage(count) }]),
      '[DONE]',
    ],
    also: (count) => chunk({ content: '' }, null, chatUsage(count)),
    whole: (count) => ({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
      ...(count === undefined ? {} : chatUsage(count)),
    }),
    failure: { error: { message: 'broke', type: 'server_error', code: null, param: null } },
  },
  responses: {
    begin: () => [
      { type: 'response.created', response: response('in_progress') },
      { type: 'response.output_item.added', output_index: 0, item: { ...message, status: 'in_progress', content: [] } },
      {
        type: 'response.content_part.added',
        output_index: 0,
        content_index: 0,
        item_id: 'i',
        part: { type: 'output_text', text: '', annotations: [] },
      },
      { type: 'response.output_text.delta', output_index: 0, content_index: 0, item_id: 'i', delta: TEXT },
    ],
    end: () => [{ type: 'response.output_item.done', output_index: 0, item: message }],
    last: (count) => [
      { type: 'response.completed', response: response('completed', { output: [message], ...responsesUsage(count) }) },
    ],
    also: (count) => ({ type: 'response.in_progress', response: response('in_progress', responsesUsage(count)) }),
    whole: (count) => response('completed', { output: [message], ...responsesUsage(count) }),
    failure: { type: 'error', message: 'broke', code: 'server_error' },
  },
  messages: {
    early: { prompt: COUNTED.prompt },
    begin: (count) => [
      {
        type: 'message_start',
        message: {
          id: 'a',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          ...(count === undefined ? {} : { usage: { input_tokens: count.prompt, output_tokens: 1 } }),
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: TEXT } },
    ],
    end: (count) => [
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        ...(count === undefined ? {} : { usage: { output_tokens: count.completion } }),
      },
    ],
    last: () => [{ type: 'message_stop' }],
    also: ({ completion }) => ({ type: 'message_delta', delta: {}, usage: { output_tokens: completion } }),
    whole: (count) => ({
      id: 'a',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: TEXT }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      ...(count === undefined ? {} : { usage: { input_tokens: count.prompt, output_tokens: count.completion } }),
    }),
    failure: { type: 'error', error: { type: 'api_error', message: 'broke' } },
  },
  generateContent: {
    early: { prompt: COUNTED.prompt },
    begin: (count) => [
      { ...candidate('one'), ...googleUsage(count && { prompt: count.prompt }) },
      candidate(' two three'),
    ],
    end: (count) => [{ ...candidate('', { finishReason: 'STOP' }), ...googleUsage(count) }],
    last: () => [],
    also: (count) => ({ ...candidate(''), ...googleUsage(count) }),
    whole: (count) => ({ ...candidate(TEXT, { finishReason: 'STOP' }), ...googleUsage(count) }),
    failure: { error: { code: 500, message: 'broke', status: 'INTERNAL' } },
  },
}

export type Script =
  | 'metered'
  | 'unmetered'
  | 'in-one-piece'
  | 'impossible'
  | 'counts-twice'
  | 'goes-on'
  | 'silent'
  | 'silent-after-head'
  | 'silent-midway'
  | 'silent-at-last'
  | 'resets'
  | 'resets-midway'
  | 'half'
  | 'fails'
  | 'garbage'
  | 'refuses-400'
  | 'refuses-429'
  | 'refuses-500'

/** Frames of an event stream, with an event line where they have a type. */
export const framed = (frames: readonly (object | string)[]): string =>
  frames
    .map((frame) => {
      const type = (frame as { type?: unknown } | null)?.type
      const data = typeof frame === 'string' ? frame : JSON.stringify(frame)
      return `${typeof type === 'string' ? `event: ${type}\n` : ''}data: ${data}\n\n`
    })
    .join('')

const piece = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const head = (status: number, type: string): string =>
  `HTTP/1.1 ${status} Scripted\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`
const END = '0\r\n\r\n'

/** The bytes of a stream, and what happens to its connection afterwards. */
function streamed(pieces: ResponsePieces, script: Script): { text: string; then: 'end' | 'wait' | 'reset' } {
  const count = countOf(script)
  const begin = framed(pieces.begin(count)),
    end = framed(pieces.end(count)),
    last = framed(pieces.last(count))
  switch (script) {
    case 'silent-after-head':
      return { text: ': thinking\n\n', then: 'wait' }
    case 'silent-midway':
      return { text: begin, then: 'wait' }
    case 'silent-at-last':
      return { text: begin + end, then: 'wait' }
    case 'resets-midway':
      return { text: begin, then: 'reset' }
    case 'half':
      return { text: begin, then: 'end' }
    case 'fails':
      return { text: begin + framed([pieces.failure]), then: 'end' }
    case 'garbage':
      return { text: 'data: {"choices":[{"del\n\ndata: <html>\n\n', then: 'end' }
    case 'counts-twice':
      return { text: begin + framed([pieces.also({ prompt: 4, completion: 1 })]) + end + last, then: 'end' }
    case 'goes-on':
      return {
        text:
          begin +
          end +
          last +
          framed([
            ...pieces.begin(COUNTED),
            ...pieces.end({ prompt: 900, completion: 900 }),
            ...pieces.last({ prompt: 900, completion: 900 }),
          ]),
        then: 'end',
      }
    default:
      return { text: begin + end + last, then: 'end' }
  }
}

/** A response that is not streamed, complete or cut. */
function whole(pieces: ResponsePieces, script: Script): { text: string; then: 'end' | 'wait' | 'reset' } {
  const text = JSON.stringify(pieces.whole(countOf(script)))
  const half = text.slice(0, text.length / 2)
  switch (script) {
    case 'silent-after-head':
    case 'silent-midway':
    case 'silent-at-last':
      return { text: half, then: 'wait' }
    case 'resets-midway':
      return { text: half, then: 'reset' }
    case 'half':
      return { text: half, then: 'end' }
    case 'fails':
      return { text: JSON.stringify(pieces.failure), then: 'end' }
    case 'garbage':
      return { text: '<html>Bad gateway</html>', then: 'end' }
    default:
      return { text, then: 'end' }
  }
}

export const protocolOf = (path: string): ConversationName =>
  path.includes(':')
    ? 'generateContent'
    : path.includes('/messages')
      ? 'messages'
      : path.includes('/responses')
        ? 'responses'
        : 'chat.completions'

export function scriptedProvider(): RawServer {
  return rawServer((socket: RawSocket, request: string) => {
    const path = request.split(' ')[1]!
    const body = JSON.parse(Buffer.from(request.slice(request.indexOf('\r\n\r\n') + 4), 'latin1').toString()) as {
      model?: string
      stream?: boolean
    }
    const script = (/models\/([^:]+):/.exec(path)?.[1] ?? body.model) as Script
    const pieces = RESPONSE_PIECES[protocolOf(path)]
    if (script === 'silent') return
    if (script === 'resets') return void socket.terminate()
    const refused = /^refuses-(\d+)$/.exec(script)?.[1]
    if (refused !== undefined)
      return void socket.write(head(Number(refused), 'application/json') + piece(JSON.stringify(pieces.failure)) + END)
    const stream = (body.stream === true || path.includes(':stream')) && script !== 'in-one-piece'
    const { text, then } = stream ? streamed(pieces, script) : whole(pieces, script)
    socket.write(
      head(200, stream ? 'text/event-stream' : 'application/json') + piece(text) + (then === 'end' ? END : ''),
    )
    // Later, because a reset in the same turn would lose the bytes before it.
    if (then === 'reset') setTimeout(() => socket.terminate(), 20)
  })
}
