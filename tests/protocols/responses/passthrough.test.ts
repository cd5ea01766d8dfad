import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { contextOf, parsed, target, type Any } from './fixtures.ts'

/** A provider's own frames with our id and model. */

const frame = (type: string, fields: object) => ({ event: type, data: JSON.stringify({ type, ...fields }) })
const created = frame('response.created', {
  sequence_number: 0,
  response: {
    id: 'up',
    model: 'um',
    status: 'in_progress',
    store: false,
    previous_response_id: null,
    output: [],
    tools: [{ id: 'up' }],
  },
})
const delta = (item_id: string, n = 2) =>
  frame('response.output_text.delta', { sequence_number: n, item_id, output_index: 0, content_index: 0, delta: 'up' })
const item = { id: 'm1', type: 'message', content: [{ type: 'output_text', text: 'up', annotations: [] }] }
const broke = new GatewayError('upstream_error', 'broke')

test('the response has our id and model, and the stored state that the client requested', () => {
  const passthrough = responses.passthrough(contextOf({ previous_response_id: 'resp_0' }))
  const { response } = JSON.parse(passthrough.frame(created)!.data)
  const answered = responses.passthrough(contextOf({ previous_response_id: 'resp_0', store: false }))
  expect(JSON.parse(answered.answer('{"id":"up","store":false}'))).toEqual({
    id: 'resp_1',
    model: 'a/b',
    store: false,
    previous_response_id: 'resp_0',
  })
  expect(response).toEqual({
    id: 'resp_1',
    model: 'a/b',
    status: 'in_progress',
    store: true,
    previous_response_id: 'resp_0',
    output: [],
    tools: [{ id: 'up' }],
  })
})

test('the response continues none that only the provider knows', () => {
  const text = '{"id":"up","previous_response_id":"theirs"}'
  expect(JSON.parse(responses.passthrough(contextOf()).answer(text))).toMatchObject({ previous_response_id: null })
})

test('a delta passes as the same object, even before its item was added, and frames need no name', () => {
  const passthrough = responses.passthrough(contextOf())
  passthrough.frame(created)
  for (const one of [delta('m1'), delta('m1')]) expect(passthrough.frame(one)).toBe(one)
  expect(JSON.parse(passthrough.frame({ data: created.data })!.data).response.id).toBe('resp_1')
  const nameless = { data: delta('m1').data }
  expect(passthrough.frame(nameless)).toBe(nameless)
})

test('an item keeps its first id', () => {
  const passthrough = responses.passthrough(contextOf())
  const out = [
    created,
    frame('response.output_item.added', { output_index: 0, item: { ...item, id: 'i1' } }),
    delta('i2'),
    frame('response.output_item.done', { output_index: 0, item: { ...item, id: 'i3' } }),
    frame('response.completed', { response: { id: 'x', status: 'completed', output: [{ ...item, id: 'i4' }] } }),
  ].map((one) => JSON.parse(passthrough.frame(one)!.data))
  expect([out[1].item.id, out[2].item_id, out[3].item.id, out[4].response.output[0].id]).toEqual([
    'i1',
    'i1',
    'i1',
    'i1',
  ])
})

test('the final output keeps what has no other first id, and a response without one stays without it', () => {
  const passthrough = responses.passthrough(contextOf())
  passthrough.frame(delta('i1'))
  const end = (response: object) =>
    JSON.parse(passthrough.frame(frame('response.in_progress', { response: { id: 'x', ...response } }))!.data).response
  for (const output of [[{ ...item, id: 'i1' }, { id: 'i2' }], [{ type: 'message' }, null], ['x'], []])
    expect(end({ output }).output).toEqual(output)
  expect(end({})).not.toHaveProperty('output')
  expect(end({ output: null }).output).toBeNull()
})

test('items that interleave keep their first ids, and a frame without the index of an item stays as it is', () => {
  const passthrough = responses.passthrough(contextOf())
  const ids = [created, delta('a'), delta('b'), frame('response.output_item.added', { output_index: 1, item })]
    .map((one) => passthrough.frame(one)!)
    .map(({ data }) => JSON.parse(data).item_id)
  expect(ids).toEqual([undefined, 'a', 'a', undefined])
  const other = frame('response.output_text.delta', { item_id: 'm2', output_index: 1, content_index: 0, delta: 'x' })
  expect(JSON.parse(passthrough.frame(other)!.data).item_id).toBe('m1')
  for (const same of [
    frame('response.output_item.added', { item: { ...item, id: 'm3' } }),
    frame('response.output_item.added', { item: { ...item, id: 'm4' } }),
    frame('response.output_item.added', { output_index: 1, item: { ...item, id: '' } }),
    frame('response.output_item.done', { output_index: 1, item: { ...item, id: null } }),
    frame('response.web_search_call.searching', { output_index: 1 }),
    frame('response.output_text.delta', { output_index: 1, item_id: 5 }),
    frame('rate_limits.updated', { response: { id: 'up' } }),
  ])
    expect(passthrough.frame(same)).toBe(same)
  expect(passthrough.frame({ data: '[DONE]' })).toBeUndefined()
})

