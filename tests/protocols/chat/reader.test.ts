import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { Quirks } from '../../../src/protocols/protocol.ts'
import { checkGrammar } from '../../grammar.ts'

/** Streams and answers of chat completions, in all the forms that servers give them. */

type Json = Record<string, unknown>
const chunkOf = (delta: Json, more: Json = {}): Json => ({
  id: 'up',
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
})
const stop = (reason = 'stop'): Json => chunkOf({}, { finish_reason: reason })
const read = (chunks: (Json | string)[], request?: GenerationRequest, quirks: Quirks = {}): GenerationEvent[] => {
  const reader = chat.call.reader(quirks, request)
  const events = [
    ...chunks.flatMap((chunk) => reader.read({ data: typeof chunk === 'string' ? chunk : JSON.stringify(chunk) })),
    ...reader.end(),
  ]
  checkGrammar(events)
  return events
}
const partsOf = (...chunks: (Json | string)[]) => fold(read(chunks)).parts
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
  test('interleaved indexes become parts one after the other', () => {
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

  test('so do those of free text, which does not say where it ends', () => {
    const free = (index: number, input: string, head: Json = {}): Json =>
      chunkOf(call(index, { ...head, custom: { ...head, input } }))
    const head = (id: string): Json => ({ id, type: 'custom', name: 'f' })
    expect(callsOf(free(0, 'a{}', head('x')), free(1, 'c', head('y')), free(0, 'b'), free(1, 'd'))).toEqual([
      ['x', 'f', 'a{}b'],
      ['y', 'f', 'cd'],
    ])
  })

  test('what follows a call that was cut keeps its order', () => {
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

  test('a call whose JSON is complete is closed as soon as another thing comes', () => {
    const reader = chat.call.reader({})
    const types = (chunk: Json) => reader.read({ data: JSON.stringify(chunk) }).map((event) => event.type)
    expect(types(begin(0, 'a', 'f', '{}'))).toEqual(['start', 'part-start', 'part-delta'])
    expect(types(begin(1, 'b', 'g'))).toEqual(['part-end', 'part-start'])
    expect(types(begin(2, 'c', 'h', '{"z":1}'))).toEqual([])
    expect(types(more(1, '{"y":1}'))).toEqual(['part-delta', 'part-end', 'part-start', 'part-delta'])
  })

  test('without an index, by id; all with index 0; without ids; whole in one piece', () => {
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
      chat.call.readAnswer(
        {
          id: 'x',
          choices: [
            {
              message: {
                content: null,
                tool_calls: [
                  { function: { name: 'f', arguments: {} } },
                  { function: { name: 'g', arguments: '{"a":1}' } },
                ],
              },
              finish_reason: 'stop',
            },
          ],
        },
        {},
      ),
    )
    expect(whole.parts).toMatchObject([
      { name: 'f', arguments: '{}' },
      { name: 'g', arguments: '{"a":1}' },
    ])
    expect(whole.finish).toEqual({ reason: 'tool-calls', raw: 'stop' })
  })

  test('repeated and empty ids and names belong to the same call', () => {
    expect(
      callsOf(
        begin(0, 'a', 'f', '{'),
        begin(0, 'a', 'f', '"x":'),
        chunkOf(call(0, { id: '', function: { name: '', arguments: '1}' } })),
      ),
    ).toEqual([['a', 'f', '{"x":1}']])
  })

  test('the deprecated function_call', () => {
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

  test('text in the middle of arguments waits', () => {
    expect(
      partsOf(begin(0, 'a', 'f', '{"x"'), chunkOf({ content: 'meanwhile' }), more(0, ':1}'), stop('tool_calls')),
    ).toEqual([
      { type: 'tool-call', id: 'a', name: 'f', form: 'function', arguments: '{"x":1}' },
      { type: 'text', text: 'meanwhile' },
    ])
  })

  test('a named tool that ends stop is a tool turn, truncation stays truncation', () => {
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

  test('names and kinds come back as the client knows them', () => {
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
    const { tools } = chat.call.writeRequest(request, { provider: 'p', model: 'm', quirks: {}, capabilities: {} })
      .body as { tools: { type: string; function: { name: string } }[] }
    expect(tools.map((tool) => tool.type)).toEqual(['function', 'function'])
    const name = tools[1]!.function.name
    expect(name).toMatch(/^[\w-]{1,64}$/)
    const parts = fold(
      read(
        [begin(0, 'a', 'patch', '{"input":"*** Be'), more(0, 'gin"}'), begin(1, 'b', name, '{}'), stop('tool_calls')],
        request,
      ),
    ).parts
    expect(parts).toEqual([
      { type: 'tool-call', id: 'a', name: 'patch', form: 'custom', arguments: '*** Begin' },
      { type: 'tool-call', id: 'b', name: long, form: 'function', arguments: '{}' },
    ])
  })
})

describe('reasoning', () => {
  test('in whichever field, once', () => {
    expect(
      partsOf(
        chunkOf({ reasoning_content: 'A' }),
        chunkOf({ reasoning: 'B', reasoning_content: 'B' }),
        chunkOf({ content: 'x' }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'AB' },
      { type: 'text', text: 'x' },
    ])
    expect(
      partsOf(
        chunkOf({ reasoning: 'A', reasoning_details: [{ type: 'reasoning.text', text: 'A', index: 0 }] }),
        chunkOf({ reasoning: 'B', reasoning_details: [{ type: 'reasoning.text', text: 'B', index: 0 }] }),
        chunkOf({ reasoning_details: [{ type: 'reasoning.text', signature: 'S', index: 0 }] }),
        chunkOf({ content: 'x' }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'AB', signature: { data: 'S' } },
      { type: 'text', text: 'x' },
    ])
    expect(
      partsOf(
        chunkOf({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'D', id: 'rs_1', index: 0 }] }),
        stop(),
      ),
    ).toEqual([{ type: 'reasoning', redacted: true, id: 'rs_1', text: '', signature: { data: 'D' } }])
  })

  test("Mistral's content chunks; think tags are text", () => {
    expect(
      partsOf(
        chunkOf({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] }] }),
        chunkOf({ content: [{ type: 'text', text: 'x' }] }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'Hm' },
      { type: 'text', text: 'x' },
    ])
    expect(partsOf(chunkOf({ content: '<think>a</think>b' }), stop())).toEqual([
      { type: 'text', text: '<think>a</think>b' },
    ])
  })
})

