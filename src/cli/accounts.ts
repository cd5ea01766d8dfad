import { Budgets } from '../accounts/budget.ts'
import type { ChangeEntry } from '../accounts/change-log.ts'
import { newId } from '../accounts/key-text.ts'
import { FREE_TIER, Plans } from '../accounts/plans.ts'
import { changePlan, newSubscription, renewed } from '../accounts/subscription.ts'
import { described } from '../endpoints/management/accounts.ts'
import { isOperationReference, topUp } from '../ledger/book.ts'
import { postCredit } from '../ledger/credits.ts'
import { usdOf, usdText, type Nano } from '../money.ts'
import {
  type Account,
  type AccountStatus,
  type LedgerState,
  type Operation,
  type StoredKey,
  type Subscription,
} from '../store/store.ts'
import { limitText, percentText, readPercent, readUsd } from './amounts.ts'
import { columns, didYouMean, UsageError, type Given } from './command.ts'
import { instant, withData, withExistingData, type Data } from './data.ts'
import { stateOf } from './keys.ts'
import { configOf } from './serve.ts'

const STATUSES: readonly AccountStatus[] = ['healthy', 'monitored', 'abusive', 'suspended', 'banned']

export async function createAccount(given: Given, name: string): Promise<void> {
  const [credit, bonus, tier = FREE_TIER, discount] = [
    given.text('credit'),
    given.text('bonus'),
    given.text('plan'),
    given.text('discount'),
  ]
  const amounts = [
    { amount: credit === undefined ? 0n : readUsd(credit, '--credit', 'unsigned'), bonus: false },
    { amount: bonus === undefined ? 0n : readUsd(bonus, '--bonus', 'unsigned'), bonus: true },
  ].filter(({ amount }) => amount > 0n)
  const basisPoints = discount === undefined ? 0 : readPercent(discount, '--discount')
  checkTier(tier, given)
  await withData(given, async (data) => {
    const credits = (accountId: string): Operation[] =>
      amounts.map(({ amount, bonus }) =>
        topUp({ reference: newId('op'), at: data.store.time(), accountId, amount, bonus, note: 'Opening' }),
      )
    const initial = { tier, discount: basisPoints, credits }
    const account = await data.accounts.create(name, initial, (made, subscription) => {
      const after = described(made, subscription, null)
      return [data.line({ action: 'account.create', target: made.id, accountId: made.id, after })]
    })
    if (given.on('json')) return print(toJson(await loadView(data, account)))
    console.log(`created ${account.name} (${account.id})`)
    console.error(`create a key for it: sluice keys create --account ${account.name}`)
  })
}

export async function listAccounts(given: Given): Promise<void> {
  await withExistingData(given, async (data) => {
    const state = await data.store.ledger.state()
    const views = (await data.accounts.list()).map((account) => toView(account, state, [], data.store.time()))
    if (given.on('json')) return print(views.map(({ keys: _, ...shown }) => shown).map(toJson))
    const rows = views.map(({ account, subscription, credit, bonus }) => [
      account.name,
      account.status,
      subscription.tier,
      usdText(credit),
      usdText(bonus),
      percentText(account.discount),
      account.id,
    ])
    console.log(columns([['NAME', 'STATUS', 'PLAN', 'CREDIT', 'BONUS', 'DISCOUNT', 'ID'], ...rows], ''))
  })
}

export async function showAccount(given: Given, name: string): Promise<void> {
  await withExistingData(given, async (data) => {
    const shown = await loadView(data, await data.accounts.named(name))
    if (given.on('json')) return print(toJson(shown))
    const { account, subscription, credit, bonus, keys } = shown
    console.log(
      columns(
        [
          ['Account', `${account.name} (${account.id})`],
          ['Status', account.status],
          ['Plan', planText(subscription)],
          ['Balance', balanceText(credit, bonus)],
          ['Discount', percentText(account.discount)],
        ],
        '',
      ),
    )
    const rows = keys.map(({ key, spent }) => [
      key.id,
      key.kind,
      stateOf(key, data.store.time()),
      key.models?.join(',') ?? 'all',
      limitText(key),
      spent === null ? '' : usdText(spent),
      key.name ?? '',
    ])
    if (rows.length > 0)
      console.log(`\n${columns([['KEY', 'KIND', 'STATE', 'MODELS', 'LIMIT', 'SPENT', 'NAME'], ...rows], '')}`)
  })
}

