/** Nano-USD: 10^9 are one USD. */
export type Nano = bigint

const DECIMALS = 9
const ZERO = 48
const ZEROS = '0'.repeat(DECIMALS)
const MOST_EXACT = BigInt(Number.MAX_SAFE_INTEGER)
/** The largest exponent accepted, so that a short text cannot make a number of millions of digits. */
const MOST_EXPONENT = 30

/**
 * USD -> nano-USD, exactly; a number is read by its shortest decimal text, exponents included. Throws an Error for what
 * is not a finite decimal, and for more than nine significant decimals: computed amounts are rounded, written ones
 * never.
 */
export function nanoOf(usd: string | number): Nano {
  const [, sign, whole, fraction = '', exponentText = '0'] =
    /^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(String(usd)) ?? []
  const exponent = Number(exponentText)
  if (whole === undefined || Math.abs(exponent) > MOST_EXPONENT)
    throw new Error(`'${String(usd).slice(0, 40)}' is not an amount of USD, such as 12.5`)
  const digits = BigInt(whole + fraction)
  const shift = DECIMALS + exponent - fraction.length
  const scale = 10n ** BigInt(Math.abs(shift))
  if (shift < 0 && digits % scale !== 0n)
    throw new Error(
      `'${String(usd).slice(0, 40)}' has more than ${DECIMALS} decimals; the smallest amount is one nano-USD`,
    )
  const nano = shift < 0 ? digits / scale : digits * scale
  return sign === '-' ? -nano : nano
}

/** Nano-USD -> USD as the nearest double, for JSON responses. */
export const usdOf = (nano: Nano): number => Number(usdText(nano))

/** Nano-USD -> USD as a decimal without trailing zeros: `12.5`, `-0.000001`. */
export function usdText(nano: Nano): string {
  const size = nano < 0n ? -nano : nano
  // Digits of a number are written several times as fast as those of a bigint.
  const digits = size < MOST_EXACT ? String(Number(size)) : String(size)
  const point = digits.length - DECIMALS
  let fraction = point > 0 ? digits.slice(point) : ZEROS.slice(digits.length) + digits
  let end = DECIMALS
  while (end > 0 && fraction.charCodeAt(end - 1) === ZERO) end--
  fraction = end === 0 ? '' : `.${fraction.slice(0, end)}`
  return `${nano < 0n ? '-' : ''}${point > 0 ? digits.slice(0, point) : '0'}${fraction}`
}

/**
 * The quotient rounded to the nearest integer, halves to the even one, so that many roundings do not drift. The
 * denominator must be positive.
 */
export function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  if (numerator < 0n) return -divideHalfEven(-numerator, denominator)
  const quotient = numerator / denominator
  const twice = (numerator - quotient * denominator) * 2n
  return twice > denominator || (twice === denominator && (quotient & 1n) === 1n) ? quotient + 1n : quotient
}
