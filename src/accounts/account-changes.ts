import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AccountStore } from '../store/store.ts'

/** Accounts that are read in one turn of the event loop: with ten thousands of them, streams go on meanwhile. */
const IN_ONE_TURN = 500

/** Follows the accounts of a store: all of them once, and then those that changed. */
export class AccountChanges {
  readonly #accounts: AccountStore
  readonly #load: (ids: readonly string[]) => Promise<void>
  /** The position of the last change that was read. */
  #position = 0

  /** `load`: reads accounts and what belongs to them. */
  constructor(accounts: AccountStore, load: (ids: readonly string[]) => Promise<void>) {
    this.#accounts = accounts
    this.#load = load
  }

  async readAll(): Promise<void> {
    // The position comes first, so that later changes are read again.
    this.#position = await this.#accounts.lastChange()
    for (let last = ''; ; await nextTurn()) {
      const ids = await this.#accounts.page(last, IN_ONE_TURN)
      await this.#load(ids)
      if (ids.length < IN_ONE_TURN) return
      last = ids.at(-1)!
    }
  }

  /** Reads the accounts that changed since the last time. */
  async read(): Promise<void> {
    for (;;) {
      const { position, accountIds } = await this.#accounts.changes(this.#position, IN_ONE_TURN)
      if (accountIds.length > 0) await this.#load(accountIds)
      this.#position = Math.max(this.#position, position)
      if (accountIds.length < IN_ONE_TURN) return
      await nextTurn()
    }
  }
}