export async function creditAccount(given: Given, name: string, usd: string): Promise<void> {
  const amount = readUsd(usd, 'the amount', 'signed')
  if (amount === 0n) throw new UsageError('the amount must not be 0')
  const [note, reference = newId('op'), bonus] = [given.text('note'), given.text('reference'), given.on('bonus')]
  if (!isOperationReference(reference))
    throw new UsageError(
      '--reference must be 1 to 100 printable characters without spaces, ' +
        'and not 32 hex digits, which are the id of a generation',
    )
  await withExistingData(given, async (data) => {
    const account = await data.accounts.named(name)
    const asked = { amount, bonus, reference, note }
    const posted = await postCredit(data.store.ledger, account, data.store.time(), asked, data.line)
    const { credit, bonus: granted } = await loadView(data, account)
    if (given.on('json'))
      return print({ account: account.name, reference, posted, balance: balanceToJson(credit, granted) })
    console.log(
      posted
        ? `${amount < 0n ? 'removed' : 'added'} ${usdText(amount < 0n ? -amount : amount)} USD` +
            `${bonus ? ' of bonus' : ''} (${reference})`
        : `the reference ${reference} has been posted already; nothing was changed`,
    )
    console.log(`${account.name} has ${balanceText(credit, granted)}`)
  })
}

export async function changeAccountPlan(given: Given, name: string, tier: string): Promise<void> {
  checkTier(tier, given)
  await withExistingData(given, async (data) => {
    const account = await data.accounts.named(name)
    const { subscription: before } = await loadView(data, account)
    const changed = changePlan(before, tier, { now: given.on('now') }, new Plans(data.config))
    const subscription = { ...changed, renews: !given.on('no-renew') }
    await data.logged(() => data.store.ledger.setSubscription(subscription), {
      ...entryOf('account.change', account),
      before: { plan: planToJson(before) },
      after: { plan: planToJson(subscription) },
    })
    console.log(
      given.on('json')
        ? JSON.stringify({ account: account.name, plan: planToJson(subscription) })
        : `${account.name}: ${planText(subscription)}`,
    )
  })
}

export async function setAccountStatus(given: Given, name: string, text: string): Promise<void> {
  const status = STATUSES.find((one) => one === text)
  if (status === undefined)
    throw new UsageError(`the status must be one of ${STATUSES.join(', ')}${didYouMean(text, STATUSES)}`)
  await withExistingData(given, async ({ accounts, store, logged }) => {
    const account = await accounts.named(name)
    await logged(() => store.accounts.setStatus(account.id, status), {
      ...entryOf('account.change', account),
      before: { status: account.status },
      after: { status },
    })
    console.log(
      given.on('json')
        ? JSON.stringify({ account: account.name, status })
        : `${account.name} is ${status} (was ${account.status})`,
    )
  })
}

export async function setAccountDiscount(given: Given, name: string, text: string): Promise<void> {
  const discount = readPercent(text, 'the discount')
  await withExistingData(given, async ({ accounts, store, logged }) => {
    const account = await accounts.named(name)
    await logged(() => store.accounts.setDiscount(account.id, discount), {
      ...entryOf('account.change', account),
      before: { discount: account.discount / 100 },
      after: { discount: discount / 100 },
    })
    console.log(
      given.on('json')
        ? JSON.stringify({ account: account.name, discountPercent: discount / 100 })
        : `${account.name} has a discount of ${percentText(discount)} (was ${percentText(account.discount)})`,
    )
  })
}

