import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../src/generation/usage.ts'
import { streamedEventsOf } from '../translating.ts'
import { read, type Json } from './usage-reports.ts'

/** Usage reports of providers as buckets, which add up to the provider's sums. */

const streamed = (protocol: ConversationName, bodies: Json[]): Usage => {
  const frames = bodies.map((body) => ({
    ...(typeof body.type === 'string' ? { event: body.type } : {}),
    data: JSON.stringify(body),
  }))
  return fold(streamedEventsOf(protocol, frames)).usage
}

describe('the buckets of a usage report', () => {
  const tokens = fc.nat(1_000_000)

  test('chat completions counts cached and audio tokens within the prompt, reasoning within the completion', () => {
    fc.assert(
      fc.property(
        fc.array(tokens, { minLength: 8, maxLength: 8 }),
        ([text, cached, written, audio, output, reasoning, audioOut, images]) => {
          const prompt = text! + cached! + written! + audio!,
            completion = output! + reasoning! + audioOut! + images!
          expect(
            read('chat.completions', {
              prompt_tokens: prompt,
              completion_tokens: completion,
              total_tokens: prompt + completion,
              prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written, audio_tokens: audio },
              completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: audioOut, image_tokens: images },
            }),
          ).toEqual({
            ...noUsage(),
            inputTokens: text!,
            cacheReadTokens: cached!,
            cacheWrite5mTokens: written!,
            inputAudioTokens: audio!,
            outputTokens: output!,
            reasoningTokens: reasoning!,
            outputAudioTokens: audioOut!,
            outputImageTokens: images!,
          })
        },
      ),
    )
  })

  test('chat completions may count hits and misses of a cache', () => {
    expect(
      read('chat.completions', {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_cache_hit_tokens: 64,
        prompt_cache_miss_tokens: 36,
      }),
    ).toMatchObject({ inputTokens: 36, cacheReadTokens: 64, outputTokens: 5 })
  })

  test('responses counts cached tokens within the input and reasoning within the output', () => {
    fc.assert(
      fc.property(fc.array(tokens, { minLength: 5, maxLength: 5 }), ([text, cached, written, visible, reasoning]) => {
        const input = text! + cached! + written!,
          output = visible! + reasoning!
        expect(
          read('responses', {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input + output,
            input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
            output_tokens_details: { reasoning_tokens: reasoning },
          }),
        ).toEqual({
          ...noUsage(),
          inputTokens: text!,
          cacheReadTokens: cached!,
          cacheWrite5mTokens: written!,
          outputTokens: visible!,
          reasoningTokens: reasoning!,
        })
      }),
    )
  })

  test('messages counts cached tokens beside the input and thinking within the output', () => {
    fc.assert(
      fc.property(
        fc.array(tokens, { minLength: 6, maxLength: 6 }),
        ([text, cached, short, long, output, reasoning]) => {
          const usage = read('messages', {
            input_tokens: text,
            cache_read_input_tokens: cached,
            cache_creation_input_tokens: short! + long!,
            cache_creation: { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long },
            output_tokens: output! + reasoning!,
            output_tokens_details: { thinking_tokens: reasoning },
          })
          expect(promptTokens(usage)).toBe(text! + cached! + short! + long!)
          expect(usage).toMatchObject(
            promptTokens(usage) === 0
              ? {}
              : { inputTokens: text!, cacheReadTokens: cached!, cacheWrite5mTokens: short!, cacheWrite1hTokens: long! },
          )
          expect(usage).toMatchObject({ outputTokens: output!, reasoningTokens: reasoning! })
        },
      ),
    )
  })

  test('generateContent counts reasoning and tool prompts beside, cached tokens within the prompt', () => {
    fc.assert(
      fc.property(fc.array(tokens, { minLength: 5, maxLength: 5 }), ([text, cached, tools, output, reasoning]) => {
        const prompt = text! + cached!
        const totalTokenCount = prompt + tools! + output! + reasoning!
        const usage = read('generateContent', {
          promptTokenCount: prompt,
          cachedContentTokenCount: cached,
          toolUsePromptTokenCount: tools,
          candidatesTokenCount: output,
          thoughtsTokenCount: reasoning,
          totalTokenCount,
        })
        expect(usage).toEqual({
          ...noUsage(),
          inputTokens: text! + tools!,
          cacheReadTokens: cached!,
          outputTokens: output!,
          reasoningTokens: reasoning!,
        })
        expect(promptTokens(usage) + completionTokens(usage)).toBe(totalTokenCount)
      }),
    )
  })
})

