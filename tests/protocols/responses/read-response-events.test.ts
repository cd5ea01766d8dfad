import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { fold } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import type { Any } from './fixtures.ts'
import { added, call, completed, created, done, eventsOf, message, partsOf } from './provider-events.ts'

/** Events of which dialects leave some out, and failures of providers of the Responses API. */

const at = { output_index: 0, content_index: 0, summary_index: 0 }
const event = (type: string, fields: object): object => ({ type: `response.${type}`, ...at, ...fields })
const custom = { type: 'custom_tool_call', id: 'ct', call_id: 'c1', name: 'f', input: '' }

describe('a part', () => {
  test.each<[string, object[], Any]>([
    ['output_text', [event('output_text.done', { text: 'ab' })], { type: 'text', text: 'ab' }],
    [
      'content_part',
      [event('content_part.done', { part: { type: 'output_text', text: 'ab' } })],
      { type: 'text', text: 'ab' },
    ],
    [
      'content_part',
      [event('content_part.done', { part: { type: 'refusal', refusal: 'ab' } })],
      { type: 'refusal', text: 'ab' },
    ],
    ['refusal', [event('refusal.done', { refusal: 'ab' })], { type: 'refusal', text: 'ab' }],
    [
      'reasoning_summary_text',
      [event('reasoning_summary_text.done', { text: 'ab' })],
      { type: 'reasoning', text: 'ab', form: 'summary' },
    ],
    ['reasoning_text', [event('reasoning_text.done', { text: 'ab' })], { type: 'reasoning', text: 'ab', form: 'raw' }],
    ['reasoning', [event('reasoning.done', { text: 'ab' })], { type: 'reasoning', text: 'ab', form: 'raw' }],
    [
      'function_call_arguments',
      [added(0, call('')), event('function_call_arguments.done', { arguments: 'ab' })],
      { type: 'tool-call', id: 'c1', name: 'f', arguments: 'ab', form: 'function' },
    ],
    [
      'custom_tool_call_input',
      [added(0, custom), event('custom_tool_call_input.done', { input: 'ab' })],
      { type: 'tool-call', id: 'c1', name: 'f', arguments: 'ab', form: 'custom' },
    ],
  ])('is read of %s events, once, whether they are deltas, ends or both', (name, events, part) => {
    const [last] = events.slice(-1)
    const deltas = ['a', 'b'].map((delta) => event(`${name}.delta`, { delta }))
    const before = events.slice(0, -1)
    expect(partsOf(created, ...events, completed())).toEqual([part as never])
    expect(partsOf(created, ...before, deltas[0]!, last!, completed()).map(({ type }) => type)).toEqual([part.type])
    if (name === 'content_part') return
    for (const some of [deltas, [...deltas, last!]])
      expect(partsOf(created, ...before, ...some, completed())).toEqual([part as never])
  })

  test('is of the item that its event names, else of the last one, else of the first', () => {
    const delta = (item_id: string | undefined, delta: string): object => ({
      type: 'response.function_call_arguments.delta',
      item_id,
      delta,
    })
    const [first, second] = ['a', 'b'].map((id) => ({ ...call(''), id, call_id: id }))
    const events = [
      ...[
        { type: 'response.output_item.added', item: first },
        { type: 'response.output_item.added', item: second },
      ],
      ...[delta('a', '1'), delta('b', '2'), delta(undefined, '3'), delta('c', '4')],
      { type: 'response.output_item.done', item: { ...first, arguments: '1' } },
      { type: 'response.output_item.done', item: { ...second, arguments: '234' } },
    ]
    expect(partsOf(created, ...events, completed())).toMatchObject([
      { id: 'a', arguments: '1' },
      { id: 'b', arguments: '234' },
    ])
    const text = { type: 'response.output_text.delta', delta: 'x' }
    expect(partsOf(created, text, done(0, message('xy')), completed())).toEqual([{ type: 'text', text: 'xy' }])
  })

  test('of a message that was finished has all contents, those of other kinds as native ones', () => {
    const texts = [{ type: 'output_text', text: 'a' }, null, { type: 'odd', a: 1 }, { text: 'c' }]
    const finished = { ...message(''), content: texts, phase: 'final_answer' }
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'native', protocol: 'responses', kind: 'odd', value: texts[2] },
      { type: 'text', text: 'c' },
      { type: 'native', protocol: 'responses', kind: 'phase', value: 'final_answer' },
    ]
    expect(partsOf(created, done(0, finished), completed()) as object[]).toEqual(parts)
    const delta = event('output_text.delta', { content_index: 3, delta: 'a' })
    expect(partsOf(created, delta, done(0, finished), completed()) as object[]).toEqual(parts)
  })

  test('of a text has log probabilities with their bytes, and the most probable others', () => {
    const bytes = { bytes: [97, 'x'] }
    const logprobs = [
      { token: 'a', logprob: -1, ...bytes, top_logprobs: [{ token: 'b', logprob: -2, ...bytes }] },
      { token: 'c', logprob: null, bytes: null },
    ]
    const delta = event('output_text.delta', { delta: 'ac', logprobs })
    const deltas = eventsOf(created, delta, completed()).flatMap((one) => (one.type === 'part-delta' ? [one] : []))
    expect(deltas).toMatchObject([
      {
        text: 'ac',
        logprobs: [
          { token: 'a', logprob: -1, bytes: [97], top: [{ token: 'b', logprob: -2, bytes: [97] }] },
          { token: 'c', logprob: 0 },
        ],
      },
    ])
  })

  test('of a message whose contents came in another order has the rest of the one that is open', () => {
    const deltas = [1, 0].map((content_index) =>
      event('output_text.delta', { content_index, delta: `${content_index}` }),
    )
    const content = ['0 and more', '1'].map((text) => ({ type: 'output_text', text }))
    expect(partsOf(created, ...deltas, done(0, { ...message(''), content }), completed())).toEqual([
      { type: 'text', text: '1' },
      { type: 'text', text: '0 and more' },
    ])
  })

  test.each([
    ['message', message('x')],
    ['reasoning', { type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text: 'x' }] }],
    ['reasoning', { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 's' }],
    ['call', call('{}')],
    ['image', { type: 'image_generation_call', id: 'ig', result: 'aGk=' }],
    ['search', { type: 'web_search_call', id: 'ws', action: {} }],
  ])('of a %s ends with its item', (_, item) => {
    const reader = responses.call.reader({})
    const read = (one: object): Any[] => reader.read({ data: JSON.stringify(one) })
    read(created)
    read(added(0, { ...item, content: [], summary: [], arguments: '', result: null }))
    const end = read(done(0, item)).at(-1)!
    expect([end.type, end.part, end.signature]).toEqual(['part-end', 0, (item as Any).encrypted_content])
    expect(read(done(0, item))).toEqual([])
  })

  test('of a message has each citation once, announced or not', () => {
    const annotations = ['u', 'v'].map((url) => ({ type: 'url_citation', url, start_index: 0, end_index: 1 }))
    const announced = annotations.map((annotation) => event('output_text.annotation.added', { annotation }))
    const end = done(0, message('ab', { annotations }))
    for (const events of [[end], [announced[0]!, end], [...announced, end], [...announced, completed()]]) {
      const delta = event('output_text.delta', { delta: 'ab' })
      const [part] = partsOf(created, delta, ...events, completed()) as Any[]
      expect(part!.citations.map(({ url }: Any) => url)).toEqual(['u', 'v'])
    }
  })

  test('of reasoning is one for a summary and one for its raw text', () => {
    const item = {
      ...{ type: 'reasoning', id: 'rs', encrypted_content: 's' },
      summary: ['a', '', 'b'].map((text) => ({ type: 'summary_text', text })),
      content: [{ type: 'reasoning_text', text: 'c' }],
    }
    expect(partsOf(created, done(0, item), completed())).toMatchObject([
      { type: 'reasoning', form: 'summary', text: 'a\n\nb', id: 'rs' },
      { type: 'reasoning', form: 'raw', text: 'c', id: 'rs' },
    ])
    const paragraph = (summary_index: number, delta: string): object =>
      event('reasoning_summary_text.delta', { summary_index, delta })
    const streamed = [paragraph(0, 'a'), paragraph(1, 'b'), paragraph(1, ''), paragraph(2, ''), paragraph(1, 'c')]
    expect(partsOf(created, ...streamed, completed())).toMatchObject([{ form: 'summary', text: 'a\n\nbc' }])
  })

  test.each<[string, object, object]>([
    ['without ids', { id: undefined, call_id: undefined }, { id: 'call_unnamed', name: 'f' }],
    ['with an id of its item', { call_id: '' }, { id: 'fc', name: 'f' }],
    ['without a name', { name: undefined }, { id: 'c1', name: 'unnamed' }],
    ['with an object as arguments', { arguments: { a: 1 } }, { arguments: '{"a":1}' }],
    ['with null as arguments', { arguments: null }, { arguments: '' }],
  ])('of a call %s is a call', (_, members, part) => {
    expect(partsOf(created, done(0, call('{}', members)), completed())).toMatchObject([part])
  })

  test('of a call has the name that is known only at its end', () => {
    const streamed = event('function_call_arguments.delta', { delta: '{}' })
    expect(
      partsOf(created, added(0, call('', { name: '' })), streamed, done(0, call('{}')), completed()),
    ).toMatchObject([{ id: 'c1', name: 'f', arguments: '{}' }])
  })

  test.each<[object, string, Any[]]>([
    [{ output_format: 'webp', revised_prompt: 'a cat' }, 'image/webp', [{ kind: 'revised_prompt', value: 'a cat' }]],
    [{ prompt: 'a cat' }, 'image/png', [{ kind: 'revised_prompt', value: 'a cat' }]],
    [{ output_format: '' }, 'image/png', []],
  ])('of an image with %j is its data and its prompt', (members, mediaType, others) => {
    const image = { type: 'image_generation_call', id: 'ig', result: 'aGk=', ...members }
    expect(partsOf(created, done(0, image), completed())).toMatchObject([
      { type: 'image', source: { type: 'data', mediaType, data: 'aGk=' } },
      ...others,
    ])
    expect(partsOf(created, done(0, { ...image, result: null }), completed())).toMatchObject([
      { type: 'native', kind: 'image_generation_call' },
    ])
  })
})

