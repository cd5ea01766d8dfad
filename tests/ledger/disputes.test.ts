import { describe, expect, test } from 'bun:test'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../src/generation/usage.ts'
import { credible, disputeText } from '../../src/ledger/disputes.ts'

const usage = (counts: Partial<Usage>): Usage => ({ ...noUsage(), ...counts })
const HELD = usage({ inputTokens: 50, outputTokens: 100 })

describe('reported usage', () => {
  test('within the output limit is charged as it is', () => {
    const reported = usage({ inputTokens: 40, cacheReadTokens: 300, outputTokens: 60, reasoningTokens: 40 })
    expect(credible(reported, { worst: HELD })).toEqual({ usage: reported })
  })

  test('above the output limit is charged as the limit, in the bucket that has most of it', () => {
    const reported = usage({ inputTokens: 40, outputTokens: 1, reasoningTokens: 100 })
    const { usage: charged, disputed } = credible(reported, { worst: HELD })
    expect(charged).toEqual(usage({ inputTokens: 40, reasoningTokens: 100 }))
    expect(disputed).toEqual({ outputTokens: 1, reasoningTokens: 100 })
  })

  test('of a prompt far above the size of the request is charged as it was held', () => {
    const reported = usage({ inputTokens: 1_000, cacheReadTokens: 400_000_000, outputTokens: 5 })
    const { usage: charged, disputed } = credible(reported, { worst: HELD })
    expect([promptTokens(charged), completionTokens(charged)]).toEqual([50, 5])
    expect(disputed).toEqual({ inputTokens: 1_000, cacheReadTokens: 400_000_000 })
  })

  test('may have the instructions of the provider, and the results of its tools', () => {
    const found = usage({ inputTokens: 300_000, outputTokens: 5, webSearches: 12 })
    expect(credible(found, { worst: HELD })).toEqual({ usage: found })
  })

  test('of thousands of searches is charged as they were held', () => {
    expect(credible(usage({ webSearches: 10_000 }), { worst: { ...HELD, webSearches: 10 } })).toEqual({
      usage: usage({ webSearches: 10 }),
      disputed: { webSearches: 10_000 },
    })
  })

  test('of millions of tokens of an image tool is charged as they were held', () => {
    const held = { ...HELD, imageToolInputTokens: 4_000, imageToolOutputImageTokens: 30_000 }
    const drawn = usage({ imageToolInputTokens: 9_000, imageToolOutputImageTokens: 991_000 })
    expect(credible(drawn, { worst: HELD })).toEqual({ usage: drawn })
    const reported = usage({ imageToolInputTokens: 9_000, imageToolOutputImageTokens: 900_000_000 })
    expect(credible(reported, { worst: held })).toEqual({
      usage: usage({ imageToolInputTokens: 4_000, imageToolOutputImageTokens: 30_000 }),
      disputed: { imageToolInputTokens: 9_000, imageToolOutputImageTokens: 900_000_000 },
    })
  })

  test('of a provider that may run tools may exceed the limit of each of its turns', () => {
    const turns = usage({ inputTokens: 50, outputTokens: 900 })
    expect(credible(turns, { worst: HELD, hasTools: true })).toEqual({ usage: turns })
    expect(credible(turns, { worst: { ...HELD, webSearches: 1 } })).toEqual({ usage: turns })
    expect(credible(usage({ outputTokens: 1_001 }), { worst: HELD, hasTools: true }).usage.outputTokens).toBe(100)
  })

  test('may exceed a limit that was only assumed', () => {
    const assumed = usage({ inputTokens: 50, outputTokens: 32_768 })
    expect(credible(usage({ outputTokens: 120_000 }), { worst: assumed }).disputed).toBeUndefined()
    expect(credible(usage({ outputTokens: 900_000_000 }), { worst: assumed }).usage.outputTokens).toBe(32_768)
  })
})

test('the operator reads which provider reported what, and what is charged', () => {
  const { usage: charged, disputed } = credible(usage({ outputTokens: 900 }), { worst: HELD })
  expect(disputeText('ab', 'acme', disputed!, charged)).toBe(
    'Disputed usage of generation ab: acme reported outputTokens 900, more than was asked for. ' +
      'It is charged as outputTokens 100.',
  )
})
