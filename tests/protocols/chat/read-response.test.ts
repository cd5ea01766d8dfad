import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { eventsOf } from '../../translating.ts'
import { chunkOf, partsOf, read, stop, type Json } from './streaming.ts'

/** Streams and responses of chat completions, in all the forms that servers send. */

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

  test("Mistral's pieces of content are read, and think tags stay text", () => {
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
  test('images, citations, sources, refusals and log probabilities become parts', () => {
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

describe('usage', () => {
  const usage = (fields: Json): unknown =>
    fold(read([chunkOf({ content: 'x' }), stop(), { choices: [], usage: fields }, '[DONE]'])).usage
  test('reasoning tokens beside the completion are recognised by the total', () => {
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
  test('reasoning tokens that are charged apart are beside the completion', () => {
    const counts = { prompt_tokens: 33, completion_tokens: 11_395, total_tokens: 11_428, reasoning_tokens: 193_947 }
    const apart = { inputTokens: 33, outputTokens: 11_395, reasoningTokens: 193_947, webSearches: 21 }
    expect(usage({ ...counts, citation_tokens: 19_028, num_search_queries: 21 })).toMatchObject(apart)
    const cost = { input_tokens_cost: 0, output_tokens_cost: 0.091, reasoning_tokens_cost: 0.582 }
    expect(usage({ ...counts, num_search_queries: 21, cost })).toMatchObject(apart)
    // Of a server that says neither, a part is never more than its whole.
    const uncharged = { citation_tokens: null, cost: { output_tokens_cost: 0.1, reasoning_tokens_cost: null } }
    expect(usage({ ...counts, completion_tokens: 10, reasoning_tokens: 11, ...uncharged })).toMatchObject({
      outputTokens: 0,
      reasoningTokens: 10,
    })
  })
  test('reasoning tokens that only the total counts are recognised where nothing else is named', () => {
    const counts = { prompt_tokens: 7, completion_tokens: 12, total_tokens: 402 }
    expect(usage(counts)).toMatchObject({ inputTokens: 7, outputTokens: 12, reasoningTokens: 383 })
    expect(usage({ ...counts, completion_tokens: 0, total_tokens: 8 })).toMatchObject({
      outputTokens: 0,
      reasoningTokens: 1,
    })
    expect(usage({ ...counts, prompt_tokens_details: { cached_tokens: 3 } })).toMatchObject({ reasoningTokens: 0 })
    expect(usage({ ...counts, total_tokens: 1 })).toMatchObject({
      inputTokens: 7,
      outputTokens: 12,
      reasoningTokens: 0,
    })
  })
  test('usage in the last choice of a stream is read', () => {
    const last = {
      ...stop(),
      choices: [{ ...(stop().choices as Json[])[0]!, usage: { prompt_tokens: 19, completion_tokens: 13 } }],
    }
    expect(fold(read([chunkOf({ content: 'x' }), last, '[DONE]']))).toMatchObject({
      metered: true,
      usage: { inputTokens: 19, outputTokens: 13 },
    })
  })
  test('audio tokens beside the prompt are recognised by the total', () => {
    const details = { audio_tokens: 375, cached_tokens: 9 }
    const counts = { prompt_tokens: 11, completion_tokens: 15, prompt_tokens_details: details }
    expect(usage({ ...counts, total_tokens: 401 })).toMatchObject({
      inputTokens: 2,
      cacheReadTokens: 9,
      inputAudioTokens: 375,
      outputTokens: 15,
    })
    expect(usage({ ...counts, prompt_tokens: 386, total_tokens: 401 })).toMatchObject({
      inputTokens: 2,
      cacheReadTokens: 9,
      inputAudioTokens: 375,
    })
  })
  test('cached and audio tokens are counted once, and never exceed the whole', () => {
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
  test('usage is read from any chunk, and the finish waits for the usage chunk', () => {
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
    expect(last({ error: { message: 'Odd', type: 'server_error' } })).toBe('upstream_error')
    expect(last({ error: 'down' })).toBe('upstream_error')
    expect(last(chunkOf({ content: 'x' }, { finish_reason: 'error', error: { code: 429, message: 'x' } }))).toBe(
      'upstream_rate_limited',
    )
    expect(last(stop('error'))).toBe('upstream_error')
    expect(last(stop('insufficient_system_resource'))).toBe('overloaded')
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