/** A line of the change log about an account. */
const entryOf = (action: string, { id }: Account): ChangeEntry => ({ action, target: id, accountId: id })

/** Refuses a tier that is not configured, before anything is written. */
function checkTier(tier: string, given: Given): void {
  const tiers = [...configOf(given).plans.tiers.keys()]
  if (!tiers.includes(tier))
    throw new UsageError(`the plan must be one of ${tiers.join(', ')}${didYouMean(tier, tiers)}`)
}

/** An account for display. `spent`: nano-USD in the current period of the key's limit, null without a limit. */
type AccountView = {
  account: Account
  subscription: Subscription
  credit: Nano
  bonus: Nano
  keys: { key: StoredKey; spent: Nano | null }[]
}

const loadView = async ({ store }: Data, account: Account): Promise<AccountView> =>
  toView(
    account,
    await store.ledger.state(),
    (await store.accounts.keys()).filter(({ accountId }) => accountId === account.id),
    store.time(),
  )

function toView(
  account: Account,
  { balances, subscriptions, spends }: LedgerState,
  keys: readonly StoredKey[],
  now: number,
): AccountView {
  const balanceOf = (kind: 'credit' | 'bonus'): Nano =>
    balances.find((row) => row.kind === kind && row.owner === account.id)?.balance ?? 0n
  const stored =
    subscriptions.find(({ accountId }) => accountId === account.id) ?? newSubscription(account.id, FREE_TIER, now)
  const budgets = new Budgets(spends)
  return {
    account,
    subscription: renewed(stored, now),
    credit: balanceOf('credit'),
    bonus: balanceOf('bonus'),
    keys: keys.map((key) => ({
      key,
      spent: key.limit === null ? null : budgets.spent(key.id, { amount: key.limit, period: key.limitPeriod }, now),
    })),
  }
}

const balanceText = (credit: Nano, bonus: Nano): string =>
  `${usdText(credit + bonus)} USD (credit ${usdText(credit)}, bonus ${usdText(bonus)})`

function planText({ tier, periodEnd, renews, nextTier }: Subscription): string {
  const next = !renews ? `then ${FREE_TIER}` : nextTier === null ? 'then renewed' : `then ${nextTier}`
  return `${tier} until ${instant(periodEnd)}, ${next}`
}

const balanceToJson = (credit: Nano, bonus: Nano): object => ({
  totalUsd: usdOf(credit + bonus),
  creditUsd: usdOf(credit),
  bonusUsd: usdOf(bonus),
})

const planToJson = ({ tier, periodStart, periodEnd, renews, nextTier }: Subscription): object => ({
  tier,
  periodStart: instant(periodStart),
  periodEnd: instant(periodEnd),
  renews,
  nextTier,
})

const toJson = ({
  account,
  subscription,
  credit,
  bonus,
  keys,
}: Omit<AccountView, 'keys'> & Partial<AccountView>): object => ({
  id: account.id,
  name: account.name,
  status: account.status,
  createdAt: instant(account.createdAt),
  discountPercent: account.discount / 100,
  plan: planToJson(subscription),
  balance: balanceToJson(credit, bonus),
  ...(keys === undefined ? {} : { keys: keys.map(({ key, spent }) => keyToJson(key, spent)) }),
})

const keyToJson = (key: StoredKey, spent: Nano | null): object => ({
  id: key.id,
  kind: key.kind,
  name: key.name,
  text: `${key.prefix}...${key.last4}`,
  models: key.models,
  limitUsd: key.limit === null ? null : usdOf(key.limit),
  limitPeriod: key.limitPeriod,
  spentUsd: spent === null ? null : usdOf(spent),
  requestsPerMinute: key.requestsPerMinute,
  idempotency: key.idempotency,
  createdAt: instant(key.createdAt),
  expiresAt: instant(key.expiresAt),
  revokedAt: instant(key.revokedAt),
})

const print = (value: object): void => console.log(JSON.stringify(value, null, 2))
