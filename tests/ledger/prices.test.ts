import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  calcPrice,
  findProvider,
  type ModelInfo,
  type ModelPrice,
  type Usage as TheirUsage,
} from '@pydantic/genai-prices'
import pricesFile from '../../catalog/prices.json'
import { readConfig } from '../../src/config/load.ts'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../src/generation/usage.ts'
import { isFree, Prices, ratesOf, type PriceFile, type PriceRow } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS, PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { fileText } from '../../scripts/prices.ts'
import { SOURCES } from './price-sources.ts'

const FILE = pricesFile as unknown as PriceFile
/** The file has no prices from before its import. */
const TODAY = Date.parse(`${FILE.imported}T12:00:00Z`)
const config = (text = '', env: Record<string, string> = {}): ReturnType<typeof readConfig> =>
  readConfig(text, 'sluice.yaml', env)
const catalogued = (now = TODAY): Prices => new Prices(config(), FILE, () => now)

describe('catalog/prices.json', () => {
  const rows = [
    ...Object.entries(FILE.own),
    ...Object.entries(FILE.providers).map(([id, { models }]) => [id, models] as const),
  ].flatMap(([provider, list]) => list.map((row) => ({ provider, row })))

  test('every line has a known provider, a day as its version and amounts as its prices', () => {
    const providers = PROVIDER_ROWS.map(({ id }) => id)
    expect(rows.length).toBeGreaterThan(900)
    for (const { provider, row } of rows) {
      expect(providers).toContain(provider)
      expect(row.version).toMatch(/^\d{4}-\d\d-\d\d$/)
      expect(Object.keys(ratesOf(row.prices)).sort()).toEqual(Object.keys(row.prices).sort())
      expect(row.match.length).toBeGreaterThan(0)
    }
    for (const { else: others } of Object.values(FILE.providers))
      for (const other of others) expect(Object.keys(FILE.providers)).toContain(other)
  })

  test('no cached token costs more than an uncached one, and none that is written to a cache less', () => {
    const odd = rows.flatMap(({ provider, row }) =>
      [row.prices, ...(row.schedule ?? []).map(({ prices }) => prices)].flatMap((prices) => {
        const { prompt, input_cache_read, input_cache_write_5_min, input_cache_write_1_h } = ratesOf(prices)
        const isOdd =
          (input_cache_read !== undefined && input_cache_read.base > prompt!.base) ||
          (input_cache_write_5_min !== undefined && input_cache_write_5_min.base < prompt!.base) ||
          (input_cache_write_1_h !== undefined && input_cache_write_1_h.base < input_cache_write_5_min!.base)
        return isOdd ? [`${provider}/${row.model}`] : []
      }),
    )
    expect(odd).toEqual([])
  })

  test('rates of long prompts are above those of short ones, and the tiers of a price begin together', () => {
    const odd = rows.flatMap(({ provider, row }) => {
      const tiered = Object.values(ratesOf(row.prices)).filter(({ tiers }) => tiers.length > 0)
      const starts = new Set(tiered.map(({ tiers }) => tiers.map(({ over }) => over).join()))
      const isOdd =
        starts.size > 1 ||
        tiered.some(({ base, tiers }) =>
          tiers.some(({ rate: later }, index) => later < (tiers[index - 1]?.rate ?? base)),
        )
      return isOdd ? [`${provider}/${row.model}`] : []
    })
    expect(odd).toEqual([])
  })

  test('the file is formatted as the importer writes it, so that an import changes only what changed', () => {
    expect(readFileSync(join(import.meta.dir, '../../catalog/prices.json'), 'utf8')).toBe(fileText(FILE))
  })

  test('simulated and local models have a price of 0', () => {
    for (const provider of PROVIDER_ROWS.filter(
      ({ inProcess, local, id }) =>
        inProcess !== undefined || local !== undefined || ['vllm', 'llamacpp', 'lmstudio'].includes(id),
    )) {
      const usage = { ...noUsage(), inputTokens: 5, outputTokens: 5, webSearches: 1, images: 1 }
      expect([provider.id, rate(usage, catalogued().cost(provider.id, 'any/name:1b')!, 0).bill]).toEqual([
        provider.id,
        0n,
      ])
    }
  })

  test('a model without a price in any source has no price instead of 0', () => {
    expect(catalogued().cost('openai', 'no-such-model')).toBeUndefined()
    expect(catalogued().cost('acme', 'gpt-5')).toBeUndefined()
    for (const name of ['__proto__', 'constructor', 'toString'])
      expect([catalogued().cost(name, 'x'), catalogued().cost('openai', name)]).toEqual([undefined, undefined])
  })
})

