import { GatewayError } from '../error.ts'
import { usdText, type Nano } from '../money.ts'
import type { FundsLease } from '../store/leases.ts'
import type { Payment } from './book.ts'

/**
 * One account's balance in memory, authoritative for this process until it is written. A hold is checked and taken in
 * one turn of the event loop.
 */
export class Wallet {
  readonly #overdraft: Nano
  #credit = 0n
  #bonus = 0n
  #held = 0n
  /** The balances last known to be in the store; what it has beyond them was posted by another process. */
  #stored = { credit: 0n, bonus: 0n }
  /** The amount that other processes have leased. */
  #elsewhere = 0n
  /** With several processes: the balance when it was last read. */
  seen = 0n

  constructor(overdraft: Nano) {
    this.#overdraft = overdraft
  }

  get balance(): { credit: Nano; bonus: Nano } {
    return { credit: this.#credit, bonus: this.#bonus }
  }

  /** The amount that requests in flight hold, in nano-USD. */
  get held(): Nano {
    return this.#held
  }

  /** The amount that a hold may use, in nano-USD. */
  get available(): Nano {
    return this.#credit + this.#bonus - this.#held
  }

  /** Takes over the store's balances, at the start and after a change by another process. */
  load(credit: Nano, bonus: Nano): void {
    this.#credit += credit - this.#stored.credit
    this.#bonus += bonus - this.#stored.bonus
    this.#stored = { credit, bonus }
  }

  /** Adds what this process has leased of the account's money: with several processes, its balance here is that. */
  lease({ credit, bonus, elsewhere = this.#elsewhere }: Omit<FundsLease, 'elsewhere'> & Partial<FundsLease>): void {
    this.#credit += credit
    this.#bonus += bonus
    this.#elsewhere = elsewhere
  }

  /** Takes out what is leased and not held, but for `kept` nano-USD; credit first, since bonus is spent first. */
  giveBack(kept: Nano): { credit: Nano; bonus: Nano } {
    const idle = this.available - kept
    const returned = idle < 0n ? 0n : idle
    const credit = returned < this.#credit ? returned : this.#credit < 0n ? 0n : this.#credit
    const bonus = returned - credit < this.#bonus ? returned - credit : this.#bonus < 0n ? 0n : this.#bonus
    this.#credit -= credit
    this.#bonus -= bonus
    return { credit, bonus }
  }

  /**
   * Throws insufficient_credit (402) where the amount is not available. `advice`: a sentence on what to request
   * instead, given the nano-USD that are.
   */
  check(amount: Nano, advice: (available: Nano) => string): void {
    const { available } = this
    if (amount <= 0n || amount <= available) return
    const heldByAll = this.#held + this.#elsewhere
    const held = heldByAll > 0n ? `, of which $${usdText(heldByAll)} is held by requests in flight` : ''
    const balance = `$${usdText(this.#credit + this.#bonus + this.#elsewhere)}${held}`
    throw new GatewayError(
      'insufficient_credit',
      `This request holds $${usdText(amount)}, and the account's balance is ${balance}. ` +
        `${advice(available < 0n ? 0n : available)} The operator of this server adds credit: sluice accounts credit.`,
    )
  }

  hold(amount: Nano): void {
    this.#held += amount
  }

  /**
   * The payment of a bill when its hold ends: bonus first, and never from what other requests hold. What the account
   * does not have is written off.
   */
  paymentOf(held: Nano, bill: Nano): Payment {
    // The overdraft covers bills above their holds; no hold may use it.
    const available = this.available + held + this.#overdraft
    const paid = available < 0n ? 0n : bill < available ? bill : available
    // Bonus can be negative after a withdrawal; that must not raise the credit taken above the bill.
    const granted = this.#bonus < 0n ? 0n : this.#bonus
    const bonus = paid < granted ? paid : granted
    return { bonus, credit: paid - bonus, writtenOff: bill - paid }
  }

  /** Ends a hold and pays. */
  settle(held: Nano, { bonus, credit }: Payment): void {
    this.#held -= held
    this.#bonus -= bonus
    this.#credit -= credit
  }

  /** Reverts `settle`, for a payment that the store did not take: the hold is open again. */
  revert(held: Nano, { bonus, credit }: Payment): void {
    this.#held += held
    this.#bonus += bonus
    this.#credit += credit
  }

  /** Records that the store has a payment. */
  markStored({ bonus, credit }: Payment): void {
    this.#stored.bonus -= bonus
    this.#stored.credit -= credit
  }
}
