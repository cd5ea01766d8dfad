import { expect } from 'bun:test'
import { Wallet } from '../../src/ledger/wallet.ts'
import { once } from '../stores.ts'

once('the advice to an account whose balance is negative is that for one which has nothing', () => {
  const wallet = new Wallet(10n)
  wallet.load(-5n, 0n)
  const available: bigint[] = []
  expect(() => wallet.check(1n, (left) => `${available.push(left)}`)).toThrow(
    "the account's balance is $-0.000000005. 1",
  )
  expect(available).toEqual([0n])
})