test.each([
  ['the response', frame('response.in_progress', { response: 'DEEP' })],
  ['a finished item', frame('response.output_item.done', { output_index: 0, item: { id: 'i', content: 'DEEP' } })],
])('a frame is refused in which %s is nested too deeply', (_, { event, data }) => {
  const deep = data.replace('"DEEP"', '[{"a":'.repeat(5000) + '1' + '}]'.repeat(5000))
  expect(() => responses.passthrough(contextOf()).frame({ event, data: deep })).toThrow(GatewayError)
})

test('a response is followed as it came and as it is sent, in a stream and in one piece', () => {
  const seen: Any[] = []
  const passthrough = responses.passthrough(contextOf({}, { follow: (...both) => seen.push(both) }))
  passthrough.frame(created)
  passthrough.frame({ ...created, data: created.data.slice(0, 80) })
  passthrough.frame(delta('m1'))
  passthrough.answer('{"id":"up","status":"queued"}')
  expect(seen).toMatchObject([
    [
      { id: 'up', model: 'um' },
      { id: 'resp_1', model: 'a/b' },
    ],
    [
      { id: 'up', status: 'queued' },
      { id: 'resp_1', status: 'queued' },
    ],
  ])
})

describe('usage that the meter has counted', () => {
  const usage = { ...noUsage(), inputTokens: 3, outputTokens: 2 }

  test('is in the response of the last frame', () => {
    const passthrough = responses.passthrough(contextOf())
    const last = frame('response.completed', { response: { id: 'up', usage: null } })
    expect(JSON.parse(passthrough.counted!(last, usage).data).response).toMatchObject({
      id: 'up',
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
    })
    expect(passthrough.counted!(delta('m1'), usage)).toEqual(delta('m1'))
  })

  test('is in a response in one piece, unless the provider still works on it', () => {
    const kept: Any[] = []
    const answer = (status?: string): Any =>
      JSON.parse(
        responses
          .passthrough(contextOf({}, { keep: (response) => kept.push(response) }))
          .answer(JSON.stringify({ id: 'up', status, usage: null }), usage),
      )
    for (const status of ['completed', 'incomplete', undefined])
      expect(answer(status).usage).toMatchObject({ total_tokens: 5 })
    expect(kept.map((response) => response.usage.total_tokens)).toEqual([5, 5, 5])
    for (const status of ['queued', 'in_progress', 'failed']) expect(answer(status).usage).toBeNull()
    expect(kept.length).toBe(3)
  })
})

test('a compaction keeps its model, and is sent without settings of stored responses', () => {
  const context = contextOf()
  const compaction = { ...context, request: { ...context.request, compaction: true as const } }
  const reasons = { ...target, capabilities: { reasoning: 'effort' as const } }
  expect(JSON.parse(responses.call.forward(compaction, reasons, new LossReport()))).toEqual({
    model: 'upstream',
    input: 'hi',
  })
  const text = '{"id":"up","model":"um","store":false,"previous_response_id":"x"}'
  expect(responses.passthrough(compaction).answer(text)).toBe(text.replace('up', 'resp_1'))
})

test('credentials in an error of the provider are removed', () => {
  const message = 'bad key sk-abcdefghijklmnop'
  for (const failed of [
    frame('error', { message }),
    frame('error', { error: { message } }),
    frame('response.failed', { response: { id: 'up', status: 'failed', error: { code: 'x', message } } }),
  ]) {
    const out = responses.passthrough(contextOf()).frame(failed)!.data
    expect(out).not.toContain('sk-abc')
    expect(out).toContain('bad key')
  }
  const failed = JSON.stringify({ id: 'up', status: 'failed', error: { code: 'x', message } })
  expect(responses.passthrough(contextOf()).answer(failed)).not.toContain('sk-abc')
})

