import { describe, expect, test } from 'bun:test'
import { Zone } from '../../src/endpoints/management/zones.ts'

const HOUR_MS = 3_600_000
const iso = (times: readonly number[]): string[] => times.map((at) => new Date(at).toISOString())

describe('buckets of a time zone', () => {
  const bounds = (
    zone: string,
    bucket: 'day' | 'hour' | 'week' | 'month' | 'none',
    from: string,
    to: string,
  ): string[] => iso(new Zone(zone).bounds(bucket, Date.parse(from), Date.parse(to)))

  test('a day in a zone with half hours begins at half past', () => {
    expect(bounds('Asia/Kolkata', 'day', '2026-11-20T12:00:00Z', '2026-11-22T12:00:00Z')).toEqual([
      '2026-11-20T12:00:00.000Z',
      '2026-11-20T18:30:00.000Z',
      '2026-11-21T18:30:00.000Z',
      '2026-11-22T12:00:00.000Z',
    ])
  })

  test('the day on which the clock is set back has 25 hours, the one on which it is set forward 23', () => {
    const days = (from: string, to: string): number[] => {
      const all = new Zone('America/St_Johns').bounds('day', Date.parse(from), Date.parse(to))
      return all.slice(1).map((at, index) => (at - all[index]!) / HOUR_MS)
    }
    expect(days('2026-10-31T02:30:00Z', '2026-11-03T03:30:00Z')).toEqual([24, 25, 24])
    expect(days('2026-03-07T03:30:00Z', '2026-03-10T02:30:00Z')).toEqual([24, 23, 24])
  })

  test('every instant is in the bucket of its date on the wall', () => {
    for (const name of [
      'Asia/Kolkata',
      'America/St_Johns',
      'Australia/Lord_Howe',
      'Asia/Kathmandu',
      'UTC',
      'Africa/Cairo',
    ]) {
      const zone = new Zone(name)
      const format = new Intl.DateTimeFormat('en-CA', { timeZone: name, dateStyle: 'short' })
      const days = zone.bounds('day', Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1))
      for (const [at, start] of days.slice(0, -1).entries()) {
        expect(format.format(days[at + 1]! - 1)).toBe(format.format(start))
        if (at > 0) expect(format.format(start - 1)).not.toBe(format.format(start))
      }
    }
  })

  test('weeks begin on Monday, months on the first', () => {
    expect(bounds('Europe/Berlin', 'week', '2026-11-20T00:00:00Z', '2026-11-25T00:00:00Z')[1]).toBe(
      '2026-11-22T23:00:00.000Z',
    )
    expect(bounds('Europe/Berlin', 'month', '2026-01-15T00:00:00Z', '2026-05-01T00:00:00Z').slice(1, -1)).toEqual([
      '2026-01-31T23:00:00.000Z',
      '2026-02-28T23:00:00.000Z',
      '2026-03-31T22:00:00.000Z',
      '2026-04-30T22:00:00.000Z',
    ])
  })

  test('an unknown zone, and too many points, are refused', () => {
    expect(() => new Zone('Mars/Base')).toThrow('tz: must be the name of a time zone')
    expect(() => bounds('UTC', 'hour', '2020-01-01T00:00:00Z', '2026-01-01T00:00:00Z')).toThrow('more than 2000 points')
  })
})
