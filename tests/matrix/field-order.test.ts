import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor } from '../translating.ts'
import { contextOf, HELLO, type Json } from './routes.ts'

/** Responses whose parts are in another order than the fields of a message of chat completions. */

const text = (said: string): Json => ({ text: said })
const thought = (said: string): Json => ({ text: said, thought: true })
const image: Json = { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } }
const call: Json = { functionCall: { id: 'c1', name: 'f', args: {} } }

/** The losses of a response of these parts of Google's for clients of chat completions, whole and in a stream. */
function lossesOf(parts: Json[], request: Json = {}): string[][] {
  const serve = protocols['chat.completions'].serve
  const whole = contextOf('chat.completions', { ...HELLO['chat.completions'], ...request })
  const response = { candidates: [{ content: { parts }, finishReason: 'STOP' }] }
  const events = eventsFor('generateContent', response, {}, whole.request)
  serve.writeResponse(fold(events), whole)
  const streamed = contextOf('chat.completions', { ...HELLO['chat.completions'], ...request })
  const writer = serve.writer(streamed)
  for (const event of events) writer.write(event)
  return [whole, streamed].map(({ losses }) => losses.losses.map(({ path, reason }) => `${path}: ${reason}`))
}

const twice = (...losses: string[]): string[][] => [losses, losses]

describe('the order of a response for a client of chat completions', () => {
  test.each<[string, Json[]]>([
    ['reasoning, text', [thought('a'), text('b')]],
    ['reasoning, text, call', [thought('a'), text('b'), call, call]],
    ['text, image', [text('a'), image, image]],
    ['reasoning, image, call', [thought('a'), image, call]],
  ])('is no loss where it is that of the fields: %s', (_, parts) => {
    expect(lossesOf(parts)).toEqual(twice())
  })

  test('is reported where reasoning follows text or a call', () => {
    const after = (what: string): string =>
      `response.reasoning: a message has one field for reasoning: the place after ${what} is lost`
    expect(lossesOf([thought('a'), text('b'), thought('c'), text('d')])).toEqual(twice(after('text')))
    expect(lossesOf([thought('a'), call, thought('c'), call])).toEqual(twice(after('a tool call')))
  })

  test('is reported where text follows an image', () => {
    expect(lossesOf([text('a'), image, text('b'), image])).toEqual(
      twice('response.text: a message has one field for text: the place after an image is lost'),
    )
  })

  test('is reported where an image follows a call', () => {
    expect(lossesOf([call, image])).toEqual(
      twice('response.image: a message has one field for images: the place after a tool call is lost'),
    )
  })

  test('is no loss for reasoning that the client does not get', () => {
    const request = { reasoning: { exclude: true } }
    expect(lossesOf([thought('a'), text('b'), thought('c')], request)).toEqual(twice())
  })
})
