import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { eventsOf, written } from '../../translating.ts'
import { chunkOf, partsOf, read, stop, type Json } from './streaming.ts'

/** Tool calls in streams and responses of chat completions, in all the forms that servers send. */

const call = (index: number | undefined, fields: Json): Json => ({
  tool_calls: [{ ...(index === undefined ? {} : { index }), ...fields }],
})
const begin = (index: number | undefined, id: string | undefined, name: string, args = ''): Json =>
  chunkOf(call(index, { ...(id === undefined ? {} : { id }), type: 'function', function: { name, arguments: args } }))
const more = (index: number | undefined, args: string): Json => chunkOf(call(index, { function: { arguments: args } }))
const callsOf = (...chunks: Json[]) =>
  partsOf(...chunks, stop('tool_calls'), '[DONE]')
    .filter((part) => part.type === 'tool-call')
    .map((part) => (part.type === 'tool-call' ? [part.id, part.name, part.arguments] : []))

describe('tool calls', () => {
  test('calls with interleaved deltas become parts one after the other', () => {
    expect(
      callsOf(
        begin(0, 'a', 'f'),
        begin(1, 'b', 'g'),
        more(1, '{"y":'),
        more(0, '{"x":"}{'),
        more(1, '2}'),
        more(0, '\\""}'),
      ),
    ).toEqual([
      ['a', 'f', '{"x":"}{\\""}'],
      ['b', 'g', '{"y":2}'],
    ])
  })

  test('interleaved calls of free text become parts one after the other', () => {
    const free = (index: number, input: string, head: Json = {}): Json =>
      chunkOf(call(index, { ...head, custom: { ...head, input } }))
    const head = (id: string): Json => ({ id, type: 'custom', name: 'f' })
    expect(callsOf(free(0, 'a{}', head('x')), free(1, 'c', head('y')), free(0, 'b'), free(1, 'd'))).toEqual([
      ['x', 'f', 'a{}b'],
      ['y', 'f', 'cd'],
    ])
  })

  test('a signature of a call is read before its name, beside it and behind it', () => {
    const signed = { extra_content: { google: { thought_signature: 'S' } } }
    const named = { id: 'a', function: { name: 'f', arguments: '{}' } }
    for (const deltas of [[signed, named], [{ ...named, ...signed }], [named, signed]])
      expect(partsOf(...deltas.map((fields) => chunkOf(call(0, fields))), stop('tool_calls'))).toMatchObject([
        { type: 'tool-call', id: 'a', name: 'f', signature: { data: 'S' } },
      ])
  })

  test('a name without an index or an id begins another call', () => {
    const named = (name: string): Json => chunkOf(call(undefined, { function: { name, arguments: '{' } }))
    expect(callsOf(named('f'), more(undefined, '}'), named('g'), more(undefined, '}'))).toEqual([
      [expect.any(String), 'f', '{}'],
      [expect.any(String), 'g', '{}'],
    ])
  })

  test('content behind a call that was cut keeps its order', () => {
    const events = read([
      begin(0, 'a', 'f', '{"x'),
      chunkOf({ content: 'a' }),
      chunkOf({ reasoning: 'b' }),
      chunkOf({ content: 'c' }),
      stop('length'),
    ])
    expect(events.flatMap((event) => (event.type === 'part-delta' ? [event.text] : []))).toEqual(['{"x', 'a', 'b', 'c'])
  })

  test('a brace after an escaped quote does not end the arguments', () => {
    expect(callsOf(begin(0, 'a', 'f', '{"x":"\\"}'), begin(1, 'b', 'g', '{}'), more(0, '"}'))).toEqual([
      ['a', 'f', '{"x":"\\"}"}'],
      ['b', 'g', '{}'],
    ])
  })

  test('a call with complete JSON is closed when the next part begins', () => {
    const reader = chat.call.reader({})
    const types = (chunk: Json) => reader.read({ data: JSON.stringify(chunk) }).map((event) => event.type)
    expect(types(begin(0, 'a', 'f', '{}'))).toEqual(['start', 'part-start', 'part-delta'])
    expect(types(begin(1, 'b', 'g'))).toEqual(['part-end', 'part-start'])
    expect(types(begin(2, 'c', 'h', '{"z":1}'))).toEqual([])
    expect(types(more(1, '{"y":1}'))).toEqual(['part-delta', 'part-end', 'part-start', 'part-delta'])
  })

  test('calls are distinguished by index, by id, or by their position in a whole message', () => {
    expect(
      callsOf(begin(undefined, 'a', 'f', '{"x":1}'), begin(undefined, 'b', 'g', '{"y":'), more(undefined, '2}')),
    ).toEqual([
      ['a', 'f', '{"x":1}'],
      ['b', 'g', '{"y":2}'],
    ])
    expect(callsOf(begin(0, 'a', 'f', '{"x":1}'), begin(0, 'b', 'g', '{"y":2}'))).toEqual([
      ['a', 'f', '{"x":1}'],
      ['b', 'g', '{"y":2}'],
    ])
    const made = callsOf(begin(0, undefined, 'f', '{}'), begin(1, undefined, 'f', '{}'))
    expect(made.map(([, name]) => name)).toEqual(['f', 'f'])
    expect(new Set(made.map(([id]) => id)).size).toBe(2)
    const whole = fold(
      eventsOf('chat.completions', {
        id: 'x',
        choices: [
          {
            message: {
              content: null,
              tool_calls: [
                { id: 'same', function: { name: 'f', arguments: {} } },
                { id: 'same', function: { name: 'f', arguments: '{"a":1}' } },
                { function: { name: 'g', arguments: '{"a":1}' } },
              ],
            },
            finish_reason: 'stop',
          },
        ],
      }),
    )
    expect(whole.parts).toMatchObject([
      { name: 'f', arguments: '{}' },
      { name: 'f', arguments: '{"a":1}' },
      { name: 'g', arguments: '{"a":1}' },
    ])
    expect(whole.finish).toEqual({ reason: 'tool-calls', raw: 'stop' })
  })

  test('a delta with a repeated or empty id and name belongs to the same call', () => {
    expect(
      callsOf(
        begin(0, 'a', 'f', '{'),
        begin(0, 'a', 'f', '"x":'),
        chunkOf(call(0, { id: '', function: { name: '', arguments: '1}' } })),
      ),
    ).toEqual([['a', 'f', '{"x":1}']])
  })

  test('the deprecated function_call is read as a call', () => {
    expect(
      partsOf(
        chunkOf({ function_call: { name: 'f', arguments: '{' } }),
        chunkOf({ function_call: { arguments: '}' } }),
        stop('function_call'),
      ),
    ).toMatchObject([{ type: 'tool-call', name: 'f', arguments: '{}' }])
    expect(partsOf(chunkOf({ content: 'x', function_call: { name: '', arguments: '' } }), stop())).toEqual([
      { type: 'text', text: 'x' },
    ])
  })

  test('text in the middle of arguments waits for their end', () => {
    expect(
      partsOf(begin(0, 'a', 'f', '{"x"'), chunkOf({ content: 'meanwhile' }), more(0, ':1}'), stop('tool_calls')),
    ).toEqual([
      { type: 'tool-call', id: 'a', name: 'f', form: 'function', arguments: '{"x":1}' },
      { type: 'text', text: 'meanwhile' },
    ])
  })

  test('a response with a call finishes with tool-calls instead of stop, and a truncated one with length', () => {
    expect(read([begin(0, 'a', 'f', '{}'), stop('stop'), '[DONE]']).at(-1)).toEqual({
      type: 'finish',
      reason: 'tool-calls',
      raw: 'stop',
    })
    expect(read([begin(0, 'a', 'f', '{"x'), stop('length'), '[DONE]']).at(-1)).toEqual({
      type: 'finish',
      reason: 'length',
      raw: 'length',
    })
  })

  test('the transforms of the request restore the names and forms of tools', () => {
    const long = `tool.${'n'.repeat(80)}`
    const body = {
      model: 'm',
      messages: [{ role: 'user', content: 'x' }],
      tools: [
        { type: 'custom', custom: { name: 'patch' } },
        { type: 'function', function: { name: long } },
      ],
    }
    const request = chat.serve.readRequest({ body, text: '', headers: new Headers() })
    const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
    const { body: sent, transforms } = written('chat.completions', request, target)
    const { tools } = sent as { tools: { type: string; function: { name: string } }[] }
    expect(tools.map((tool) => tool.type)).toEqual(['function', 'function'])
    const name = tools[1]!.function.name
    expect(name).toMatch(/^[\w-]{1,64}$/)
    const parts = fold(
      read(
        [begin(0, 'a', 'patch', '{"input":"*** Be'), more(0, 'gin"}'), begin(1, 'b', name, '{}'), stop('tool_calls')],
        transforms,
      ),
    ).parts
    expect(parts).toEqual([
      { type: 'tool-call', id: 'a', name: 'patch', form: 'custom', arguments: '*** Begin' },
      { type: 'tool-call', id: 'b', name: long, form: 'function', arguments: '{}' },
    ])
  })
})
