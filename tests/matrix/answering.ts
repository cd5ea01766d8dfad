import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter, type Frame } from '../../src/http/frames.ts'
import { framed } from '../gateway/scripted.ts'

/** Responses of a scripted provider, written in each protocol as its real providers do. */

export type Cite = { passage: string; url: string; title: string }

export type ReplyPart =
  | { type: 'text'; text: string; cite?: Cite }
  | { type: 'reasoning'; text: string; signature: string }
  /**
   * `args`: JSON text, or the start of it in a truncated response; free text if `free`. `name`: absent: the test's tool.
   */
  | { type: 'call'; id: string; args: string; name?: string; namespace?: string; free?: true }
  | { type: 'refusal'; text: string }

export type Outcome = 'stop' | 'stop-sequence' | 'length' | 'tool-calls' | 'refusal'

export type Reply = { parts: ReplyPart[]; ending: Outcome; stopSequence?: string; usage: Count }

export type Count = { prompt: number; cached: number; written: number; completion: number; reasoning: number }

export const TOOL = 'find_place'

type Json = Record<string, unknown>

/** A whole response, and the data of the frames of a streamed one. */
export type RawRequest = { whole: object; frames: (object | string)[] }

export const wireOf = (protocol: ConversationName, reply: Reply): RawRequest =>
  ({ 'chat.completions': chatWire, responses: responsesWire, messages: messagesWire, generateContent: geminiWire })[
    protocol
  ](reply)

/** The frames of a stream as they are read from the network. */
export const framesOf = (frames: (object | string)[]): Frame[] => new FrameSplitter().push(Buffer.from(framed(frames)))

const halves = (text: string): string[] => {
  const middle = Math.ceil(text.length / 3)
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '')
}

const textOf = (reply: Reply): string => reply.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')

/** The citations with their ranges in the whole text, in UTF-16 code units. */
function citesOf(reply: Reply): (Cite & { start: number; end: number })[] {
  let at = 0
  return reply.parts.flatMap((part) => {
    if (part.type !== 'text') return []
    const start = at
    at += part.text.length
    return part.cite === undefined ? [] : [{ ...part.cite, start, end: at }]
  })
}

/** OpenAI's offsets count code points. */
const range = (text: string, { start, end }: { start: number; end: number }): object => ({
  start_index: [...text.slice(0, start)].length,
  end_index: [...text.slice(0, end)].length,
})