describe('the stored response', () => {
  const keep = (frames: { event: string; data: string }[], body: object = {}) => {
    const kept: Any[] = []
    const passthrough = responses.passthrough(contextOf(body, { keep: (response) => kept.push(response) }))
    for (const one of frames) passthrough.frame(one)
    return kept
  }
  const end = (status: string, output: object[] = [item]) =>
    frame(`response.${status}`, { response: { id: 'up', model: 'um', status, output, store: false } })

  test('is the final one, once, with our id and model', () => {
    expect(keep([created, end('completed'), end('completed')])).toEqual([
      { id: 'resp_1', model: 'a/b', status: 'completed', output: [item], store: true },
    ])
    expect(keep([created, end('incomplete')]).length).toBe(1)
    expect(keep([created, end('failed')])).toEqual([])
  })

  test('has its output even if the last frame omits it', () => {
    expect(
      keep([created, frame('response.output_item.done', { output_index: 0, item }), end('completed', [])])[0]!.output,
    ).toEqual([item])
  })

  test('has its items in the order of the output, each as it was finished', () => {
    const done = [1, 0].map((output_index) =>
      frame('response.output_item.done', { output_index, item: { ...item, id: `m${output_index}` } }),
    )
    const broken = frame('response.output_item.done', { output_index: 2, item: 'x' })
    expect(keep([created, ...done, broken, end('completed', [])])[0]!.output.map(({ id }: Any) => id)).toEqual([
      'm0',
      'm1',
    ])
  })

  test('is also that of a response in one piece', () => {
    const kept: Any[] = []
    const text =
      '{"id":"up","object":"response", "big":12345678901234567890,"model":"um","status":"completed","output":[]}'
    expect(responses.passthrough(contextOf({}, { keep: (response) => kept.push(response) })).answer(text)).toBe(
      '{"id":"resp_1","object":"response", "big":12345678901234567890,"model":"a/b","status":"completed","output":[]}',
    )
    expect(kept).toMatchObject([{ id: 'resp_1', model: 'a/b' }])
  })
})

describe('the end of a broken stream', () => {
  test("continues the provider's sequence numbers and has the finished output", () => {
    const passthrough = responses.passthrough(contextOf())
    for (const one of [
      created,
      frame('response.output_item.done', { sequence_number: 1, output_index: 0, item }),
      delta('m2', 7),
    ])
      passthrough.frame(one)
    expect(parsed(passthrough.fail(broke))).toMatchObject([
      { type: 'error', sequence_number: 8, code: 'server_error', message: 'broke', param: null },
      {
        type: 'response.failed',
        sequence_number: 9,
        response: {
          id: 'resp_1',
          model: 'a/b',
          status: 'failed',
          error: { code: 'server_error', message: 'broke' },
          output: [item],
          tools: [{ id: 'up' }],
        },
      },
    ])
    expect(passthrough.fail(broke)).toEqual([])
  })

  test('names the parameter of the error, and is numbered from 0 where the provider numbers nothing', () => {
    const passthrough = responses.passthrough(contextOf())
    passthrough.frame(frame('response.created', { response: { id: 'up', status: 'in_progress' } }))
    const error = new GatewayError('invalid_request', 'bad', { param: 'input[0]' })
    expect(parsed(passthrough.fail(error))).toMatchObject([
      { type: 'error', sequence_number: 0, param: 'input[0]' },
      { type: 'response.failed', sequence_number: 1, response: { id: 'resp_1', output: [] } },
    ])
  })

  test.each(['failed', 'cancelled'])('adds nothing to a response whose status is %s', (status) => {
    const passthrough = responses.passthrough(contextOf())
    passthrough.frame(frame(`response.${status}`, { response: { id: 'up', model: 'um', status, output: [] } }))
    expect(passthrough.fail(broke)).toEqual([])
  })

  test('is a whole stream if nothing came before', () => {
    expect(
      parsed(responses.passthrough(contextOf()).fail(broke)).map(({ type, sequence_number }) => [
        type,
        sequence_number,
      ]),
    ).toEqual([
      ['response.created', 0],
      ['response.in_progress', 1],
      ['error', 2],
      ['response.failed', 3],
    ])
  })

  test('follows a frame that was cut', () => {
    const passthrough = responses.passthrough(contextOf())
    passthrough.frame({ ...created, data: created.data.slice(0, 80) })
    const frames = passthrough.fail(broke)
    expect(frames.map(({ event }) => event)).toEqual(['error', 'response.failed'])
    expect((parsed(frames) as Any[])[1]!.response).toMatchObject({ id: 'resp_1', status: 'failed' })
  })

  test('has only the failed response after an error event of the provider', () => {
    const passthrough = responses.passthrough(contextOf())
    passthrough.frame(created)
    passthrough.frame(frame('error', { sequence_number: 1, error: { message: 'theirs' } }))
    expect(parsed(passthrough.fail(broke)).map(({ type }) => type)).toEqual(['response.failed'])
  })

  test('is empty after the end of the response', () => {
    const passthrough = responses.passthrough(contextOf())
    passthrough.frame(frame('response.completed', { response: { id: 'up', status: 'completed', output: [] } }))
    expect(passthrough.fail(broke)).toEqual([])
  })
})

