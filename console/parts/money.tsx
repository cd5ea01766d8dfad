/** Amounts: from decimal strings to nano-USD as bigint, and back to text. No floating point. */

const NANO = 1_000_000_000n
const DECIMALS = 9

export function nanoOf(usd: string): bigint {
  const [, sign, whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(usd) ?? []
  if (sign === undefined) throw new Error(`${usd} is not an amount`)
  const nano = BigInt(whole) * NANO + BigInt(fraction.padEnd(DECIMALS, '0').slice(0, DECIMALS))
  return sign === '-' ? -nano : nano
}

/** All decimals that an amount has: what goes to the API and into the clipboard. */
export function usdText(nano: bigint): string {
  return fixed(nano, DECIMALS).replace(/\.?0+$/, '')
}

const grouped = (whole: bigint): string => whole.toString().replace(/\B(?=(\d{3})+$)/g, ',')

/** Rounded half away from zero. */
function fixed(nano: bigint, decimals: number, separate: (whole: bigint) => string = String): string {
  const unit = 10n ** BigInt(DECIMALS - decimals)
  const size = nano < 0n ? -nano : nano
  const rounded = (size + unit / 2n) / unit
  const scale = 10n ** BigInt(decimals)
  const fraction = decimals === 0 ? '' : `.${(rounded % scale).toString().padStart(decimals, '0')}`
  return `${nano < 0n && rounded > 0n ? '-' : ''}${separate(rounded / scale)}${fraction}`
}

/** For columns: six decimals, so that points stand below each other. */
export const listAmount = (usd: string): string => fixed(nanoOf(usd), 6, grouped)

/** For heads and tiles: two decimals, and four significant digits below 1 USD. */
export function headAmount(usd: string): string {
  const nano = nanoOf(usd)
  const size = nano < 0n ? -nano : nano
  if (size === 0n || size >= NANO) return fixed(nano, 2, grouped)
  const zeros = DECIMALS - size.toString().length
  return fixed(nano, Math.min(DECIMALS, Math.max(2, zeros + 4)), grouped)
}

/** All nine decimals. */
export const exactAmount = (usd: string): string => fixed(nanoOf(usd), DECIMALS, grouped)

export const sumOf = (amounts: readonly (string | null)[]): string =>
  usdText(amounts.reduce((sum, one) => sum + (one === null ? 0n : nanoOf(one)), 0n))

/** The share of `part` in `whole` in percent, from 0 to 100, for bars alone. */
export function percentOf(part: string, whole: string): number {
  const [of, all] = [nanoOf(part), nanoOf(whole)]
  if (all <= 0n) return of > 0n ? 100 : 0
  const permille = (of * 1000n) / all
  return Number(permille < 0n ? 0n : permille > 1000n ? 1000n : permille) / 10
}

/** The height of an amount in a chart. Pictures need no more than a double has; texts never come from it. */
export const plotted = (usd: string | null): number => (usd === null ? 0 : Number(usd))

type Props = { usd: string | null; as?: 'list' | 'head'; why?: string }

/** An amount with all its decimals as its title; `-` with the reason where there is none. */
export function Money({ usd, as = 'list', why = 'no cost is known' }: Props) {
  if (usd === null)
    return (
      <span className="number dim" title={why}>
        -
      </span>
    )
  return (
    <span className="number" title={`${exactAmount(usd)} USD`}>
      {as === 'head' ? headAmount(usd) : listAmount(usd)}
    </span>
  )
}
