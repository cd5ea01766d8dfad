import { expect, test } from 'bun:test'
import { allowedLimit } from '../../src/providers/allowed-limit.ts'

/** Refusals as providers write them, and the limit that each allows. */
const REFUSALS: [message: string, allowed: number | undefined][] = [
  [
    'max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022',
    8_192,
  ],
  ['Invalid max_tokens value, the valid range of max_tokens is [1, 8192]', 8_192],
  ['Range of max_tokens should be [1,16384]', 16_384],
  ['max_tokens is too large: 32768. This model supports at most 16,384 completion tokens.', 16_384],
  ['The maximum tokens you requested exceeds the model limit of 4096.', 4_096],
  ['input length and `max_tokens` exceed context limit: 190000 + 32768 > 200000, decrease one of them', 10_000],
  [
    "'max_tokens' is too large: 32768. This model's maximum context length is 8192 tokens and your request has 20 " +
      'input tokens (32768 > 8192 - 20)',
    8_172,
  ],
  [
    "This model's maximum context length is 8192 tokens. However, you requested 32788 tokens (20 in the messages, " +
      '32768 in the completion). Please reduce the length of the messages or completion.',
    8_172,
  ],
  ['max_tokens is too large', 4_096],
  // Nothing that is worth asking for is left of the context.
  ['input length and `max_tokens` exceed context limit: 199900 + 32768 > 200000', undefined],
  ['prompt is too long: 210000 tokens > 200000 maximum', undefined],
  ['messages.0.content: Field required', undefined],
]

test('the refusal of an output limit says which one is allowed', () => {
  expect(REFUSALS.map(([message]) => [message, allowedLimit(message, 32_768)])).toEqual(REFUSALS)
})

test('the refusal of a limit that every model accepts allows no other', () => {
  expect(allowedLimit('max_tokens is too large', 4_096)).toBeUndefined()
})