function chatWire(reply: Reply): RawRequest {
  const { usage } = reply
  const counted = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.written },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  }
  const finish = {
    stop: 'stop',
    'stop-sequence': 'stop',
    length: 'length',
    'tool-calls': 'tool_calls',
    refusal: 'stop',
  }[reply.ending]
  const text = textOf(reply)
  const refusal = reply.parts.map((part) => (part.type === 'refusal' ? part.text : '')).join('')
  const details = reply.parts.flatMap((part) =>
    part.type === 'reasoning'
      ? [
          {
            type: 'reasoning.text',
            text: part.text,
            signature: part.signature,
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ]
      : [],
  )
  const calls = reply.parts.flatMap((part) =>
    part.type === 'call'
      ? [{ id: part.id, type: 'function', function: { name: part.name ?? TOOL, arguments: part.args } }]
      : [],
  )
  const annotations = citesOf(reply).map(({ url, title, ...at }) => ({
    type: 'url_citation',
    url_citation: { url, title, ...range(text, at) },
  }))
  const message = {
    role: 'assistant',
    content: text === '' ? null : text,
    refusal: refusal === '' ? null : refusal,
    ...(details.length > 0 ? { reasoning: details[0]!.text, reasoning_details: details } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(annotations.length > 0 ? { annotations } : {}),
  }
  const head = { id: 'chatcmpl-up', created: 1_700_000_000, model: 'up' }
  const chunk = (delta: object, finish_reason: string | null = null): object => ({
    ...head,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  return {
    whole: {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
      usage: counted,
    },
    frames: [
      chunk({ role: 'assistant', content: '' }),
      ...details.flatMap(({ text: thought, signature, ...rest }) => [
        ...halves(thought).map((piece) => chunk({ reasoning: piece, reasoning_details: [{ ...rest, text: piece }] })),
        chunk({ reasoning_details: [{ ...rest, signature }] }),
      ]),
      ...halves(text).map((piece) => chunk({ content: piece })),
      ...halves(refusal).map((piece) => chunk({ refusal: piece })),
      ...annotations.map((annotation) => chunk({ annotations: [annotation] })),
      ...calls.flatMap((call, index) => [
        chunk({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] }),
        ...halves(call.function.arguments).map((piece) =>
          chunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
        ),
      ]),
      chunk({}, finish),
      { ...head, object: 'chat.completion.chunk', choices: [], usage: counted },
      '[DONE]',
    ],
  }
}

function responsesWire(reply: Reply): RawRequest {
  const { usage } = reply
  const incomplete = reply.ending === 'length' ? { reason: 'max_output_tokens' } : null
  const text = textOf(reply)
  const items = reply.parts.flatMap((part, index): Json[] => {
    const status = incomplete !== null && index === reply.parts.length - 1 ? 'incomplete' : 'completed'
    switch (part.type) {
      case 'reasoning':
        return [
          {
            id: `rs_${index}`,
            type: 'reasoning',
            summary: [{ type: 'summary_text', text: part.text }],
            encrypted_content: part.signature,
          },
        ]
      case 'call':
        return part.free === true
          ? [
              {
                id: `ctc_${index}`,
                type: 'custom_tool_call',
                status,
                call_id: part.id,
                name: part.name ?? TOOL,
                ...spaced(part),
                input: part.args,
              },
            ]
          : [
              {
                id: `fc_${index}`,
                type: 'function_call',
                status,
                call_id: part.id,
                name: part.name ?? TOOL,
                ...spaced(part),
                arguments: part.args,
              },
            ]
      case 'refusal':
        return [
          {
            id: `msg_${index}`,
            type: 'message',
            role: 'assistant',
            status,
            content: [{ type: 'refusal', refusal: part.text }],
          },
        ]
      case 'text': {
        // All text parts are one text.
        if (part !== reply.parts.find((one) => one.type === 'text')) return []
        const annotations = citesOf(reply).map(({ url, title, ...at }) => ({
          type: 'url_citation',
          url,
          title,
          ...range(text, at),
        }))
        return [
          {
            id: `msg_${index}`,
            type: 'message',
            role: 'assistant',
            status,
            content: [{ type: 'output_text', text, annotations, logprobs: [] }],
          },
        ]
      }
    }
  })
  const response = (status: string, more: object = {}): object => ({
    id: 'resp_up',
    object: 'response',
    created_at: 1_700_000_000,
    model: 'up',
    status,
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
    ...more,
  })
  const whole = response(incomplete === null ? 'completed' : 'incomplete', {
    output: items,
    incomplete_details: incomplete,
    usage: {
      input_tokens: usage.prompt,
      input_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.written },
      output_tokens: usage.completion,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.prompt + usage.completion,
    },
  })
  const events: Json[] = [
    { type: 'response.created', response: response('in_progress') },
    ...items.flatMap(itemEvents),
    { type: `response.${incomplete === null ? 'completed' : 'incomplete'}`, response: whole },
  ]
  return { whole, frames: events.map((event, sequence_number) => ({ ...event, sequence_number })) }
}

const spaced = ({ namespace }: { namespace?: string }): object => (namespace === undefined ? {} : { namespace })

function itemEvents(item: Json, output_index: number): Json[] {
  const at = { output_index, item_id: item.id }
  const added = {
    type: 'response.output_item.added',
    output_index,
    item: {
      ...item,
      ...(item.type === 'reasoning' ? { summary: [] } : { status: 'in_progress' }),
      ...(item.type === 'message' ? { content: [] } : {}),
      ...(item.type === 'function_call' ? { arguments: '' } : {}),
      ...(item.type === 'custom_tool_call' ? { input: '' } : {}),
    },
  }
  const done = { type: 'response.output_item.done', output_index, item }
  if (item.type === 'function_call') {
    return [
      added,
      ...halves(item.arguments as string).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        ...at,
        delta,
      })),
      { type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments },
      done,
    ]
  }
  if (item.type === 'custom_tool_call')
    return [
      added,
      ...halves(item.input as string).map((delta) => ({ type: 'response.custom_tool_call_input.delta', ...at, delta })),
      { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
      done,
    ]
  if (item.type === 'reasoning') {
    const [part] = item.summary as { text: string }[]
    const here = { ...at, summary_index: 0 }
    return [
      added,
      { type: 'response.reasoning_summary_part.added', ...here, part: { type: 'summary_text', text: '' } },
      ...halves(part!.text).map((delta) => ({ type: 'response.reasoning_summary_text.delta', ...here, delta })),
      { type: 'response.reasoning_summary_text.done', ...here, text: part!.text },
      { type: 'response.reasoning_summary_part.done', ...here, part },
      done,
    ]
  }
  const [part] = item.content as { type: string; text: string; refusal: string; annotations: object[] }[]
  const here = { ...at, content_index: 0 }
  const word = part!.type === 'refusal' ? 'refusal' : 'output_text'
  const said = part!.type === 'refusal' ? part!.refusal : part!.text
  return [
    added,
    {
      type: 'response.content_part.added',
      ...here,
      part: part!.type === 'refusal' ? { type: 'refusal', refusal: '' } : { ...part, text: '', annotations: [] },
    },
    ...halves(said).map((delta) => ({ type: `response.${word}.delta`, ...here, delta })),
    ...(part!.annotations ?? []).map((annotation, annotation_index) => ({
      type: 'response.output_text.annotation.added',
      ...here,
      annotation_index,
      annotation,
    })),
    { type: `response.${word}.done`, ...here, [part!.type === 'refusal' ? 'refusal' : 'text']: said },
    { type: 'response.content_part.done', ...here, part },
    done,
  ]
}

