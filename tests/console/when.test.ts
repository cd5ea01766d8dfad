import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { idIn } from '../../console/parts/id.ts'
import {
  bucketAt,
  bucketOf,
  bucketStarts,
  customRange,
  endOf,
  instantsOf,
  presetOf,
  presetRange,
  readRange,
  writeRange,
} from '../../console/parts/range.ts'
import {
  agoText,
  bucketText,
  bytesText,
  count,
  duration,
  instantOf,
  percent,
  shortCount,
  timeText,
  wallOf,
  whenText,
} from '../../console/parts/when.ts'

const NOW = Date.parse('2026-11-22T09:35:26.638Z')
const ZONES = ['UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/St_Johns', 'Australia/Lord_Howe', 'Pacific/Apia']

describe('times on the page', () => {
  test('a time has milliseconds, and its day where that is not today in the zone', () => {
    expect(timeText(NOW, 'UTC')).toBe('09:35:26.638')
    expect(timeText(NOW, 'Asia/Kolkata')).toBe('15:05:26.638')
    expect(whenText(NOW - 1000, 'UTC', NOW)).toBe('09:35:25.638')
    expect(whenText(Date.parse('2026-11-21T23:30:00Z'), 'UTC', NOW)).toBe('Nov 21 23:30:00.000')
    expect(whenText(Date.parse('2026-11-21T23:30:00Z'), 'Europe/Berlin', NOW)).toBe('00:30:00.000')
    expect(whenText(Date.parse('2025-11-21T23:30:00Z'), 'UTC', NOW)).toBe('Nov 21, 2025 23:30:00.000')
  })

  test('a bucket is named by its beginning in the zone', () => {
    expect(bucketText(NOW, 'minute', 'UTC')).toBe('09:35')
    expect(bucketText(NOW, 'hour', 'UTC')).toBe('Nov 22 09:35')
    expect(bucketText(NOW, 'day', 'UTC')).toBe('Nov 22')
    expect(bucketText(NOW, 'month', 'UTC')).toBe('Nov 2026')
  })

  test('a wall clock and its instant are each other in every zone, over changes of clocks too', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: Date.parse('2024-01-01'), max: Date.parse('2028-01-01') }),
        fc.constantFrom(...ZONES),
        (at, zone) => {
          const wall = wallOf(at, zone)
          const instant = instantOf(wall, zone)!
          // An hour that the clocks repeat has two instants of one name.
          expect(wallOf(instant, zone)).toBe(wall)
          expect(Math.abs(instant - at)).toBeLessThanOrEqual(3_600_000 + 60_000)
        },
      ),
    )
    expect(instantOf('2026-11-03', 'America/St_Johns')).toBe(Date.parse('2026-11-03T03:30:00Z'))
    expect(instantOf('nonsense', 'UTC')).toBeUndefined()
  })

  test('numbers, durations and sizes have units', () => {
    expect([count(31204), count(null), shortCount(9999), shortCount(31204), shortCount(3_400_000)]).toEqual([
      '31,204',
      '-',
      '9,999',
      '31.2 k',
      '3.4 M',
    ])
    expect([180, 2099, 45_600, 185_000, 7_800_000, 200_000_000, null].map(duration)).toEqual([
      '180 ms',
      '2,099 ms',
      '45.6 s',
      '3 min 5 s',
      '2 h 10 min',
      '2 d 7 h',
      '-',
    ])
    expect([900, 1200, 3_400_000].map(bytesText)).toEqual(['900 B', '1.2 kB', '3.4 MB'])
    expect([percent(0, 9), percent(1, 100_000), percent(4, 1000), percent(12, 100)]).toEqual([
      '0 %',
      '< 0.1 %',
      '0.4 %',
      '12 %',
    ])
    const text = (ms: number): string => agoText(NOW + ms, NOW)
    expect([-1, -190_000, -239_000, 7_200_000, 72 * 3_600_000 - 900].map(text)).toEqual([
      'now',
      '3 min ago',
      '3 min ago',
      'in 2 h',
      'in 3 d',
    ])
  })
})

