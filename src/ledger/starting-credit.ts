import { Accounts } from '../accounts/accounts.ts'
import type { Config } from '../config/load.ts'
import type { Operation, Store } from '../store/store.ts'
import { topUp } from './book.ts'

/** The accounts of a store; the first one is created with `billing.startingCredit`. */
export function accountsOf(store: Store, { billing }: Config, now = store.time): Accounts {
  const amount = billing.startingCredit
  const startingCredit = (accountId: string): Operation =>
    topUp({
      reference: `starting-credit:${accountId}`,
      at: now(),
      accountId,
      amount,
      bonus: false,
      note: 'Starting credit',
    })
  return new Accounts({
    store,
    now,
    first: { credits: (accountId) => (amount === 0n ? [] : [startingCredit(accountId)]) },
  })
}
