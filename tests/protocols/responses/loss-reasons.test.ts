import { expect, test } from 'bun:test'
import { write } from './requests.ts'

test('the losses of metadata and of a service tier say what the provider accepts', () => {
  const { losses } = write({ protocol: 'chat.completions', metadata: { a: 1 }, serviceTier: 'batch' })
  expect(losses.map(({ path, reason }) => `${path}: ${reason}`).sort()).toEqual([
    'metadata: the provider accepts only strings as values',
    "service_tier: the provider has no service tier 'batch'",
  ])
})
