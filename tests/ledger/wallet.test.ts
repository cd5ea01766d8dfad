import { describe, expect, test } from 'bun:test'
import { Wallet } from '../../src/ledger/wallet.ts'

const walletOf = (credit: bigint, bonus: bigint, overdraft = 0n): Wallet => {
  const wallet = new Wallet(overdraft)
  wallet.load(credit, bonus)
  return wallet
}

describe('payment', () => {
  test('a bill is paid from bonus first, then credit, and the rest is written off', () => {
    expect(walletOf(5n, 3n).paymentOf(0n, 10n)).toEqual({ bonus: 3n, credit: 5n, writtenOff: 2n })
    expect(walletOf(5n, 3n).paymentOf(0n, 2n)).toEqual({ bonus: 2n, credit: 0n, writtenOff: 0n })
  })

  test('a bill above its hold is paid from the overdraft', () => {
    expect(walletOf(5n, 0n, 2n).paymentOf(0n, 10n)).toEqual({ bonus: 0n, credit: 7n, writtenOff: 3n })
  })

  test('a bill is never paid from what other requests hold', () => {
    const wallet = walletOf(10n, 0n)
    wallet.hold(4n)
    wallet.hold(3n)
    expect(wallet.paymentOf(3n, 9n)).toEqual({ bonus: 0n, credit: 6n, writtenOff: 3n })
  })

  test('a negative bonus does not raise the credit taken above the bill', () => {
    expect(walletOf(10n, -4n).paymentOf(0n, 5n)).toEqual({ bonus: 0n, credit: 5n, writtenOff: 0n })
  })

  test('reverting a settlement restores balance and hold', () => {
    const wallet = walletOf(5n, 3n)
    wallet.hold(6n)
    const payment = wallet.paymentOf(6n, 4n)
    wallet.settle(6n, payment)
    expect(wallet.balance).toEqual({ credit: 4n, bonus: 0n })
    wallet.revert(6n, payment)
    expect(wallet.balance).toEqual({ credit: 5n, bonus: 3n })
    expect(() => wallet.check(3n, () => '')).toThrow('is held by requests in flight')
  })

  test('a payment that the store has is no change of the balance by another process', () => {
    const wallet = walletOf(5n, 3n)
    wallet.hold(4n)
    const payment = wallet.paymentOf(4n, 4n)
    wallet.settle(4n, payment)
    wallet.markStored(payment)
    wallet.load(4n, 0n)
    expect(wallet.balance).toEqual({ credit: 4n, bonus: 0n })
  })
})

describe('leased money', () => {
  test('is the balance here, and what no request holds goes back, credit first', () => {
    const wallet = new Wallet(0n)
    wallet.lease({ credit: 5n, bonus: 3n, elsewhere: 4n })
    wallet.lease({ credit: 2n, bonus: 1n })
    wallet.hold(2n)
    expect(() => wallet.check(10n, (available) => `${available} are left.`)).toThrow(
      "the account's balance is $0.000000015, of which $0.000000006 is held by requests in flight. 9 are left.",
    )
    expect(wallet.giveBack(1n)).toEqual({ credit: 7n, bonus: 1n })
    expect(wallet.balance).toEqual({ credit: 0n, bonus: 3n })
    expect(wallet.giveBack(2n)).toEqual({ credit: 0n, bonus: 0n })
  })

  test('goes back from the bonus alone where the credit is negative', () => {
    expect(walletOf(-2n, 5n).giveBack(0n)).toEqual({ credit: 0n, bonus: 3n })
  })
})