/** Primes, so that swapped buckets give another bill; below and above every tier. */
const USAGES: Usage[] = [
  { ...noUsage(), inputTokens: 7_919, outputTokens: 1_201 },
  {
    ...noUsage(),
    inputTokens: 104_729,
    cacheReadTokens: 15_485,
    cacheWrite5mTokens: 3_571,
    cacheWrite1hTokens: 1_297,
    outputTokens: 2_741,
    reasoningTokens: 409,
    webSearches: 3,
  },
  { ...noUsage(), inputTokens: 611_953, cacheReadTokens: 86_028, outputTokens: 6_131, reasoningTokens: 877 },
  { ...noUsage(), inputTokens: 128_000 },
  { ...noUsage(), inputTokens: 128_001 },
  { ...noUsage(), inputTokens: 200_000 },
  { ...noUsage(), inputTokens: 200_001 },
  { ...noUsage(), inputTokens: 271_999 },
  { ...noUsage(), inputTokens: 272_000 },
  {
    ...noUsage(),
    inputTokens: 9_973,
    inputAudioTokens: 1_009,
    outputTokens: 211,
    outputAudioTokens: 503,
    outputImageTokens: 307,
  },
]

const theirs = (usage: Usage): TheirUsage => ({
  input_tokens: promptTokens(usage),
  cache_read_tokens: usage.cacheReadTokens,
  cache_write_tokens: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
  cache_write_1h_tokens: usage.cacheWrite1hTokens,
  input_audio_tokens: usage.inputAudioTokens,
  cache_audio_read_tokens: 0,
  output_tokens: completionTokens(usage),
  output_reasoning_tokens: usage.reasoningTokens,
  output_audio_tokens: usage.outputAudioTokens,
  output_image_tokens: usage.outputImageTokens,
  web_searches: usage.webSearches,
})

const COUNTED_UNITS = [
  /^(input|output|cache_read|cache_write|cache_write_1h|input_audio|output_audio|output_image|output_reasoning)_mtok$/,
  /^(web_searches|requests)_kcount$/,
]
const counted = (prices: ModelPrice): boolean =>
  Object.keys(prices).some((unit) => COUNTED_UNITS.some((pattern) => pattern.test(unit)))

/** USD that the source leaves out: searches, and cache writes of an hour of Claude, by the lists of the providers. */
function leftOut(model: string, usage: Usage, known: ModelPrice): number {
  const fees = usage.webSearches * searchRate(model) + (usage.webSearches > 0 ? searchRequestRate(model) : 0)
  const searches = known.web_searches_kcount === undefined ? fees : 0
  const { input_mtok: input, cache_write_mtok: write } = known
  // OpenRouter lists the storage of what Gemini writes to a cache, without the input.
  if (/^openrouter\/.*gemini/.test(model) && write !== undefined && baseOf(write) < baseOf(input))
    return searches + ((usage.cacheWrite5mTokens + usage.cacheWrite1hTokens) * baseOf(input)) / 1e6
  if (!/claude/.test(model) || known.cache_write_1h_mtok !== undefined || write === undefined) return searches
  return searches + (usage.cacheWrite1hTokens * (2 * baseOf(input) - baseOf(write))) / 1e6
}

const baseOf = (price: ModelPrice[string]): number => (typeof price === 'object' ? Number(price.base) : Number(price))

/** Google charges a prompt of Gemini 2 that searched, and each search of Gemini 3. */
const searchRequestRate = (model: string): number =>
  /^google\/(?!.*(image|tts|2\.0-flash-lite))gemini-2/.test(model) ? 0.035 : 0

const searchRate = (model: string): number => {
  if (/^google\/gemini-3/.test(model)) return 0.014
  if (/^xai\/grok-/.test(model)) return 0.005
  if (/^deepseek\/deepseek-v4/.test(model)) return 0.00075
  if (/^openai\/.*(image|audio|realtime|transcribe|tts|-search)/.test(model)) return 0
  return /^(openai\/(gpt-[4-9]|gpt-chat|chatgpt|codex|computer|o[134])|google\/claude)/.test(model) ? 0.01 : 0
}

/**
 * Compares our bill with the source's own calculation, within one nano-USD for each line. False where it has no price.
 */
