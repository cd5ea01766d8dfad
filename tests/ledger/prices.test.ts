import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  calcPrice,
  findProvider,
  type ModelInfo,
  type ModelPrice,
  type Provider,
  type Usage as TheirUsage,
} from '@pydantic/genai-prices'
import pricesFile from '../../catalog/prices.json'
import { readConfig } from '../../src/config/load.ts'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../src/generation/usage.ts'
import { Prices, ratesOf, type PriceFile, type PriceRow } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS, PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { fileText, importPrices, Refused } from '../../scripts/prices.ts'

const FILE = pricesFile as unknown as PriceFile
/** What was past at the import is not in the file. */
const TODAY = Date.parse(`${FILE.imported}T12:00:00Z`)
const config = (text = '', env: Record<string, string> = {}): ReturnType<typeof readConfig> =>
  readConfig(text, 'sluice.yaml', env)
const catalogued = (now = TODAY): Prices => new Prices(config(), FILE, () => now)

/** Our providers -> the source's. */
const SOURCES: Record<string, string> = {
  openai: 'openai',
  anthropic: 'anthropic',
  google: 'google',
  vertex: 'google',
  openrouter: 'openrouter',
  deepseek: 'deepseek',
  mistral: 'mistral',
  xai: 'x-ai',
  groq: 'groq',
  together: 'together',
  fireworks: 'fireworks',
  azure: 'azure',
}

