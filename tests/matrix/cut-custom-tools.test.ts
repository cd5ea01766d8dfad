import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor, readerFor } from '../translating.ts'
import { framesOf, responseOf } from './provider-replies.ts'
import { contextOf, HELLO, type Json } from './routes.ts'

/** Calls of custom tools that the output limit cuts, from providers that have only functions. */

const CLIENTS = {
  'chat.completions': {
    tool: { type: 'custom', custom: { name: 'apply' } },
    whole: ({ choices }: Json) => choices[0].message.tool_calls[0].custom.input,
    streamed: (frames: Json[]) =>
      frames
        .flatMap(({ choices }) => (choices?.[0]?.delta?.tool_calls ?? []) as Json[])
        .map(({ custom }) => custom?.input ?? '')
        .join(''),
    isCut: ({ choices }: Json) => choices[0].finish_reason === 'length',
  },
  responses: {
    tool: { type: 'custom', name: 'apply' },
    whole: ({ output }: Json) => output[0].input,
    streamed: (frames: Json[]) => frames.find(({ type }) => type === 'response.custom_tool_call_input.done')!.input,
    isCut: ({ status, output }: Json) => status === 'incomplete' && output[0].status === 'incomplete',
  },
}
type Client = keyof typeof CLIENTS

const ROUTES: [Client, ConversationName][] = [
  ['chat.completions', 'messages'],
  ['responses', 'chat.completions'],
  ['responses', 'messages'],
]

/** The input of the call as its client receives it, whole and in a stream. */
function received(client: Client, provider: ConversationName, args: string): { whole: string; streamed: string } {
  const { tool, whole, streamed, isCut } = CLIENTS[client]
  const context = contextOf(client, { ...HELLO[client], tools: [tool] })
  const response = responseOf(provider, {
    parts: [{ type: 'call', id: 'call_up', name: 'apply', args }],
    finish: 'length',
    usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
  })
  const { serve } = protocols[client]
  const body = JSON.parse(
    JSON.stringify(
      serve.writeResponse(fold(eventsFor(provider, structuredClone(response.whole), {}, context.request)), context),
    ),
  ) as Json
  expect(isCut(body)).toBe(true)
  const reader = readerFor(provider, {}, context.request)
  const writer = serve.writer(context)
  const events = [...framesOf(response.frames).flatMap((frame) => reader.read(frame)), ...reader.end()]
  const frames = events
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Json)
  return { whole: whole(body), streamed: streamed(frames) }
}

/** Cut arguments, and the text that they contain. */
const CUT: [args: string, input: string][] = [
  ['{"input":"abc', 'abc'],
  [' { "input" : "a\\nb\\\\', 'a\nb\\'],
  ['{"input":"abc"', 'abc'],
  ['{"input":"say \\"hi\\" \\', 'say "hi" '],
  ['{"input":"a\\u00', 'a'],
  ['{"input":"a\\\\u00', 'a\\u00'],
  ['{"input":"\\ud83d\\uddfc\\ud83d', '🗼'],
  ['{"input":"\\ud83d\\u', ''],
  ['{"input":"', ''],
  ['{ "inp', ''],
  ['{', ''],
  ['', ''],
  // No wrapped text: as the provider sent it.
  ['{"patch":"abc', '{"patch":"abc'],
  ['{"input":[1', '{"input":[1'],
]

describe('the input of a custom tool that the output limit cuts', () => {
  // A whole response of messages has objects only: what was cut is not in it.
  test.each(ROUTES.filter(([, provider]) => provider !== 'messages'))(
    'is for %s from %s the text so far, whole and in a stream',
    (client, provider) => {
      for (const [args, input] of CUT)
        expect(received(client, provider, args)).toEqual({ whole: input, streamed: input })
    },
  )

  test.each(ROUTES.filter(([, provider]) => provider === 'messages'))(
    'is for %s in a stream of %s the text so far, and empty in a whole response, which has none of it',
    (client, provider) => {
      for (const [args, input] of CUT) expect(received(client, provider, args)).toEqual({ whole: '', streamed: input })
    },
  )
})
