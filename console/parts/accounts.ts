import type { Account } from '../api/answers.ts'

/** The account that the first start makes, which the API takes where none is named. */
const FIRST = 'default'

/** The account that a form begins with: that of the bar, else that of the first start, else the oldest. */
export const usualAccount = (accounts: readonly Account[], chosen: string | undefined): Account | undefined =>
  accounts.find(({ id, name }) => chosen === id || chosen === name) ??
  accounts.find(({ name }) => name === FIRST) ??
  accounts.toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1))[0]
