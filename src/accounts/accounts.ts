import { accountNameProblem } from '../config/account-settings.ts'
import { nearest } from '../nearest.ts'
import type { Account, Operation, Store } from '../store/store.ts'
import { newId } from './key-text.ts'
import { FREE_TIER } from './plans.ts'
import { newSubscription } from './quota.ts'

/** The account of the keys that are made at the first start, and of every key for which no other is named. */
export const FIRST_ACCOUNT = 'default'

/** What an account begins with. `discount` in basis points; `credits`: the postings that bring it credit and bonus. */
export type Opening = { tier?: string; discount?: number; credits?: (accountId: string) => readonly Operation[] }

/** Who is served, and how somebody new is taken in. */
export class Accounts {
  readonly #store: Store
  readonly #first: Opening
  readonly #now: () => number

  /** `first`: what the first account begins with. */
  constructor({ store, first = {}, now = Date.now }: { store: Store; first?: Opening; now?: () => number }) {
    this.#store = store
    this.#first = first
    this.#now = now
  }

  list(): Promise<Account[]> {
    return this.#store.accounts.list()
  }

  /**
   * The account with this name or id; the first one is made when it is not there. Fails with a plain Error that says
   * what to do.
   */
  async named(nameOrId: string = FIRST_ACCOUNT): Promise<Account> {
    const accounts = await this.#store.accounts.list()
    const known = accounts.find(({ id, name }) => id === nameOrId || name === nameOrId)
    if (known !== undefined) return known
    if (nameOrId === FIRST_ACCOUNT) return this.#open(FIRST_ACCOUNT, this.#first)
    const [near] = nearest(
      nameOrId,
      accounts.map(({ name }) => name),
      1,
    )
    throw new Error(
      `there is no account ${JSON.stringify(nameOrId)}${near === undefined ? ';' : `; is ${near} meant?`} sluice accounts list shows all, sluice accounts create makes one`,
    )
  }

  /** The account with this name, made when there is none. */
  async ensure(name: string = FIRST_ACCOUNT): Promise<Account> {
    const known = (await this.#store.accounts.list()).find((account) => account.name === name)
    return known ?? this.#open(name, name === FIRST_ACCOUNT ? this.#first : {})
  }

  /** Fails with a plain Error when the name is taken or is none. */
  async create(name: string, opening: Opening): Promise<Account> {
    const wrong = accountNameProblem(name)
    if (wrong !== undefined) throw new Error(`the name of an account ${wrong}`)
    const account = await this.#add(name, opening)
    if (account === undefined)
      throw new Error(`there is an account ${name} already; sluice accounts show ${name} shows it`)
    return account
  }

  async #open(name: string, opening: Opening): Promise<Account> {
    // Another process may have been first with this name.
    return (await this.#add(name, opening)) ?? this.named(name)
  }

  /**
   * Account, plan and credit in one transaction, so that there is never one without the others; undefined when the name
   * is taken.
   */
  async #add(name: string, { tier = FREE_TIER, discount = 0, credits }: Opening): Promise<Account | undefined> {
    const account: Account = { id: newId('acct'), name, status: 'healthy', createdAt: this.#now(), discount }
    const added = await this.#store.accounts.add(
      account,
      newSubscription(account.id, tier, account.createdAt),
      credits?.(account.id) ?? [],
    )
    return added ? account : undefined
  }
}
