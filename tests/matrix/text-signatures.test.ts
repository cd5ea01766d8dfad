import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor, readerFor } from '../translating.ts'
import { contextOf, HELLO, type Json, sendTo } from './routes.ts'

/**
 * Signatures of Google's texts through a client of responses that returns all items in their order, as Codex and
 * OpenAI's SDK do. A stream has the signature of a text in an empty part behind it, where a whole response has it on
 * the text: it comes back in the part that had it.
 */

const text = (said: string, signature?: string): Json => ({
  text: said,
  ...(signature === undefined ? {} : { thoughtSignature: signature }),
})
const thought = (said: string): Json => ({ text: said, thought: true })
const call = (id: string, signature?: string): Json => ({
  functionCall: { id, name: 'f', args: {} },
  ...(signature === undefined ? {} : { thoughtSignature: signature }),
})

/** The parts of a response, and those that Google gets back: pieces without signatures are joined. */
const RESPONSES: [what: string, received: Json[], returned: Json[]][] = [
  ['a signed text', [text('Aaa', 'S')], [text('Aaa', 'S')]],
  ['a signature in an empty last part', [text('Aa'), text('a'), text('', 'S')], [text('Aaa'), text('', 'S')]],
  ['a signed first piece', [text('A', 'S'), text('a'), text('a')], [text('A', 'S'), text('aa')]],
  ['two signed texts', [text('Aaa', 'S1'), text('Bbb', 'S2')], [text('Aaa', 'S1'), text('Bbb', 'S2')]],
  ['a signed text after a thought', [thought('hm'), text('Aaa', 'S')], [thought('hm'), text('Aaa', 'S')]],
  [
    'texts around a call',
    [text('Aaa'), call('c1', 'S1'), text('Bbb'), text('', 'S2')],
    [text('Aaa'), call('c1', 'S1'), text('Bbb'), text('', 'S2')],
  ],
  [
    'a signed text before parallel calls',
    [text('Aaa', 'S1'), call('c1', 'S2'), call('c2')],
    [text('Aaa', 'S1'), call('c1', 'S2'), call('c2')],
  ],
  ['an empty signed part after a call', [call('c1'), text('', 'S')], [call('c1'), text('', 'S')]],
]

const chunk = (parts: Json[], more: object = {}): Json => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
  responseId: 'up',
})

type Items = { whole: Json[]; done: Json[]; completed: Json[] }

/** The output items of a response: whole, and of a stream as they are done and in the last event. */
function itemsOf(parts: Json[]): Items {
  const { serve } = protocols.responses
  const context = contextOf('responses')
  const whole = chunk(parts, { finishReason: 'STOP' })
  const written = serve.writeResponse(fold(eventsFor('generateContent', whole, {}, context.request)), context)
  const reader = readerFor('generateContent', {}, context.request)
  const writer = serve.writer(context)
  const chunks = parts.map((part, at) => chunk([part], at === parts.length - 1 ? { finishReason: 'STOP' } : {}))
  const events = [...chunks.flatMap((one) => reader.read({ data: JSON.stringify(one) })), ...reader.end()]
  const frames = events.flatMap((event) => writer.write(event)).map(({ data }) => JSON.parse(data) as Json)
  return {
    whole: (written as Json).output,
    done: frames.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item),
    completed: frames.at(-1)!.response.output,
  }
}

/** The items as Codex returns them: without ids, states and annotations. */
const asCodex = (items: Json[]): Json[] =>
  items.map(({ id: _, status: __, ...item }) =>
    item.type === 'message'
      ? { ...item, content: item.content.map(({ type, text: said }: Json) => ({ type, text: said })) }
      : item,
  )

/** The parts of the model that Google is sent with the items in the next request. */
function returned(items: Json[]): Json[] {
  const calls = items.filter(({ type }) => type === 'function_call')
  const results = calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'ok' }))
  const input = [{ role: 'user', content: 'q' }, ...items, ...results, { role: 'user', content: 'next' }]
  const context = contextOf('responses', { ...HELLO.responses, input })
  return sendTo('generateContent', context).body.contents[1].parts
}

describe('the signatures of texts come back to Google on the parts that had them', () => {
  test.each(RESPONSES)('%s', (_what, received, expected) => {
    const { whole, done, completed } = itemsOf(received)
    expect(returned(done)).toEqual(expected)
    expect(returned(completed)).toEqual(expected)
    expect(returned(asCodex(done))).toEqual(expected)
    expect(returned(whole)).toEqual(expected)
  })
})
