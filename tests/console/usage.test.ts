import { describe, expect, test } from 'bun:test'
import type { Measures, Usage, UsageGroup } from '../../console/api/answers.ts'
import { csvOf } from '../../console/pages/usage/csv.ts'
import { byBucket, courseOf, exactTextOf, groupFilters, groupName } from '../../console/pages/usage/measures.ts'
import { heightOf, plainOf, sortedGroups, textOf } from '../../console/pages/usage/measures.ts'

const measures = (changes: Partial<Measures>): Measures => ({
  requests: 3,
  failed: 1,
  refused: 0,
  cost_usd: '0.123456789',
  flows: null,
  tokens: { input: 60, cache_read: 30, cache_write: 10, output: 5, reasoning: 2 },
  ...changes,
})
const group = (key: string, changes: Partial<Measures> = {}): UsageGroup => ({
  key,
  label: key,
  labels: [key],
  total: measures(changes),
  points: [],
})

describe('the numbers of usage', () => {
  test('each metric has a height, a text, and a text with all digits', () => {
    const metrics = ['cost', 'requests', 'tokens', 'cache', 'failed', 'refused'] as const
    expect(metrics.map((metric) => heightOf(metric, measures({})))).toEqual([0.123456789, 3, 107, 0.3, 1, 0])
    expect(metrics.map((metric) => textOf(metric, measures({})))).toEqual(['0.1235', '3', '107', '30 %', '1', '0'])
    expect(exactTextOf('cost', measures({}))).toBe('0.123456789 USD')
    expect(plainOf('cost', measures({}))).toBe('0.123456789')
  })

  test('a share of nothing is neither zero nor a number', () => {
    const nothing = measures({ tokens: { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 } })
    expect([heightOf('cache', nothing), textOf('cache', nothing), plainOf('cache', nothing)]).toEqual([null, '-', ''])
  })

  test('the largest group is first and the rest last, by exact amounts', () => {
    const groups = [
      group('other', { cost_usd: '99' }),
      group('a', { cost_usd: '10000000.000000001' }),
      group('b', { cost_usd: '10000000.000000002' }),
    ]
    expect(sortedGroups({ groups } as unknown as Usage, 'cost').map(({ key }) => key)).toEqual(['b', 'a', 'other'])
  })

  test('what has no value of a group is named, and refused requests are found by their outcome', () => {
    const none = (...key: (string | null)[]): UsageGroup => ({
      ...group(''),
      key: key.length === 1 ? key[0]! : key,
      labels: key.map((one) => (one === 'k1' ? 'ci' : (one ?? 'none'))),
    })
    expect(groupName(none(null), 'model', undefined)).toBe('refused requests')
    expect(groupFilters(none(null), 'model', undefined)).toEqual([['outcome', 'refused']])
    expect(groupName(none(null, 'k1'), 'model', 'key')).toBe('refused requests, ci')
    expect(groupFilters(none(null, 'k1'), 'model', 'key')).toEqual([
      ['outcome', 'refused'],
      ['key', 'k1'],
    ])
    expect(groupName(none('timed-out', null), 'outcome', 'code')).toBe('timed out, no error')
    expect(groupFilters(none('timed-out', null), 'outcome', 'code')).toBeUndefined()
    expect(groupName(none(null), 'key', undefined)).toBe('no valid key')
    expect(groupFilters(group('other'), 'model', undefined)).toBeUndefined()
  })

  test('points are put into their buckets, the first one also before its beginning', () => {
    const starts = [0, 60_000, 120_000]
    const points = [
      [new Date(0).toISOString(), measures({ requests: 1 })],
      [new Date(130_000).toISOString(), measures({ requests: 2 })],
    ] as UsageGroup['points']
    expect(byBucket({ ...group('a'), points }, starts).map((one) => one?.requests)).toEqual([1, undefined, 2])
  })

  test('the course of a range has all its buckets, also those without requests', () => {
    const at = (minute: number): string => new Date(minute * 60_000).toISOString()
    const points = (minute: number): UsageGroup['points'] => [[at(minute), measures({ requests: minute })]]
    const usage: Usage = {
      ...{ from: at(0), to: at(5), tz: 'UTC', bucket: 'minute', counted_from: null, total: measures({}) },
      groups: [
        { ...group('a'), points: points(1) },
        { ...group('b'), points: [...points(1), ...points(4)] },
      ],
    }
    expect(courseOf(usage, ({ requests }) => requests)).toEqual([0, 2, 0, 0, 4])
  })

  test('a file for spreadsheets has no formulas from outside', () => {
    expect(
      csvOf([
        ['=1+1', '+1', '@a', '-cmd', '-1.5'],
        ['a"b', 'a,b', 'a\nb', '', 'x'],
      ]),
    ).toBe(`'=1+1,'+1,'@a,'-cmd,-1.5\r\n"a""b","a,b","a\nb",,x\r\n`)
  })
})
