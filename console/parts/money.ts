import { divideHalfEven, nanoOf, usdText, type Nano } from '../../src/money.ts'

/** Amounts as the API writes them: a decimal of USD, or null where there is none. No float is made of one. */
export type Usd = string | null

const DECIMALS = 9
const LIST_DECIMALS = 6
const SIGNIFICANT = 4
const NANO_PER_USD = 10n ** BigInt(DECIMALS)
/** In place of an amount that is absent. */
export const NO_AMOUNT = '-'

/** For columns: always six decimals, so that the points of a column are aligned. */
export const listUsd = (usd: Usd): string => (usd === null ? NO_AMOUNT : fixed(nanoOf(usd), LIST_DECIMALS))

/** For heads: two decimals; an amount below one USD with four significant digits. */
export function headUsd(usd: Usd): string {
  if (usd === null) return NO_AMOUNT
  const nano = nanoOf(usd)
  const size = nano < 0n ? -nano : nano
  if (size >= NANO_PER_USD || size === 0n) return fixed(nano, 2)
  const digits = String(size).length
  return withoutZeros(fixed(nano, Math.min(DECIMALS, DECIMALS - digits + SIGNIFICANT)), 2)
}

/** For titles and copies: every decimal there is. */
export const exactUsd = (usd: Usd): string => (usd === null ? NO_AMOUNT : `${grouped(usdText(nanoOf(usd)))} USD`)

/** The sum, absent amounts left out. */
export const sumUsd = (amounts: Iterable<Usd>): string => {
  let sum = 0n
  for (const usd of amounts) if (usd !== null) sum += nanoOf(usd)
  return usdText(sum)
}

export const compareUsd = (a: Usd, b: Usd): number => {
  const difference = nanoOf(a ?? '0') - nanoOf(b ?? '0')
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

/** The change in whole percent, for the period before; undefined where that had nothing. */
export function changePercent(now: Usd, before: Usd): number | undefined {
  const old = nanoOf(before ?? '0')
  return old <= 0n ? undefined : Number(divideHalfEven((nanoOf(now ?? '0') - old) * 100n, old))
}

/** A length for a chart. It is drawn, not written: its digits are those of a double. */
export const chartUsd = (usd: Usd): number => Number(usd ?? 0)

function fixed(nano: Nano, decimals: number): string {
  const unit = 10n ** BigInt(DECIMALS - decimals)
  const rounded = divideHalfEven(nano, unit)
  const digits = String(rounded < 0n ? -rounded : rounded).padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  return grouped(`${rounded < 0n ? '-' : ''}${whole}.${digits.slice(digits.length - decimals)}`)
}

/** Zeros at the end are left out, down to `least` decimals. */
function withoutZeros(text: string, least: number): string {
  const shortest = text.indexOf('.') + 1 + least
  let end = text.length
  while (end > shortest && text[end - 1] === '0') end--
  return text.slice(0, end)
}

/** `12345.6` -> `12,345.6`. */
function grouped(text: string): string {
  const [whole = '', fraction] = text.split('.')
  const thousands = whole.replace(/\B(?=(?:\d{3})+$)/g, ',')
  return fraction === undefined ? thousands : `${thousands}.${fraction}`
}

/** The spent part of `whole`, from 0 to 100, in whole percent. */
export function sharePercent(part: Usd, whole: string): number {
  const [spent, limit] = [nanoOf(part ?? '0'), nanoOf(whole)]
  if (limit <= 0n || spent >= limit) return 100
  return spent <= 0n ? 0 : Number((spent * 100n) / limit)
}