describe('other parts', () => {
  test('images, citations, sources, refusal, log probabilities', () => {
    expect(
      partsOf(chunkOf({ images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }), stop()),
    ).toEqual([{ type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }])
    expect(
      partsOf(
        chunkOf({ content: 'abc' }),
        chunkOf({
          annotations: [
            { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'A', start_index: 1, end_index: 2 } },
          ],
        }),
        chunkOf({ content: 'def' }),
        stop(),
      ),
    ).toMatchObject([{ text: 'abcdef', citations: [{ url: 'https://a.b', title: 'A', start: 1, end: 2 }] }])
    expect(
      partsOf(
        {
          ...chunkOf({ content: 'abc' }),
          citations: ['https://a.b'],
          search_results: [{ url: 'https://a.b', title: 'A' }],
        },
        stop(),
      ),
    ).toMatchObject([{ citations: [{ url: 'https://a.b', title: 'A' }] }])
    expect(partsOf(chunkOf({ refusal: 'No' }), chunkOf({ refusal: '.' }), stop())).toEqual([
      { type: 'refusal', text: 'No.' },
    ])
    expect(
      partsOf(
        chunkOf(
          { content: 'a' },
          {
            logprobs: {
              content: [
                { token: 'a', logprob: -1, bytes: [97], top_logprobs: [{ token: 'b', logprob: -2, bytes: null }] },
              ],
            },
          },
        ),
        stop(),
      ),
    ).toEqual([
      {
        type: 'text',
        text: 'a',
        logprobs: [{ token: 'a', logprob: -1, bytes: [97], top: [{ token: 'b', logprob: -2, bytes: null }] }],
      },
    ])
  })

  test('sound and its transcript', () => {
    expect(
      partsOf(
        chunkOf({ audio: { id: 'x', transcript: 'Hi' } }),
        chunkOf({ audio: { data: 'AA' } }),
        chunkOf({ audio: { data: 'BB', transcript: '!' } }),
        stop(),
      ),
    ).toEqual([
      { type: 'text', text: 'Hi!' },
      { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'AABB' } },
    ])
    expect(partsOf(chunkOf({ audio: { data: 'AA==' } }), chunkOf({ audio: { data: 'AQI=' } }), stop())).toEqual([
      { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'AAEC' } },
    ])
  })
})

describe('usage', () => {
  const usage = (fields: Json): unknown =>
    fold(read([chunkOf({ content: 'x' }), stop(), { choices: [], usage: fields }, '[DONE]'])).usage
  test('reasoning beside the completion is told by the sum', () => {
    expect(
      usage({
        prompt_tokens: 250,
        completion_tokens: 11,
        total_tokens: 483,
        completion_tokens_details: { reasoning_tokens: 222 },
      }),
    ).toMatchObject({ inputTokens: 250, outputTokens: 11, reasoningTokens: 222 })
    expect(
      usage({
        prompt_tokens: 250,
        completion_tokens: 233,
        total_tokens: 483,
        completion_tokens_details: { reasoning_tokens: 222 },
      }),
    ).toMatchObject({ inputTokens: 250, outputTokens: 11, reasoningTokens: 222 })
  })
  test('caches and audio', () => {
    expect(
      usage({ prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 }),
    ).toMatchObject({ inputTokens: 36, cacheReadTokens: 64 })
    expect(
      usage({
        prompt_tokens: 100,
        completion_tokens: 50,
        prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 20, audio_tokens: 30 },
        completion_tokens_details: { audio_tokens: 40 },
      }),
    ).toMatchObject({
      inputTokens: 40,
      cacheReadTokens: 10,
      cacheWrite5mTokens: 20,
      inputAudioTokens: 30,
      outputTokens: 10,
      outputAudioTokens: 40,
    })
    expect(
      usage({
        prompt_tokens: 1,
        completion_tokens: 2,
        prompt_tokens_details: { cached_tokens: 900 },
        completion_tokens_details: { reasoning_tokens: 900 },
      }),
    ).toMatchObject({ inputTokens: 0, outputTokens: 0, reasoningTokens: 2 })
  })
  test('on any chunk, also in x_groq; the finish waits for the chunk after it', () => {
    expect(
      fold(
        read([
          { ...chunkOf({ content: 'x' }), usage: { prompt_tokens: 3, completion_tokens: 1 } },
          { ...stop(), x_groq: { usage: { prompt_tokens: 3, completion_tokens: 2 } } },
        ]),
      ).usage,
    ).toMatchObject({ inputTokens: 3, outputTokens: 2 })
    expect(
      fold(
        read([
          { ...stop(), usage: { prompt_tokens: 3, completion_tokens: 1 } },
          { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } },
          '[DONE]',
        ]),
      ).usage,
    ).toMatchObject({ outputTokens: 2 })
    expect(
      read([stop(), { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }, '[DONE]']).map(
        (event) => event.type,
      ),
    ).toEqual(['start', 'usage', 'finish'])
  })
})

