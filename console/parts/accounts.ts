import type { Account } from '../api/answers.ts'

/** The account that a form begins with: that of the bar, else the one that the installation began with. */
export const usualAccount = (accounts: readonly Account[], chosen: string | undefined): Account | undefined =>
  accounts.find(({ id, name }) => chosen === id || chosen === name) ??
  accounts.toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1))[0]
