import { expect } from 'bun:test'
import { Plans } from '../../src/accounts/plans.ts'
import { Quota } from '../../src/accounts/quota.ts'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { readConfig } from '../../src/config/load.ts'
import { GatewayError } from '../../src/error.ts'
import type { QuotaWindow } from '../../src/store/store.ts'

export const HOUR = 3_600_000
export const DAY = 24 * HOUR
export const FLOW = 1_000_000n
export const at = (text: string): number => Date.parse(text)
export const iso = (instant: number): string => new Date(instant).toISOString()

export const plans = new Plans(readConfig('', 'sluice.yaml', {}))
export const START = at('2026-03-01T10:00:00.250Z')
export const quotaOf = (tier: string): Quota => new Quota(plans, newSubscription('a', tier, START), [])

/** The refusal, or undefined. */
export function refusal(check: () => void): GatewayError | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const refused = error as GatewayError
    expect({ code: refused.code, status: refused.status, shouldRetry: refused.shouldRetry }).toEqual({
      code: 'quota_exceeded',
      status: 429,
      shouldRetry: false,
    })
    return refused
  }
}

export function use(quota: Quota, flows: bigint, now: number): QuotaWindow[] {
  quota.check(flows, now)
  return quota.settle(quota.hold(flows, now), flows)
}
