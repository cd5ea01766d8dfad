import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { chunkOf, read, stop, type Json } from './streaming.ts'

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
    // Where a server reports neither, a part is never more than its whole.
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
