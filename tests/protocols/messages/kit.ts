import type { Answer, GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import type { Issuer } from '../../../src/generation/signature.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import type {
  Capabilities,
  TranslationContext,
  Target,
  RawRequest,
  WrittenRequest,
} from '../../../src/protocols/protocol.ts'

export type Any = Record<string, any>

export const wireOf = (body: unknown, headers: Record<string, string> = {}): RawRequest => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { text, body: JSON.parse(text), headers: new Headers(headers) }
}

/** Reads a body that lacks nothing but what is given. */
export const read = (body: Any): GenerationRequest =>
  messages.serve.readRequest(
    wireOf({ model: 'p/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }], ...body }),
  )

export const context = (issuer?: Issuer): TranslationContext => {
  const rawRequest = wireOf({ model: 'p/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] })
  return {
    rawRequest,
    request: messages.serve.readRequest(rawRequest),
    responseIdentity: { id: 'msg_1', model: 'p/m', createdAt: 1, ...(issuer === undefined ? {} : { issuer }) },
  }
}

export const target = (capabilities: Capabilities = {}): Target => ({
  provider: 'there',
  model: 'upstream-model',
  quirks: {},
  capabilities,
})

/** A request of another protocol, as little as can be. */
export const request = (parts: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'p/m',
  system: [],
  turns: [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'chat.completions',
  extras: {},
  maxOutputTokens: 5000,
  ...parts,
})

export const write = (
  parts: Partial<GenerationRequest>,
  capabilities: Capabilities = {},
): Omit<WrittenRequest, 'body'> & { body: Any; lost: string[] } => {
  const { body, losses } = messages.call.writeRequest(request(parts), target(capabilities))
  return {
    body: body as Any,
    losses,
    lost: [...new Set(losses.map(({ field, of, what }) => `${field} ${of === undefined ? '' : `${of} `}${what}`))],
  }
}

export const frames = (events: GenerationEvent[], issuer?: Issuer): Frame[] => {
  const writer = messages.serve.writer(context(issuer))
  return events.flatMap((event) => writer.write(event))
}

export const datas = (written: Frame[]): Any[] => written.map(({ data }) => JSON.parse(data) as Any)

/** Reads frames given as data objects. */
export const events = (list: (Any | string)[], asked?: GenerationRequest): GenerationEvent[] => {
  const reader = messages.call.reader({}, asked)
  return [
    ...list.flatMap((data) => reader.read({ data: typeof data === 'string' ? data : JSON.stringify(data) })),
    ...reader.end(),
  ]
}

export const whole = (answer: Partial<Answer>): Answer => ({
  id: 'up',
  model: 'up-model',
  parts: [],
  metered: true,
  finish: { reason: 'stop', raw: 'stop' },
  usage: {
    inputTokens: 0,
    cacheReadTokens: 0,
    cacheWrite5mTokens: 0,
    cacheWrite1hTokens: 0,
    inputAudioTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    outputAudioTokens: 0,
    outputImageTokens: 0,
    webSearches: 0,
    images: 0,
  },
  ...answer,
})
