import { describe, expect, test } from 'bun:test'
import { Prices, type PriceRow } from '../../src/ledger/prices.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS } from '../../src/providers/catalog-rows.ts'
import { catalogued, config, FILE } from './catalogued-prices.ts'

describe('the price for a client', () => {
  const YAML = `
models:
  acme/large:
    endpoints: [{ provider: openai, model: gpt-5 }]
    price: { prompt: 7, completion: [1, { over: 10, rate: 2 }] }
  fallback: { endpoints: [{ provider: openai, model: no-such }, { provider: openai, model: gpt-5-mini }] }
`
  const read = config(YAML, { OPENAI_API_KEY: 'k' })
  const catalogue = new Catalogue(read)
  const prices = new Prices(read)
  const priceOf = (model: string): ReturnType<Prices['of']> => prices.of(model, catalogue.endpoints(model, 'responses'))

  test('searches are priced by the lists of the providers where the source has no price', () => {
    const prices = catalogued()
    const rateOf = (provider: string, model: string): unknown => prices.cost(provider, model)?.rates.web_search?.base
    expect(rateOf('google', 'gemini-3.5-flash')).toBe(14_000_000n)
    expect(rateOf('vertex', 'gemini-3.5-flash')).toBe(14_000_000n)
    expect(rateOf('google', 'gemini-2.5-flash')).toBeUndefined()
    expect(rateOf('xai', 'grok-4.5')).toBe(5_000_000n)
    for (const model of ['gpt-4.1', 'gpt-5.3-codex', 'o3-deep-research', 'o3-pro'])
      expect([model, rateOf('openai', model)]).toEqual([model, 10_000_000n])
    expect(rateOf('vertex', 'claude-opus-5-5')).toBe(10_000_000n)
    expect(rateOf('xai', 'grok-code-fast-1')).toBe(5_000_000n)
    for (const model of ['gpt-image-1', 'gpt-audio', 'text-embedding-3-small'])
      expect([model, rateOf('openai', model)]).toEqual([model, undefined])
    for (const model of ['deepseek-flash', 'deepseek-v4-pro']) expect(rateOf('deepseek', model)).toBe(750_000n)
  })

  test('every listed model has a price, and cached tokens have the published ones', () => {
    const usd = (model: string, over: number): (number | undefined)[] => {
      const [provider, ...name] = model.split('/')
      const { rates } = catalogued().cost(provider!, name.join('/'))!
      const items = ['prompt', 'input_cache_write_5_min', 'input_cache_write_1_h', 'input_cache_read', 'completion']
      return (items as (keyof typeof rates)[]).map((item) => {
        const rate = rates[item]
        const at = rate?.tiers.findLast((tier) => over > tier.over)?.rate ?? rate?.base
        return at === undefined ? undefined : Number(at) / 1e9
      })
    }
    expect(usd('anthropic/claude-sonnet-5-5', 0)).toEqual([2, 2.5, 4, 0.1, 10])
    expect(usd('anthropic/claude-sonnet-5', 0)).toEqual([2, 2.5, 4, 0.2, 10])
    expect(usd('vertex/claude-sonnet-5-5', 0)).toEqual([2, 2.5, 4, 0.1, 10])
    expect(usd('anthropic/claude-haiku-5-5', 100_000)).toEqual([0.1, 0.125, 0.2, 0.01, 0.5])
    expect(usd('anthropic/claude-haiku-5-5', 100_001)).toEqual([0.5, 0.625, 1, 0.05, 2.5])
    expect(usd('xai/grok-4.7', 199_999)).toEqual([2, undefined, undefined, 0.5, 6])
    expect(usd('xai/grok-4.7', 200_000)).toEqual([4, undefined, undefined, 1, 12])
    for (const { id, endpoints, onlyImported } of MODEL_ROWS) {
      const [provider, ...name] = id.split('/')
      if (endpoints === undefined && onlyImported !== true)
        expect([id, catalogued().cost(provider!, name.join('/')) !== undefined]).toEqual([id, true])
    }
  })

  test('cache writes of an hour cost twice the input wherever Claude is sold', () => {
    for (const [provider, model] of [
      ['anthropic', 'claude-opus-5-5'],
      ['vertex', 'claude-opus-5-5'],
      ['vertex', 'claude-sonnet-4-5@20250929'],
      ['openrouter', 'anthropic/claude-opus-5.5'],
      ['azure', 'claude-opus-5-5'],
    ] as const) {
      const { prompt, input_cache_write_1_h: hour } = catalogued().cost(provider, model)!.rates
      const twice = {
        base: prompt!.base * 2n,
        tiers: prompt!.tiers.map(({ over, rate }) => ({ over, rate: rate * 2n })),
      }
      expect([provider, model, hour]).toEqual([provider, model, twice])
    }
    expect(catalogued().cost('openrouter', 'openai/gpt-5.6-sol')?.rates.input_cache_write_1_h).toBeUndefined()
  })

  test("DeepSeek's models on Azure have no price, as Azure's differs from DeepSeek's", () => {
    for (const model of ['deepseek-v4-pro', 'deepseek-v3.2', 'deepseek-r1'])
      expect([
        catalogued().cost('deepseek', model) !== undefined,
        catalogued().cost('azure', model) === undefined,
      ]).toEqual([true, true])
  })

  test('a configured price applies whichever name of the model is requested', () => {
    expect(priceOf('acme/large')).toEqual({
      version: priceOf('acme/large')!.version,
      model: 'acme/large',
      rates: {
        prompt: { base: 7_000_000_000n, tiers: [] },
        completion: { base: 1_000_000_000n, tiers: [{ over: 10, rate: 2_000_000_000n }] },
      },
    })
    expect(priceOf('large')).toBe(priceOf('acme/large')!)
  })

  test("the catalogue's price of the first endpoint that has one applies, and the cost is the list price", () => {
    expect(priceOf('fallback')!.model).toBe('openai/gpt-5-mini')
    expect(priceOf('gpt-5')!.model).toBe('openai/gpt-5')
    expect(prices.cost('openai', 'gpt-5')!.rates.prompt!.base).toBe(1_250_000_000n)
    expect(priceOf('openai/no-such')).toBeUndefined()
  })

  test('the version of a configured price depends on its rates, not on their order and spelling', () => {
    const version = (price: string): string => {
      const one = config(`models:\n  m: { endpoints: [{ provider: sandbox, model: chat }], price: ${price} }`)
      return new Prices(one).of('m', [])!.version
    }
    expect(version('{ prompt: 1, completion: 2 }')).toMatch(/^sluice\.yaml:[0-9a-f]{8}$/)
    expect(version('{ completion: 2.0, prompt: [1] }')).toBe(version('{ prompt: 1, completion: 2 }'))
    expect(version('{ prompt: 1, completion: [2, { over: 1, rate: 2 }] }')).not.toBe(
      version('{ prompt: 1, completion: 2 }'),
    )
    expect(version('{ prompt: 1, completion: 3 }')).not.toBe(version('{ prompt: 1, completion: 2 }'))
  })
})