describe('the range of a page', () => {
  test('it is read from the URL, and written to it without the default', () => {
    const search = new URLSearchParams('model=a&from=-7d')
    expect(readRange(search)).toEqual({ from: '-7d', to: undefined })
    expect(presetOf(readRange(search))).toBe('7d')
    expect(String(writeRange(search, presetRange('24h')))).toBe('model=a')
    const custom = customRange(NOW - 1000, NOW)
    expect(readRange(writeRange(search, custom))).toEqual(custom)
    expect(readRange(new URLSearchParams('from=yesterday&to=x'))).toEqual({ from: '-24h', to: undefined })
    expect(readRange(new URLSearchParams('from=-30m&to=x'))).toEqual({ from: '-30m', to: undefined })
  })

  test('it has instants, and at most two hundred bars up to 200 days', () => {
    expect(instantsOf(presetRange('1h'), NOW)).toEqual({ from: NOW - 3_600_000, to: NOW })
    expect(['1h', '24h', '7d', '30d', '400d'].map((name) => bucketOf(presetRange(name), NOW))).toEqual([
      'minute',
      'hour',
      'hour',
      'day',
      'month',
    ])
  })
})

describe('the buckets of a range', () => {
  const at = (text: string): number => Date.parse(text)

  test('days begin at midnight of the zone, over a change of clocks too', () => {
    const starts = bucketStarts(at('2026-10-24T12:00Z'), at('2026-10-26T12:00Z'), 'day', 'Europe/Berlin')
    expect(starts.map((start) => new Date(start).toISOString())).toEqual([
      '2026-10-23T22:00:00.000Z',
      '2026-10-24T22:00:00.000Z',
      '2026-10-25T23:00:00.000Z',
    ])
    expect(endOf(starts[1]!, 'day', 'Europe/Berlin') - starts[1]!).toBe(25 * 3_600_000)
  })

  test('a day whose midnight is skipped begins when its clocks do', () => {
    const days = bucketStarts(at('2026-09-05T12:00Z'), at('2026-09-07T12:00Z'), 'day', 'America/Santiago')
    expect(days.map((start) => new Date(start).toISOString())).toEqual([
      '2026-09-05T04:00:00.000Z',
      '2026-09-06T04:00:00.000Z',
      '2026-09-07T03:00:00.000Z',
    ])
  })

  test('hours of a zone with half hours begin with its clocks', () => {
    const [first] = bucketStarts(at('2026-11-22T09:35Z'), at('2026-11-22T10:35Z'), 'hour', 'Asia/Kolkata')
    expect(new Date(first!).toISOString()).toBe('2026-11-22T09:30:00.000Z')
  })

  test('weeks begin on Monday and months on their first day', () => {
    const of = (bucket: 'week' | 'month' | 'none'): string[] =>
      bucketStarts(at('2026-11-22T09:35Z'), at('2027-01-02T00:00Z'), bucket, 'UTC').map((start) =>
        new Date(start).toISOString().slice(0, 10),
      )
    expect(of('week').slice(0, 2)).toEqual(['2026-11-16', '2026-11-23'])
    expect(of('month')).toEqual(['2026-11-01', '2026-12-01', '2027-01-01'])
    expect(of('none')).toEqual(['2026-11-22'])
  })

  test('an instant belongs to the last bucket that began before it', () => {
    expect([5, 10, 15, 20, 99].map((one) => bucketAt([10, 20], one))).toEqual([-1, 0, 0, 1, 1])
  })
})

describe('an id in a pasted text', () => {
  const HEX = '01a1fd4b15d57512b71eae815706062c'
  test.each([
    [HEX, HEX],
    [`msg_${HEX}`, `msg_${HEX}`],
    [`"id": "chatcmpl-${HEX}",`, `chatcmpl-${HEX}`],
    [`x-request-id: req_${HEX}\n`, `req_${HEX}`],
    [`https://sluice.example/v1/responses/resp_${HEX}?a=b`, `resp_${HEX}`],
  ])('%s is found', (text, id) => {
    expect(idIn(text)).toBe(id)
  })

  test.each(['', 'hello', HEX.slice(1), `${HEX}0`, 'req_'])('%s is none', (text) => {
    expect(idIn(text)).toBeUndefined()
  })
})
