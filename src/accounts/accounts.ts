import { accountNameProblem } from '../config/account-settings.ts'
import { nearest } from '../nearest.ts'
import type { Account, Operation, Store } from '../store/store.ts'
import { newId } from './key-text.ts'
import { FREE_TIER } from './plans.ts'
import { newSubscription } from './quota.ts'

/** The account of the keys created at the first start, and of every key created without `--account`. */
export const FIRST_ACCOUNT = 'default'

/**
 * The initial state of an account. `discount` in basis points; `credits`: the operations that give it credit and bonus.
 */
export type InitialState = { tier?: string; discount?: number; credits?: (accountId: string) => readonly Operation[] }

/** The customer accounts, and their creation. */
export class Accounts {
  readonly #store: Store
  readonly #first: InitialState
  readonly #now: () => number

  /** `first`: the initial state of the first account. */
  constructor({ store, first = {}, now = Date.now }: { store: Store; first?: InitialState; now?: () => number }) {
    this.#store = store
    this.#first = first
    this.#now = now
  }

  list(): Promise<Account[]> {
    return this.#store.accounts.list()
  }

  /**
   * The account with this name or id; the first account is created where it does not exist. Fails with an Error for the
   * operator where there is none.
   */
  async named(nameOrId: string = FIRST_ACCOUNT): Promise<Account> {
    const known = await this.#store.accounts.find(nameOrId)
    if (known !== undefined) return known
    if (nameOrId === FIRST_ACCOUNT) return this.#open(FIRST_ACCOUNT, this.#first)
    const names = (await this.#store.accounts.list()).map(({ name }) => name)
    const [near] = nearest(nameOrId, names, 1)
    throw new Error(
      `there is no account ${JSON.stringify(nameOrId)}${near === undefined ? '' : ` (did you mean ${near}?)`}; ` +
        'sluice accounts list shows all accounts, sluice accounts create creates one',
    )
  }

  /** The account with this name, created where there is none. */
  async ensure(name: string = FIRST_ACCOUNT): Promise<Account> {
    return (await this.#store.accounts.find(name)) ?? this.#open(name, name === FIRST_ACCOUNT ? this.#first : {})
  }

  /** Fails with an Error for the operator where the name is taken or invalid. */
  async create(name: string, initial: InitialState): Promise<Account> {
    const wrong = accountNameProblem(name)
    if (wrong !== undefined) throw new Error(`an account name ${wrong}`)
    const account = await this.#add(name, initial)
    if (account === undefined)
      throw new Error(`the account ${name} already exists; sluice accounts show ${name} shows it`)
    return account
  }

  async #open(name: string, initial: InitialState): Promise<Account> {
    // Another process may have created it meanwhile.
    return (await this.#add(name, initial)) ?? this.named(name)
  }

  /**
   * Writes account, plan and credit in one transaction, so that none exists without the others; undefined where the
   * name is taken.
   */
  async #add(name: string, { tier = FREE_TIER, discount = 0, credits }: InitialState): Promise<Account | undefined> {
    const account: Account = { id: newId('acct'), name, status: 'healthy', createdAt: this.#now(), discount }
    const added = await this.#store.accounts.add(
      account,
      newSubscription(account.id, tier, account.createdAt),
      credits?.(account.id) ?? [],
    )
    return added ? account : undefined
  }
}
