import type { BookAccount, KeySpend, LedgerState, QuotaWindow, Subscription } from './ledger.ts'

/** The state of the ledger as stores read it. Amounts are texts: integers of databases arrive as doubles. */
export type ReadState = {
  balances: readonly (BookAccount & { balance: string })[]
  windows: readonly (Omit<QuotaWindow, 'used'> & { used: string })[]
  subscriptions: readonly ReadSubscription[]
  spends: readonly ReadSpend[]
}

export type ReadSubscription = Omit<Subscription, 'resetRequested' | 'repeatedUntil'> & {
  resetRequested: boolean
  repeatedUntil: number | null
}

export type ReadSpend = Omit<KeySpend, 'spent'> & { spent: string }

export const stateOf = ({ balances, windows, subscriptions, spends }: ReadState): LedgerState => ({
  balances: balances.map(({ kind, owner, balance }) => ({ kind, owner, balance: BigInt(balance) })),
  windows: windows.map((row) => ({ ...row, used: BigInt(row.used) })),
  subscriptions: subscriptions.map(({ resetRequested, repeatedUntil, ...row }) => ({
    ...row,
    ...(resetRequested ? { resetRequested: true } : {}),
    ...(repeatedUntil === null ? {} : { repeatedUntil }),
  })),
  spends: spends.map(spendOf),
})

export const spendOf = (row: ReadSpend): KeySpend => ({ ...row, spent: BigInt(row.spent) })
