import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Usage } from '../../src/generation/usage.ts'
import { eventsOf } from '../translating.ts'

/** Whole responses with a usage report, in each protocol, and what is read from it. */

export type Json = Record<string, unknown>

/** A whole response with this usage. */
const RESPONSES: Record<ConversationName, (usage: unknown) => Json> = {
  'chat.completions': (usage) => ({
    id: 'c',
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'word' }, finish_reason: 'stop' }],
    usage,
  }),
  responses: (usage) => ({
    id: 'r',
    model: 'm',
    status: 'completed',
    output: [{ id: 'i', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'word' }] }],
    usage,
  }),
  messages: (usage) => ({
    id: 'a',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'word' }],
    stop_reason: 'end_turn',
    usage,
  }),
  generateContent: (usage) => ({
    responseId: 'g',
    modelVersion: 'm',
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'word' }] }, finishReason: 'STOP' }],
    usageMetadata: usage,
  }),
}

export const read = (protocol: ConversationName, usage: unknown): Usage =>
  fold(eventsOf(protocol, RESPONSES[protocol](usage))).usage
