import type { ConversationName } from '../../src/generation/request.ts'
import type { Outcome, Said } from './said.ts'

/** The finish reasons of each protocol. A refusal with text is a part, not a finish reason. */
const WORDS: Record<ConversationName, Record<Exclude<Outcome, 'failed'>, string>> = {
  'chat.completions': {
    stop: 'stop',
    'stop-sequence': 'stop',
    length: 'length',
    'tool-calls': 'tool_calls',
    'content-filter': 'content_filter',
    refusal: 'content_filter',
    pause: 'stop',
    other: 'stop',
  },
  responses: {
    stop: 'completed',
    'stop-sequence': 'completed',
    length: 'max_output_tokens',
    'tool-calls': 'completed',
    'content-filter': 'content_filter',
    refusal: 'content_filter',
    pause: 'completed',
    other: 'completed',
  },
  messages: {
    stop: 'end_turn',
    'stop-sequence': 'stop_sequence',
    length: 'max_tokens',
    'tool-calls': 'tool_use',
    'content-filter': 'refusal',
    refusal: 'refusal',
    pause: 'pause_turn',
    other: 'end_turn',
  },
  generateContent: {
    stop: 'STOP',
    'stop-sequence': 'STOP',
    length: 'MAX_TOKENS',
    'tool-calls': 'STOP',
    'content-filter': 'SAFETY',
    refusal: 'SAFETY',
    pause: 'OTHER',
    other: 'OTHER',
  },
}

/** The finish reason that a client receives. */
export function wordFor(source: Said, client: ConversationName): string {
  if (source.refused && source.ending === 'stop' && client === 'messages') return 'refusal'
  // In OpenAI's protocols a refusal is known by its text only.
  if (source.refused && source.ending === 'stop' && client === 'generateContent') return 'SAFETY'
  return WORDS[client][source.ending as Exclude<Outcome, 'failed'>]
}
