import { AccountChanges } from '../accounts/account-changes.ts'
import { Budgets } from '../accounts/budget.ts'
import type { Clock } from '../accounts/clock.ts'
import { FREE_TIER, type Plans } from '../accounts/plans.ts'
import { Quota } from '../accounts/quota.ts'
import { newSubscription } from '../accounts/subscription.ts'
import { log } from '../log/log.ts'
import type { Nano } from '../money.ts'
import type { Inheritance } from '../store/leases.ts'
import type { Store } from '../store/store.ts'
import { Leases } from './leases.ts'
import { Wallet } from './wallet.ts'

/** `isWritable`: true while no settlement waits for the store. */
type Options = { store: Store; plans: Plans; overdraft: Nano; clock: Clock; isWritable: () => boolean }

/**
 * Wallets, quota windows and key limits of all accounts in memory. Where several processes share the store, they are
 * what this process has leased.
 */
export class AccountFunds {
  readonly #options: Options
  readonly #wallets = new Map<string, Wallet>()
  readonly #quotas = new Map<string, Quota>()
  readonly #changes: AccountChanges
  readonly leases: Leases | undefined
  budgets = new Budgets([])
  /** Set from the beginning of a takeover until this process has what it took over. */
  #isInheriting = false
  /** Taken over in the store, and not here. */
  #inheritance: Inheritance | undefined

  constructor(options: Options) {
    const { store, clock } = options
    this.#options = options
    const { wallet, quota } = this
    const budgets = (): Budgets => this.budgets
    const isKnown = (): boolean => options.isWritable() && !this.#isInheriting
    this.leases = store.leases && new Leases({ store: store.leases, clock, wallet, quota, budgets, isKnown })
    this.#changes = new AccountChanges(store.accounts, (ids) => this.#load(ids))
  }

