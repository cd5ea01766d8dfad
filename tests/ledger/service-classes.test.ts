import { describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import { matcher, Prices, ratesOf, type Price } from '../../src/ledger/prices.ts'
import { heldPrice, ServiceClasses, servedPrice, unknownClasses } from '../../src/ledger/service-classes.ts'
import classesFile from '../../catalog/service-classes.json'
import { Catalogue } from '../../src/providers/catalogue.ts'

/** The prices of classes of service. */

const ENV = { OPENAI_API_KEY: 'x', ANTHROPIC_API_KEY: 'x', GEMINI_API_KEY: 'x', GROQ_API_KEY: 'x' }
const CONFIG = `
models:
  mine: { endpoints: [{ provider: openai, model: gpt-5 }], classes: { service_tier=priority: 3, speed=fast: 1.5 } }
  both: { endpoints: [{ provider: openai, model: gpt-5-mini }, { provider: openai, model: gpt-5 }] }
`
const config = readConfig(CONFIG, 'sluice.yaml', ENV)
const catalogue = new Catalogue(config)
const prices = new Prices(config)
const classes = new ServiceClasses(config)
const factorsOf = (model: string, protocol: 'chat.completions' | 'messages' = 'chat.completions') =>
  classes.of(model, catalogue.endpoints(model, protocol))

test('the catalogue has the published prices of classes', () => {
  const published: [string, string, number[]][] = [
    ['openai/gpt-5.5', 'service_tier=priority', [12.5, 1.25, 75]],
    ['openai/gpt-5.5', 'service_tier=flex', [2.5, 0.25, 15]],
    ['openai/gpt-5.6-sol', 'service_tier=fast', [8, 0.8, 40]],
    ['openai/gpt-5.6-terra', 'service_tier=priority', [4, 0.4, 24]],
    ['openai/gpt-5.6-luna', 'service_tier=fast', [0.4, 0.04, 2.4]],
    ['openai/gpt-5.5', 'service_tier=fast', [12.5, 1.25, 75]],
    ['openai/gpt-5.4', 'service_tier=priority', [5, 0.5, 30]],
    ['openai/gpt-5.4-mini', 'service_tier=priority', [1.5, 0.15, 9]],
    ['openai/gpt-5-mini', 'service_tier=priority', [0.45, 0.045, 3.6]],
    ['openai/gpt-4.1', 'service_tier=priority', [3.5, 0.875, 14]],
    ['openai/gpt-4o', 'service_tier=priority', [4.25, 2.125, 17]],
    ['openai/gpt-4o-mini', 'service_tier=priority', [0.25, 0.125, 1]],
    ['openai/o4-mini', 'service_tier=priority', [2, 0.5, 8]],
    ['openai/o3', 'service_tier=flex', [1, 0.25, 4]],
    ['google/gemini-3-pro-preview', 'service_tier=priority', [3.6, 0.36, 21.6]],
    ['google/gemini-2.5-flash-lite', 'service_tier=priority', [0.18, 0.018, 0.72]],
    ['anthropic/claude-opus-4-7', 'speed=fast', [30, 3, 150]],
    ['anthropic/claude-opus-4-8', 'speed=fast', [10, 1, 50]],
    ['anthropic/claude-opus-5', 'speed=fast', [10, 1, 50]],
    ['anthropic/claude-opus-5-5', 'speed=fast', [8, 0.4, 40]],
    ['openai/gpt-6-astra', 'service_tier=fast', [20, 2, 100]],
    ['openai/gpt-6-astra', 'service_tier=flex', [5, 0.5, 25]],
    ['openai/gpt-6.1-sol', 'service_tier=fast', [4, 0.2, 20]],
    ['openai/gpt-6.1-sol', 'service_tier=flex', [1, 0.05, 5]],
    ['anthropic/claude-haiku-5-5', 'inference_geo=us', [0.11, 0.011, 0.55]],
    ['anthropic/claude-opus-4-8', 'inference_geo=us', [5.5, 0.55, 27.5]],
  ]
  for (const [model, name, expected] of published) {
    const endpoints = catalogue.endpoints(model, 'chat.completions')
    const [member = '', value = ''] = name.split('=')
    const { rates } = servedPrice(
      prices.of(model, endpoints)!,
      { factors: classes.of(model, endpoints), requested: {} },
      { [member]: value },
    )
    const found = (['prompt', 'input_cache_read', 'completion'] as const).map((item) => Number(rates[item]!.base) / 1e9)
    for (const [index, usd] of expected.entries())
      expect([model, name, Math.abs(found[index]! - usd) < 1e-8]).toEqual([model, name, true])
  }
  expect(factorsOf('openai/gpt-5-pro')).toEqual({})
  expect(factorsOf('openai/gpt-5.4-pro')).toEqual({})
})

test('fast is another name of priority, and has the price of priority unless it has its own', () => {
  for (const model of ['openai/gpt-5.5', 'mine']) {
    const factors = factorsOf(model)
    const price = prices.of(model, catalogue.endpoints(model, 'chat.completions'))!
    const [fast, priority] = ['fast', 'priority'].map((tier) => {
      const requested = { service_tier: tier }
      expect(unknownClasses(factors, requested)).toEqual([])
      expect(heldPrice(price, { factors, requested })).toBe(servedPrice(price, { factors, requested }, undefined))
      return heldPrice(price, { factors, requested })
    })
    expect([fast === priority, fast!.version]).toEqual([true, expect.stringMatching(/ x/)])
  }
  expect(unknownClasses(factorsOf('openai/gpt-5-pro'), { service_tier: 'fast' })).toEqual(['service_tier'])
  expect(unknownClasses(factorsOf('openai/gpt-5.5'), { service_tier: 'ultrafast' })).toEqual(['service_tier'])
  const own = { factors: { 'service_tier=priority': 2, 'service_tier=fast': 3 }, requested: { service_tier: 'fast' } }
  expect(heldPrice(prices.of('mine', catalogue.endpoints('mine', 'chat.completions'))!, own).version).toEndWith(' x3')
})

test('every line of the catalogue names a known member and says why', () => {
  for (const { match, class: name, factor, why } of classesFile.factors) {
    expect(name).toMatch(/^(service_tier|speed|inference_geo)=[a-z]+$/)
    expect([name, factor > 0, why.length > 20, typeof matcher(match)]).toEqual([name, true, true, 'function'])
  }
})

test('a configured factor replaces that of the catalogue, and of several endpoints the largest counts', () => {
  expect(factorsOf('mine')).toEqual({ 'service_tier=priority': 3, 'service_tier=flex': 0.5, 'speed=fast': 1.5 })
  const both = catalogue.endpoints('both', 'chat.completions')
  const factors = [both, both.toReversed()].map((endpoints) => classes.of('both', endpoints)['service_tier=priority'])
  expect(factors).toEqual([2, 2])
})

describe('a price', () => {
  const price: Price = {
    version: 'v',
    model: 'm',
    rates: ratesOf({ prompt: [1, { over: 10, rate: 2 }], completion: 4, web_search: 0.01, request: 0.5 }),
  }
  const factors = { 'service_tier=priority': 2, 'service_tier=flex': 0.5, 'speed=fast': 6, 'inference_geo=us': 1.1 }
  const bases = ({ rates }: Price): number[] => Object.values(rates).map(({ base }) => Number(base) / 1e9)

  test('of a class multiplies the tokens, and classes multiply each other', () => {
    expect(bases(heldPrice(price, { factors, requested: { service_tier: 'priority' } }))).toEqual([2, 8, 0.01, 0.5])
    const both = heldPrice(price, { factors, requested: { speed: 'fast', inference_geo: 'us' } })
    expect([both.version, bases(both)]).toEqual(['v x6.6', [6.6, 26.4, 0.01, 0.5]])
    expect(both.rates.prompt!.tiers).toEqual([{ over: 10, rate: 13_200_000_000n }])
    expect(heldPrice(price, { factors, requested: { speed: 'fast', inference_geo: 'us' } })).toBe(both)
    expect(heldPrice(price, undefined)).toBe(price)
  })

  test('is held at no less than the plain one, and is billed as it was served', () => {
    const flex = { factors, requested: { service_tier: 'flex' } }
    expect([heldPrice(price, flex), bases(servedPrice(price, flex, undefined))]).toEqual([price, [0.5, 2, 0.01, 0.5]])
    const priority = { factors, requested: { service_tier: 'priority' } }
    expect(servedPrice(price, priority, { service_tier: 'default' })).toBe(price)
    expect(servedPrice(price, priority, { service_tier: 'scale' })).toBe(price)
    const unasked = { factors, requested: {} }
    expect(bases(servedPrice(price, unasked, { inference_geo: 'us' }))).toEqual([1.1, 4.4, 0.01, 0.5])
  })

  test('is unknown for a value without a factor, unless that means the plain service', () => {
    expect(unknownClasses(factors, { service_tier: 'default', speed: 'standard', inference_geo: 'global' })).toEqual([])
    expect(unknownClasses(factors, { service_tier: 'gold', speed: 'fast', inference_geo: 'eu' })).toEqual([
      'service_tier',
      'inference_geo',
    ])
  })
})
