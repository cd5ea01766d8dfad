import { expect } from 'bun:test'
import { ratesOf, type Price } from '../../src/ledger/prices.ts'
import { hasUnbilledSearches, hasUnbilledSearching } from '../../src/ledger/tool-fees.ts'
import { once } from '../stores.ts'

const priceOf = (more: Parameters<typeof ratesOf>[0]): Price => ({
  version: 'v',
  model: 'm',
  rates: ratesOf({ prompt: 1, ...more }),
})

once('searches are unbilled where their provider charges for them and the price has no rate of them', () => {
  expect(hasUnbilledSearches('openai', priceOf({}), '')).toBe(true)
  expect(hasUnbilledSearches('openai', priceOf({ web_search: 0.01 }), '')).toBe(false)
  expect(hasUnbilledSearches('google', priceOf({ search_request: 0.01 }), '')).toBe(false)
  expect(hasUnbilledSearches('own-server', priceOf({}), '')).toBe(false)
})

once('searches of a model that searches unasked are billed by a fee for each request only', () => {
  const model = 'gpt-4o-search-preview'
  expect(hasUnbilledSearching('openai', model, priceOf({ web_search: 0.01 }))).toBe(true)
  expect(hasUnbilledSearching('openai', model, priceOf({ request: 0.01 }))).toBe(false)
  expect(hasUnbilledSearching('openai', 'gpt-4o', priceOf({}))).toBe(false)
})