function compare(prices: Prices, provider: string, model: string, at: number): boolean {
  const price = prices.cost(provider, model)
  // Prices that are kept by hand are those that the source does not have, or not as they are now.
  if (FILE.own[provider]?.some((row) => price?.model === `${provider}/${row.model}` && !isFree(price))) return false
  const [first] = USAGES
  const known = calcPrice(theirs(first!), model, { providerId: SOURCES[provider]!, timestamp: new Date(at) })
  if (known === null || !counted(known.model_price)) {
    const free = price !== undefined && rate(first!, price, 0).bill === 0n && /:free$/.test(model)
    expect([provider, model, price === undefined || free]).toEqual([provider, model, true])
    return false
  }
  for (const usage of USAGES) {
    const { total_price } = calcPrice(theirs(usage), model, {
      providerId: SOURCES[provider]!,
      timestamp: new Date(at),
    })!
    const ours = rate(usage, price!, 0)
    const whole = total_price + leftOut(price!.model, usage, known.model_price)
    const apart = Math.abs(Number(ours.bill) - whole * 1e9)
    // The source adds doubles, whose error grows with the amount.
    expect([provider, model, usage, apart <= ours.items.length + whole * 1e9 * 1e-12]).toEqual([
      provider,
      model,
      usage,
      true,
    ])
  }
  return true
}

describe("bills beside the source's own calculation", () => {
  const ANNOUNCED = Object.values(FILE.providers).flatMap(({ models }) =>
    models.flatMap(({ schedule = [] }) =>
      schedule.flatMap(({ from }) => (from === undefined ? [] : [Date.parse(from) - 1, Date.parse(from)])),
    ),
  )
  // The source has DeepSeek's peak hours on every day.
  const weekday = [0, 1, 2]
    .map((days) => new Date(TODAY + days * 86_400_000))
    .find((day) => day.getUTCDay() % 6 !== 0)!
    .toISOString()
    .slice(0, 10)
  const HOURS = [
    ...['00:00:00', '01:00:00', '03:59:59', '04:00:00', '08:00:00', '12:00:00', '20:00:00'].map((time) =>
      Date.parse(`${weekday}T${time}Z`),
    ),
    ...new Set(ANNOUNCED),
  ]

  test('every listed model is billed as the source calculates, at every hour', () => {
    const unknown = new Set<string>()
    for (const now of HOURS) {
      const prices = catalogued(now)
      for (const { id, endpoints, onlyImported } of MODEL_ROWS) {
        const [provider, ...rest] = id.split('/')
        if (endpoints === undefined && onlyImported !== true && !compare(prices, provider!, rest.join('/'), now))
          unknown.add(id)
      }
    }
    // Models whose price the source does not have, or not as it is now; remove one when it has.
    expect([...unknown]).toEqual([
      'openai/gpt-6.1-sol',
      'anthropic/claude-sonnet-5-5',
      'anthropic/claude-haiku-5-5',
      'deepseek/deepseek-flash',
      'xai/grok-4.7',
      'xai/grok-imagine-image',
    ])
  })

  for (const [provider, source] of Object.entries(SOURCES)) {
    test(`every model name of ${provider} in the source is billed as the source calculates`, () => {
      const prices = catalogued()
      let priced = 0
      for (const name of findProvider({ providerId: source })!.models.flatMap(namesOf))
        if (compare(prices, provider, name, TODAY)) priced++
      expect(priced).toBeGreaterThan(5)
    }, 30_000)
  }

  /** Names that a rule matches: those in it, with a suffix where it is open-ended. */
  const namesOf = ({ id, match }: ModelInfo): string[] => {
    const texts = [...JSON.stringify(match).matchAll(/"(equals|starts_with|contains|ends_with)":"([^"]+)"/g)].flatMap(
      ([, how, text]) =>
        how === 'equals'
          ? [text!]
          : how === 'starts_with'
            ? [text!, `${text}-x`, `${text}-tts`]
            : how === 'contains'
              ? [text!, `a-${text}-z`]
              : [text!, `a-${text}`],
    )
    const dated = [...JSON.stringify(match).matchAll(/"regex":"\^([^"()]+?)-\\\\d/g)].flatMap(([, name]) => [
      `${name!.replaceAll('\\\\', '')}-20260101`,
      `${name!.replaceAll('\\\\', '')}-2026-01-01`,
      `${name!.replaceAll('\\\\', '')}-x`,
    ])
    // The source also takes 20260101 for 2026-01-01, which Sluice does not.
    return [id, ...texts, ...dated].filter(
      (name) => !(/-20260101$/.test(name) && /gpt-/.test(name) && !name.includes('/')),
    )
  }
})

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

  test('DeepSeek is dearer in its peak hours of weekdays, not on weekends and Chinese holidays', () => {
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
