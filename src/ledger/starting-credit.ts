import { Accounts } from '../accounts/accounts.ts'
import type { Config } from '../config/load.ts'
import { topUp } from './book.ts'
import type { Store } from '../store/store.ts'

/** The accounts of a store. The first one is opened with the starting credit. */
export function accountsOf(store: Store, config: Config): Accounts {
  const amount = config.billing.startingCredit
  return new Accounts({
    store,
    first: {
      credits: (accountId) =>
        amount === 0n
          ? []
          : [
              topUp({
                reference: `starting-credit:${accountId}`,
                at: Date.now(),
                accountId,
                amount,
                bonus: false,
                note: 'Starting credit',
              }),
            ],
    },
  })
}
