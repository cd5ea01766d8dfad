import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { eventsOf } from '../../translating.ts'
import { chunkOf, partsOf, read, stop, type Json } from './streaming.ts'

/** Streams and responses of chat completions, in all the forms that servers send. */

test.each([
  ['a refusal', { refusal: 'no' }, 'refusal'],
  ['reasoning', { reasoning: 'hm' }, 'content'],
  ['a call', { tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }, 'content'],
])('log probabilities of %s are native to chat completions', (_what, delta, member) => {
  const logprobs = { content: null, [member]: [{ token: 'no', logprob: -1, bytes: null, top_logprobs: [] }] }
  const choice = { message: { content: null, ...delta }, logprobs, finish_reason: 'stop' }
  const native = { type: 'native', protocol: 'chat.completions', kind: 'logprobs', value: undefined }
  expect(fold(eventsOf('chat.completions', { choices: [choice] })).parts.at(-1)).toEqual(native as Part)
  const ofText = { ...choice, message: { content: 'no' }, logprobs: { content: logprobs[member] } }
  expect(fold(eventsOf('chat.completions', { choices: [ofText] })).parts).toHaveLength(1)
})

describe('a message beside a delta', () => {
  const both = (delta: Json, message: Json, more: Json = {}): Json => ({
    id: 'up',
    model: 'm',
    choices: [{ index: 0, delta: { role: 'assistant', ...delta }, message, finish_reason: null, ...more }],
  })
  const message = (content: string): Json => ({ role: 'assistant', content })

  test('a whole body has the message, whatever its delta is', () => {
    for (const delta of [{ content: '' }, {}, { content: 'Hello' }])
      expect(
        fold(eventsOf('chat.completions', both(delta, message('Hello there'), { finish_reason: 'stop' }))).parts,
      ).toEqual([{ type: 'text', text: 'Hello there' }])
  })

  test('a stream has its deltas, and not the message so far again', () => {
    const parts: Part[] = [{ type: 'text', text: 'Hello there' }]
    const streamed = [both({ content: 'Hello' }, message('Hello')), both({ content: ' there' }, message('Hello there'))]
    const end = both({ content: '' }, message('Hello there'), { finish_reason: 'stop' })
    expect(partsOf(...streamed, end)).toEqual(parts)
    const last = { id: 'up', choices: [{ message: message('Hello there') }] }
    expect(partsOf(...streamed, last, stop())).toEqual(parts)
  })

  test('a stream without content in its deltas has the last message', () => {
    const streamed = [both({}, message('Hello')), both({ content: '' }, message('Hello there'))]
    expect(partsOf(...streamed, stop())).toEqual([{ type: 'text', text: 'Hello there' }])
    const { choices } = both({}, message('Hello there'), { finish_reason: 'stop' }) as { choices: Json[] }
    expect(partsOf({ id: 'up', choices: choices.map(({ delta: _, ...choice }) => choice) })).toEqual([
      { type: 'text', text: 'Hello there' },
    ])
  })
})

describe('reasoning', () => {
  test('reasoning is read once, from whichever field has it', () => {
    expect(
      partsOf(
        chunkOf({ reasoning_content: 'A' }),
        chunkOf({ reasoning: 'B', reasoning_content: 'B' }),
        chunkOf({ reasoning_text: 'C' }),
        chunkOf({ content: 'x' }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'ABC' },
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

  test('a signature belongs to the plain reasoning before it, and a detail of another type is its own part', () => {
    const signed = { type: 'reasoning.text', signature: 'S', index: 0 }
    expect(partsOf(chunkOf({ reasoning: 'A' }), chunkOf({ reasoning_details: [signed] }), stop())).toEqual([
      { type: 'reasoning', text: 'A', signature: { data: 'S' } },
    ])
    const summary = { type: 'reasoning.summary', summary: 'A', index: 0 }
    const raw = { type: 'reasoning.text', text: 'B', index: 0 }
    const summarized = chunkOf({ reasoning: 'A', reasoning_details: [summary] })
    expect(partsOf(summarized, chunkOf({ reasoning_details: [raw] }), stop())).toEqual([
      { type: 'reasoning', form: 'summary', text: 'A' },
      { type: 'reasoning', text: 'B' },
    ])
  })

  test('details are read whatever their type and index are', () => {
    const odd = { toString: 1 }
    expect(
      partsOf(
        chunkOf({ reasoning_details: [{ type: odd, text: 'A', index: odd }] }),
        chunkOf({ content: 'x' }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'A' },
      { type: 'text', text: 'x' },
    ])
  })

  test.each([undefined, null, '', 5])('an encrypted detail with data %p is no reasoning', (data) => {
    const detail = { type: 'reasoning.encrypted', data, id: 'rs_1', format: 'anthropic-claude-v1' }
    expect(partsOf(chunkOf({ reasoning_details: [detail] }), chunkOf({ content: 'x' }), stop())).toEqual([
      { type: 'text', text: 'x' },
    ])
  })

  test("Mistral's pieces of content are read, and think tags stay text", () => {
    expect(
      partsOf(
        chunkOf({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }], signature: 'S' }] }),
        chunkOf({ content: [{ type: 'text', text: 'x' }] }),
        stop(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'Hm', signature: { data: 'S' } },
      { type: 'text', text: 'x' },
    ])
    expect(partsOf(chunkOf({ content: '<think>a</think>b' }), stop())).toEqual([
      { type: 'text', text: '<think>a</think>b' },
    ])
  })
})