describe('endings', () => {
  const last = (...chunks: (Json | string)[]) => {
    const event = read(chunks).at(-1)!
    return event.type === 'error' ? event.error.code : event.type
  }
  test('[DONE] may be missing, a reason may not', () => {
    expect(last(chunkOf({ content: 'x' }), stop())).toBe('finish')
    expect(last(chunkOf({ content: 'x' }))).toBe('upstream_error')
    expect(last(chunkOf({ content: 'x' }), '[DONE]')).toBe('upstream_error')
    expect(last('[DONE]')).toBe('upstream_error')
    expect(last()).toBe('upstream_error')
    expect(
      last(chunkOf({ content: 'x' }), { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }, '[DONE]'),
    ).toBe('finish')
  })
  test('errors in the stream', () => {
    expect(last(chunkOf({ content: 'x' }), { error: { message: 'Slow down', type: 'rate_limit_error' } }, stop())).toBe(
      'upstream_rate_limited',
    )
    expect(last({ error: { message: 'Busy', code: 503 } })).toBe('overloaded')
    expect(last({ error: { message: 'Odd', type: 'server_error' } })).toBe('upstream_error')
    expect(last({ error: 'down' })).toBe('upstream_error')
    expect(last(chunkOf({ content: 'x' }, { finish_reason: 'error', error: { code: 429, message: 'x' } }))).toBe(
      'upstream_rate_limited',
    )
    expect(last(stop('error'))).toBe('upstream_error')
    expect(last(stop('insufficient_system_resource'))).toBe('overloaded')
  })
  test('a body that is no answer throws', () => {
    for (const body of [null, 'x', [], {}, { choices: [] }, { error: { message: 'x' } }])
      expect(() => chat.call.readAnswer(body, {})).toThrow()
  })
})

test('nothing a server sends breaks the grammar', () => {
  const odd = fc.constantFrom<unknown>(null, '', 'x', 0, -1, [], {}, [null], [{}], { index: null }, true)
  const delta = fc.dictionary(
    fc.constantFrom(
      'content',
      'reasoning',
      'reasoning_content',
      'reasoning_details',
      'tool_calls',
      'function_call',
      'refusal',
      'images',
      'audio',
      'annotations',
      'role',
    ),
    fc.oneof(
      odd,
      fc.string(),
      fc.array(
        fc.record({
          index: fc.constantFrom(0, 1, null),
          id: fc.constantFrom('a', 'b', '', null),
          type: fc.constantFrom(
            'function',
            'custom',
            'reasoning.text',
            'reasoning.encrypted',
            'reasoning.summary',
            null,
          ),
          text: fc.constantFrom('t', '', null),
          data: fc.constantFrom('d', null),
          signature: fc.constantFrom('s', null),
          function: fc.oneof(
            odd,
            fc.record({ name: fc.constantFrom('f', '', null), arguments: fc.constantFrom('{', '}', '{}', '', null) }),
          ),
          custom: odd,
        }),
        { maxLength: 3 },
      ),
    ),
  )
  const chunk = fc.oneof(
    fc.record(
      {
        id: odd,
        model: odd,
        choices: fc.oneof(
          odd,
          fc.array(
            fc.record(
              {
                index: fc.constantFrom(0, 1, null),
                delta: fc.oneof(odd, delta),
                message: odd,
                logprobs: odd,
                finish_reason: fc.constantFrom(null, '', 'stop', 'tool_calls', 'length', 7),
              },
              { requiredKeys: [] },
            ),
            { maxLength: 2 },
          ),
        ),
        usage: fc.oneof(
          odd,
          fc.record({
            prompt_tokens: fc.constantFrom(1, -5, 'x', null, 1e300),
            completion_tokens: odd,
            prompt_tokens_details: odd,
          }),
        ),
        citations: odd,
      },
      { requiredKeys: [] },
    ),
    odd,
    fc.constant('[DONE]'),
    fc.constant('{"cut":'),
  )
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 8 }), (chunks) => {
      read(chunks.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))))
    }),
    { numRuns: 1500 },
  )
})
