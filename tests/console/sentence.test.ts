import { describe, expect, test } from 'bun:test'
import type { RequestRow } from '../../console/api/answers.ts'
import type { Attempt } from '../../console/pages/request/detail.ts'
import { OUTCOMES as ALL } from '../../src/ledger/outcomes.ts'
import { OUTCOMES } from '../../console/parts/outcomes.ts'
import { adviceOf, outcomeSentence, outcomeWords } from '../../console/pages/request/sentence.ts'

const row = (changes: Partial<RequestRow>): RequestRow => ({
  id: '01',
  public_id: 'msg_01',
  at: '2026-11-22T09:35:26.638Z',
  account: { id: 'a1', name: 'default' },
  key: { id: 'k1', name: 'ci' },
  api: 'messages',
  model: 'acme/large',
  provider: 'acme',
  client: 'claude-cli/2.1',
  outcome: 'completed',
  finish_reason: 'stop',
  error: null,
  streamed: true,
  first_token_ms: 414,
  total_ms: 719,
  tries: 1,
  losses: 0,
  estimated: false,
  tokens: { input: 812, cache_read: 0, cache_write: 0, output: 105, reasoning: 0 },
  cost_usd: '0.005211',
  flows: null,
  bodies: false,
  ...changes,
})
const attempt = (provider: string, status: number | null, code = 'upstream_error'): Attempt => ({
  provider,
  model: 'large',
  protocol: 'messages',
  started_ms: 0,
  duration_ms: 9,
  status,
  error: { code, message: null },
})
const error = (code: string, message: string): Pick<RequestRow, 'error'> => ({ error: { code, message } })
const free = { cost_usd: '0', tokens: { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 } }

describe('the sentence about a request', () => {
  test('it says who answered, after which failures, and what it cost', () => {
    expect(outcomeSentence(row({}))).toBe('Answered by acme in 719 ms. It cost 0.005211 USD.')
    expect(outcomeSentence(row({ losses: 2, cost_usd: '0' }))).toBe(
      'Answered by acme in 719 ms; translation changed 2 things of it. It was free.',
    )
    expect(outcomeSentence(row({ tries: 3 }), [attempt('other', 529), attempt('other', 529)])).toBe(
      'Answered by acme in 719 ms, after other answered 529 twice. It cost 0.005211 USD.',
    )
    expect(outcomeSentence(row({ cost_usd: null, flows: 1 }))).toContain('It used 1 flow of the subscription.')
  })

  test('a failure names each endpoint that was tried', () => {
    const failed = row({ outcome: 'failed', ...free, first_token_ms: null, ...error('upstream_error', 'acme is down') })
    expect(outcomeSentence(failed, [attempt('acme', 529), attempt('acme', 529)])).toBe(
      'acme answered 529 twice. No other endpoint serves acme/large. Nothing was charged.',
    )
    expect(outcomeSentence(failed, [attempt('acme', 500), attempt('b', null, 'upstream_timeout')])).toBe(
      'acme answered 500, b did not answer in time. Nothing was charged.',
    )
    expect(outcomeSentence(failed)).toBe('acme is down. Nothing was charged.')
  })

  test('a prediction fails at a provider that could be reached', () => {
    const failed = row({ api: 'predictions', outcome: 'failed', ...free, first_token_ms: null })
    const sentence = (...statuses: (number | null)[]): string =>
      outcomeSentence(
        failed,
        statuses.map((status) => attempt('acme', status)),
      )
    expect(sentence(null)).toBe('The prediction failed at acme. Nothing was charged.')
    expect(sentence(503, null)).toBe('acme answered 503; the prediction failed at acme. Nothing was charged.')
    expect(sentence(503)).toBe('acme answered 503. No other endpoint serves acme/large. Nothing was charged.')
  })

  test('an answer that broke off is no failure without a reason', () => {
    const broken = row({ outcome: 'failed' })
    expect(outcomeSentence(broken)).toBe('The answer of acme broke off after 719 ms. It cost 0.005211 USD.')
    const failures = [
      attempt('other', 529),
      { ...attempt('acme', null), error: { code: 'x', message: 'reset by peer' } },
    ]
    expect(outcomeSentence({ ...broken, ...error('x', 'reset by peer') }, failures)).toBe(
      'The answer of acme broke off after 719 ms, after other answered 529. It cost 0.005211 USD.',
    )
    expect(outcomeSentence(row({ outcome: 'timed-out' }), [attempt('acme', null, 'upstream_timeout')])).toBe(
      'The answer of acme broke off after 719 ms. It cost 0.005211 USD.',
    )
    expect(outcomeSentence({ ...broken, ...free, first_token_ms: null })).toBe(
      'acme sent no answer that could be read. Nothing was charged.',
    )
    expect(adviceOf(broken)).toEqual([{ text: 'See acme', to: '/providers' }])
  })

  test('every outcome has a sentence', () => {
    const outcomes = OUTCOMES.filter((outcome) => outcome !== 'completed')
    for (const outcome of outcomes) expect(outcomeSentence(row({ outcome, ...free }))).toMatch(/^[A-Za-z].{10,}\.$/)
  })

  test('the outcomes of the ledger are all known, beside open and refused requests', () => {
    expect([...OUTCOMES].sort()).toEqual([...Object.keys(ALL), 'open', 'refused'].sort() as (typeof OUTCOMES)[number][])
  })

  test('a refusal for money leads to the limit of its key and to the credit of its account', () => {
    const refused = row({ outcome: 'refused', ...error('insufficient_credit', 'The balance is too low.') })
    expect(adviceOf(refused).map(({ to }) => to)).toEqual(['/accounts/a1'])
    const limited = row({
      outcome: 'refused',
      ...error('insufficient_credit', "$1 is left of this key's limit of $2."),
    })
    expect(adviceOf(limited).map(({ to }) => to)).toEqual(['/keys/k1?change=limit'])
    const exhausted = row({ outcome: 'exhausted' })
    expect(adviceOf(exhausted).map(({ to }) => to)).toEqual(['/keys/k1?change=limit', '/accounts/a1'])
    const off = 'The model a/b is not available on this server; for its operator: set A_API_KEY.'
    const unknown = row({ outcome: 'refused', ...error('model_not_found', off) })
    expect(adviceOf(unknown).map(({ to }) => to)).toEqual(['/providers', '/models'])
    expect(adviceOf(row({}))).toEqual([])
  })

  test('a list has words only for what is not plainly completed', () => {
    expect(outcomeWords(row({}))).toEqual([])
    expect(outcomeWords(row({ outcome: 'failed', tries: 2, losses: 1 })).map(({ text }) => text)).toEqual([
      'failed',
      '2 attempts',
      '1 lost',
    ])
    const failed = row({ outcome: 'failed', tries: 2, ...error('context_length_exceeded', 'too long') })
    expect(outcomeWords(failed).map(({ text, filter: { field } }) => `${field}: ${text}`)).toEqual([
      'outcome: failed',
      'code: context_length_exceeded',
      'retried: 2 attempts',
    ])
    expect(outcomeWords(row({ outcome: 'refused', ...error('quota_exceeded', '') }))).toEqual([
      { text: 'refused', tone: 'refused', filter: { field: 'outcome', value: 'refused' } },
      { text: 'quota_exceeded', tone: 'refused', filter: { field: 'code', value: 'quota_exceeded' } },
    ])
  })
})
