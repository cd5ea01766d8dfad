import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { OUTCOMES } from '../../ledger/outcomes.ts'
import { nanoOf } from '../../money.ts'
import { protocols } from '../../protocols/index.ts'
import { CHOICES, FLAGS, type Choice, type ChoiceName, type RequestFilter, type Scope } from '../../store/store.ts'
import type { Action } from '../../accounts/roles.ts'
import { accountsOf } from './answer.ts'
import { flagIn } from './query-names.ts'
import type { ManagementRequest } from './route.ts'
import { parseInstant } from './shapes.ts'

/** Filters of requests in the query of a URL; the list, the export, the live view and the sums share them. */

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** An instant: ISO 8601, or a time before now (`-30m`, `-24h`, `-7d`). */
export function instantIn({ query }: ManagementRequest, name: 'from' | 'to', now: number): number | undefined {
  const text = query.get(name)
  return text === null ? undefined : readInstant(text, name, now)
}

/** Both ends of a range; undefined where it has none. Throws invalid_request (400) for an empty one. */
export function rangeIn(inbound: ManagementRequest, now: number): Pick<RequestFilter, 'from' | 'to'> {
  const [from, to] = [instantIn(inbound, 'from', now), instantIn(inbound, 'to', now)]
  if (from !== undefined && to !== undefined && from >= to) throw invalid('from', 'must be before to')
  return { from, to }
}

/** Throws invalid_request (400) for a text that is no instant. */
export function readInstant(text: string, name: string, now: number): number {
  const [, count, unit = ''] = /^-(\d{1,6})([mhd])$/.exec(text) ?? []
  if (count !== undefined) return now - Number(count) * UNITS[unit]!
  const at = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2}))?$/.test(text)
    ? parseInstant(text)
    : Number.NaN
  if (Number.isNaN(at)) throw invalid(name, 'must be an instant such as 2026-11-23T14:00:00Z, or -30m, -24h or -7d')
  return at
}

/** Requests have no others. */
const KNOWN_OUTCOMES: readonly string[] = [...Object.keys(OUTCOMES), 'open', 'refused']

/** The values of a repeated filter, and those that it excludes (`not_model=`). */
function choiceIn({ query }: ManagementRequest, name: ChoiceName): Choice | undefined {
  const [only, not] = [query.getAll(name), query.getAll(`not_${name}`)]
  if (only.length === 0 && not.length === 0) return undefined
  if (name === 'outcome')
    for (const [param, values] of [[name, only] as const, [`not_${name}`, not] as const])
      if (!values.every((value) => KNOWN_OUTCOMES.includes(value)))
        throw invalid(param, `must be one of ${KNOWN_OUTCOMES.join(', ')}`)
  return { ...(only.length === 0 ? {} : { only }), ...(not.length === 0 ? {} : { not }) }
}

/** All choices of a request. Accounts and keys may be named by id or name. */
export async function choicesIn(
  app: AppContext,
  inbound: ManagementRequest,
  names: readonly ChoiceName[] = CHOICES,
): Promise<RequestFilter['choices']> {
  const choices: RequestFilter['choices'] = {}
  for (const name of names) {
    const choice = choiceIn(inbound, name)
    if (choice !== undefined) choices[name] = choice
  }
  if (choices.account !== undefined)
    choices.account = await resolved(choices.account, async (name) => {
      const account = await app.store.accounts.find(name)
      return account === undefined ? [] : [account.id]
    })
  if (choices.key !== undefined) {
    const keys = [...(await app.store.accounts.keys()), ...app.keys.configured()]
    choices.key = await resolved(choices.key, async (text) =>
      keys.flatMap(({ id, name }) => (name === text ? [id] : [])),
    )
  }
  return choices
}

async function resolved({ only, not }: Choice, find: (name: string) => Promise<string[]>): Promise<Choice> {
  const ids = async (texts: readonly string[]): Promise<string[]> =>
    (await Promise.all(texts.map(async (text) => [text, ...(await find(text))]))).flat()
  return {
    ...(only === undefined ? {} : { only: await ids(only) }),
    ...(not === undefined ? {} : { not: await ids(not) }),
  }
}

/** The requests that a caller may see with an action: of whole accounts, and of its own keys elsewhere. */
export async function scopeOf(app: AppContext, inbound: ManagementRequest, action: Action): Promise<Scope> {
  return (await scopeWithAccounts(app, inbound, action)).scope
}

