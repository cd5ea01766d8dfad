import { describe, expect, test } from 'bun:test'
import type { ModelInfo, Provider } from '@pydantic/genai-prices'
import pricesFile from '../../catalog/prices.json'
import type { PriceFile, PriceRow } from '../../src/ledger/prices.ts'
import { importPrices, Refused } from '../../scripts/prices.ts'
import { SOURCES } from './price-sources.ts'

const FILE = pricesFile as unknown as PriceFile

describe('price import', () => {
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

  test('an import keeps lines written by hand and the version of unchanged lines', () => {
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

  test('an import converts units without floating-point noise', () => {
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

  test("an import adds the days of DeepSeek's hours, which the source does not have", () => {
    const peak: ModelInfo['prices'] = [
      { prices: { input_mtok: 1 } },
      {
        constraint: { type: 'time_of_date', start_time: '01:00:00Z', end_time: '04:00:00Z' },
        prices: { input_mtok: 2 },
      },
    ]
    const taken = (of: string, id: string, previous = EMPTY, today = '2026-12-01'): PriceRow => {
      const { file } = importPrices(sources([model(id, peak)], of), previous, { source: '', today, force: true })
      return file.providers[of]!.models[0]!
    }
    const [added] = taken('deepseek', 'deepseek-v4-pro').schedule!
    expect(added).toMatchObject({ hours: '01:00-04:00', days: 'Mon-Fri' })
    expect(added!.except).toContain('2027-01-01')
    expect(taken('openai', 'deepseek-v4-pro').schedule).toEqual([{ hours: '01:00-04:00', prices: { prompt: 2 } }])
    // A line whose days change has another version.
    const before = importPrices(sources([model('deepseek-v4-pro', peak)], 'deepseek'), EMPTY, {
      source: '',
      today: '2026-11-01',
      force: true,
    }).file
    expect(taken('deepseek', 'deepseek-v4-pro', before).version).toBe('2026-11-01')
    delete before.providers['deepseek']!.models[0]!.schedule![0]!.days
    expect(taken('deepseek', 'deepseek-v4-pro', before).version).toBe('2026-12-01')
  })

  test('an import takes the prices of today and schedules later ones', () => {
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
      schedule: [
        { from: '2026-01-02', prices: { prompt: 4 } },
        { hours: '01:00-04:30', prices: { prompt: 5 } },
      ],
    })
  })

  test('an import bounds its list of past changes', () => {
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
    throw new Error('the import was accepted')
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
  ] as [string, ModelInfo[], string][])('an import of %s is refused, forced or not', (_, models, message) => {
    for (const force of [false, true]) expect(refusal(() => take(models, EMPTY, '2026-02-01', force))).toBe(message)
  })

  test.each([
    [
      'moved up',
      [model('a', { input_mtok: 21, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20: /,
    ],
    [
      'moved down',
      [model('a', { input_mtok: 0.04, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20: /,
    ],
    [
      'became free',
      [model('a', { input_mtok: 0, output_mtok: 2 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20: /,
    ],
    [
      'lost its rate of output',
      [model('a', { input_mtok: 1 }), model('b', { input_mtok: 3 })],
      /^openai\/a changed by a factor above 20: /,
    ],
    [
      'moved up in a tier',
      [
        model('a', { input_mtok: { base: 1, tiers: [{ start: 5, price: 21 }] }, output_mtok: 2 }),
        model('b', { input_mtok: 3 }),
      ],
      /^openai\/a changed by a factor above 20: /,
    ],
    ['vanished', [model('a', { input_mtok: 1, output_mtok: 2 })], /^openai\/b has disappeared/],
    ['lost its prices', [model('a', { input_mtok: 1, output_mtok: 2 }), model('b', {})], /^openai\/b has disappeared/],
  ] as [string, ModelInfo[], RegExp][])(
    'an import in which a model %s is refused unless forced',
    (_, models, message) => {
      expect(refusal(() => take(models, first, '2026-02-01'))).toMatch(message)
      expect(take(models, first, '2026-02-01', true).changed).toHaveLength(1)
    },
  )

  test('an import accepts a price that moved by a factor of 20', () => {
    expect(
      take([model('a', { input_mtok: 20, output_mtok: 0.1 }), model('b', { input_mtok: 3 })], first, '2026-02-01')
        .changed,
    ).toHaveLength(1)
  })
})
