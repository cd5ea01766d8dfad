import type { GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest, Part } from '../../../src/generation/request.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { Capabilities, Target, TranslationContext } from '../../../src/protocols/protocol.ts'
import type { Quirks } from '../../../src/protocols/quirks.ts'

/** Requests, parts and contexts of the tests of chat completions. */

export type Json = Record<string, any>

export const targetOf = (quirks: Quirks = {}, capabilities: Capabilities = {}): Target => ({
  provider: 'p',
  model: 'up-model',
  quirks,
  capabilities,
})

/** A request of a client of the messages protocol. */
export const requestOf = (fields: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'maker/model',
  system: [],
  turns: [{ role: 'user', parts: [textOf('hi')] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'messages',
  extras: {},
  ...fields,
})

export const textOf = (text: string): Part => ({ type: 'text', text })

export const callOf = (id: string, name = 'f', args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name,
  arguments: args,
  form: 'function',
})

export const resultOf = (callId: string, content: Part[] = [textOf('ok')], more: Json = {}): Part =>
  ({ type: 'tool-result', callId, content, form: 'function', ...more }) as Part

/** The context of a chat request with this text as its body. */
export const contextOf = (source: string): TranslationContext =>
  contextWith(JSON.parse(source) as Json, undefined, source)

/** The context of a streaming chat request with these fields; `issuer`: the model whose signatures the response has. */
export function contextWith(
  fields: Json = {},
  issuer?: { provider: string; model: string },
  text?: string,
): TranslationContext {
  const body =
    text === undefined
      ? { model: 'maker/model', messages: [{ role: 'user', content: 'hi' }], stream: true, ...fields }
      : fields
  const rawRequest = { body, text: text ?? JSON.stringify(body), headers: new Headers() }
  return {
    rawRequest,
    request: chat.serve.readRequest(rawRequest),
    responseIdentity: {
      id: 'chatcmpl-ours',
      model: 'maker/model',
      createdAt: 1_700_000_000,
      ...(issuer === undefined ? {} : { issuer }),
    },
  }
}

export const WITH_USAGE = { stream_options: { include_usage: true } }

/** The frames of a response as its client gets them; by default for a client that requested usage. */
export function framesOf(events: readonly GenerationEvent[], context = contextWith(WITH_USAGE)): Frame[] {
  const writer = chat.serve.writer(context)
  return events.flatMap((event) => writer.write(event))
}

export const chunksIn = (frames: readonly Frame[]): Json[] =>
  frames.filter((frame) => frame.data !== '[DONE]').map((frame) => JSON.parse(frame.data) as Json)

export const START: GenerationEvent = { type: 'start', id: 'up', model: 'm' }

/** Two calls with one id cannot be distinguished, so ids are made unique. */
export const withUniqueIds = (events: GenerationEvent[]): GenerationEvent[] =>
  events.map((event) =>
    event.type === 'part-start' && event.head.type === 'tool-call'
      ? { ...event, head: { ...event.head, id: `${event.head.id}_${event.part}` } }
      : event,
  )
