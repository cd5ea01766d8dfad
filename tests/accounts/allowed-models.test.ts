import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { allowedModels } from '../../src/accounts/allowed-models.ts'

test.each([
  ['openai/*', ['openai/gpt-5', 'openai/', 'openai/a/b'], ['openai', 'xopenai/gpt-5', 'azure/openai/gpt-5', '']],
  [
    'anthropic/claude-*',
    ['anthropic/claude-', 'anthropic/claude-opus-5'],
    ['anthropic/claude', 'anthropic/Claude-opus-5'],
  ],
  ['fast', ['fast'], ['faster', 'my/fast', 'fas']],
  ['*', ['anything/at:all', ''], []],
  ['*/gpt-*:batch', ['openai/gpt-5:batch'], ['openai/gpt-5', 'gpt-5:batch']],
  ['ab*ba', ['abba', 'abxba', 'ababa'], ['aba', 'ab', 'ba']],
  ['a.c', ['a.c'], ['abc']],
])('the pattern %s allows exactly the models it matches', (pattern, allowed, refused) => {
  const allows = allowedModels([pattern])
  expect(allowed.filter((model) => !allows(model))).toEqual([])
  expect(refused.filter(allows)).toEqual([])
})

test('a model is allowed where one of several patterns matches', () => {
  const allows = allowedModels(['openai/*', 'fast'])
  expect(['openai/x', 'fast', 'acme/x'].map(allows)).toEqual([true, true, false])
})

test('any pattern matches like the equivalent regular expression', () => {
  const text = (letters: string): fc.Arbitrary<string> => fc.string({ unit: fc.constantFrom(...letters), maxLength: 9 })
  let matched = 0
  fc.assert(
    fc.property(fc.array(text('ab*'), { maxLength: 3 }), text('ab'), (patterns, model) => {
      const expected = patterns.some((pattern) => new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(model))
      if (expected) matched++
      expect(allowedModels(patterns)(model)).toBe(expected)
    }),
    { numRuns: 5000 },
  )
  expect(matched).toBeGreaterThan(100)
})