describe('other parts', () => {
  test('images, citations, sources, refusals and log probabilities become parts', () => {
    for (const url of ['data:image/png;base64,AAAA', 'DATA:Image/PNG;Base64,AAAA'])
      expect(partsOf(chunkOf({ images: [{ type: 'image_url', image_url: { url } }] }), stop())).toEqual([
        { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } },
      ])
    const other = { type: 'image_url', image_url: { url: 'data:application/pdf;base64,AAAA' } }
    expect(partsOf(chunkOf({ images: [other] }), stop())).toEqual([
      { type: 'native', protocol: 'chat.completions', kind: 'image_url', value: other },
    ])
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

  test('audio is one part behind its transcript', () => {
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

describe('the end of a stream', () => {
  const last = (...chunks: (Json | string)[]) => {
    const event = read(chunks).at(-1)!
    return event.type === 'error' ? event.error.code : event.type
  }
  test('a stream without a finish reason is an error, one without [DONE] is not', () => {
    expect(last(chunkOf({ content: 'x' }), stop())).toBe('finish')
    expect(last(chunkOf({ content: 'x' }))).toBe('upstream_error')
    expect(last(chunkOf({ content: 'x' }), '[DONE]')).toBe('upstream_error')
    expect(last('[DONE]')).toBe('upstream_error')
    expect(last()).toBe('upstream_error')
    expect(
      last(chunkOf({ content: 'x' }), { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }, '[DONE]'),
    ).toBe('finish')
  })
  test('an error in the stream gets the code of its type', () => {
    expect(last(chunkOf({ content: 'x' }), { error: { message: 'Slow down', type: 'rate_limit_error' } }, stop())).toBe(
      'upstream_rate_limited',
    )
    expect(last({ error: { message: 'Busy', code: 503 } })).toBe('overloaded')
    expect(last({ object: 'error', message: 'Busy', code: 503 })).toBe('overloaded')
    expect(last({ error: { message: 'Busy', status_code: 503 } })).toBe('overloaded')
    expect(last({ error: { message: 'Odd', type: 'server_error' } })).toBe('upstream_error')
    expect(last({ error: 'down' })).toBe('upstream_error')
    expect(last(chunkOf({ content: 'x' }, { finish_reason: 'error', error: { code: 429, message: 'x' } }))).toBe(
      'upstream_rate_limited',
    )
    expect(last(stop('error'))).toBe('upstream_error')
    expect(last(stop('insufficient_system_resource'))).toBe('overloaded')
  })
  test('an error in the stream has the param of the provider', () => {
    const event = read([{ error: { message: 'Bad', code: 400, param: 'tools' } }]).at(-1)!
    expect(event.type === 'error' && event.error.param).toBe('tools')
  })

  test('a whole body that is an error is thrown with its message', () => {
    for (const error of [
      { error: { message: 'Too long', code: 400 } },
      { object: 'error', message: 'Too long', code: 400 },
    ])
      expect(() => eventsOf('chat.completions', error)).toThrow('Too long')
  })

  test('a body that is not a chat completion is refused', () => {
    for (const body of [null, 'x', [], {}, { choices: [] }, { error: { message: 'x' } }])
      expect(() => eventsOf('chat.completions', body)).toThrow()
  })
})

test('whatever a server sends, the events keep the grammar', () => {
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

test('a choice whose index is null or missing is the first one', () => {
  for (const index of [{ index: null }, {}]) {
    const choice = { ...index, delta: { content: 'Hello' }, finish_reason: 'stop' }
    expect(partsOf({ id: 'up', choices: [choice] })).toEqual([{ type: 'text', text: 'Hello' }])
  }
})
