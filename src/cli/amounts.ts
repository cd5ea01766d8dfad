import type { LimitPeriod } from '../config/terms.ts'
import { nanoOf, usdText } from '../money.ts'
import { UsageError } from './command.ts'

/** More than anybody has, and less than the book can hold. */
const MOST_USD = 1_000_000_000

/** USD of the command line -> nano-USD. `what` names the option or operand. */
export function readUsd(text: string, what: string, sign: 'unsigned' | 'signed'): bigint {
  const amount = exactly(text, what)
  const most = nanoOf(MOST_USD)
  if (amount > most || amount < (sign === 'signed' ? -most : 0n))
    throw new UsageError(`${what} must be from ${sign === 'signed' ? -MOST_USD : 0} to ${MOST_USD} USD, like 12.5`)
  return amount
}

/** Percent of the command line -> basis points. */
export function readPercent(text: string, what: string): number {
  const nano = /^\d{1,3}(\.\d{1,2})?%?$/.test(text) ? exactly(text.replace('%', ''), what) : -1n
  if (nano < 0n || nano > exactly('100', what))
    throw new UsageError(`${what} must be a percentage from 0 to 100 with at most two decimals, like 12.5`)
  return Number(nano / 10_000_000n)
}

function exactly(text: string, what: string): bigint {
  try {
    return nanoOf(text)
  } catch (error) {
    throw new UsageError(`${what}: ${(error as Error).message}`)
  }
}

export const percentText = (basisPoints: number): string => `${basisPoints / 100} %`

/** `10 USD a month`, or `none`. */
export const limitText = ({ limit, limitPeriod }: { limit: bigint | null; limitPeriod: LimitPeriod | null }): string =>
  limit === null ? 'none' : `${usdText(limit)} USD${limitPeriod === null ? '' : ` a ${limitPeriod}`}`
