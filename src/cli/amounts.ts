import type { LimitPeriod } from '../config/terms.ts'
import { nanoOf, usdText } from '../money.ts'
import { UsageError } from './command.ts'

/** A limit far below what the database can store. */
const MAX_USD = 1_000_000_000

/** An amount of USD on the command line, in nano-USD. `what`: the option or operand, for errors. */
export function readUsd(text: string, what: string, sign: 'unsigned' | 'signed'): bigint {
  const amount = readNano(text, what)
  const max = nanoOf(MAX_USD)
  if (amount > max || amount < (sign === 'signed' ? -max : 0n))
    throw new UsageError(`${what} must be from ${sign === 'signed' ? -MAX_USD : 0} to ${MAX_USD} USD, such as 12.5`)
  return amount
}

/** A percentage on the command line, in basis points. */
export function readPercent(text: string, what: string): number {
  const nano = /^\d{1,3}(\.\d{1,2})?%?$/.test(text) ? readNano(text.replace('%', ''), what) : -1n
  if (nano < 0n || nano > readNano('100', what))
    throw new UsageError(`${what} must be a percentage from 0 to 100 with at most two decimals, such as 12.5`)
  return Number(nano / 10_000_000n)
}

function readNano(text: string, what: string): bigint {
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

export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`