/** That scope, and the accounts of the keys in it. */
export async function scopeWithAccounts(
  app: AppContext,
  inbound: ManagementRequest,
  action: Action,
): Promise<{ scope: Scope; ownAccountIds: string[] }> {
  const { accounts, own } = await accountsOf(app, inbound, action)
  const scope = accounts === undefined ? {} : { accountIds: accounts, keyIds: await ownKeysIn(app, inbound, own) }
  return { scope, ownAccountIds: own }
}

/** All in which a caller has an action, whatever the accounts that it asks for. */
export async function reachedBy(app: AppContext, inbound: ManagementRequest, action: Action): Promise<Scope> {
  const reach = inbound.caller.reach(action)
  return reach === 'all' ? {} : { accountIds: reach.accounts, keyIds: await ownKeysIn(app, inbound, reach.own) }
}

async function ownKeysIn(
  { store }: AppContext,
  { caller }: ManagementRequest,
  accounts: readonly string[],
): Promise<string[]> {
  const keys = accounts.length === 0 ? [] : await store.accounts.keys(accounts)
  return keys.filter((key) => caller.owns(key)).map(({ id }) => id)
}

/** True for roles of the installation, which see the list price of what subscriptions used. */
export const seesListPrices = ({ caller }: ManagementRequest): boolean => caller.reach('requests.read') === 'all'

function flagsIn({ query }: ManagementRequest): RequestFilter['flags'] {
  const flags: RequestFilter['flags'] = {}
  for (const name of FLAGS) {
    const flag = flagIn(query, name)
    if (flag !== undefined) flags[name] = flag
  }
  return flags
}

function leastIn({ query }: ManagementRequest, name: string): number | undefined {
  const text = query.get(name)
  if (text !== null && !/^\d{1,12}$/.test(text)) throw invalid(name, 'must be a whole number')
  return text === null ? undefined : Number(text)
}

function leastCostIn({ query }: ManagementRequest): bigint | undefined {
  const text = query.get('min_cost_usd')
  if (text === null) return undefined
  try {
    const amount = nanoOf(text)
    if (amount >= 0n && amount <= 10n ** 18n) return amount
  } catch {
    // The error below says what is right.
  }
  throw invalid('min_cost_usd', 'must be an amount of USD, such as 0.05')
}

const ID_PREFIXES = ['req_', 'pred_', ...Object.values(protocols).map(({ serve }) => serve.idPrefix)].filter(Boolean)
const ID = new RegExp(`^(?:${ID_PREFIXES.join('|')})?([0-9a-f]{1,32})$`)
/** A plain text of hexadecimal digits is an id only where an error would hardly have it. */
const ID_LENGTH = 6
const ERROR_LENGTH = 3

/** The id in any of its forms: with the prefix of a protocol, of a request, or without one. */
export const idIn = (text: string): string | undefined => {
  const id = ID.exec(text.trim())?.[1]
  return id?.length === 32 ? id : undefined
}

/** `q`: an id or its beginning, else a part of an error's code or message. */
function searched({ query }: ManagementRequest): Pick<RequestFilter, 'idPrefix' | 'errorText'> {
  const text = query.get('q')?.trim() ?? ''
  if (text === '') return {}
  const id = ID.exec(text)?.[1]
  if (id !== undefined && (id.length >= ID_LENGTH || id.length < text.length)) return { idPrefix: id }
  if (text.length < ERROR_LENGTH)
    throw invalid('q', `must be the beginning of an id, or ${ERROR_LENGTH} characters or more of an error`)
  return { errorText: text.toLowerCase() }
}

/** The filter of a list of requests, for this caller. Throws invalid_request (400) with the name of what is wrong. */
export async function filterOf(app: AppContext, inbound: ManagementRequest): Promise<RequestFilter> {
  const now = app.clock.now()
  return {
    ...(await scopeOf(app, inbound, 'requests.read')),
    ...rangeIn(inbound, now),
    choices: await choicesIn(app, inbound),
    flags: flagsIn(inbound),
    minCost: leastCostIn(inbound),
    seesListPrices: seesListPrices(inbound),
    minFirstTokenMs: leastIn(inbound, 'min_first_token_ms'),
    minTotalMs: leastIn(inbound, 'min_total_ms'),
    minTokens: leastIn(inbound, 'min_tokens'),
    ...searched(inbound),
  }
}
