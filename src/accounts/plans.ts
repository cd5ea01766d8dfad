import type { Config } from '../config/load.ts'
import type { QuotaWindowName } from '../config/terms.ts'
import { divideHalfEven, nanoOf } from '../money.ts'
import type { Subscription } from '../store/store.ts'

/** The plan of accounts that have no other; the configuration can change it and cannot take it away. */
export const FREE_TIER = 'free'

/** Micro-flows in a flow, and nano in one. */
const MICRO = 1_000_000n
const NANO = 1_000_000_000n

/** `flows`: most micro-flows in each window. `discount`: basis points off pay-as-you-go bills. */
export type Plan = { tier: string; usdPerMonth: number; flows: Record<QuotaWindowName, bigint>; discount: number }

/**
 * What plans there are, and what a flow is worth: `catalog/plans.json` with `plans` of the configuration put over it.
 */
export class Plans {
  /** Nano-USD at list prices. */
  readonly usdPerFlow: bigint
  readonly #plans: Map<string, Plan>

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

  /**
   * The plan of this name. A tier that has left the configuration means the free plan until it comes back: see `gone`.
   */
  of(tier: string): Plan {
    return this.#plans.get(tier) ?? this.#plans.get(FREE_TIER)!
  }

  tiers(): Plan[] {
    return [...this.#plans.values()]
  }

  /**
   * A line for the operator on every account whose tier is no longer configured; told at the start, since each of them
   * has only the free plan's flows.
   */
  missingTierWarnings(subscriptions: Iterable<Subscription>): string[] {
    return [...subscriptions]
      .filter(({ tier }) => !this.#plans.has(tier))
      .map(
        ({ accountId, tier }) =>
          `account ${accountId} has the plan ${tier}, which is not configured any more: it gets the ${FREE_TIER} plan until plans.tiers.${tier} is back or it is given another plan`,
      )
  }

  /** Nano-USD at list prices times the penalty (1, 1.5 ...) -> micro-flows, rounded half to even once. */
  flowsOf(list: bigint, penalty: number): bigint {
    return divideHalfEven(list * nanoOf(penalty) * MICRO, this.usdPerFlow * NANO)
  }
}

/** Flows as they are written, with at most four decimals, to micro-flows. */
const microOf = (flows: number): bigint => nanoOf(flows) / (NANO / MICRO)
