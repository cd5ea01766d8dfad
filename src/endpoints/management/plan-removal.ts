import builtIn from '../../../catalog/plans.json'
import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'

/** Refuses to remove a plan that accounts have; a built-in one only returns to what it was. */
export async function checkPlanRemoval({ ledger }: AppContext, tier: string): Promise<void> {
  if (Object.hasOwn(builtIn.tiers, tier)) return
  const count = ledger.funds.accountsWith(tier)
  if (count > 0)
    throw new GatewayError('conflict', `${count} accounts have the plan ${tier}: give them another one first.`)
}
