import { expect, test } from 'bun:test'
import { requestedOutput } from '../../src/protocols/requested-output.ts'

/** The output that the members of a body may ask for at some server. */

const CHAT = ['max_completion_tokens', 'max_tokens']
const tokens = (body: object): number | 'unlimited' => {
  const requested = requestedOutput(body as Record<string, unknown>, CHAT)
  return requested.unlimited ? 'unlimited' : requested.tokens
}
const count = (body: object): number => requestedOutput(body as Record<string, unknown>, CHAT).count

test('a limit counts under every name that a server may read', () => {
  const names = [
    ...[
      'Max_Tokens',
      'MAX_TOKENS',
      'maxTokens',
      'max-tokens',
      'max_to\u212aens',
      'max_token\u017f',
      'max_tokens_to_sample',
    ],
    ...['n_predict', 'num_predict', 'max_length', 'max_new_tokens', 'max_gen_len', 'max_gen_toks', 'maxTokenCount'],
    ...['max_output_tokens', 'maxOutputTokens', 'num_tokens', 'token_limit', 'max_decode_length', 'max_answer_tokens'],
    ...['tokens_to_generate', 'new_tokens', 'output_tokens', 'response_length', 'gen_length', 'length', 'limit'],
  ]
  expect(names.filter((name) => tokens({ max_tokens: 1, [name]: 5_000 }) !== 5_000)).toEqual([])
  expect(tokens({ max_tokens: 1, n_predict: '5000', max_length: 4_000.5 })).toBe(5_000)
})

test('a limit counts inside the members in which servers have their own options', () => {
  for (const body of [
    { options: { num_predict: 5_000 } },
    { extra_body: { max_tokens: 5_000 } },
    { extra_body: { options: { NUM_PREDICT: 5_000 } } },
    { parameters: { max_new_tokens: 5_000 } },
    { generationConfig: { maxOutputTokens: 1, Max_Output_Tokens: 5_000 } },
    { reasoning: { max_tokens: 5_000 } },
    { thinking: { type: 'enabled', budget_tokens: 5_000 } },
    { options: [{ name: 'a' }, { num_predict: 5_000 }] },
    { options: '{"num_predict":5000}' },
    { extra_body: '[{"options":{"max_tokens":5000}}]' },
    { max_words: 1_250 },
  ])
    expect([body, tokens(body)]).toEqual([body, 5_000])
})

test('a server without a limit is meant by 0, -1, and null under another spelling of the own name', () => {
  for (const body of [{ n_predict: -1 }, { num_predict: 0 }, { Max_Tokens: null }, { options: { max_tokens: -1 } }])
    expect([body, tokens({ max_tokens: 1, ...body })]).toEqual([body, 'unlimited'])
  for (const body of [{ max_tokens: null }, { max_tokens: 0 }, { max_new_tokens: null }, { thinkingBudget: -1 }])
    expect([body, tokens({ max_completion_tokens: 1, ...body })]).toEqual([body, 1])
})

test('members of other meanings are no limits', () => {
  expect(
    requestedOutput({
      model: 'max_tokens',
      max_prompt_tokens: 5_000,
      truncate_prompt_tokens: 5_000,
      num_ctx: 5_000,
      max_context_length: 5_000,
      add_special_tokens: true,
      stop_token_ids: [5_000],
      length_penalty: 5,
      max_tool_calls: 5_000,
      top_k: 5_000,
      seed: 5_000,
      metadata: { max_tokens: 5_000, n: 5 },
      response_format: { json_schema: { schema: { maxLength: 5_000 } } },
      text: { format: { schema: { max_length: 5_000 } } },
      guided_json: { maxLength: 5_000 },
      logit_bias: { 5_000: 1 },
      messages: [{ max_tokens: 5_000 }],
      tools: [{ function: { parameters: { properties: { max_tokens: 5_000, n: 7 } } } }],
    }),
  ).toEqual({ tokens: 0, unlimited: false, count: 1, predicted: 0, classes: [] })
})

test('responses and images are counted under every name, and the largest number counts', () => {
  const names = [
    ...['n', 'N', 'best_of', 'bestOf', 'candidateCount', 'candidate_count', 'numberOfImages', 'num_images'],
    ...['num_outputs', 'num_return_sequences', 'sampleCount', 'num_completions', 'n_choices', 'batch_size'],
  ]
  expect(names.filter((name) => count({ [name]: 4 }) !== 4)).toEqual([])
  expect(count({ n: 2, best_of: 5, options: { n: 3 } })).toBe(5)
  expect(count({ n: null, best_of: 'x', candidateCount: -3 })).toBe(1)
})

test('a predicted response counts with its length', () => {
  expect(requestedOutput({ prediction: { type: 'content', content: 'word '.repeat(100) } }).predicted).toBeGreaterThan(
    500,
  )
})
