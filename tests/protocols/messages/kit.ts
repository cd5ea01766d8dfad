import type { Answer, GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import type { Maker } from '../../../src/generation/signature.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import type { Abilities, Exchange, Target, Wire, Written } from '../../../src/protocols/protocol.ts'

export type Any = Record<string, any>

export const wireOf = (body: unknown, headers: Record<string, string> = {}): Wire => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { text, body: JSON.parse(text), headers: new Headers(headers) }
}

/** Reads a body that lacks nothing but what is given. */
export const read = (body: Any): GenerationRequest =>
  messages.serve.readRequest(
    wireOf({ model: 'p/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }], ...body }),
  )

export const exchange = (maker?: Maker): Exchange => {
  const wire = wireOf({ model: 'p/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] })
  return {
    wire,
    request: messages.serve.readRequest(wire),
    label: { id: 'msg_1', model: 'p/m', createdAt: 1, ...(maker === undefined ? {} : { maker }) },
  }
}

export const target = (abilities: Abilities = {}): Target => ({
  provider: 'there',
  model: 'upstream-model',
  quirks: {},
  abilities,
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
  abilities: Abilities = {},
): Omit<Written, 'body'> & { body: Any; lost: string[] } => {
  const { body, losses } = messages.call.writeRequest(request(parts), target(abilities))
  return {
    body: body as Any,
    losses,
    lost: [...new Set(losses.map(({ field, of, what }) => `${field} ${of === undefined ? '' : `${of} `}${what}`))],
  }
}

export const frames = (events: GenerationEvent[], maker?: Maker): Frame[] => {
  const writer = messages.serve.writer(exchange(maker))
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
