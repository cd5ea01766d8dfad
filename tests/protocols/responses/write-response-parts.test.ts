import { describe, expect, test } from 'bun:test'
import type { GenerationEvent } from '../../../src/generation/event.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { call, contextOf, framesOf, last, parsed, read, sentence, stop, text, types, type Any } from './fixtures.ts'

/** Items of streams to clients of the Responses API: their events, and where each begins and ends. */

const searching = { tools: [{ type: 'tool_search', execution: 'client' }] }
const image = { type: 'image', mediaType: 'image/webp' }
const native = (kind: string, value: object) => ({ type: 'native', protocol: 'responses', kind, value })

const ITEMS: [string, object, string[]][] = [
  ['message', text, ['x']],
  ['reasoning', { type: 'reasoning', form: 'summary' }, ['x']],
  ['function_call', call('c1'), ['{}']],
  ['custom_tool_call', call('c2', 'g', 'custom'), ['x']],
  ['tool_search_call', call('c3', 'tool_search'), ['{"q":1}']],
  ['image_generation_call', image, ['aGk=']],
  ['web_search_call', native('web_search_call', { id: 'ws', status: 'completed' }), []],
]

test.each(ITEMS)('an item that follows a %s begins after its end', (type, head, deltas) => {
  for (const [nextType, ...next] of ITEMS) {
    if (type === 'message' && nextType === 'message') continue
    const frames = parsed(framesOf([...sentence([head, deltas], next), stop], contextOf(searching)))
    const items = frames.filter((frame) => frame.type.startsWith('response.output_item.'))
    expect(items.map(({ type: step, output_index, item }) => [step.split('.')[2], output_index, item.type])).toEqual([
      ['added', 0, type],
      ['done', 0, type],
      ['added', 1, nextType],
      ['done', 1, nextType],
    ])
    expect(last(frames).output).toEqual([items[1]!.item, items[3]!.item])
    for (const { status } of last(frames).output) expect(['completed', undefined]).toContain(status)
    for (const { item } of [items[0]!, items[2]!]) expect(['in_progress', undefined]).toContain(item.status)
  }
})

describe('an image', () => {
  const frames = parsed(framesOf([...sentence([image, ['aG', 'k='], 'sig']), stop]))

  test("has OpenAI's events, and its data at the end", () => {
    expect(types(frames).slice(2, 7)).toEqual([
      'output_item.added',
      'image_generation_call.in_progress',
      'image_generation_call.generating',
      'image_generation_call.completed',
      'output_item.done',
    ])
    const { item } = frames[2]!
    expect(item).toEqual({
      id: expect.stringMatching(/^ig_/),
      ...{ type: 'image_generation_call', status: 'in_progress', result: null },
    })
    for (const frame of frames.slice(3, 6)) expect([frame.item_id, frame.output_index]).toEqual([item.id, 0])
    expect(last(frames).output[0]).toEqual({ ...item, status: 'completed', result: 'aGk=', output_format: 'webp' })
  })

  test('has its signature behind it, which returns with it', () => {
    const { output } = last(frames)
    expect(output.map(({ type }: Any) => type)).toEqual(['image_generation_call', 'reasoning'])
    expect(read({ input: output }).turns[0]!.parts).toMatchObject([
      {
        ...{ type: 'image', source: { type: 'data', mediaType: 'image/webp', data: 'aGk=' } },
        signature: { data: 'sig', issuer: { provider: 'issuer', model: 'm1' } },
      },
    ])
    expect(last(parsed(framesOf([...sentence([image, ['aGk=']]), stop]))).output).toHaveLength(1)
  })
})

test('signatures of texts and calls return with them, those of refusals are left out', () => {
  const { output } = last(
    parsed(
      framesOf([
        ...sentence(
          [text, ['z']],
          [text, [], 's0'],
          [text, ['a'], 's1'],
          [text, ['b']],
          [{ type: 'refusal' }, ['no'], 's2'],
        ),
        ...sentence([call('c1'), ['{}'], 's3'], [call('c2'), ['{}']]).slice(1),
        stop,
      ]),
    ),
  )
  for (const { type, status } of output) if (type !== 'reasoning') expect(status).toBe('completed')
  const parts = read({ input: output }).turns[0]!.parts as Any[]
  expect(parts.map(({ type, text: content, id, signature }) => [type, content ?? id, signature?.data])).toEqual([
    ['text', 'z', undefined],
    ['text', '', 's0'],
    ['text', 'a', 's1'],
    ['text', 'b', undefined],
    ['refusal', 'no', undefined],
    ['tool-call', 'c1', 's3'],
    ['tool-call', 'c2', undefined],
  ])
})

