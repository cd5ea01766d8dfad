import { newId } from '../../accounts/key-text.ts'
import { Plans } from '../../accounts/plans.ts'
import { changePlan, type WindowUse } from '../../accounts/quota.ts'
import { accountNameProblem } from '../../config/account-settings.ts'
import { boolean, name, number, object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { GENERATION_ID, topUp } from '../../ledger/book.ts'
import { accountsOf as accountsIn } from '../../ledger/starting-credit.ts'
import { usdText } from '../../money.ts'
import { NotCovered, type Account, type AccountStatus } from '../../store/store.ts'
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
import { logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { line, usdAmount } from './shapes.ts'

/** An account. `discount` in percent. `balance_usd` is credit and bonus; requests in flight hold `held_usd` of it. */
export type AccountAnswer = {
  id: string
  name: string
  status: AccountStatus
  discount: number
  created_at: string
  plan: { tier: string; renews: boolean; next_tier: string | null; started_at: string; ends_at: string }
  balance_usd: string
  credit_usd: string
  bonus_usd: string
  held_usd: string
  /** Quota windows of subscription keys, in flows. */
  windows: { name: string; used: number; limit: number; resets_at: string | null }[]
}

export type CreditAnswer = { posted: boolean; reference: string; balance_usd: string }

const discount = number({ min: 0, max: 100, decimals: 2, description: 'Percent' })
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
export const CHANGE = object({ status: name(STATUSES), discount, plan: PLAN })
export const CREDIT = object(
  {
    amount_usd: usdAmount('Credit to add, or to withdraw with a minus', true),
    bonus: boolean('Add a bonus, which is spent before credit'),
    reference: string({
      what: 'the id of a payment',
      check: (text) =>
        /^[\x21-\x7e]{1,100}$/.test(text) && !GENERATION_ID.test(text)
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
  const rows = (await app.store.accounts.list(page)).map((account) => shown(app, account))
  const body: Page<AccountAnswer> = {
    data: rows.sort((a, b) => (a.id < b.id ? -1 : 1)),
    next: ids.length > limit ? cursorAfter(inbound, page.at(-1)) : null,
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/accounts/{id}`. */
export async function getAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  return versionedAccount(shown(app, await accountFor(app, inbound, inbound.params[0] ?? '', 'accounts.read')))
}

/** `POST /v1/management/accounts`. */
export async function createAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CREATE)
  const tier = body.plan?.tier
  checkTier(app, tier)
  if ((await app.store.accounts.find(body.name!)) !== undefined)
    throw new GatewayError('conflict', `There is an account ${body.name} already.`, { param: 'name' })
  const account = await accountsIn(app.store, app.config).create(body.name!, {
    ...(tier === undefined ? {} : { tier }),
    ...(body.discount === undefined ? {} : { discount: Math.round(body.discount * 100) }),
  })
  await reload(app)
  const after = shown(app, account)
  await logChange(app, inbound, { action: 'account.create', target: account.id, accountId: account.id, after })
  return answer(after, 201)
}

/** `PATCH /v1/management/accounts/{id}`. */
export async function changeAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CHANGE)
  const account = await accountFor(app, inbound, inbound.params[0] ?? '', 'accounts.change')
  checkTier(app, body.plan?.tier)
  const before = shown(app, account)
  checkVersion(inbound, changeable(before))
  if (body.status !== undefined) await app.store.accounts.setStatus(account.id, body.status)
  if (body.discount !== undefined) await app.store.accounts.setDiscount(account.id, Math.round(body.discount * 100))
  if (body.plan !== undefined) {
    const { subscription } = app.ledger.quota(account.id)
    const { tier = subscription.tier, now = false, renews = true } = body.plan
    const changed = changePlan(subscription, tier, { now }, new Plans(app.config))
    await app.store.ledger.setSubscription({ ...changed, renews })
  }
  await reload(app)
  const after = shown(app, (await app.store.accounts.find(account.id))!)
  const entry = { action: 'account.change', target: account.id, accountId: account.id }
  await logChange(app, inbound, { ...entry, before: changeable(before), after: changeable(after) })
  return versionedAccount(after)
}

/** `POST /v1/management/accounts/{id}/credits`: a reference is posted once. */
export async function creditAccount(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { amount_usd: amount = 0n, bonus = false, reference = newId('op'), note } = await bodyOf(inbound, CREDIT)
  const account = await accountFor(app, inbound, inbound.params[0] ?? '', 'accounts.change')
  if (amount === 0n) throw invalid('amount_usd', 'must not be 0')
  const at = app.clock.now()
  const operation = topUp({
    reference,
    at,
    accountId: account.id,
    amount,
    bonus,
    ...(note === undefined ? {} : { note }),
  })
  const posted = await app.store.ledger.post({ ...operation, covered: amount < 0n }).catch((error: unknown) => {
    if (!(error instanceof NotCovered)) throw error
    const what = bonus ? 'bonus' : 'credit'
    throw invalid('amount_usd', `${account.name} has only ${usdText(error.balance)} USD of ${what}`)
  })
  await reload(app)
  if (posted)
    await logChange(app, inbound, {
      action: 'account.credit',
      target: account.id,
      accountId: account.id,
      after: { amount_usd: usd(amount), bonus, reference, note: note ?? null },
    })
  const answered: CreditAnswer = { posted, reference, balance_usd: shown(app, account).balance_usd }
  return answer(answered, posted ? 201 : 200)
}

/** This process follows what it wrote itself as it follows what others write. */
const reload = ({ keys, ledger }: AppContext): Promise<unknown> => Promise.all([keys.refresh(), ledger.load()])

function checkTier({ config }: AppContext, tier: string | undefined): void {
  const tiers = [...config.plans.tiers.keys()]
  if (tier !== undefined && !tiers.includes(tier)) throw invalid('plan.tier', `must be one of ${tiers.join(', ')}`)
}

/** An account without what its use changes. */
const changeable = ({ id, name: accountName, status, discount: percent, plan }: AccountAnswer): object => ({
  id,
  name: accountName,
  status,
  discount: percent,
  plan,
})

const versionedAccount = (account: AccountAnswer): Response => versioned(account, changeable(account))

function shown({ ledger, clock }: AppContext, account: Account): AccountAnswer {
  const quota = ledger.quota(account.id)
  const { tier, renews, nextTier, periodStart, periodEnd } = quota.subscription
  const { credit, bonus } = ledger.balance(account.id)
  return {
    id: account.id,
    name: account.name,
    status: account.status,
    discount: account.discount / 100,
    created_at: time(account.createdAt),
    plan: { tier, renews, next_tier: nextTier, started_at: time(periodStart), ends_at: time(periodEnd) },
    balance_usd: usd(credit + bonus),
    credit_usd: usd(credit),
    bonus_usd: usd(bonus),
    held_usd: usd(ledger.held(account.id)),
    windows: quota.uses(clock.now()).map((window: WindowUse) => ({
      name: window.name,
      used: Number(window.used) / 1_000_000,
      limit: Number(window.limit) / 1_000_000,
      resets_at: window.endsAt === null ? null : time(window.endsAt),
    })),
  }
}