test('events of items of another kind, or of items that have ended, are not read', () => {
  const part = { type: 'output_text', text: 'x' }
  const texts = ['output_text', 'refusal', 'reasoning_summary_text', 'reasoning_text', 'reasoning']
  const events = [
    ...[...texts, 'function_call_arguments', 'custom_tool_call_input'].flatMap((name) => [
      event(`${name}.delta`, { delta: 'x' }),
      event(`${name}.done`, { text: 'x', refusal: 'x', arguments: 'x', input: 'x' }),
    ]),
    event('content_part.done', { part }),
    event('output_text.annotation.added', { annotation: { type: 'url_citation', url: 'u' } }),
    event('output_text.annotation.added', { annotation: null }),
    event('output_item.added', { item: null }),
    event('output_item.done', { item: null }),
  ]
  const search = { type: 'web_search_call', id: 'ws', action: {} }
  const native = { type: 'native', protocol: 'responses', kind: 'web_search_call', value: search }
  expect(partsOf(created, added(0, search), ...events, done(0, search), completed())).toEqual([native as never])
  expect(partsOf(created, done(0, search), ...events, completed())).toEqual([native as never])
})

test('an item that the provider ran has its steps', () => {
  const item = { type: 'code_interpreter_call', id: 'ci', code: 'x', outputs: null, status: 'completed' }
  const heads = eventsOf(created, done(0, item), completed()).flatMap((one) =>
    one.type === 'part-start' ? [one.head as Any] : [],
  )
  expect(heads).toMatchObject([{ type: 'native', value: item, steps: [{ type: 'code', id: 'ci', code: 'x' }] }])
})

