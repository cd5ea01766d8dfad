import { instantOf, wallOf, type Bucket, type Zone } from './when.ts'

/** `from` and `to` as in the URL: an instant in ISO 8601, or a span before now, `-24h`. No `to`: now. */
export type Range = { from: string; to: string | undefined }

export const PRESETS = ['1h', '24h', '7d', '30d'] as const
const DEFAULT_FROM = '-24h'

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
const SPAN = /^-(\d{1,5})([mhd])$/

/** The range that a URL names; without one, the last 24 hours. A malformed one counts as none. */
export function readRange(search: URLSearchParams): Range {
  const from = search.get('from') ?? ''
  const to = search.get('to') ?? ''
  if (!isTime(from)) return { from: DEFAULT_FROM, to: undefined }
  return { from, to: isTime(to) ? to : undefined }
}

/** The URL with this range; the default is left out. */
export function writeRange(search: URLSearchParams, { from, to }: Range): URLSearchParams {
  const written = new URLSearchParams(search)
  written.delete('from')
  written.delete('to')
  if (from !== DEFAULT_FROM || to !== undefined) written.set('from', from)
  if (to !== undefined) written.set('to', to)
  return written
}

const isTime = (text: string): boolean => SPAN.test(text) || (/^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)))

export const presetRange = (name: string): Range => ({ from: `-${name}`, to: undefined })

/** The preset that this range is, if it is one. */
export const presetOf = ({ from, to }: Range): string | undefined =>
  to === undefined ? PRESETS.find((name) => from === `-${name}`) : undefined

export const customRange = (from: number, to: number): Range => ({
  from: new Date(from).toISOString(),
  to: new Date(to).toISOString(),
})

/** Begin and end as instants. */
export function instantsOf({ from, to }: Range, now: number): { from: number; to: number } {
  const at = (text: string): number => {
    const [, number, unit = ''] = SPAN.exec(text) ?? []
    return number === undefined ? Date.parse(text) : now - Number(number) * (UNITS[unit] ?? 0)
  }
  return { from: at(from), to: to === undefined ? now : at(to) }
}

/** A range whose end is now, so that what happens belongs to it. */
export const isOpenEnded = ({ to }: Range): boolean => to === undefined

const MOST_MINUTES = 3 * 60
const MOST_HOURS = 8 * 24
const MOST_DAYS = 200

/** The finest bucket that gives at most two hundred bars. */
export function bucketOf(range: Range, now: number): Bucket {
  const { from, to } = instantsOf(range, now)
  const span = to - from
  if (span <= MOST_MINUTES * 60_000) return 'minute'
  if (span <= MOST_HOURS * 3_600_000) return 'hour'
  return span <= MOST_DAYS * 86_400_000 ? 'day' : 'month'
}

const STEP_MS: Partial<Record<Bucket, number>> = { minute: 60_000, hour: 3_600_000 }
const DAY_MS = 86_400_000

/** The beginnings of all buckets that overlap the range, in the zone; a week begins on Monday. */
export function bucketStarts(from: number, to: number, bucket: Bucket, zone: Zone): number[] {
  const starts: number[] = []
  let at = startOf(from, bucket, zone)
  while (at < to) {
    starts.push(at)
    const step = STEP_MS[bucket]
    at = step === undefined ? nextStart(at, bucket, zone) : at + step
  }
  return starts
}

/** The end of the last bucket that the range overlaps. */
export const endOf = (start: number, bucket: Bucket, zone: Zone): number =>
  start + (STEP_MS[bucket] ?? nextStart(start, bucket, zone) - start)

function startOf(at: number, bucket: Bucket, zone: Zone): number {
  if (bucket === 'none') return at
  if (bucket === 'minute') return Math.floor(at / 60_000) * 60_000
  const wall = wallOf(at, zone)
  if (bucket === 'hour') return Math.floor(at / 60_000) * 60_000 - Number(wall.slice(14, 16)) * 60_000
  const date = wall.slice(0, 10)
  if (bucket === 'month') return instantOf(`${date.slice(0, 8)}01`, zone)!
  const weekday = (new Date(`${date}T00:00Z`).getUTCDay() + 6) % 7
  return bucket === 'week' ? instantOf(shifted(date, -weekday), zone)! : instantOf(date, zone)!
}

/** Days have 23 to 25 hours, so the next one begins where its date does. */
function nextStart(at: number, bucket: Bucket, zone: Zone): number {
  if (bucket === 'none') return Number.POSITIVE_INFINITY
  const date = wallOf(at, zone).slice(0, 10)
  if (bucket !== 'month') return instantOf(shifted(date, bucket === 'week' ? 7 : 1), zone)!
  const [year = 0, month = 0] = date.split('-').map(Number)
  const next = month === 12 ? `${year + 1}-01` : `${year}-${String(month + 1).padStart(2, '0')}`
  return instantOf(`${next}-01`, zone)!
}

const shifted = (date: string, days: number): string =>
  new Date(Date.parse(`${date}T00:00Z`) + days * DAY_MS).toISOString().slice(0, 10)

/** The bucket that an instant belongs to, by its place among the beginnings; -1 before the first. */
export function bucketAt(starts: readonly number[], at: number): number {
  let low = 0
  let high = starts.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((starts[middle] ?? 0) <= at) low = middle + 1
    else high = middle
  }
  return low - 1
}
