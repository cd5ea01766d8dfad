import type { GenerationEvent, PartHead } from '../../src/generation/event.ts'
import type { ConversationName, ProtocolName } from '../../src/generation/request.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { LossReport, type Loss } from '../../src/protocols/translation.ts'

/** Responses for clients of any protocol, and the losses of their translation. */

export const contextOf = (protocol: ProtocolName, report = false): TranslationContext => ({
  rawRequest: { body: {}, text: '{}', headers: new Headers() },
  request: {
    model: 'a/b',
    system: [],
    turns: [],
    tools: [],
    sampling: {},
    stream: true,
    includeUsage: true,
    protocol,
    extras: {},
  },
  responseIdentity: { id: 'id', model: 'a/b', createdAt: 1, issuer: { provider: 'a', model: 'b' } },
  losses: new LossReport(),
  report,
})

type Finish = Partial<Extract<GenerationEvent, { type: 'finish' }>>

export const responseWith = (
  parts: [PartHead, string, Record<string, unknown>?][],
  finish: Finish = {},
  usage: object = {},
): GenerationEvent[] => [
  { type: 'start', id: 'x', model: 'b' },
  ...parts.flatMap(([head, text, more = {}], part): GenerationEvent[] => {
    const { signature, logprobs } = more as { signature?: string; logprobs?: [] }
    return [
      { type: 'part-start', part, head },
      ...(text === ''
        ? []
        : [{ type: 'part-delta' as const, part, text, ...(logprobs === undefined ? {} : { logprobs }) }]),
      { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) },
    ]
  }),
  { type: 'usage', usage: { inputTokens: 3, outputTokens: 2, ...usage } },
  { type: 'finish', reason: 'stop', raw: 'stop', ...finish },
]

export const TEXT: [PartHead, string] = [{ type: 'text' }, 'Hello there']

export const CLIENTS: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
export const summaryOf = (losses: readonly Loss[]): string =>
  losses.map(({ path, effect }) => `${path.replace('response.', '')} ${effect}`).join(', ')
