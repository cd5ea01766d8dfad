import { expect, test } from 'bun:test'
import { differencesOf, nameIn, sentenceOf } from '../../console/pages/people/differences.ts'

const KEY = { id: 'key_1', name: 'ci', limit_usd: '5', models: null, plan: { tier: 'free', renews: true } }

test('a change says how members were and are, those within others by their paths', () => {
  const differences = differencesOf(KEY, { ...KEY, limit_usd: null, plan: { tier: 'pro', renews: true } })
  expect(differences).toEqual([
    { name: 'limit_usd', was: '5', is: 'none' },
    { name: 'plan.tier', was: 'free', is: 'pro' },
  ])
  expect(sentenceOf(differences)).toBe('limit_usd: 5 to none, plan.tier: free to pro')
})

test('an object that was added or removed is shown with its members that have a value, and without its id', () => {
  const made = differencesOf(null, KEY)
  expect(made).toEqual(differencesOf(KEY, null))
  expect(made.map(({ name }) => name)).toEqual(['id', 'name', 'limit_usd', 'plan.tier', 'plan.renews'])
  expect(sentenceOf(made)).toBe('name: ci, limit_usd: 5, plan.tier: free, plan.renews: true')
})

test('a line without members has no differences, and no name', () => {
  expect(differencesOf(null, null)).toEqual([])
  expect([nameIn(null), nameIn(KEY), nameIn({ name: 5 })]).toEqual([undefined, 'ci', undefined])
})
