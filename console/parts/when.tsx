/** Times, always in the zone that the bar shows. Formatters are made once for each zone. */
import { useSyncExternalStore } from 'react'

const STORED = 'sluice-zone'
const BROWSER_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'
const listeners = new Set<() => void>()
let zone = storedZone()

function storedZone(): string {
  try {
    return localStorage.getItem(STORED) === 'UTC' ? 'UTC' : BROWSER_ZONE
  } catch {
    return BROWSER_ZONE
  }
}

export function setZone(next: 'UTC' | 'browser'): void {
  zone = next === 'UTC' ? 'UTC' : BROWSER_ZONE
  try {
    localStorage.setItem(STORED, next)
  } catch {}
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** The chosen zone, an IANA name: also the `tz` of questions about usage. */
export const useZone = (): string => useSyncExternalStore(subscribe, () => zone)
export const zones = { browser: BROWSER_ZONE }

type Formats = { time: Intl.DateTimeFormat; day: Intl.DateTimeFormat; dayOfYear: Intl.DateTimeFormat }
const formats = new Map<string, Formats>()

function formatsOf(timeZone: string): Formats {
  let found = formats.get(timeZone)
  if (found === undefined) {
    const make = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-GB', { ...options, timeZone })
    found = {
      time: make({ hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 }),
      day: make({ day: 'numeric', month: 'short' }),
      dayOfYear: make({ day: 'numeric', month: 'short', year: 'numeric' }),
    }
    formats.set(timeZone, found)
  }
  return found
}

/** `09:35:26.638`, with the day before it where that is not today. `precise`: with milliseconds. */
export function timeText(iso: string, timeZone: string, precise = true): string {
  const at = new Date(iso)
  const { time } = formatsOf(timeZone)
  const clock = precise ? time.format(at) : time.format(at).slice(0, 5)
  const day = dayText(iso, timeZone)
  return day === dayText(new Date().toISOString(), timeZone) ? clock : `${day} ${clock}`
}

/** `3 Nov`, with its year where that is not this one. */
export function dayText(iso: string, timeZone: string): string {
  const at = new Date(iso)
  const { day, dayOfYear } = formatsOf(timeZone)
  return at.getUTCFullYear() === new Date().getUTCFullYear() ? day.format(at) : dayOfYear.format(at)
}

/** A span of time in its two largest units: `3 d 4 h`, `12 min`, `8 s`. */
export function spanText(ms: number): string {
  const units: readonly (readonly [string, number])[] = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1_000],
  ]
  const index = units.findIndex(([, size]) => Math.abs(ms) >= size)
  if (index < 0) return '0 s'
  const [name, size] = units[index]!
  const next = units[index + 1]
  const whole = Math.floor(Math.abs(ms) / size)
  const rest = next === undefined ? 0 : Math.floor((Math.abs(ms) % size) / next[1])
  return rest === 0 || whole >= 10 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${next![0]}`
}

/** `180 ms`, `2,099 ms`, `45.6 s`. */
export function durationText(ms: number | null): string {
  if (ms === null) return '-'
  if (ms < 10_000) return `${Math.round(ms).toLocaleString('en-US')} ms`
  return ms < 600_000 ? `${(ms / 1000).toFixed(1)} s` : spanText(ms)
}

export function When({ at, precise = true }: { at: string | null; precise?: boolean }) {
  const timeZone = useZone()
  if (at === null) return <span className="dim">-</span>
  return (
    <time className="number" dateTime={at} title={at}>
      {timeText(at, timeZone, precise)}
    </time>
  )
}

/** How long ago, as of when it was drawn: for columns such as "last used". */
export function Ago({ at, never = 'never' }: { at: string | null; never?: string }) {
  if (at === null) return <span className="dim">{never}</span>
  const ms = Date.now() - Date.parse(at)
  return (
    <time className="number" dateTime={at} title={at}>
      {ms < 5_000 ? 'just now' : `${spanText(ms).replace(/ \d+ \w+$/, '')} ago`}
    </time>
  )
}