test.each([
  [{ type: 'reasoning', redacted: true }, [], { redacted: true, text: '' }],
  [{ type: 'reasoning' }, ['x'], { text: 'x' }],
  [{ type: 'reasoning', form: 'summary' }, ['x'], { text: 'x', form: 'summary' }],
  [{ type: 'reasoning', form: 'raw' }, ['x'], { text: 'x', form: 'raw' }],
])('reasoning returns as it was, with its signature: %j', (head, deltas, part) => {
  const { output } = last(parsed(framesOf([...sentence([head, deltas, 's'], [text, ['a']]), stop])))
  const [reasoning] = read({ input: output }).turns[0]!.parts as Any[]
  expect(reasoning).toEqual({
    ...{ type: 'reasoning', signature: { data: 's', issuer: { provider: 'issuer', model: 'm1' } } },
    ...part,
  })
})

test('the events of a paragraph have its index and that of its item', () => {
  const frames = parsed(
    framesOf([
      ...sentence([{ type: 'reasoning', form: 'summary' }, ['x']], [{ type: 'reasoning', form: 'raw' }, ['y']]),
      stop,
    ]),
  )
  const ofSummary = frames.filter(({ type }) => type.includes('summary_'))
  const ofRaw = frames.filter(({ type }) => /content_part|reasoning_text/.test(type))
  expect([ofSummary.length, ofRaw.length]).toEqual([4, 4])
  for (const frame of ofSummary) expect(frame).toMatchObject({ summary_index: 0, output_index: 0 })
  for (const frame of ofRaw) expect(frame).toMatchObject({ content_index: 0, output_index: 1 })
  expect(ofSummary.map(({ part, delta, text: whole }) => part ?? delta ?? whole)).toEqual([
    { type: 'summary_text', text: '' },
    'x',
    'x',
    { type: 'summary_text', text: 'x' },
  ])
})

test('a search of tools has no arguments where they are not complete, which is reported', () => {
  const found = (...deltas: string[]): [unknown, string[]] => {
    const losses = new LossReport()
    const context = contextOf(searching, { losses })
    const { output } = last(parsed(framesOf([...sentence([call('c3', 'tool_search'), deltas]), stop], context)))
    expect(output[0]).toMatchObject({ type: 'tool_search_call', call_id: 'c3', execution: 'client' })
    return [output[0].arguments, losses.losses.map(({ code, path }) => `${code} ${path}`)]
  }
  expect(found('{"q"', ':1}')).toEqual([{ q: 1 }, []])
  expect(found(' ')).toEqual([{}, []])
  expect(found('{"q":')).toEqual([{}, ['response_field_dropped response.tool_calls.arguments']])
})

describe('an item of a provider of this protocol', () => {
  const events = (kind: string, value: object): [string[], Any, Any] => {
    const frames = parsed(framesOf([...sentence([native(kind, value), []]), stop])).slice(2, -1)
    return [types(frames).slice(1, -1), frames[0]!.item, frames.at(-1)!.item]
  }

  test('has an id, its own or another', () => {
    for (const value of [{}, { id: '' }, { id: 5 }]) expect(events('odd', value)[2].id).toMatch(/^item_[0-9a-f]{32}$/)
    expect(events('odd', { id: 'own', a: 1 })).toEqual([
      [],
      { id: 'own', type: 'odd', a: 1 },
      { id: 'own', type: 'odd', a: 1 },
    ])
    expect(events('odd', { id: 'own', status: 'completed' })[1].status).toBe('in_progress')
  })

  test.each<[string, object, string[]]>([
    ['code_interpreter_call', { code: null }, ['.in_progress', '.interpreting', '.completed']],
    [
      'code_interpreter_call',
      { code: 'x', status: 'incomplete' },
      ['.in_progress', '_code.delta', '_code.done', '.interpreting'],
    ],
    ['mcp_call', { arguments: '' }, ['.in_progress', '_arguments.done', '.completed']],
    ['mcp_call', { status: 'failed' }, ['.in_progress', '.failed']],
    ['file_search_call', {}, []],
  ])('%s with %j has its events', (kind, value, names) => {
    expect(events(kind, { id: 'i', status: 'completed', ...value })[0]).toEqual(names.map((name) => `${kind}${name}`))
  })
})

test('a delta without text is one only with log probabilities', () => {
  const withoutText = (more: object): Any[] => {
    const [start, begin, end] = sentence([text, []])
    const delta = { type: 'part-delta', part: 0, text: '', ...more } as GenerationEvent
    return parsed(framesOf([start!, begin!, delta, end!, stop])).filter(({ type }) => type.endsWith('.delta'))
  }
  expect(withoutText({})).toEqual([])
  expect(withoutText({ logprobs: [{ token: 'a', logprob: -1 }] })).toMatchObject([
    { delta: '', logprobs: [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: [] }] },
  ])
})