function messagesWire(reply: Reply): RawRequest {
  const { usage } = reply
  const stop_reason = {
    stop: 'end_turn',
    'stop-sequence': 'stop_sequence',
    length: 'max_tokens',
    'tool-calls': 'tool_use',
    refusal: 'refusal',
  }[reply.ending]
  const counted = {
    input_tokens: usage.prompt - usage.cached - usage.written,
    cache_read_input_tokens: usage.cached,
    cache_creation_input_tokens: usage.written,
    cache_creation: { ephemeral_5m_input_tokens: usage.written, ephemeral_1h_input_tokens: 0 },
    output_tokens: usage.completion,
    ...(usage.reasoning > 0 ? { output_tokens_details: { thinking_tokens: usage.reasoning } } : {}),
  }
  const blocks = reply.parts.map((part): Json & { json?: string } => {
    switch (part.type) {
      case 'reasoning':
        return { type: 'thinking', thinking: part.text, signature: part.signature }
      // A whole response cannot have truncated arguments: only the stream shows how far they came.
      case 'call':
        return { type: 'tool_use', id: part.id, name: part.name ?? TOOL, input: objectOf(part.args), json: part.args }
      case 'refusal':
        return { type: 'text', text: part.text }
      case 'text':
        return {
          type: 'text',
          text: part.text,
          ...(part.cite === undefined
            ? {}
            : {
                citations: [
                  {
                    type: 'web_search_result_location',
                    url: part.cite.url,
                    title: part.cite.title,
                    cited_text: 'the text of the source',
                    encrypted_index: 'EqgB',
                  },
                ],
              }),
        }
    }
  })
  const head = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up' }
  const stop = { stop_reason, stop_sequence: reply.stopSequence ?? null }
  return {
    whole: { ...head, content: blocks.map(({ json: _, ...block }) => block), ...stop, usage: counted },
    frames: [
      {
        type: 'message_start',
        message: {
          ...head,
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...counted, output_tokens: 1 },
        },
      },
      { type: 'ping' },
      ...blocks.flatMap((block, index) => [...blockFrames(block, index), { type: 'content_block_stop', index }]),
      { type: 'message_delta', delta: stop, usage: counted },
      { type: 'message_stop' },
    ],
  }
}

function blockFrames(block: Json & { json?: string }, index: number): object[] {
  const start = (content_block: object): object => ({ type: 'content_block_start', index, content_block })
  const delta = (one: object): object => ({ type: 'content_block_delta', index, delta: one })
  switch (block.type) {
    case 'thinking':
      return [
        start({ type: 'thinking', thinking: '', signature: '' }),
        ...halves(block.thinking as string).map((thinking) => delta({ type: 'thinking_delta', thinking })),
        delta({ type: 'signature_delta', signature: block.signature }),
      ]
    case 'tool_use':
      return [
        start({ type: 'tool_use', id: block.id, name: block.name, input: {} }),
        ...halves(block.json ?? '').map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
      ]
    default:
      return [
        start({ type: 'text', text: '' }),
        ...halves(block.text as string).map((text) => delta({ type: 'text_delta', text })),
        ...((block.citations ?? []) as object[]).map((citation) => delta({ type: 'citations_delta', citation })),
      ]
  }
}

const objectOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

