import type { Exhausted, Rates, Received, Usage } from './model-pricing.ts'

/** The log of the model: its requests, with what is held for them and how they ended. */

export type WindowName = '5_hour' | '7_day' | 'monthly'
/** `discount` in basis points. */
export type Tier = { flows: Record<WindowName, bigint>; discount: number }
export type Limit = { amount: bigint; period: 'day' | 'week' | 'month' | null }
export type Span = { start: number; end: number }
type Closed = {
  outcome: string
  begun: boolean
  usage: Usage
  estimated: boolean
  bill: bigint
  flows: bigint
  bonus: bigint
  credit: bigint
  writtenOff: bigint
  counted: Set<WindowName>
}

export type Request = {
  id: string
  account: string
  key: string
  subscribed: boolean
  limit?: Limit | undefined
  version: string
  rates: Rates | undefined
  discount: number
  penaltyTenths: number
  worst: Usage
  candidates: number
  /** It can be ended early. */
  mayEnd: boolean
}
/** `output`: for how many tokens of output is held, where that grows from `growAt` on; `budget`: of the key's limit. */
type Held = {
  held: bigint
  flows: bigint
  budget: bigint
  output: number | undefined
  growAt: number
  unseen: number
  overshoots: boolean
}
export type Entry = Request &
  Held & {
    createdAt: number
    exhausted?: Exhausted
    writtenHold?: Held
    windows: Partial<Record<WindowName, Span>>
    since: number
    received: Received
    countedInput: number
    deferred: boolean
    written?: Received
    closed?: Closed
    durable: boolean
  }

const HOUR = 3_600_000
export const LENGTH = { '5_hour': 5 * HOUR, '7_day': 168 * HOUR }
export const NAMES: WindowName[] = ['5_hour', '7_day', 'monthly']
export const monthAfter = (anchor: number, months: number): number => {
  const from = new Date(anchor)
  const last = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months + 1, 0)).getUTCDate()
  return new Date(anchor).setUTCFullYear(
    from.getUTCFullYear(),
    from.getUTCMonth() + months,
    Math.min(from.getUTCDate(), last),
  )
}

export function calendarStart(now: number, period: Limit['period']): number {
  const at = new Date(now)
  if (period === null) return 0
  if (period === 'month') return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1)
  return Date.UTC(
    at.getUTCFullYear(),
    at.getUTCMonth(),
    at.getUTCDate() - (period === 'week' ? (at.getUTCDay() + 6) % 7 : 0),
  )
}

export type Subscribed = {
  anchor: number
  tier: string
  nextTier: string | null
  renews: boolean
  months: number
  seen: number
}

/** The end of responses for which no more can be held. */
export type Policy = Record<'payAsYouGo' | 'subscription', 'cut' | 'finish'>

/** The received tokens at which a hold of so much output grows. */
export const growthPoint = ({ worst, candidates }: Request, output: number): number =>
  output >= worst.outputTokens ? Infinity : Math.min(output + 512, worst.outputTokens) - 2_048 * candidates

/** All of an entry that is held. */
export const holdOf = ({ held, flows, budget, output, growAt, unseen, overshoots }: Entry): Held => ({
  held,
  flows,
  budget,
  output,
  growAt,
  unseen,
  overshoots,
})
