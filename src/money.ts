/** Nano-USD: one USD is a thousand million. */
export type Nano = bigint

const DECIMALS = 9
const NANO_PER_USD = 10n ** BigInt(DECIMALS)
/**
 * No amount and no rate is larger in size than this exponent says: a text of few characters must not make a number of
 * millions of digits.
 */
const MOST_EXPONENT = 30

/**
 * USD as nano-USD, exactly: a number is taken by its shortest decimal text, exponents included.
 * Throws an Error for what is no finite decimal, and for one with more than nine decimals, trailing zeros aside:
 * rounding is for amounts that are computed, never for one that somebody wrote.
 */
export function nanoOf(usd: string | number): Nano {
  const [, sign, whole, fraction = '', exponentText = '0'] =
    /^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(String(usd)) ?? []
  const exponent = Number(exponentText)
  if (whole === undefined || Math.abs(exponent) > MOST_EXPONENT)
    throw new Error(`'${String(usd).slice(0, 40)}' is no amount of USD, such as 12.5`)
  const digits = BigInt(whole + fraction)
  const shift = DECIMALS + exponent - fraction.length
  const scale = 10n ** BigInt(Math.abs(shift))
  if (shift < 0 && digits % scale !== 0n)
    throw new Error(
      `'${String(usd).slice(0, 40)}' has more than ${DECIMALS} decimals, and a nano-USD is the smallest amount there is`,
    )
  const nano = shift < 0 ? digits / scale : digits * scale
  return sign === '-' ? -nano : nano
}

/** USD as the nearest double, for JSON that clients read. */
export const usdOf = (nano: Nano): number => Number(usdText(nano))

/** USD as a decimal without trailing zeros, for people: `12.5`, `-0.000001`. */
export function usdText(nano: Nano): string {
  const size = nano < 0n ? -nano : nano
  const fraction = String(size % NANO_PER_USD)
    .padStart(DECIMALS, '0')
    .replace(/0+$/, '')
  return `${nano < 0n ? '-' : ''}${size / NANO_PER_USD}${fraction === '' ? '' : `.${fraction}`}`
}

/**
 * A quotient rounded to the nearest integer, halves to the even one, so that many roundings do not drift; the
 * denominator is positive.
 */
export function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  if (numerator < 0n) return -divideHalfEven(-numerator, denominator)
  const quotient = numerator / denominator
  const twice = (numerator - quotient * denominator) * 2n
  return twice > denominator || (twice === denominator && (quotient & 1n) === 1n) ? quotient + 1n : quotient
}
