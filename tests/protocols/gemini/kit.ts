import type { GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import type { TranslationContext, ResponseIdentity, Target, RawRequest } from '../../../src/protocols/protocol.ts'

export const wireOf = (body: unknown, stream = false): RawRequest => {
  const text = JSON.stringify(body)
  return { body: JSON.parse(text), text, model: 'acme/model', stream, headers: new Headers() }
}

export const read = (body: unknown): GenerationRequest => gemini.serve.readRequest(wireOf(body))

/** The smallest request, with more members. */
export const hello = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
  ...more,
})

export const exchangeOf = (
  body: unknown = hello(),
  responseIdentity: Partial<ResponseIdentity> = {},
): TranslationContext => {
  const rawRequest = wireOf(body, true)
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

/** A request in our words, as another protocol would read it. */
export const asked = (more: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'acme/model',
  system: [],
  turns: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'chat.completions',
  extras: {},
  ...more,
})

export const eventsOf = (chunks: unknown[], request?: GenerationRequest): GenerationEvent[] => {
  const reader = gemini.call.reader({}, request)
  return [
    ...chunks.flatMap((chunk) => reader.read({ data: typeof chunk === 'string' ? chunk : JSON.stringify(chunk) })),
    ...reader.end(),
  ]
}

export const chunksOf = (events: GenerationEvent[], context = exchangeOf()): Record<string, any>[] => {
  const writer = gemini.serve.writer(context)
  return events.flatMap((event) => writer.write(event)).map((frame) => JSON.parse(frame.data))
}

/** One chunk with these parts. */
export const chunk = (parts: unknown[], more: Record<string, unknown> = {}): Record<string, unknown> => ({
  candidates: [{ content: { role: 'model', parts }, ...more }],
  responseId: 'up-1',
  modelVersion: 'up-model',
})
