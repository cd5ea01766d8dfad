import { invalid } from '../../error.ts'

export const BUCKETS = ['minute', 'hour', 'day', 'week', 'month', 'none'] as const
export type BucketName = (typeof BUCKETS)[number]

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Points of one answer. */
const POINTS_MAX = 2_000

/** The clock on the wall of a time zone. */
export class Zone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat

  /** Throws invalid_request (400) for a name that is no time zone. */
  constructor(name: string) {
    this.name = name
    try {
      this.#format = new Intl.DateTimeFormat('en-US-u-ca-iso8601-nu-latn', {
        timeZone: name,
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      })
    } catch {
      throw invalid('tz', 'must be the name of a time zone, such as Europe/Berlin')
    }
  }

  /** The wall's time of an instant, as if it were UTC, in milliseconds. */
  wall(at: number): number {
    const parts: Record<string, number> = {}
    for (const { type, value } of this.#format.formatToParts(at)) parts[type] = Number(value)
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) + (((at % 1000) + 1000) % 1000)
  }

  /** The beginning of the bucket of a wall's time, and of the following one. */
  static step(bucket: Exclude<BucketName, 'none'>, wall: number): { start: number; next: number } {
    const date = new Date(wall)
    if (bucket === 'month') {
      const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
      return { start: Date.UTC(year, month, 1), next: Date.UTC(year, month + 1, 1) }
    }
    const size = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS, week: 7 * DAY_MS }[bucket]
    // Weeks begin on Monday, and 1970 began on a Thursday.
    const origin = bucket === 'week' ? 4 * DAY_MS : 0
    const start = Math.floor((wall - origin) / size) * size + origin
    return { start, next: start + size }
  }

  /**
   * The first instant from `at` on that is in another bucket. A clock that is set back repeats wall times: they stay in
   * the bucket that they are in.
   */
  #nextStart(bucket: Exclude<BucketName, 'none'>, at: number): number {
    const { start, next } = Zone.step(bucket, this.wall(at))
    const leaves = (instant: number): boolean => {
      const wall = this.wall(instant)
      return wall >= next || wall < start
    }
    // Clocks change by some hours at most; the search is between an instant within and one that is not.
    let within = at
    let beyond = at + (next - this.wall(at))
    while (!leaves(beyond)) {
      within = beyond
      beyond += Math.max(MINUTE_MS, next - this.wall(beyond))
    }
    if (!leaves(beyond - 1)) return beyond
    while (beyond - within > 1) {
      const middle = Math.floor((within + beyond) / 2)
      if (leaves(middle)) beyond = middle
      else within = middle
    }
    return beyond
  }

  /** The bounds of all buckets in a range; the first and the last bucket are cut by it. */
  bounds(bucket: BucketName, from: number, to: number): number[] {
    const bounds = [from]
    if (bucket !== 'none')
      for (let at = this.#nextStart(bucket, from); at < to; at = this.#nextStart(bucket, at)) {
        if (bounds.push(at) > POINTS_MAX)
          throw invalid('bucket', `gives more than ${POINTS_MAX} points in this range; take a larger one`)
      }
    return [...bounds, to]
  }
}
