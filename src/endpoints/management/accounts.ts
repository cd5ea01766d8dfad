import type { ChangeEntry } from '../../accounts/change-log.ts'
import { newId } from '../../accounts/key-text.ts'
import { Plans } from '../../accounts/plans.ts'
import type { WindowUse } from '../../accounts/quota.ts'
import { changePlan } from '../../accounts/subscription.ts'
import { accountNameProblem } from '../../config/account-settings.ts'
import { boolean, name, number, object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isOperationReference } from '../../ledger/book.ts'
import { CreditRefused, postCredit } from '../../ledger/credits.ts'
import { accountsOf as accountsIn } from '../../ledger/starting-credit.ts'
import type { Account, AccountStatus, Subscription } from '../../store/store.ts'
import {
  accountFor,
  accountsOf,
  answer,
  checkVersion,
  cursorAfter,
  limitOf,
  positionOf,
  time,
  usd,
  versioned,
  type Page,
} from './answer.ts'
import { bodyOf } from './body.ts'
import { captureOf, captureShape, readSwitch, setSwitch, switchAfter, type CaptureAnswer } from './capture.ts'
import { changeLogged, logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { line, usdAmount } from './shapes.ts'

/** An account. `discount` in percent. `balance_usd` is credit and bonus; requests in flight hold `held_usd` of it. */
export type AccountAnswer = {
  id: string
  name: string
  status: AccountStatus
  discount: number
  /** The requests that members see: those of their own keys, or of all. */
  member_requests: 'own' | 'all'
  created_at: string
  plan: { tier: string; renews: boolean; next_tier: string | null; started_at: string; ends_at: string }
  balance_usd: string
  credit_usd: string
  bonus_usd: string
  held_usd: string
  capture: CaptureAnswer | null
  /** Quota windows of subscription keys, in flows. */
  windows: { name: string; used: number; limit: number; resets_at: string | null }[]
}

export type CreditAnswer = { posted: boolean; reference: string; balance_usd: string }

const discount = number({ min: 0, max: 100, decimals: 2, description: 'Percent' })
const MEMBER_REQUESTS = ['own', 'all'] as const
const STATUSES = ['healthy', 'monitored', 'abusive', 'suspended', 'banned'] as const

const PLAN = object({
  tier: string({ what: 'the tier of a plan' }),
  now: boolean('A cheaper plan takes effect at once, too'),
  renews: boolean('false: the account returns to the free plan at the end of the period'),
})
export const CREATE = object(
  { name: string({ what: 'a name', check: accountNameProblem }), discount, plan: PLAN },
  { required: ['name'] },
)
export const CHANGE = object({
  status: name(STATUSES),
  discount,
  plan: PLAN,
  capture: captureShape,
  member_requests: name(MEMBER_REQUESTS, 'The requests that members see: of their own keys, or of all'),
})
export const CREDIT = object(
  {
    amount_usd: usdAmount('Credit to add, or to withdraw with a minus', true),
    bonus: boolean('Add a bonus, which is spent before credit'),
    reference: string({
      what: 'the id of a payment',
      check: (text) =>
        isOperationReference(text)
          ? undefined
          : 'must be 1 to 100 printable characters without spaces, and not the id of a generation',
    }),
    note: line('a note', 500),
  },
  { required: ['amount_usd'] },
)

/** `GET /v1/management/accounts`, by their ids. */
export async function listAccounts(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { accounts } = await accountsOf(app, inbound, 'accounts.read')
  const limit = limitOf(inbound)
  const after = positionOf<string>(inbound) ?? ''
  const ids =
    accounts === undefined
      ? await app.store.accounts.page(after, limit + 1)
      : [...new Set(accounts)].sort().filter((id) => id > after)
  const page = ids.slice(0, limit)
  const rows = await Promise.all((await app.store.accounts.list(page)).map((account) => shown(app, account)))
  const body: Page<AccountAnswer> = {
    data: rows.sort((a, b) => (a.id < b.id ? -1 : 1)),
    next: ids.length > limit ? cursorAfter(inbound, page.at(-1)) : null,
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/accounts/{id}`. */
export async function getAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  return versionedAccount(await shown(app, await accountFor(app, inbound, inbound.params[0] ?? '', 'accounts.read')))
}

/** `POST /v1/management/accounts`. */
export async function createAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CREATE)
  const tier = body.plan?.tier
  checkTier(app, tier)
  const initial = {
    ...(tier === undefined ? {} : { tier }),
    ...(body.discount === undefined ? {} : { discount: Math.round(body.discount * 100) }),
  }
  const account = await accountsIn(app.store, app.config).create(body.name!, initial, (made, subscription) => {
    const after = described(made, subscription, null)
    return [logChange(app, inbound, { action: 'account.create', target: made.id, accountId: made.id, after })]
  })
  await reload(app)
  return answer(await shown(app, account), 201)
}

/** `PATCH /v1/management/accounts/{id}`. */
export async function changeAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CHANGE)
  const { member_requests: memberRequests, ...others } = body
  const isOfPeople = memberRequests !== undefined && Object.keys(others).length === 0
  const action = isOfPeople ? 'people.change' : 'accounts.change'
  const account = await accountFor(app, inbound, inbound.params[0] ?? '', action)
  checkTier(app, body.plan?.tier)
  const before = await shown(app, account)
  checkVersion(inbound, changeable(before))
  const capture = readSwitch(app, body.capture)
  const { status = account.status, discount: percent } = body
  const changed: Account = {
    ...account,
    status,
    discount: percent === undefined ? account.discount : Math.round(percent * 100),
    memberRequests: memberRequests ?? account.memberRequests,
  }
  const { subscription: old } = app.ledger.funds.quota(account.id)
  const subscription = body.plan === undefined ? old : withPlan(app, old, body.plan)
  const write = (): [Promise<unknown>, ...Promise<unknown>[]] => [
    setSwitch(app, inbound, account.id, capture),
    ...(body.status === undefined ? [] : [app.store.accounts.setStatus(account.id, changed.status)]),
    ...(percent === undefined ? [] : [app.store.accounts.setDiscount(account.id, changed.discount)]),
    ...(memberRequests === undefined ? [] : [app.store.accounts.setMemberRequests(account.id, memberRequests)]),
    ...(body.plan === undefined ? [] : [app.store.ledger.setSubscription(subscription)]),
  ]
  await changeLogged(app, inbound, write, {
    action: 'account.change',
    target: account.id,
    accountId: account.id,
    before: changeable(before),
    after: described(changed, subscription, switchAfter(app, account.id, capture)),
  })
  await reload(app)
  return versionedAccount(await shown(app, (await app.store.accounts.find(account.id))!))
}

function withPlan(
  { config }: AppContext,
  subscription: Subscription,
  { tier = subscription.tier, now = false, renews = true }: { tier?: string; now?: boolean; renews?: boolean },
): Subscription {
  return { ...changePlan(subscription, tier, { now }, new Plans(config)), renews }
}

/** `POST /v1/management/accounts/{id}/credits`: a reference is posted once. */
export async function creditAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { amount_usd: amount = 0n, bonus = false, reference = newId('op'), note } = await bodyOf(inbound, CREDIT)
  const account = await accountFor(app, inbound, inbound.params[0] ?? '', 'accounts.change')
  if (amount === 0n) throw invalid('amount_usd', 'must not be 0')
  const credit = { amount, bonus, reference, note }
  const addLine = (entry: ChangeEntry): Promise<void> => logChange(app, inbound, entry)
  const posted = await postCredit(app.store.ledger, account, app.clock.now(), credit, addLine).catch(refuseCredit)
  await reload(app)
  const answered: CreditAnswer = { posted, reference, balance_usd: (await shown(app, account)).balance_usd }
  return answer(answered, posted ? 201 : 200)
}

function refuseCredit(error: unknown): never {
  if (!(error instanceof CreditRefused)) throw error
  if (error.param === 'amount') throw invalid('amount_usd', error.message)
  throw new GatewayError('conflict', error.message, { param: 'reference' })
}

/** This process follows what it wrote itself as it follows what others write. */
const reload = ({ keys, ledger }: AppContext): Promise<unknown> => Promise.all([keys.refresh(), ledger.load()])

function checkTier({ config }: AppContext, tier: string | undefined): void {
  const tiers = [...config.plans.tiers.keys()]
  if (tier !== undefined && !tiers.includes(tier)) throw invalid('plan.tier', `must be one of ${tiers.join(', ')}`)
}

/** An account without what its use changes: balances and windows are in no version, and in no line of the log. */
const changeable = ({ id, name, status, discount, member_requests, plan, capture }: LastingAccount): object => ({
  id,
  name,
  status,
  discount,
  member_requests,
  plan,
  capture,
})

type LastingAccount = Pick<
  AccountAnswer,
  'id' | 'name' | 'status' | 'discount' | 'member_requests' | 'created_at' | 'plan' | 'capture'
>

/** The same before it is stored. */
export const described = (account: Account, subscription: Subscription, capture: CaptureAnswer | null): object =>
  changeable({ ...lasting(account, subscription), capture })

const lasting = (
  { id, name: accountName, status, discount: basisPoints, memberRequests, createdAt }: Account,
  { tier, renews, nextTier, periodStart, periodEnd }: Subscription,
): Omit<LastingAccount, 'capture'> => ({
  id,
  name: accountName,
  status,
  discount: basisPoints / 100,
  member_requests: memberRequests,
  created_at: time(createdAt),
  plan: { tier, renews, next_tier: nextTier, started_at: time(periodStart), ends_at: time(periodEnd) },
})

const versionedAccount = (account: AccountAnswer): Response => versioned(account, changeable(account))

async function shown(app: AppContext, account: Account): Promise<AccountAnswer> {
  const { ledger, clock } = app
  const { quota, credit, bonus, held } = await ledger.funds.of(account.id)
  return {
    ...lasting(account, quota.subscription),
    balance_usd: usd(credit + bonus),
    credit_usd: usd(credit),
    bonus_usd: usd(bonus),
    held_usd: usd(held),
    capture: captureOf(app, account.id),
    windows: quota.uses(clock.now()).map((window: WindowUse) => ({
      name: window.name,
      used: Number(window.used) / 1_000_000,
      limit: Number(window.limit) / 1_000_000,
      resets_at: window.endsAt === null ? null : time(window.endsAt),
    })),
  }
}