describe('the usage of a stream', () => {
  const start = (usage: Json): Json => ({ type: 'message_start', message: { id: 'a', model: 'm', content: [], usage } })
  const delta = (usage: Json, stop: string | null = 'end_turn'): Json => ({
    type: 'message_delta',
    delta: { stop_reason: stop },
    usage,
  })
  const STOP: Json = { type: 'message_stop' }

  test('messages: input that a server tool adds is in the last event only', () => {
    expect(
      streamed('messages', [
        start({ input_tokens: 2679, output_tokens: 3 }),
        delta({ input_tokens: 10682, output_tokens: 510, server_tool_use: { web_search_requests: 1 } }),
        STOP,
      ]),
    ).toEqual({ ...noUsage(), inputTokens: 10682, outputTokens: 510, webSearches: 1 })
  })

  test('messages: a last event with fewer members keeps the earlier values', () => {
    expect(
      streamed('messages', [
        start({ input_tokens: 7, cache_read_input_tokens: 100, cache_creation_input_tokens: 20, output_tokens: 1 }),
        delta({ output_tokens: 4 }, null),
        delta({ output_tokens: 9 }),
        STOP,
      ]),
    ).toEqual({ ...noUsage(), inputTokens: 7, cacheReadTokens: 100, cacheWrite5mTokens: 20, outputTokens: 9 })
  })

  test('messages: what summaries wrote to the cache has the lifetime that they report', () => {
    const summary = (written: number, lifetimes: unknown): Json => ({
      type: 'compaction',
      input_tokens: 100,
      output_tokens: 20,
      cache_creation_input_tokens: written,
      cache_creation: lifetimes,
    })
    const hour = { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 30 }
    expect(
      read('messages', {
        input_tokens: 1,
        output_tokens: 2,
        cache_creation_input_tokens: 7,
        cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 3 },
        iterations: [summary(40, hour), summary(5, null), { type: 'message', input_tokens: 1, output_tokens: 2 }],
      }),
    ).toEqual({ ...noUsage(), inputTokens: 201, cacheWrite5mTokens: 19, cacheWrite1hTokens: 33, outputTokens: 42 })
    // A part is never more than its whole.
    expect(read('messages', { input_tokens: 1, output_tokens: 2, iterations: [summary(12, hour)] })).toMatchObject({
      cacheWrite5mTokens: 0,
      cacheWrite1hTokens: 12,
    })
  })

  test('generateContent: the last running total counts', () => {
    const chunk = (usageMetadata: Json, more: Json = {}): Json => ({
      responseId: 'g',
      candidates: [{ content: { parts: [{ text: 'w' }] }, ...more }],
      usageMetadata,
    })
    expect(
      streamed('generateContent', [
        chunk({ promptTokenCount: 8, totalTokenCount: 8 }),
        chunk({ promptTokenCount: 8, candidatesTokenCount: 2, totalTokenCount: 10 }),
        chunk(
          { promptTokenCount: 8, candidatesTokenCount: 5, thoughtsTokenCount: 3, totalTokenCount: 16 },
          { finishReason: 'STOP' },
        ),
      ]),
    ).toEqual({ ...noUsage(), inputTokens: 8, outputTokens: 5, reasoningTokens: 3 })
  })

  test("generateContent: the tokens of Google's own tools are counted once, as the total says", () => {
    const chunk = (usageMetadata: Json, more: Json = {}): Json => ({
      responseId: 'g',
      candidates: [{ content: { parts: [{ text: 'w' }] }, ...more }],
      usageMetadata,
    })
    const last = { finishReason: 'STOP' }
    const first = chunk({ promptTokenCount: 8, toolUsePromptTokenCount: 90, totalTokenCount: 98 })
    for (const usage of [
      { promptTokenCount: 98, candidatesTokenCount: 5, totalTokenCount: 103 },
      { promptTokenCount: 8, toolUsePromptTokenCount: 90, candidatesTokenCount: 5, totalTokenCount: 103 },
      { promptTokenCount: 8, candidatesTokenCount: 5, totalTokenCount: 103 },
    ])
      expect(streamed('generateContent', [first, chunk(usage, last)])).toEqual({
        ...noUsage(),
        inputTokens: 98,
        outputTokens: 5,
      })
  })

  test('generateContent: reasoning inside the candidates is known by the total', () => {
    const counts = { promptTokenCount: 8, candidatesTokenCount: 30, thoughtsTokenCount: 20 }
    expect(read('generateContent', { ...counts, totalTokenCount: 38 })).toMatchObject({
      outputTokens: 10,
      reasoningTokens: 20,
    })
    expect(read('generateContent', { ...counts, totalTokenCount: 58 })).toMatchObject({
      outputTokens: 30,
      reasoningTokens: 20,
    })
  })
})

test("xAI's searches of the web and of X are searches", () => {
  const details = { web_search_calls: 2, x_search_calls: 3, code_interpreter_calls: 1 }
  const responses = { input_tokens: 1, output_tokens: 1, total_tokens: 2, server_side_tool_usage_details: details }
  const chat = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, server_side_tool_usage_details: details }
  expect(read('responses', responses).webSearches).toBe(5)
  expect(read('chat.completions', chat).webSearches).toBe(5)
  expect(read('chat.completions', { ...chat, num_search_queries: 4 }).webSearches).toBe(4)
})
