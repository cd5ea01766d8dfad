import type { GenerationResponse, GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest, Located, Part, Turn } from '../../../src/generation/request.ts'
import type { Issuer } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import type { Capabilities, RawRequest, Target, TranslationContext } from '../../../src/protocols/protocol.ts'
import { checkGrammar } from '../../grammar.ts'
import { readToTranslate, streamedEventsOf, type Written, written } from '../../translating.ts'

export type Any = Record<string, any>

export const rawRequestOf = (body: unknown, headers: Record<string, string> = {}): RawRequest => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { text, body: JSON.parse(text), headers: new Headers(headers) }
}

const MINIMAL = { model: 'p/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }

/** Reads a minimal body with these members. */
export const read = (body: Any): GenerationRequest => readToTranslate('messages', rawRequestOf({ ...MINIMAL, ...body }))

export const context = (issuer?: Issuer): TranslationContext => {
  const rawRequest = rawRequestOf(MINIMAL)
  return {
    rawRequest,
    request: messages.serve.readRequest(rawRequest),
    responseIdentity: { id: 'msg_1', model: 'p/m', createdAt: 1, ...(issuer === undefined ? {} : { issuer }) },
  }
}

export const user = (value: string): Turn => ({ role: 'user', parts: [text(value)] })
export const assistant = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
export const tool = (...parts: Part[]): Turn => ({ role: 'tool', parts })
export const text = (value: string): Part => ({ type: 'text', text: value })
export const call = (id: string, args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name: 'f',
  arguments: args,
  form: 'function',
})
export const result = (callId: string, value = 'ok'): Part => ({
  type: 'tool-result',
  callId,
  content: [{ type: 'text', text: value }],
  form: 'function',
})

export const target = (capabilities: Capabilities = {}): Target => ({
  provider: 'there',
  model: 'upstream-model',
  quirks: {},
  capabilities,
})

/** A minimal request of a chat completions client. */
export const request = (parts: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'p/m',
  system: [],
  turns: [user('Hi')],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'chat.completions',
  extras: {},
  maxOutputTokens: 5000,
  ...parts,
})

/** The request as the provider is sent it; `lost`: code and path of each loss. */
export const write = (
  parts: Partial<GenerationRequest>,
  capabilities: Capabilities = {},
): Omit<Written, 'body'> & { body: Any; lost: string[] } => {
  const sent = written('messages', withPaths(request(parts)), target(capabilities))
  return { ...sent, lost: sent.losses.map(({ code, path }) => `${code} ${path}`) }
}

/** The request with the paths of chat completions, each content being a list. */
function withPaths(plain: GenerationRequest): GenerationRequest {
  const located = <T extends Located>(list: readonly T[], path: string): T[] =>
    list.map((element, index) => ({ ...element, path: `${path}[${index}]` }))
  return {
    ...plain,
    system: located(plain.system, 'messages[0].content'),
    turns: located(plain.turns, 'messages').map((turn) => ({
      ...turn,
      parts: located(turn.parts, `${turn.path}.content`),
    })),
    tools: located(plain.tools, 'tools'),
    ...(plain.webSearch === undefined ? {} : { webSearch: { ...plain.webSearch, path: 'web_search_options' } }),
  }
}

export const frames = (events: GenerationEvent[], issuer?: Issuer): Frame[] => {
  const writer = messages.serve.writer(context(issuer))
  return events.flatMap((event) => writer.write(event))
}

export const datas = (list: Frame[]): Any[] => list.map(({ data }) => JSON.parse(data) as Any)

/** Reads frames given as data objects; the events follow the grammar. */
export function events(list: (Any | string)[]): GenerationEvent[] {
  const read = streamedEventsOf(
    'messages',
    list.map((data) => ({ data: typeof data === 'string' ? data : JSON.stringify(data) })),
  )
  checkGrammar(read)
  return read
}

export const whole = (answer: Partial<GenerationResponse>): GenerationResponse => ({
  id: 'up',
  model: 'up-model',
  parts: [],
  metered: true,
  finish: { reason: 'stop', raw: 'stop' },
  usage: noUsage(),
  ...answer,
})

/** The events of one part. */
export const part = (
  number: number,
  head: Extract<GenerationEvent, { type: 'part-start' }>['head'],
  texts: string[] = [],
  signature?: string,
): GenerationEvent[] => [
  { type: 'part-start', part: number, head },
  ...texts.map((piece): GenerationEvent => ({ type: 'part-delta', part: number, text: piece })),
  { type: 'part-end', part: number, ...(signature === undefined ? {} : { signature }) },
]

export const START: GenerationEvent = { type: 'start', id: 'up', model: 'up-model' }
