import { expect, test } from 'bun:test'
import type { Account } from '../../console/api/answers.ts'
import { usualAccount } from '../../console/parts/accounts.ts'

const account = (name: string, minute: number): Account =>
  ({ id: `acct_${name}`, name, created_at: `2026-11-28T10:0${minute}:00.000Z` }) as Account

const nameOf = (accounts: Account[], chosen?: string): string | undefined => usualAccount(accounts, chosen)?.name

test('a form begins with the chosen account, else with that of the first start, else with the oldest', () => {
  // The accounts of keys in sluice.yaml are made before that of the first start.
  const all = [account('team', 2), account('filed', 0), account('default', 1)]
  expect([nameOf(all, 'team'), nameOf(all, 'acct_filed'), nameOf(all)]).toEqual(['team', 'filed', 'default'])
  expect([nameOf(all.slice(0, 2)), nameOf([])]).toEqual(['filed', undefined])
})
