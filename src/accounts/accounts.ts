import { accountNameProblem } from '../config/account-settings.ts'
import { GatewayError } from '../error.ts'
import { nearest } from '../nearest.ts'
import { isAccepted } from '../store/refused.ts'
import type { Account, Operation, Store, Subscription } from '../store/store.ts'
import { newId } from './key-text.ts'
import { FREE_TIER } from './plans.ts'
import { newSubscription } from './subscription.ts'

/** The account of the keys created at the first start, and of every key created without `--account`. */
export const FIRST_ACCOUNT = 'default'

/**
 * The initial state of an account. `discount` in basis points; `credits`: the operations that give it credit and bonus.
 */
type InitialState = { tier?: string; discount?: number; credits?: (accountId: string) => readonly Operation[] }

type Also = (account: Account, subscription: Subscription) => readonly Promise<unknown>[]

/** The customer accounts, and their creation. */
export class Accounts {
  readonly #store: Store
  readonly #first: InitialState
  readonly #now: () => number

  /** `first`: the initial state of the first account. */
  constructor({ store, first = {}, now = store.time }: { store: Store; first?: InitialState; now?: () => number }) {
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

  /**
   * Throws conflict (409) for a name that is taken; fails with an Error for the operator where it is invalid. `also`
   * hands writes to the store that are made together with it.
   */
  async create(name: string, initial: InitialState, also?: Also): Promise<Account> {
    const wrong = accountNameProblem(name)
    if (wrong !== undefined) throw new Error(`an account name ${wrong}`)
    const account = await this.#add(name, initial, also)
    if (account === undefined)
      throw new GatewayError('conflict', `the account ${name} already exists; sluice accounts show ${name} shows it`, {
        param: 'name',
      })
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
  async #add(
    name: string,
    { tier = FREE_TIER, discount = 0, credits }: InitialState,
    also: Also = () => [],
  ): Promise<Account | undefined> {
    const id = newId('acct')
    const createdAt = this.#now()
    const account: Account = { id, name, status: 'healthy', createdAt, discount, memberRequests: 'own' }
    const subscription = newSubscription(account.id, tier, account.createdAt)
    const added = await isAccepted(
      this.#store.together(() => [
        this.#store.accounts.add(account, subscription, credits?.(account.id) ?? []),
        ...also(account, subscription),
      ]),
    )
    return added ? account : undefined
  }
}