describe('the file', () => {
  const rows = [
    ...Object.entries(FILE.own),
    ...Object.entries(FILE.providers).map(([id, { models }]) => [id, models] as const),
  ].flatMap(([provider, list]) => list.map((row) => ({ provider, row })))

  test('every line is of a provider that there is, with a day as its version and amounts as its prices', () => {
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

  test('is written as the importer writes it, so that an import changes only what changed', () => {
    expect(readFileSync(join(import.meta.dir, '../../catalog/prices.json'), 'utf8')).toBe(fileText(FILE))
  })

  test('simulated and local models cost 0, which somebody said', () => {
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

  test('nobody said: no price, and never 0', () => {
    expect(catalogued().cost('openai', 'no-such-model')).toBeUndefined()
    expect(catalogued().cost('acme', 'gpt-5')).toBeUndefined()
    for (const name of ['__proto__', 'constructor', 'toString'])
      expect([catalogued().cost(name, 'x'), catalogued().cost('openai', name)]).toEqual([undefined, undefined])
  })
})

/** Primes, so that two buckets taken for one another cannot make the same bill; below and above every tier. */
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

const counted = (prices: ModelPrice): boolean =>
  Object.keys(prices).some((unit) =>
    /^(input|output|cache_read|cache_write|cache_write_1h|input_audio|output_audio|output_image|output_reasoning)_mtok$|^(web_searches|requests)_kcount$/.test(
      unit,
    ),
  )

/**
 * Our bill beside the source's own calculation: within one nano-USD for each of our lines. Returns whether the source
 * has a price.
 */
function compare(prices: Prices, provider: string, model: string, at: number): boolean {
  const price = prices.cost(provider, model)
  // Prices of images are kept by hand where the source has none.
  if (
    FILE.own[provider]?.some(
      (row) =>
        price?.model === `${provider}/${row.model}` && (row.prices.image ?? row.prices.output_image) !== undefined,
    )
  )
    return false
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
    const apart = Math.abs(Number(ours.bill) - total_price * 1e9)
    // Their sum is of doubles, whose own error grows with the amount.
    expect([provider, model, usage, apart <= ours.items.length + total_price * 1e9 * 1e-12]).toEqual([
      provider,
      model,
      usage,
      true,
    ])
  }
  return true
}

describe("our bill is the source's", () => {
  const ANNOUNCED = Object.values(FILE.providers).flatMap(({ models }) =>
    models.flatMap(({ turns = [] }) =>
      turns.flatMap(({ from }) => (from === undefined ? [] : [Date.parse(from) - 1, Date.parse(from)])),
    ),
  )
  const HOURS = [
    ...['00:00:00', '01:00:00', '03:59:59', '04:00:00', '08:00:00', '12:00:00', '20:00:00'].map((time) =>
      Date.parse(`${FILE.imported}T${time}Z`),
    ),
    ...new Set(ANNOUNCED),
  ]

  test('for every listed model, at every hour', () => {
    const unknown = new Set<string>()
    for (const now of HOURS) {
      const prices = catalogued(now)
      for (const { id, endpoints, onlyImported } of MODEL_ROWS) {
        const [provider, ...rest] = id.split('/')
        if (endpoints === undefined && onlyImported !== true && !compare(prices, provider!, rest.join('/'), now))
          unknown.add(id)
      }
    }
    // What the source does not know stays without a price, or has one by hand; strike a model here when it does.
    expect([...unknown]).toEqual(['anthropic/claude-haiku-5-5', 'xai/grok-4.7', 'xai/grok-imagine-image'])
  })

  for (const [provider, source] of Object.entries(SOURCES)) {
    test(`for every name that it has of ${provider}`, () => {
      const prices = catalogued()
      let priced = 0
      for (const name of findProvider({ providerId: source })!.models.flatMap(namesOf))
        if (compare(prices, provider, name, TODAY)) priced++
      expect(priced).toBeGreaterThan(5)
    }, 30_000)
  }

  /** Names that a rule is about: those in it, with an ending for what is open. */
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
    // The source also reads 20260101 as 2026-01-01, which we do not.
    return [id, ...texts, ...dated].filter(
      (name) => !(/-20260101$/.test(name) && /gpt-/.test(name) && !name.includes('/')),
    )
  }
})

describe('what a client pays', () => {
  const YAML =
    'models:\n  acme/large: { endpoints: [{ provider: openai, model: gpt-5 }], price: { prompt: 7, completion: [1, { over: 10, rate: 2 }] } }\n  fallback: { endpoints: [{ provider: openai, model: no-such }, { provider: openai, model: gpt-5-mini }] }\n'
  const read = config(YAML, { OPENAI_API_KEY: 'k' })
  const catalogue = new Catalogue(read)
  const prices = new Prices(read)
  const asked = (model: string): ReturnType<Prices['of']> => prices.of(model, catalogue.endpoints(model, 'responses'))

  test("the file's price of the model, by whichever name it was asked for", () => {
    expect(asked('acme/large')).toEqual({
      version: asked('acme/large')!.version,
      model: 'acme/large',
      rates: {
        prompt: { base: 7_000_000_000n, tiers: [] },
        completion: { base: 1_000_000_000n, tiers: [{ over: 10, rate: 2_000_000_000n }] },
      },
    })
    expect(asked('large')).toBe(asked('acme/large')!)
  })

  test("else the catalogue's of the first endpoint that has one; and what it costs us is the list price", () => {
    expect(asked('fallback')!.model).toBe('openai/gpt-5-mini')
    expect(asked('gpt-5')!.model).toBe('openai/gpt-5')
    expect(prices.cost('openai', 'gpt-5')!.rates.prompt!.base).toBe(1_250_000_000n)
    expect(asked('openai/no-such')).toBeUndefined()
  })

  test('the version of a configured price is of its rates, whatever their order and spelling', () => {
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
    turns: [
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
  ])('%s', (time, said) => expect(at(time)).toBe(said))

  test('one server changes over without a restart', () => {
    let now = Date.parse('2026-05-31T20:00:00Z')
    const prices = new Prices(config(), { ...FILE, own: { acme: [row] } }, () => now)
    const before = prices.cost('acme', 'm')!.version
    now += 86_400_000
    expect([before, prices.cost('acme', 'm')!.version]).toEqual(['2026-01-01', '2026-01-01/2026-06-01'])
  })
})

describe('an import', () => {
  const ALL = [...new Set(Object.values(SOURCES))]
  const model = (id: string, prices: ModelInfo['prices'], match: ModelInfo['match'] = { equals: id }): ModelInfo => ({
    id,
    match,
    prices,
  })
  const sources = (models: ModelInfo[], of = 'openai'): Record<string, Provider> =>
    Object.fromEntries(
      ALL.map((id) => [
        id,
        {
          id,
          name: id,
          api_pattern: '',
          models: id === of ? models : [model('still', { input_mtok: 1, output_mtok: 2 })],
        },
      ]),
    )
  const EMPTY: PriceFile = {
    source: '',
    imported: '',
    changes: [],
    own: { sandbox: FILE.own['sandbox']! },
    providers: {},
  }
  const take = (
    models: ModelInfo[],
    previous = EMPTY,
    today = '2026-01-01',
    force = false,
  ): ReturnType<typeof importPrices> =>
    importPrices(sources(models), previous, { source: `source of ${today}`, today, force })
  const first = take([model('a', { input_mtok: 1, output_mtok: 2 }), model('b', { input_mtok: 3 })]).file
  const openai = (file: PriceFile): PriceRow[] => file.providers['openai']!.models

  test('keeps what people wrote, and the version of what did not change', () => {
    const { file, changed } = take(
      [model('a', { input_mtok: 1.5, output_mtok: 2 }), model('b', { input_mtok: 3 }), model('c', { input_mtok: 1 })],
      first,
      '2026-02-01',
    )
    expect(file.own).toEqual(EMPTY.own)
    expect(openai(file).map(({ model, version }) => [model, version])).toEqual([
      ['a', '2026-02-01'],
      ['b', '2026-01-01'],
      ['c', '2026-02-01'],
    ])
    expect(changed).toEqual(['openai/a: {"prompt":1,"completion":2} -> {"prompt":1.5,"completion":2}', 'openai/c: new'])
    expect(file.changes[0]).toEqual({ imported: '2026-02-01', source: 'source of 2026-02-01', changed })
    const again = take(
      [model('a', { output_mtok: 2, input_mtok: 1.5 }), model('b', { input_mtok: 3 }), model('c', { input_mtok: 1 })],
      file,
      '2026-03-01',
    )
    expect([again.changed, again.file.changes, again.file.imported]).toEqual([[], file.changes, '2026-02-01'])
  })

  test('says units in ours, without the noise of floats', () => {
    const { file, uncounted } = take([
      model('a', {
        input_mtok: 0.1 + 0.2,
        web_searches_kcount: 10,
        requests_kcount: 5,
        output_reasoning_mtok: 1,
        audio_hours: 3,
        cache_read_mtok: {
          base: 1,
          tiers: [
            { start: 9, price: 3 },
            { start: 5, price: 2 },
          ],
        },
      }),
      model('only hours', { audio_hours: 1 }),
      model('nothing', {}),
    ])
    expect(openai(file).map(({ model, prices }) => [model, prices])).toEqual([
      [
        'a',
        {
          prompt: 0.3,
          web_search: 0.01,
          request: 0.005,
          reasoning: 1,
          input_cache_read: [1, { over: 5, rate: 2 }, { over: 9, rate: 3 }],
        },
      ],
    ])
    expect(uncounted).toEqual({ audio_hours: 2 })
  })

  test('takes what holds today, and keeps what will hold', () => {
    const { file } = take([
      model('a', [
        { prices: { input_mtok: 1 } },
        { constraint: { type: 'start_date', start_date: '2025-01-01' }, prices: { input_mtok: 2 } },
        { constraint: { type: 'start_date', start_date: '2026-01-01' }, prices: { input_mtok: 3 } },
        { constraint: { type: 'start_date', start_date: '2026-01-02' }, prices: { input_mtok: 4 } },
        {
          constraint: { type: 'time_of_date', start_time: '01:00:00Z', end_time: '04:30:00Z' },
          prices: { input_mtok: 5 },
        },
      ]),
    ])
    expect(openai(file)[0]).toMatchObject({
      prices: { prompt: 3 },
      turns: [
        { from: '2026-01-02', prices: { prompt: 4 } },
        { hours: '01:00-04:30', prices: { prompt: 5 } },
      ],
    })
  })

  test('bounds what it remembers', () => {
    let file = first
    for (let n = 1; n <= 25; n++)
      file = take(
        [model('a', { input_mtok: 1 + n / 10, output_mtok: 2 }), model('b', { input_mtok: 3 })],
        file,
        `2026-03-${String(n).padStart(2, '0')}`,
      ).file
    expect([file.changes.length, file.changes[0]!.imported, file.changes.at(-1)!.imported]).toEqual([
      20,
      '2026-03-25',
      '2026-03-06',
    ])
    const many = take(
      [
        model('a', { input_mtok: 1, output_mtok: 2 }),
        model('b', { input_mtok: 3 }),
        ...Array.from({ length: 150 }, (_, n) => model(`m${n}`, { input_mtok: 1 })),
      ],
      first,
    ).file.changes[0]!.changed
    expect([many.length, many.at(-1)]).toEqual([101, 'and 50 more'])
  })

  const refusal = (call: () => unknown): string => {
    try {
      call()
    } catch (error) {
      expect(error).toBeInstanceOf(Refused)
      return (error as Error).message
    }
    throw new Error('it was taken')
  }

  test.each([
    ['an empty list', [], 'openai: the source has no models of openai'],
    ['a negative price', [model('a', { input_mtok: -1 })], 'openai/a: -1 is not a price'],
    [
      'a negative tier',
      [model('a', { input_mtok: { base: 1, tiers: [{ start: 5, price: -1 }] } })],
      'openai/a: -1 is not a price',
    ],
    ['no number', [model('a', { input_mtok: NaN })], 'openai/a: NaN is not a price'],
    ['text', [model('a', { input_mtok: '<html>' as unknown as number })], 'openai/a: <html> is not a price'],
    [
      'an absurd price',
      [model('a', { input_mtok: 1001 })],
      'openai/a: 1001 USD is above 1000, the highest possible price',
    ],
    [
      'a rule without patterns',
      [model('a', { input_mtok: 1 }, { regex: '^a(b|c)$' })],
      'openai/a: the expression ^a(b|c)$ cannot be written as a pattern',
    ],
  ] as [string, ModelInfo[], string][])('%s is refused, forced or not', (_, models, message) => {
    for (const force of [false, true]) expect(refusal(() => take(models, EMPTY, '2026-02-01', force))).toBe(message)
  })

  test.each([
    [
      'moved up',
      [model('a', { input_mtok: 21, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20/,
    ],
    [
      'moved down',
      [model('a', { input_mtok: 0.04, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20/,
    ],
    [
      'became free',
      [model('a', { input_mtok: 0, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20/,
    ],
    [
      'lost its rate of output',
      [model('a', { input_mtok: 1 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20/,
    ],
    [
      'moved up in a tier',
      [
        model('a', { input_mtok: { base: 1, tiers: [{ start: 5, price: 21 }] }, output_mtok: 2 }),
        model('b', { input_mtok: 3 }),
      ],
      /^openai\/a changed by a factor above 20/,
    ],
    ['vanished', [model('a', { input_mtok: 1, output_mtok: 2 })], /^openai\/b has disappeared/],
    ['lost its prices', [model('a', { input_mtok: 1, output_mtok: 2 }), model('b', {})], /^openai\/b has disappeared/],
  ] as [string, ModelInfo[], RegExp][])('what %s is refused, and taken when forced', (_, models, message) => {
    expect(refusal(() => take(models, first, '2026-02-01'))).toMatch(message)
    expect(take(models, first, '2026-02-01', true).changed).toHaveLength(1)
  })

  test('20 times is not too far', () => {
    expect(
      take([model('a', { input_mtok: 20, output_mtok: 0.1 }), model('b', { input_mtok: 3 })], first, '2026-02-01')
        .changed,
    ).toHaveLength(1)
  })
})