test.each(['queued', 'in_progress'])('a response that is %s ends for another reason', (status) => {
  const finish = { reason: 'other', raw: status }
  expect(fold(responses.call.readResponse({ id: 'r', status, output: [] }, {})).finish).toEqual(finish as never)
})

describe('a failure', () => {
  const thrown = (body: unknown): GatewayError => {
    try {
      responses.call.readResponse(body, {})
    } catch (error) {
      if (error instanceof GatewayError) return error
    }
    throw new Error('was read')
  }

  test.each<[unknown, string]>([
    [{ status: 'failed', output: [], error: { message: 'broke' } }, 'broke'],
    [{ status: 'cancelled', output: [], error: 'broke' }, 'broke'],
    [{ error: { message: 'broke' } }, 'broke'],
    [{ status: 'failed', output: [], error: '' }, "The provider's response is failed."],
    [{ status: 'cancelled', output: [] }, "The provider's response is cancelled."],
    [{ status: 'completed' }, 'The provider sent a response without output.'],
    ['x', 'The provider did not send a response object.'],
  ])('of a whole response is its error: %j', (body, text) => {
    expect(thrown(body)).toMatchObject({ code: 'upstream_error', message: expect.stringContaining(text) })
  })

  test('does not come from the error of a response that has its output', () => {
    const body = { id: 'r', status: 'completed', output: [message('x')], error: { message: 'broke' } }
    expect(fold(responses.call.readResponse(body, {})).parts).toEqual([{ type: 'text', text: 'x' }])
  })

  test.each(['failed', 'cancelled'])('has a reason where the stream of a %s response has none', (status) => {
    const [error] = eventsOf(created, { type: `response.${status}`, response: { id: 'r', status } }).slice(-1) as Any[]
    expect(error!.error.message).toContain(
      status === 'failed' ? 'The provider failed without a reason.' : 'The provider cancelled the response.',
    )
  })

  test.each<[Any, string]>([
    [{ code: 'rate_limit_exceeded' }, 'upstream_rate_limited'],
    [{ code: 429 }, 'upstream_rate_limited'],
    [{ type: 'overloaded' }, 'overloaded'],
    [{ type: 'error', code: null }, 'upstream_error'],
  ])('has the code that %j is', (failure, code) => {
    expect(thrown({ status: 'failed', error: { message: 'm', ...failure } }).code).toBe(code as never)
    const events = eventsOf(created, { type: 'error', error: { message: 'm', ...failure } }) as Any[]
    expect(events.at(-1)!.error.code).toBe(code)
  })
})
