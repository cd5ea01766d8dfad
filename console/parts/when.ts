/** A zone: an IANA name, such as `Europe/Berlin`, or `UTC`. Instants are Unix milliseconds. */
export type Zone = string

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Makes a formatter once for each zone: making one costs more than a hundred uses. */
function perZone(options: Intl.DateTimeFormatOptions, locale = 'en-GB'): (at: number, zone: Zone) => string {
  const made = new Map<Zone, Intl.DateTimeFormat>()
  return (at, zone) => {
    let formatter = made.get(zone)
    if (formatter === undefined) {
      formatter = new Intl.DateTimeFormat(locale, { ...options, timeZone: zone })
      made.set(zone, formatter)
    }
    return formatter.format(at)
  }
}

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const

/** `09:35:26.638` */
export const timeText = perZone({ ...CLOCK, second: '2-digit', fractionalSecondDigits: 3 })
/** `09:35:26` */
export const secondText = perZone({ ...CLOCK, second: '2-digit' })
/** `09:35` */
const minuteText = perZone(CLOCK)
/** `Nov 3` */
const dayText = perZone({ month: 'short', day: 'numeric' }, 'en-US')
const monthText = perZone({ month: 'short', year: 'numeric' }, 'en-US')
const yearText = perZone({ year: 'numeric' })
/** `2026-11-22`, also to compare days. */
export const dateText = perZone({ year: 'numeric', month: '2-digit', day: '2-digit' }, 'sv-SE')
const localText = perZone({ ...CLOCK, year: 'numeric', month: '2-digit', day: '2-digit' }, 'sv-SE')

/** The time, with its day where that is not `now`'s, and the year where that differs, too. */
export function whenText(at: number, zone: Zone, now: number): string {
  const time = timeText(at, zone)
  return dateText(at, zone) === dateText(now, zone) ? time : `${datedText(at, zone, now)} ${time}`
}

/** `Nov 3 14:05`, for sentences. */
export const shortWhenText = (at: number, zone: Zone, now: number): string =>
  dateText(at, zone) === dateText(now, zone)
    ? minuteText(at, zone)
    : `${datedText(at, zone, now)} ${minuteText(at, zone)}`

const datedText = (at: number, zone: Zone, now: number): string =>
  yearText(at, zone) === yearText(now, zone) ? dayText(at, zone) : `${dayText(at, zone)}, ${yearText(at, zone)}`

export type Bucket = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'none'

/** The name of a bucket by its beginning: `14:05`, `Nov 3 14:00`, `Nov 3`, `Nov 2026`. */
export function bucketText(at: number, bucket: Bucket, zone: Zone): string {
  if (bucket === 'minute') return minuteText(at, zone)
  if (bucket === 'hour') return `${dayText(at, zone)} ${minuteText(at, zone)}`
  return bucket === 'month' ? monthText(at, zone) : dayText(at, zone)
}

/**
 * The instant of a wall clock in a zone, `2026-11-03T14:05`; of one that clocks skip, the instant at which they do.
 * Undefined for what is no date.
 */
export function instantOf(wall: string, zone: Zone): number | undefined {
  const full = wall.length === 10 ? `${wall}T00:00` : wall
  const asUtc = Date.parse(`${full}Z`)
  if (Number.isNaN(asUtc)) return undefined
  // The offset before a change of clocks and the one after it can differ.
  const guess = asUtc - offsetAt(asUtc, zone)
  const second = asUtc - offsetAt(guess, zone)
  if (wallOf(second, zone) === full) return second
  return wallOf(guess, zone) === full ? guess : Math.max(guess, second)
}

/** The wall clock of an instant, as `instantOf` reads it and an input of a date and time shows it. */
export const wallOf = (at: number, zone: Zone): string => localText(at, zone).replace(' ', 'T')

/** Milliseconds by which the clocks of the zone are before UTC at this instant. */
const offsetAt = (at: number, zone: Zone): number =>
  Date.parse(`${wallOf(at, zone)}Z`) - Math.floor(at / MINUTE) * MINUTE

const NUMBER = new Intl.NumberFormat('en-US')

/** `31,204`; `-` where there is none. */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? '-' : NUMBER.format(value)

/** `1.2 k`, `3.4 M`: for axes and tiles. */
export const shortCount = (value: number): string => {
  for (const [size, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e4, 'k'],
  ] as const)
    if (value >= size) return `${trimmed(value / (size === 1e4 ? 1e3 : size))} ${unit}`
  return NUMBER.format(value)
}

const trimmed = (value: number): string => (value >= 100 ? String(Math.round(value)) : String(Number(value.toFixed(1))))

/** `180 ms`, `2,099 ms`, `45.6 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '-'
  if (ms < 10_000) return `${NUMBER.format(Math.round(ms))} ms`
  if (ms < 2 * MINUTE) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 2 * HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / 1000)} s`
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`
}

/** The time that something has run for so far, in whole seconds. */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  return seconds < 120 ? `${seconds} s` : duration(seconds * 1000)
}

/** `3 min ago`, `in 2 h`. */
export function agoText(at: number, now: number): string {
  const size = Math.abs(now - at)
  if (size < 5000) return 'now'
  // A key that was given three days a moment ago ends in three, not in two.
  const whole = at <= now ? Math.floor : Math.round
  const text =
    size < MINUTE
      ? `${whole(size / 1000)} s`
      : size < HOUR
        ? `${whole(size / MINUTE)} min`
        : size < 2 * DAY
          ? `${whole(size / HOUR)} h`
          : `${whole(size / DAY)} d`
  return at <= now ? `${text} ago` : `in ${text}`
}

/** `1.2 MB` */
export function bytesText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  return bytes < 1e6
    ? `${trimmed(bytes / 1e3)} kB`
    : bytes < 1e9
      ? `${trimmed(bytes / 1e6)} MB`
      : `${trimmed(bytes / 1e9)} GB`
}

/** `12 %`, `0.4 %`, `0 %`: a share that is not zero is never shown as zero. */
export function percent(part: number, whole: number): string {
  if (whole === 0 || part === 0) return '0 %'
  const share = (part / whole) * 100
  if (share < 0.1) return '< 0.1 %'
  return share < 10 ? `${Number(share.toFixed(1))} %` : `${Math.round(share)} %`
}
