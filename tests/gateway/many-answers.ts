import type { ConversationName } from '../../src/generation/request.ts'
import { callOf, text, times, useOf, type Json } from './many.ts'

/** Responses with any number of elements of one kind. */

const words = { type: 'output_text', text: 'a', annotations: [] }
const chatAnswer = (message: object, more: object = {}): Json => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a', ...message }, finish_reason: 'stop', ...more }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const response = (output: Json[]): Json => ({
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
})
const message = (content: Json[]): Json => ({
  id: 'a',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
})
const candidate = (parts: Json[], more: object = {}): Json => ({
  responseId: 'g',
  modelVersion: 'm',
  candidates: [{ content: { role: 'model', parts }, index: 0, finishReason: 'STOP', ...more }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
})

/** Complete responses of providers, by the kind of their elements. */
export const ANSWERS: Record<ConversationName, Record<string, (count: number) => Json>> = {
  'chat.completions': {
    annotations: (count) => chatAnswer({ annotations: times(count, () => ({ url: 'u' })) }),
    sources: (count) => ({ ...chatAnswer({}), citations: times(count, () => 'u') }),
    calls: (count) => chatAnswer({ tool_calls: times(count, callOf) }, { finish_reason: 'tool_calls' }),
    parts: (count) => chatAnswer({ content: times(count, text) }),
    reasoning: (count) =>
      chatAnswer({ reasoning_details: times(count, () => ({ type: 'reasoning.text', text: 'a' })) }),
    logprobs: (count) => chatAnswer({}, { logprobs: { content: times(count, () => ({ token: 'a', logprob: 0 })) } }),
  },
  responses: {
    items: (count) =>
      response(times(count, (index) => ({ type: 'message', id: `m${index}`, role: 'assistant', content: [words] }))),
    parts: (count) => response([{ type: 'message', id: 'm', role: 'assistant', content: times(count, () => words) }]),
    annotations: (count) =>
      response([
        {
          type: 'message',
          id: 'm',
          role: 'assistant',
          content: [
            {
              ...words,
              annotations: times(count, () => ({ type: 'url_citation', url: 'u', start_index: 0, end_index: 1 })),
            },
          ],
        },
      ]),
    logprobs: (count) =>
      response([
        {
          type: 'message',
          id: 'm',
          role: 'assistant',
          content: [{ ...words, logprobs: times(count, () => ({ token: 'a', logprob: 0 })) }],
        },
      ]),
    calls: (count) =>
      response(
        times(count, (index) => ({
          type: 'function_call',
          id: `f${index}`,
          call_id: `c${index}`,
          name: 'f',
          arguments: '{}',
        })),
      ),
    summaries: (count) =>
      response([
        { type: 'reasoning', id: 'r', summary: times(count, () => ({ type: 'summary_text', text: 'a' })) },
        { type: 'message', id: 'm', role: 'assistant', content: [words] },
      ]),
  },
  messages: {
    blocks: (count) => message(times(count, text)),
    calls: (count) => message(times(count, useOf)),
    reasoning: (count) => message(times(count, () => ({ type: 'thinking', thinking: 'a', signature: '' }))),
    citations: (count) =>
      message([
        { type: 'text', text: 'a', citations: times(count, () => ({ type: 'web_search_result_location', url: 'u' })) },
      ]),
  },
  generateContent: {
    parts: (count) => candidate(times(count, () => ({ text: 'a' }))),
    calls: (count) => candidate(times(count, () => ({ functionCall: { name: 'f', args: {} } }))),
    reasoning: (count) =>
      candidate(times(count, (index) => (index % 2 === 0 ? { text: 'a' } : { text: 'a', thought: true }))),
    logprobs: (count) =>
      candidate([{ text: 'a' }], {
        logprobsResult: { chosenCandidates: times(count, () => ({ token: 'a', logProbability: 0 })) },
      }),
    sources: (count) =>
      candidate([{ text: 'a' }], {
        groundingMetadata: {
          groundingChunks: times(count, () => ({ web: { uri: 'u' } })),
          groundingSupports: times(count, (index) => ({ segment: { endIndex: 1 }, groundingChunkIndices: [index] })),
        },
      }),
  },
}

/** A response of about this size in bytes. */
export function answerOf(protocol: ConversationName, kind: string, bytes: number): string {
  const build = ANSWERS[protocol][kind]!
  const each = (JSON.stringify(build(200)).length - JSON.stringify(build(100)).length) / 100
  return JSON.stringify(build(Math.floor(bytes / (each + 3))))
}
