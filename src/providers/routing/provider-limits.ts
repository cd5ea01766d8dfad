/** Rate limits, as providers report them in headers. */

/** The longest time for which a provider's word keeps requests from it. */
export const LONGEST_COOL_DOWN_MS = 600_000

type HeaderReader = { get(name: string): string | null }

/** `left`: the share of the limit that is left, the smallest of several; `resetMs`: until it is full again. */
export type ProviderQuota = { left: number; resetMs: number | undefined }

/**
 * The time after which a provider accepts a retry, in milliseconds: from `retry-after-ms`, or `retry-after` in seconds,
 * as a date (RFC 9110, 10.2.3) or as a duration. `now`: Unix milliseconds.
 */
export function retryAfterMs(headers: HeaderReader, now: number): number | undefined {
  const exact = headers.get('retry-after-ms')
  const ms = exact !== null && NUMBER.test(exact.trim()) ? Number(exact) : delayMs(headers.get('retry-after'), now)
  return ms === undefined ? undefined : Math.max(0, ms)
}

/** The families of headers, with `#` for the limited unit, and the units. */
const FAMILIES = [
  { prefix: 'x-ratelimit-', units: ['requests', 'tokens'], name: (kind: string, unit: string) => `${kind}-${unit}` },
  {
    prefix: 'anthropic-ratelimit-',
    units: ['requests', 'tokens', 'input-tokens', 'output-tokens'],
    name: (kind: string, unit: string) => `${unit}-${kind}`,
  },
] as const

/** The rest of a provider's limits; undefined where its response does not say. `now`: Unix milliseconds. */
export function providerQuota(headers: HeaderReader, now: number): ProviderQuota | undefined {
  let quota: ProviderQuota | undefined
  for (const { prefix, units, name } of FAMILIES)
    for (const unit of units) {
      const remaining = numberOf(headers.get(prefix + name('remaining', unit)))
      if (remaining === undefined) continue
      const limit = numberOf(headers.get(prefix + name('limit', unit)))
      const left = remaining <= 0 ? 0 : limit === undefined || limit <= 0 ? 1 : Math.min(1, remaining / limit)
      if (quota === undefined || left < quota.left)
        quota = { left, resetMs: delayMs(headers.get(prefix + name('reset', unit)), now) }
    }
  return quota
}

const NUMBER = /^\d+(\.\d+)?$/
/** `6m0s`, `1h2m3.5s`, `120ms`. */
const DURATION =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/
const UNIT_MS = [86_400_000, 3_600_000, 60_000, 1_000, 1]

/** Larger numbers than a year's seconds are instants in Unix seconds. */
const LONGEST_SECONDS = 31_536_000

/** Milliseconds until the time that a header names; undefined for one that cannot be read. */
export function delayMs(header: string | null, now: number): number | undefined {
  const text = header?.trim() ?? ''
  if (text === '') return undefined
  if (NUMBER.test(text)) {
    const seconds = Number(text)
    return Math.max(0, seconds > LONGEST_SECONDS ? seconds * 1_000 - now : seconds * 1_000)
  }
  const parts = DURATION.exec(text)
  if (parts !== null) return UNIT_MS.reduce((sum, unit, index) => sum + unit * Number(parts[index + 1] ?? 0), 0)
  const instant = Date.parse(text)
  return Number.isNaN(instant) ? undefined : Math.max(0, instant - now)
}

function numberOf(header: string | null): number | undefined {
  const value = header === null || header.trim() === '' ? Number.NaN : Number(header)
  return Number.isFinite(value) ? value : undefined
}
