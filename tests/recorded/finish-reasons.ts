import type { ConversationName } from '../../src/generation/request.ts'
import { CUT, type Outcome, type ResponseContent } from './response-content.ts'

/** The finish reasons of each protocol by outcome. A refusal text is a part, not a finish reason. */
const FINISH_REASONS: Record<ConversationName, Record<Exclude<Outcome, 'failed'>, string>> = {
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

/** The finish reason that a client of this protocol receives for the response of a provider. */
export function expectedFinishReason(source: ResponseContent, client: ConversationName): string {
  if (source.refused && source.outcome === 'stop' && client === 'messages') return 'refusal'
  // Both of OpenAI's protocols report a refusal only by its text.
  if (source.refused && source.outcome === 'stop' && client === 'generateContent') return 'SAFETY'
  const reason = FINISH_REASONS[client][source.outcome as Exclude<Outcome, 'failed'>]
  const isWithoutCall = callsFor(client, source, true).length < source.calls.length
  return isWithoutCall && reason === 'STOP' ? 'MALFORMED_FUNCTION_CALL' : reason
}

/**
 * The calls that a client of this protocol receives. Those of Google run what they get, so they get no cut one; those
 * of messages get none that the limit cut, unless they see its text in a stream.
 */
export const callsFor = (
  client: ConversationName,
  { calls, outcome }: Pick<ResponseContent, 'calls' | 'outcome'>,
  isStream: boolean,
): ResponseContent['calls'] =>
  client === 'generateContent' || (client === 'messages' && !isStream && outcome === 'length')
    ? calls.filter(({ input }) => input !== CUT)
    : calls
