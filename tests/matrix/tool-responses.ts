import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { parseResponse } from '../../src/providers/attempt.ts'
import { eventsFor, readerFor } from '../translating.ts'
import type { Json } from './routes.ts'
import { type Call, pieceAt, spelled } from './tool-requests.ts'

/** Responses with tool calls, in each protocol, and the calls that clients receive. */

/** `pieces`: the arguments as a stream cuts them. */
export type SentCall = Call & { pieces?: string[] }

/** A response's body, and the data of the frames of its stream. */
export type Response = { whole: string; frames: string[] }

const responseOf: Record<ConversationName, (calls: SentCall[]) => Response> = {
  'chat.completions': (calls) => {
    const head = { id: 'c', created: 1, model: 'm' }
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })
    const tool_calls = calls.map(({ name, args }, n) => ({
      id: `call_${n}`,
      type: 'function',
      function: { name, arguments: args },
    }))
    const message = { role: 'assistant', content: null, tool_calls }
    return {
      whole: JSON.stringify({ ...head, choices: [{ index: 0, finish_reason: 'tool_calls', message }] }),
      frames: [
        ...calls.flatMap(({ name, args, pieces = [args] }, index) => [
          chunk({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }] }),
          ...pieces.map((piece) => chunk({ tool_calls: [{ index, function: { arguments: piece } }] })),
        ]),
        chunk({}, 'tool_calls'),
        '[DONE]',
      ],
    }
  },
  responses: (calls) => {
    const items = calls.map(({ name, args }, n) => ({
      type: 'function_call',
      id: `fc_${n}`,
      call_id: `call_${n}`,
      name,
      arguments: args,
      status: 'completed',
    }))
    const response = { id: 'r', object: 'response', status: 'completed', output: items }
    return {
      whole: JSON.stringify(response),
      frames: [
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
        ...items.flatMap((item, output_index): object[] => [
          { type: 'response.output_item.added', output_index, item: { ...item, arguments: '', status: 'in_progress' } },
          ...(calls[output_index]!.pieces ?? [item.arguments]).map((delta) => ({
            type: 'response.function_call_arguments.delta',
            output_index,
            item_id: item.id,
            delta,
          })),
          { type: 'response.function_call_arguments.done', output_index, item_id: item.id, arguments: item.arguments },
          { type: 'response.output_item.done', output_index, item },
        ]),
        { type: 'response.completed', response },
      ].map((event) => JSON.stringify(event)),
    }
  },
  messages: (calls) => ({
    whole: spelled({
      type: 'message',
      content: calls.map(({ name, args }, n) => ({ type: 'tool_use', id: `call_${n}`, name, input: `@${args}@` })),
      stop_reason: 'tool_use',
    }),
    frames: [
      { type: 'message_start', message: { id: 'msg', content: [], usage: { input_tokens: 1, output_tokens: 1 } } },
      ...calls.flatMap(({ name, args, pieces = [args] }, index): object[] => [
        {
          type: 'content_block_start',
          index,
          content_block: { type: 'tool_use', id: `call_${index}`, name, input: {} },
        },
        ...pieces.map((partial_json) => ({
          type: 'content_block_delta',
          index,
          delta: { type: 'input_json_delta', partial_json },
        })),
        { type: 'content_block_stop', index },
      ]),
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ].map((event) => JSON.stringify(event)),
  }),
  generateContent: (calls) => {
    const chunk = spelled({
      candidates: [
        {
          content: {
            role: 'model',
            parts: calls.map(({ name, args }, n) => ({ functionCall: { id: `call_${n}`, name, args: `@${args}@` } })),
          },
          finishReason: 'STOP',
        },
      ],
    })
    return { whole: chunk, frames: [chunk] }
  },
}

/** The calls in a response, their arguments as they are spelled. */
const callsIn: Record<ConversationName, { whole(text: string): Call[]; stream(frames: string[]): Call[] }> = {
  'chat.completions': {
    whole: (text) =>
      (JSON.parse(text) as Json).choices[0].message.tool_calls.map((call: Json) => ({
        name: call.function.name,
        args: call.function.arguments,
      })),
    stream: (frames) => {
      const deltas = frames
        .filter((data) => data !== '[DONE]')
        .flatMap((data) => ((JSON.parse(data) as Json).choices[0]?.delta.tool_calls ?? []) as Json[])
      return deltas
        .filter(({ id }) => id !== undefined)
        .map(({ index, function: { name } }) => ({
          name,
          args: deltas
            .filter((delta) => delta.index === index)
            .map((delta) => delta.function.arguments ?? '')
            .join(''),
        }))
    },
  },
  responses: {
    whole: (text) => ((JSON.parse(text) as Json).output as Json[]).map(({ name, arguments: args }) => ({ name, args })),
    stream: (frames) =>
      frames
        .map((data) => JSON.parse(data) as Json)
        .filter(({ type }) => type === 'response.output_item.done')
        .map(({ item }) => ({ name: item.name, args: item.arguments })),
  },
  messages: {
    whole: (text) =>
      (JSON.parse(text) as Json).content.map(({ name }: Json, index: number) => ({
        name,
        args: pieceAt(text, 'content', index, 'input'),
      })),
    stream: (frames) => {
      const all = frames.map((data) => JSON.parse(data) as Json)
      return all
        .filter(({ type }) => type === 'content_block_start')
        .map(({ index, content_block: { name } }) => ({
          name,
          args: all
            .filter((event) => event.type === 'content_block_delta' && event.index === index)
            .map(({ delta }) => delta.partial_json)
            .join(''),
        }))
    },
  },
  generateContent: {
    whole: (text) =>
      ((JSON.parse(text) as Json).candidates[0].content.parts as Json[]).flatMap(({ functionCall }, index) =>
        functionCall === undefined
          ? []
          : [
              {
                name: functionCall.name,
                args: pieceAt(text, 'candidates', 0, 'content', 'parts', index, 'functionCall', 'args'),
              },
            ],
      ),
    stream: (frames) =>
      frames.flatMap((data) =>
        callsIn.generateContent.whole(
          (JSON.parse(data) as Json).candidates?.[0]?.content?.parts === undefined
            ? '{"candidates":[{"content":{"parts":[]}}]}'
            : data,
        ),
      ),
  },
}

/** The calls that a client receives, in a whole response and in a stream. */
export function callsReceived(
  client: ConversationName,
  provider: ConversationName,
  context: TranslationContext,
  calls: SentCall[],
): { whole: Call[]; stream: Call[] } {
  const { whole, frames } = responseOf[provider](calls)
  const { serve } = protocols[client]
  const writer = serve.writer(context)
  const reader = readerFor(provider, {}, context.request)
  const events = [...frames.flatMap((data) => reader.read({ data })), ...reader.end()]
  const error = events.find((event) => event.type === 'error')
  if (error !== undefined) throw error.error
  const written = events.flatMap((event) => writer.write(event)).map(({ data }) => data)
  return {
    whole: callsIn[client].whole(JSON.stringify(serve.writeResponse(readWhole(provider, whole, context), context))),
    stream: callsIn[client].stream(written),
  }
}

/** A whole response as its client's protocol is written from it. */
export const readWhole = (provider: ConversationName, whole: string, context: TranslationContext) =>
  fold(eventsFor(provider, parseResponse(whole, protocols[provider]), {}, context.request))

/** The text in pieces, cut at these positions. */
export function piecesOf(text: string, cuts: number[]): string[] {
  const ends = [...new Set([0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length])]
  return ends.slice(1).map((end, index) => text.slice(ends[index], end))
}