  async loadAll(): Promise<void> {
    const { store, plans, clock } = this.#options
    await this.#changes.readAll()
    const spends = this.#isLeased ? [] : await store.ledger.spends()
    this.budgets = new Budgets(spends, clock.elapsed, this.#isLeased)
    const subscriptions = [...this.#quotas.values()].map(({ subscription }) => subscription)
    for (const warning of plans.missingTierWarnings(subscriptions)) log.warn(warning)
  }

  /** The number of accounts that have a plan, or get it after the current period. */
  accountsWith(tier: string): number {
    return [...this.#quotas.values()].filter(
      ({ subscription }) => subscription.tier === tier || subscription.nextTier === tier,
    ).length
  }

  get #isLeased(): boolean {
    return this.leases !== undefined
  }

  /** Reads balances and subscriptions of accounts that another process changed. */
  loadChanges(): Promise<void> {
    return this.#changes.read()
  }

  async #load(accountIds: readonly string[]): Promise<void> {
    const { store, plans, clock } = this.#options
    const state = await store.ledger.state(accountIds)
    const balances = new Map(state.balances.map(({ kind, owner, balance }) => [`${kind} ${owner}`, balance]))
    const windows = Map.groupBy(state.windows, ({ accountId }) => accountId)
    for (const subscription of state.subscriptions) {
      const { accountId } = subscription
      const known = this.#quotas.get(accountId)
      if (known !== undefined) known.replaceSubscription(subscription)
      else {
        const own = this.#isLeased ? [] : (windows.get(accountId) ?? [])
        this.#quotas.set(accountId, new Quota(plans, subscription, own, clock.elapsed, this.#isLeased))
      }
    }
    // The change may be a lower limit.
    this.leases?.giveBack(accountIds)
    for (const accountId of accountIds) {
      const [credit, bonus] = [balances.get(`credit ${accountId}`) ?? 0n, balances.get(`bonus ${accountId}`) ?? 0n]
      if (this.#isLeased) this.wallet(accountId).seen = credit + bonus
      else this.wallet(accountId).load(credit, bonus)
    }
  }

  /** Loads an account that another process made; undefined for one that is loaded. */
  loadAccount(accountId: string): Promise<unknown> | undefined {
    return this.#quotas.has(accountId) ? undefined : this.#load([accountId])
  }

  /** Begins the quota windows anew where the command line asks for it. A reset that is not written is made again. */
  resetRequested(): void {
    const { store, clock } = this.#options
    for (const quota of this.#quotas.values()) {
      if (quota.subscription.resetRequested !== true) continue
      const windows = quota.reset(clock.now())
      void store.ledger.resetWindows(quota.subscription, windows).catch(() => {})
    }
  }

  /**
   * Takes over from a process that has ended; undefined where there is none. After a failure, the next call goes on.
   * `restore`: takes the holds of the generations that it had open, before anything else is done with its leases.
   */
  async inherit<T>(restore: (inheritance: Inheritance) => T): Promise<T | undefined> {
    return this.leases?.exclusively(async () => {
      this.#isInheriting = true
      this.#inheritance ??= await this.#options.store.leases?.inherit()
      const inheritance = this.#inheritance
      if (inheritance !== undefined) {
        const { generations, funds, windows } = inheritance
        const ids = [...generations, ...funds, ...windows].map(({ accountId }) => accountId)
        await this.#load([...new Set(ids)].filter((id) => !this.#quotas.has(id)))
        this.leases?.add(inheritance)
        this.#inheritance = undefined
      }
      this.#isInheriting = false
      return inheritance && restore(inheritance)
    })
  }

  /** The tier of an account's plan; undefined until it is loaded. */
  tierOf(accountId: string): string | undefined {
    return this.#quotas.get(accountId)?.subscription.tier
  }

  readonly wallet = (accountId: string): Wallet => {
    let wallet = this.#wallets.get(accountId)
    if (wallet === undefined) this.#wallets.set(accountId, (wallet = new Wallet(this.#options.overdraft)))
    return wallet
  }

  /** The account's plan and quota windows, in the subscription period of `now`. */
  readonly quota = (accountId: string, now = this.#options.clock.now()): Quota => {
    const { store, plans, clock } = this.#options
    let quota = this.#quotas.get(accountId)
    const isNew = quota === undefined
    if (quota === undefined) {
      quota = new Quota(plans, newSubscription(accountId, FREE_TIER, now), [], clock.elapsed, this.#isLeased)
      this.#quotas.set(accountId, quota)
    }
    const before = quota.subscription
    // A subscription that another process wrote meanwhile wins: it is loaded within two seconds and renewed then.
    if (quota.renew(now) || isNew) void store.ledger.setSubscription(quota.subscription, before).catch(() => {})
    return quota
  }

  /** True where the account had money when its balance was last read. */
  hasMoney(accountId: string): boolean {
    const { balance, seen } = this.wallet(accountId)
    return balance.credit + balance.bonus + seen > 0n
  }

  /**
   * An account's balance in nano-USD, including what is held, what its requests in flight hold, and its quota windows.
   * With several processes they are read from the store, and `held` is that of this process.
   */
  async of(accountId: string): Promise<{ credit: Nano; bonus: Nano; held: Nano; quota: Quota }> {
    const { balance, held } = this.wallet(accountId)
    const quota = this.quota(accountId)
    if (!this.#isLeased) return { ...balance, held, quota }
    const { balances, windows } = await this.#options.store.ledger.state([accountId])
    const stored = (kind: string): Nano => balances.find((one) => one.kind === kind)?.balance ?? 0n
    const shown = new Quota(this.#options.plans, quota.subscription, windows)
    return { credit: stored('credit'), bonus: stored('bonus'), held, quota: shown }
  }

  /** The use of the spending limits of these keys. */
  async budgetsOf(keyIds: readonly string[]): Promise<Pick<Budgets, 'spent' | 'periodEnd'>> {
    return this.#isLeased ? new Budgets(await this.#options.store.ledger.spends(keyIds)) : this.budgets
  }
}
