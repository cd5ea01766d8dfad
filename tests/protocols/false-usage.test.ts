import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName } from '../../src/generation/request.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { MAX_USD } from '../../src/config/model-settings.ts'
import { FEE_ITEMS, isCounted } from '../../src/config/terms.ts'
import type { Price } from '../../src/ledger/prices.ts'
import { nanoOf } from '../../src/money.ts'
import { rate } from '../../src/ledger/rating.ts'
import { read } from './usage-reports.ts'

describe('a false usage report', () => {
  const NAMES: Record<ConversationName, { sums: string[]; details: Record<string, string[]> }> = {
    'chat.completions': {
      sums: [
        'prompt_tokens',
        'completion_tokens',
        'total_tokens',
        'cached_tokens',
        'reasoning_tokens',
        'num_search_queries',
        'prompt_cache_hit_tokens',
      ],
      details: {
        prompt_tokens_details: ['cached_tokens', 'cache_write_tokens', 'audio_tokens'],
        completion_tokens_details: ['reasoning_tokens', 'audio_tokens', 'image_tokens'],
        server_tool_use: ['web_search_requests'],
      },
    },
    responses: {
      sums: ['input_tokens', 'output_tokens', 'total_tokens'],
      details: {
        input_tokens_details: ['cached_tokens', 'cache_write_tokens', 'audio_tokens', 'web_search'],
        output_tokens_details: ['reasoning_tokens', 'audio_tokens'],
      },
    },
    messages: {
      sums: ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'],
      details: {
        cache_creation: ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'],
        output_tokens_details: ['thinking_tokens'],
        server_tool_use: ['web_search_requests'],
      },
    },
    generateContent: {
      sums: [
        'promptTokenCount',
        'candidatesTokenCount',
        'thoughtsTokenCount',
        'toolUsePromptTokenCount',
        'cachedContentTokenCount',
        'totalTokenCount',
      ],
      details: {},
    },
  }
  const value = fc.oneof(
    fc.nat(2000),
    fc.constantFrom<unknown>(
      -1,
      -0,
      0.5,
      Number.NaN,
      Infinity,
      1e308,
      1e9,
      1e12,
      2 ** 53,
      -(2 ** 63),
      '12',
      null,
      true,
      [],
      {},
      [7],
    ),
  )
  const usageOf = ({ sums, details }: (typeof NAMES)[ConversationName]): fc.Arbitrary<unknown> =>
    fc.record(
      {
        ...Object.fromEntries(sums.map((name) => [name, value])),
        ...Object.fromEntries(
          Object.entries(details).map(([name, inner]) => [
            name,
            fc.oneof(value, fc.record(Object.fromEntries(inner.map((one) => [one, value])), { requiredKeys: [] })),
          ]),
        ),
      },
      { requiredKeys: [] },
    )

  const HIGHEST_PRICE: Price = {
    version: 'v',
    model: 'm',
    rates: Object.fromEntries(
      FEE_ITEMS.map((item) => [
        item,
        { base: nanoOf(isCounted(item) ? MAX_USD.perOne : MAX_USD.perMillionTokens), tiers: [] },
      ]),
    ),
  }

  test.each(Object.keys(NAMES) as ConversationName[])(
    'of %s is never negative and never beyond the integers of the database',
    (protocol) => {
      fc.assert(
        fc.property(usageOf(NAMES[protocol]), (report) => {
          const usage = read(protocol, report)
          for (const [bucket, quantity] of Object.entries(usage))
            expect([bucket, Number.isSafeInteger(quantity) && quantity >= 0]).toEqual([bucket, true])
          const { bill } = rate(usage, HIGHEST_PRICE, 0)
          expect(bill >= 0n && bill < 2n ** 63n).toBe(true)
        }),
        { numRuns: 500 },
      )
    },
  )

  test('has no detail above its sum', () => {
    expect(
      read('chat.completions', {
        prompt_tokens: 10,
        completion_tokens: 4,
        prompt_tokens_details: { cached_tokens: 900, cache_write_tokens: 900, audio_tokens: 900 },
        completion_tokens_details: { audio_tokens: 900, image_tokens: 900 },
      }),
    ).toEqual({ ...noUsage(), cacheReadTokens: 10, outputAudioTokens: 4 })
    expect(
      read('generateContent', { promptTokenCount: 10, candidatesTokenCount: 4, cachedContentTokenCount: 900 }),
    ).toEqual({ ...noUsage(), cacheReadTokens: 10, outputTokens: 4 })
    expect(
      read('messages', { input_tokens: 10, output_tokens: 4, output_tokens_details: { thinking_tokens: 900 } }),
    ).toEqual({ ...noUsage(), inputTokens: 10, reasoningTokens: 4 })
  })
})
