import type { Config } from '../config/load.ts'
import type { QuotaWindowName } from '../config/terms.ts'
import { divideHalfEven, nanoOf } from '../money.ts'
import type { Subscription } from '../store/store.ts'

/** The plan of accounts without another one. It can be configured and not removed. */
export const FREE_TIER = 'free'

/** Micro-units and nano-units per unit. */
const MICRO = 1_000_000n
const NANO = 1_000_000_000n

/** `flows`: maximum micro-flows in each window. `discount`: basis points off pay-as-you-go bills. */
export type Plan = { tier: string; usdPerMonth: number; flows: Record<QuotaWindowName, bigint>; discount: number }

/** The plans and the price of a flow: `catalog/plans.json`, overridden by `plans` of the configuration. */
export class Plans {
  /** Nano-USD at list prices. */
  readonly usdPerFlow: bigint
  #plans: Map<string, Plan>

  constructor(config: Config) {
    this.usdPerFlow = nanoOf(config.plans.usdPerFlow)
    this.#plans = new Map(
      [...config.plans.tiers].map(([tier, { usdPerMonth, flows, discount }]) => [
        tier,
        {
          tier,
          usdPerMonth,
          discount: Math.round(discount * 100),
          flows: {
            '5_hour': microOf(flows['5_hour']),
            '7_day': microOf(flows['7_day']),
            monthly: microOf(flows.monthly),
          },
        },
      ]),
    )
  }

  /** Takes over the plans of another one. */
  replace(other: Plans): void {
    this.#plans = other.#plans
  }

  /** The plan of a tier; the free plan for a tier that is not configured any more. */
  of(tier: string): Plan {
    return this.#plans.get(tier) ?? this.#plans.get(FREE_TIER)!
  }

  tiers(): Plan[] {
    return [...this.#plans.values()]
  }

  /** A warning for each account whose tier is not configured any more, which therefore has only the free plan. */
  missingTierWarnings(subscriptions: Iterable<Subscription>): string[] {
    return [...subscriptions]
      .filter(({ tier }) => !this.#plans.has(tier))
      .map(
        ({ accountId, tier }) =>
          `account ${accountId} has the plan ${tier}, which is not configured: it uses the ${FREE_TIER} plan. ` +
          `Configure plans.tiers.${tier} or give it another plan`,
      )
  }

  /** Nano-USD at list prices, times the penalty (1, 1.5 ...), in micro-flows; rounded once, half to even. */
  flowsOf(list: bigint, penalty: number): bigint {
    return divideHalfEven(list * nanoOf(penalty) * MICRO, this.usdPerFlow * NANO)
  }
}

/** Configured flows, with at most four decimals, in micro-flows. */
const microOf = (flows: number): bigint => nanoOf(flows) / (NANO / MICRO)