function geminiWire(reply: Reply): RawRequest {
  const { usage } = reply
  const finishReason = {
    stop: 'STOP',
    'stop-sequence': 'STOP',
    length: 'MAX_TOKENS',
    'tool-calls': 'STOP',
    refusal: 'SAFETY',
  }[reply.ending]
  const usageMetadata = {
    promptTokenCount: usage.prompt,
    cachedContentTokenCount: usage.cached,
    candidatesTokenCount: usage.completion - usage.reasoning,
    thoughtsTokenCount: usage.reasoning,
    totalTokenCount: usage.prompt + usage.completion,
  }
  // The signature of reasoning is on the part after it, and of several calls on the first only.
  let signature: string | undefined
  const parts = reply.parts.flatMap((part): Json[] => {
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    if (part.type !== 'reasoning') signature = undefined
    switch (part.type) {
      case 'reasoning':
        signature = part.signature
        return [{ text: part.text, thought: true }]
      // A call is sent whole or not at all.
      case 'call':
        return isWhole(part.args || '{}')
          ? [{ functionCall: { name: part.name ?? TOOL, args: JSON.parse(part.args || '{}') as object }, ...signed }]
          : []
      default:
        return [{ text: part.text, ...signed }]
    }
  })
  const text = textOf(reply)
  const cites = citesOf(reply)
  const groundingMetadata =
    cites.length === 0
      ? {}
      : {
          groundingMetadata: {
            groundingChunks: cites.map(({ url, title }) => ({ web: { uri: url, title } })),
            groundingSupports: cites.map(({ passage, start, end }, index) => ({
              segment: {
                startIndex: Buffer.byteLength(text.slice(0, start)),
                endIndex: Buffer.byteLength(text.slice(0, end)),
                text: passage,
              },
              groundingChunkIndices: [index],
            })),
          },
        }
  const head = { modelVersion: 'up', responseId: 'gresp-up' }
  const joined = joinTexts(parts)
  const last = { finishReason, index: 0, ...groundingMetadata }
  return {
    whole: {
      candidates: [{ ...(joined.length === 0 ? {} : { content: { role: 'model', parts: joined } }), ...last }],
      usageMetadata,
      ...head,
    },
    frames: [
      ...joined
        .flatMap((part) =>
          typeof part.text === 'string' && part.thoughtSignature === undefined
            ? halves(part.text).map((piece) => ({ ...part, text: piece }))
            : [part],
        )
        .map((part) => ({ candidates: [{ content: { role: 'model', parts: [part] }, index: 0 }], ...head })),
      { candidates: [last], usageMetadata, ...head },
    ],
  }
}

const isWhole = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Joins adjacent texts into one part. */
const joinTexts = (parts: Json[]): Json[] =>
  parts.reduce<Json[]>((joined, part) => {
    const before = joined.at(-1)
    const joins =
      typeof part.text === 'string' &&
      typeof before?.text === 'string' &&
      part.thought === before.thought &&
      before.thoughtSignature === undefined &&
      part.thoughtSignature === undefined
    return joins
      ? [...joined.slice(0, -1), { ...before, text: `${before.text as string}${part.text as string}` }]
      : [...joined, part]
  }, [])

/** The body of a provider's 429. */
export const errorOf = (protocol: ConversationName, message: string): object =>
  ({
    'chat.completions': { error: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } },
    responses: { error: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } },
    messages: { type: 'error', error: { type: 'rate_limit_error', message }, request_id: 'req_up' },
    generateContent: {
      error: {
        code: 429,
        message,
        status: 'RESOURCE_EXHAUSTED',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '7s' }],
      },
    },
  })[protocol]

/** The frame of an error in the middle of a stream. */
export const failureOf = (protocol: ConversationName, message: string): object =>
  ({
    'chat.completions': { error: { message, type: 'server_error', param: null, code: null } },
    responses: { type: 'error', message, code: 'server_error', param: null, sequence_number: 9 },
    messages: { type: 'error', error: { type: 'overloaded_error', message } },
    generateContent: { error: { code: 503, message, status: 'UNAVAILABLE' } },
  })[protocol]

/** A failure under status 200 in a response that is not streamed. */
export const wholeFailureOf = (protocol: ConversationName, message: string): object =>
  protocol !== 'responses'
    ? failureOf(protocol, message)
    : {
        id: 'resp_up',
        object: 'response',
        created_at: 1_700_000_000,
        model: 'up',
        status: 'failed',
        output: [],
        usage: null,
        error: { code: 'server_error', message },
        incomplete_details: null,
      }