test.each([
  ['response.content_part', 'content_index', 'content', 'message', 'output_text', 'response.output_text.done'],
  ['response.content_part', 'content_index', 'content', 'reasoning', 'reasoning_text', 'response.reasoning_text.done'],
  [
    ...(['response.reasoning_summary_part', 'summary_index', 'summary', 'reasoning', 'summary_text'] as const),
    'response.reasoning_summary_text.done',
  ],
])('an early end in the midst of a second %s keeps the first', (name, index, member, type, partType, textDone) => {
  const passthrough = responses.passthrough(contextOf())
  const part = (text: string) => ({ type: partType, text })
  const at = { item_id: 'i', output_index: 0 }
  passthrough.frame(created)
  passthrough.frame(frame('response.output_item.added', { output_index: 0, item: { id: 'i', type, [member]: [] } }))
  passthrough.frame(frame(`${name}.added`, { ...at, [index]: 0, part: part('') }))
  passthrough.append!('One.')
  passthrough.frame(frame(`${name}.done`, { ...at, [index]: 0, part: part('One.') }))
  passthrough.frame(frame(`${name}.added`, { ...at, [index]: 1, part: part('') }))
  passthrough.append!('Tw')
  const frames = passthrough.endEarly!({ usage: noUsage(), report: {} }).map(({ data }) => JSON.parse(data) as Any)
  const ended = frames.find((one) => one.type === `${name}.done`)!
  expect([ended[index], ended.part]).toEqual([1, part('Tw')])
  const text = frames.find((one) => one.type === textDone)!
  expect([text[index], text.text, text.logprobs]).toEqual([1, 'Tw', type === 'message' ? [] : undefined])
  expect(frames.at(-1)!.response.output[0][member]).toEqual([part('One.'), part('Tw')])
})

test('an early end between two parts of an item keeps the first and ends no other', () => {
  const passthrough = responses.passthrough(contextOf())
  const at = { item_id: 'm1', output_index: 0, content_index: 0 }
  const [part] = item.content
  for (const one of [
    created,
    frame('response.output_item.added', { output_index: 0, item: { ...item, content: [] } }),
    frame('response.content_part.added', { ...at, part: { ...part, text: '' } }),
    frame('response.content_part.done', { ...at, part }),
  ])
    passthrough.frame(one)
  const frames = passthrough.endEarly!({ usage: noUsage(), report: {} }).map(({ data }) => JSON.parse(data) as Any)
  expect(frames.map(({ type }) => type)).toEqual(['response.output_item.done', 'response.incomplete'])
  expect(frames[0]!.item.content).toEqual([part])
})

test('an early end is the stored response with the usage so far, once', () => {
  const kept: Any[] = []
  const passthrough = responses.passthrough(contextOf({}, { keep: (response) => kept.push(response) }))
  for (const one of [
    created,
    frame('response.output_item.done', { output_index: 0, item }),
    frame('response.output_item.added', {
      sequence_number: 4,
      output_index: 1,
      item: { id: 'f', type: 'function_call', name: 'f', status: 'in_progress', arguments: '' },
    }),
  ])
    passthrough.frame(one)
  passthrough.append!('{"a')
  const frames = parsed(
    passthrough.endEarly!({ usage: { ...noUsage(), outputTokens: 2 }, report: { sluice: { a: 1 } } as Any }),
  )
  const call = { id: 'f', type: 'function_call', name: 'f', status: 'incomplete', arguments: '{"a' }
  expect(frames).toMatchObject([
    { type: 'response.function_call_arguments.done', sequence_number: 5, item_id: 'f', output_index: 1, name: 'f' },
    { type: 'response.output_item.done', sequence_number: 6, output_index: 1, item: call },
    { type: 'response.incomplete', sequence_number: 7, response: { sluice: { a: 1 } } },
  ])
  const ended = {
    id: 'resp_1',
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output: [item, call],
    usage: { output_tokens: 2 },
  }
  expect([frames[2]!.response, ...kept]).toMatchObject([ended, ended])
  expect(kept[0]).not.toHaveProperty('sluice')
  expect([passthrough.endEarly!({ usage: noUsage(), report: {} }), passthrough.fail(broke)]).toEqual([[], []])
  expect(kept.length).toBe(1)
})
