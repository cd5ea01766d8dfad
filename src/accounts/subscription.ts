import { nearest } from '../nearest.ts'
import type { Subscription } from '../store/store.ts'
import { FREE_TIER, type Plans } from './plans.ts'

const DAY_MS = 86_400_000

/** A subscription whose months count from `now`. */
export const newSubscription = (accountId: string, tier: string, now: number): Subscription => ({
  accountId,
  tier,
  anchor: now,
  periodStart: now,
  periodEnd: monthsAfter(now, 1),
  renews: true,
  nextTier: null,
})

/**
 * The subscription with another plan. A plan that costs as much or more takes effect at once, a cheaper one with the
 * next period unless `now` is set; period and use stay, and the subscription renews again. Throws an Error for a tier
 * that is not configured.
 */
export function changePlan(
  subscription: Subscription,
  tier: string,
  options: { now: boolean },
  plans: Plans,
): Subscription {
  const tiers = plans.tiers().map((plan) => plan.tier)
  const [near] = nearest(tier, tiers, 1)
  if (!tiers.includes(tier))
    throw new Error(
      `there is no plan ${tier}; ${near === undefined ? `choose one of ${tiers.join(', ')}` : `did you mean ${near}?`}`,
    )
  const atOnce = options.now || plans.of(tier).usdPerMonth >= plans.of(subscription.tier).usdPerMonth
  return { ...subscription, renews: true, ...(atOnce ? { tier, nextTier: null } : { nextTier: tier }) }
}

/**
 * The subscription at an instant: in the period that contains it, with the plan that was to follow. The same object
 * where its period has not ended.
 */
export function renewed(subscription: Subscription, at: number): Subscription {
  if (at < subscription.periodEnd) return subscription
  const { anchor, renews, nextTier, tier } = subscription
  const months = monthOf(at) - monthOf(anchor)
  const passed = monthsAfter(anchor, months) > at ? months - 1 : months
  return {
    ...subscription,
    tier: renews ? (nextTier ?? tier) : FREE_TIER,
    renews: true,
    nextTier: null,
    periodStart: monthsAfter(anchor, passed),
    periodEnd: monthsAfter(anchor, passed + 1),
  }
}

/** Calendar months since year 0, in UTC. */
const monthOf = (at: number): number => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth()

/**
 * The same day and time of day some months later, or the last day of a shorter month. Always counted from the anchor,
 * so that a short month does not shorten those after it.
 */
function monthsAfter(anchor: number, months: number): number {
  const from = new Date(anchor)
  const first = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months, 1)
  const lastDay = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months + 1, 0)).getUTCDate()
  const day = Math.min(from.getUTCDate(), lastDay)
  return first + (day - 1) * DAY_MS + (anchor % DAY_MS)
}
