import { GatewayError } from '../error.ts'
import { usdText, type Nano } from '../money.ts'
import type { Payment } from './book.ts'

/**
 * What one account has, in memory: the truth of this server until it is written. Holds are checked and taken in one
 * turn of the event loop.
 */
export class Wallet {
  readonly #overdraft: Nano
  #credit = 0n
  #bonus = 0n
  #held = 0n
  /** What the store has, as far as this server knows: the difference to what it reads there came from somebody else. */
  #stored = { credit: 0n, bonus: 0n }

  constructor(overdraft: Nano) {
    this.#overdraft = overdraft
  }

  get balance(): { credit: Nano; bonus: Nano } {
    return { credit: this.#credit, bonus: this.#bonus }
  }

  /** What no request under way holds. */
  get #free(): Nano {
    return this.#credit + this.#bonus - this.#held
  }

  /** The store's balances, read at the start and after another process's change. */
  load(credit: Nano, bonus: Nano): void {
    this.#credit += credit - this.#stored.credit
    this.#bonus += bonus - this.#stored.bonus
    this.#stored = { credit, bonus }
  }

  /**
   * Throws insufficient_credit (402) where the hold does not fit. `wouldFit`: what to ask for instead, given what is
   * left.
   */
  check(amount: Nano, wouldFit: (left: Nano) => string): void {
    const left = this.#free
    if (amount <= 0n || amount <= left) return
    const running = this.#held > 0n ? `, of which $${usdText(this.#held)} is held by requests under way` : ''
    throw new GatewayError(
      'insufficient_credit',
      `This request may cost up to $${usdText(amount)}, and the account's balance is $${usdText(this.#credit + this.#bonus)}${running}. ${wouldFit(left < 0n ? 0n : left)}`,
    )
  }

  take(amount: Nano): void {
    this.#held += amount
  }

  /** A hold ends and its bill is paid: bonus first, never what other requests hold; what nobody has is written off. */
  settle(held: Nano, bill: Nano): Payment {
    this.#held -= held
    // The overdraft is for what an answer costs above its hold: nothing is begun on it.
    const left = this.#free + this.#overdraft
    const paid = left < 0n ? 0n : bill < left ? bill : left
    // More bonus may have been taken back than there was: that is no reason to take more credit than the bill.
    const granted = this.#bonus < 0n ? 0n : this.#bonus
    const bonus = paid < granted ? paid : granted
    const payment = { bonus, credit: paid - bonus, writtenOff: bill - paid }
    this.#bonus -= payment.bonus
    this.#credit -= payment.credit
    return payment
  }

  /** The other way round, for a payment that the store did not take. */
  unsettle(held: Nano, { bonus, credit }: Payment): void {
    this.#held += held
    this.#bonus += bonus
    this.#credit += credit
  }

  /** A payment is in the store now. */
  written({ bonus, credit }: Payment): void {
    this.#stored.bonus -= bonus
    this.#stored.credit -= credit
  }
}
