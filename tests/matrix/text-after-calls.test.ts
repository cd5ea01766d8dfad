import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor, readerFor } from '../translating.ts'
import { framesOf, type ReplyPart, responseOf } from './provider-replies.ts'
import { contextOf, others, ROUTES } from './routes.ts'

/** Responses with text after a tool call, which has no such place in a message of chat completions. */

const CALL: ReplyPart = { type: 'call', id: 'c1', name: 'f', args: '{}' }
const text = (said: string): ReplyPart => ({ type: 'text', text: said })

/** The items of a response, each text a message of its own. */
function itemsOf(part: ReplyPart, index: number): object[] {
  if (part.type === 'call')
    return [{ type: 'function_call', id: `fc_${index}`, call_id: part.id, name: part.name, arguments: part.args }]
  return [{ type: 'message', id: `msg_${index}`, content: [{ type: 'output_text', text: part.text }] }]
}

/** A response of these parts in their order. */
function inOrder(provider: ConversationName, parts: ReplyPart[]): ReturnType<typeof responseOf> {
  if (provider === 'responses') {
    const whole = { id: 'r', status: 'completed', output: parts.flatMap(itemsOf) }
    const frames = [
      { type: 'response.created', response: { id: 'r' } },
      { type: 'response.completed', response: whole },
    ]
    return { whole, frames }
  }
  const usage = { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 }
  return responseOf(provider, { parts, finish: 'tool-calls', usage })
}

/** The losses of a response of these parts, whole and in a stream. */
function lossesOf(client: ConversationName, provider: ConversationName, parts: ReplyPart[]): object[][] {
  const { whole, frames } = inOrder(provider, parts)
  const { serve } = protocols[client]
  const ofWhole = contextOf(client)
  const events: GenerationEvent[] = eventsFor(provider, structuredClone(whole), {}, ofWhole.request)
  serve.writeResponse(fold(events), ofWhole)
  const ofStream = contextOf(client)
  const reader = readerFor(provider, {}, ofStream.request)
  const writer = serve.writer(ofStream)
  for (const frame of framesOf(frames)) for (const event of reader.read(frame)) writer.write(event)
  for (const event of reader.end()) writer.write(event)
  return [ofWhole.losses.losses, ofStream.losses.losses]
}

const LOSS = {
  code: 'response_field_adjusted',
  path: 'response.text',
  effect: 'approximated',
  reason: 'a message has one field for text: the place after a tool call is lost',
}

describe('text after a tool call', () => {
  test.each(others('chat.completions'))(
    'of %s is reported for clients of chat completions, whole and in a stream',
    (provider) => {
      expect(lossesOf('chat.completions', provider, [text('a'), CALL, text('b')])).toEqual([[LOSS], [LOSS]])
      expect(lossesOf('chat.completions', provider, [CALL, text('b')])).toEqual([[LOSS], [LOSS]])
    },
  )

  test.each(ROUTES.filter(([client, provider]) => client !== 'chat.completions' && provider !== 'chat.completions'))(
    'keeps its place for %s from %s',
    (client, provider) => {
      expect(lossesOf(client, provider, [text('a'), CALL, text('b')])).toEqual([[], []])
    },
  )
})

test.each(others('chat.completions'))(
  'text before the tool calls of %s is no loss for clients of chat completions',
  (provider) => {
    expect(lossesOf('chat.completions', provider, [text('a'), CALL, CALL])).toEqual([[], []])
  },
)

test('a signed part without text after a call is no loss', () => {
  const context = contextOf('chat.completions')
  const whole = {
    candidates: [
      {
        content: {
          parts: [{ functionCall: { id: 'c1', name: 'f', args: {} } }, { text: '', thoughtSignature: 'c2ln' }],
        },
        finishReason: 'STOP',
      },
    ],
  }
  const events = eventsFor('generateContent', whole, {}, context.request)
  protocols['chat.completions'].serve.writeResponse(fold(events), context)
  const writer = protocols['chat.completions'].serve.writer(context)
  for (const event of events) writer.write(event)
  expect(context.losses.losses).toEqual([])
})
