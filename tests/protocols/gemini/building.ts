import type { GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import type { RawRequest, ResponseIdentity, Target, TranslationContext } from '../../../src/protocols/protocol.ts'
import type { LossCode } from '../../../src/protocols/loss-codes.ts'
import { checkGrammar } from '../../grammar.ts'
import { readToTranslate, streamedEventsOf, written } from '../../translating.ts'

/** Requests, parts and contexts of the tests of generateContent. */

export type Json = Record<string, any>

export const rawRequestOf = (body: unknown, stream = false): RawRequest => {
  const text = JSON.stringify(body)
  return { body: JSON.parse(text), text, model: 'acme/model', stream, headers: new Headers() }
}

/** The request that a client of generateContent sent. */
export const read = (body: unknown): GenerationRequest => readToTranslate('generateContent', rawRequestOf(body))

/** The body of the smallest request, with more members. */
export const hello = (more: Json = {}): Json => ({ contents: [{ role: 'user', parts: [{ text: 'Hello' }] }], ...more })

/** The body of a request with one content of the user. */
export const bodyOf = (...parts: unknown[]): Json => ({ contents: [{ role: 'user', parts }] })

export const contextOf = (
  body: unknown = hello(),
  responseIdentity: Partial<ResponseIdentity> = {},
): TranslationContext => {
  const rawRequest = rawRequestOf(body, true)
  return {
    rawRequest,
    request: gemini.serve.readRequest(rawRequest),
    responseIdentity: { id: 'gen-1', model: 'acme/model', createdAt: 1_700_000_000, ...responseIdentity },
  }
}

export const targetOf = (capabilities: Target['capabilities'] = {}): Target => ({
  provider: 'p',
  model: 'm',
  quirks: {},
  capabilities,
})

/** A request of a client of chat completions, without paths. */
export const requestOf = (fields: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'acme/model',
  system: [],
  turns: [user(textOf('Hello'))],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'chat.completions',
  extras: {},
  ...fields,
})

export const textOf = (text: string): Part => ({ type: 'text', text })
export const user = (...parts: Part[]): Turn => ({ role: 'user', parts })
export const assistant = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
export const results = (...parts: Part[]): Turn => ({ role: 'tool', parts })

export const callOf = (id: string, args = '{}', more = {}): Part => ({
  type: 'tool-call',
  id,
  name: `f_${id}`,
  arguments: args,
  form: 'function',
  ...more,
})

export const resultOf = (callId: string, text: string, more = {}): Part => ({
  type: 'tool-result',
  callId,
  content: [{ type: 'text', text }],
  form: 'function',
  ...more,
})

/** The request with a path on each turn, part and tool. */
export function located(request: GenerationRequest): GenerationRequest {
  const partsAt = (parts: readonly Part[], path: string): Part[] =>
    parts.map((part, index) => {
      const own = { ...part, path: `${path}[${index}]` }
      return own.type === 'tool-result'
        ? ({ ...own, content: partsAt(own.content, `${own.path}.content`) } as Part)
        : own
    })
  return {
    ...request,
    system: partsAt(request.system, 'system'),
    turns: request.turns.map((turn, index) => ({
      ...turn,
      path: `messages[${index}]`,
      parts: partsAt(turn.parts, `messages[${index}].content`),
    })),
    tools: request.tools.map((tool, index) => ({ ...tool, path: `tools[${index}]` })),
  }
}

/** The located request as a provider of generateContent is sent it, and its losses. `sent`: the client's body. */
export function write(
  fields: Partial<GenerationRequest> = {},
  capabilities: Target['capabilities'] = {},
  sent: Json = {},
): { body: Json; text: string; lost: { code: LossCode; path: string }[]; reasons: string[] } {
  const { body, losses } = written('generateContent', located(requestOf(fields)), targetOf(capabilities), sent)
  const text = JSON.stringify(body)
  return {
    body: JSON.parse(text) as Json,
    text,
    lost: losses.map(({ code, path }) => ({ code, path })),
    reasons: losses.map(({ reason }) => reason),
  }
}

/** The turn before those that begin with a call. */
export const asked: Turn = { role: 'user', parts: [{ type: 'text', text: 'Go.' }] }

export const contentsOf = (turns: Turn[], capabilities: Target['capabilities'] = {}): Json[] =>
  write({ turns }, capabilities).body.contents

/**
 * The events of a stream of these chunks, JSON texts or values; they follow the grammar. `request`: of a client of
 * another protocol.
 */
export function eventsOf(chunks: readonly unknown[], request?: GenerationRequest): GenerationEvent[] {
  const events = streamedEventsOf(
    'generateContent',
    chunks.map((chunk) => ({ data: typeof chunk === 'string' ? chunk : JSON.stringify(chunk) })),
    request === undefined ? {} : { transforms: written('generateContent', request, targetOf()).transforms },
  )
  checkGrammar(events)
  return events
}

/** The chunks that a client of generateContent receives for these events. */
export const chunksOf = (events: readonly GenerationEvent[], context = contextOf()): Json[] => {
  const writer = gemini.serve.writer(context)
  return events.flatMap((event) => writer.write(event)).map((frame) => JSON.parse(frame.data) as Json)
}

/** One chunk of a provider with these parts. */
export const chunkOf = (parts: unknown[], more: Json = {}): Json => ({
  candidates: [{ content: { role: 'model', parts }, ...more }],
  responseId: 'up-1',
  modelVersion: 'up-model',
})