describe('prices over time', () => {
  const row: PriceRow = {
    model: 'm',
    match: ['m'],
    version: '2026-01-01',
    prices: { prompt: 1 },
    schedule: [
      { from: '2026-06-01', prices: { prompt: 2 } },
      { hours: '23:00-01:30', prices: { prompt: 3 } },
    ],
  }
  const at = (time: string): string => {
    const { version, rates } = new Prices(config(), { ...FILE, own: { acme: [row] } }, () => Date.parse(time)).cost(
      'acme',
      'M',
    )!
    return `${version} ${rates.prompt!.base / 1_000_000_000n}`
  }

  test.each([
    ['2026-05-31T22:59:59Z', '2026-01-01 1'],
    ['2026-05-31T23:00:00Z', '2026-01-01/23:00-01:30 3'],
    ['2026-06-01T01:29:59Z', '2026-01-01/23:00-01:30 3'],
    ['2026-06-01T01:30:00Z', '2026-01-01/2026-06-01 2'],
    ['2027-01-01T12:00:00Z', '2026-01-01/2026-06-01 2'],
  ])('at %s the price is %s', (time, price) => expect(at(time)).toBe(price))

  test('hours of some days are billed on those days only, and not on the days excepted', () => {
    const weekdays = { days: 'Mon-Fri', except: ['2027-01-01'] }
    const schedule = [
      { hours: '01:00-04:00', ...weekdays, prices: { prompt: 2 } },
      { hours: '22:00-00:30', ...weekdays, prices: { prompt: 3 } },
    ]
    const rateAt = (time: string): bigint =>
      new Prices(config(), { ...FILE, own: { acme: [{ ...row, schedule }] } }, () => Date.parse(time)).cost(
        'acme',
        'm',
      )!.rates.prompt!.base / 1_000_000_000n
    for (const [time, rate] of [
      ['2026-11-27T00:59:59Z', 1n], // Friday
      ['2026-11-27T01:00:00Z', 2n],
      ['2026-11-27T22:00:00Z', 3n],
      ['2026-11-28T00:29:59Z', 3n], // hours that began on Friday
      ['2026-11-28T01:00:00Z', 1n],
      ['2026-11-28T22:00:00Z', 1n],
      ['2026-11-29T03:00:00Z', 1n],
      ['2026-11-30T00:00:00Z', 1n], // Monday, whose hours begin at 22:00
      ['2026-11-30T03:59:59Z', 2n],
      ['2026-12-31T23:00:00Z', 3n],
      ['2027-01-01T00:15:00Z', 3n], // hours that began on Thursday
      ['2027-01-01T03:00:00Z', 1n],
      ['2027-01-02T00:15:00Z', 1n],
    ] as const)
      expect([time, rateAt(time)]).toEqual([time, rate])
  })

  test('DeepSeek costs more in its peak hours of weekdays, not on weekends and Chinese holidays', () => {
    const promptOf = (model: string, time: string): bigint =>
      catalogued(Date.parse(time)).cost('deepseek', model)!.rates.prompt!.base
    for (const [model, offPeak] of [
      ['deepseek-v4-pro', 660_000_000n],
      ['deepseek-v4-pro-0813', 660_000_000n],
      ['deepseek-flash', 150_000_000n],
      ['deepseek-v4-flash', 150_000_000n],
      ['deepseek-v4-flash-vision-exp', 150_000_000n],
    ] as const)
      for (const [day, factor] of [
        ['2026-11-27', 2n], // Friday
        ['2026-11-28', 1n],
        ['2026-11-29', 1n],
        ['2026-11-30', 2n],
        ['2027-01-01', 1n], // New Year
        ['2027-02-08', 1n], // Spring Festival
      ] as const) {
        for (const time of ['01:00:00', '03:59:59', '06:00:00', '09:59:59'])
          expect([model, day, time, promptOf(model, `${day}T${time}Z`)]).toEqual([model, day, time, offPeak * factor])
        for (const time of ['00:59:59', '04:00:00', '05:59:59', '10:00:00', '23:00:00'])
          expect([model, day, time, promptOf(model, `${day}T${time}Z`)]).toEqual([model, day, time, offPeak])
      }
  })

  test('a scheduled price takes effect without a restart', () => {
    let now = Date.parse('2026-05-31T20:00:00Z')
    const prices = new Prices(config(), { ...FILE, own: { acme: [row] } }, () => now)
    const before = prices.cost('acme', 'm')!.version
    now += 86_400_000
    expect([before, prices.cost('acme', 'm')!.version]).toEqual(['2026-01-01', '2026-01-01/2026-06-01'])
  })
})
