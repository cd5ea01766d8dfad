import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { addUsage, noUsage } from '../../generation/usage.ts'
import type { StoredKey, UsageGroup, UsageQuestion, UsageRow, UsageSums } from '../../store/store.ts'
import { answer, time, timeOrNull, usd } from './answer.ts'
import { choicesIn, instantIn, scopeOf } from './filters.ts'
import { namesOf, type NamesServices } from './names.ts'
import { flowsOf, tokensOf, type TokenCounts } from './requests.ts'
import type { ManagementRequest } from './route.ts'
import { usageTable } from './usage-table.ts'
import { BUCKETS, Zone, type BucketName } from './zones.ts'

/** `cost_usd`: billed to pay-as-you-go keys, as in the book. */
export type Measures = {
  requests: number
  failed: number
  refused: number
  cost_usd: string
  flows: number
  tokens: TokenCounts
}

/** `key`: the group's id, or those of both groups; `labels`: their names. `points`: of buckets that are not empty. */
export type UsageGroupAnswer = {
  key: string | null | (string | null)[]
  label: string
  labels: string[]
  total: Measures
  points: [at: string, measures: Measures][]
}

/** `counted_from`: earlier generations are still being counted; null once all are. */
export type UsageAnswer = {
  from: string
  to: string
  tz: string
  bucket: BucketName
  counted_from: string | null
  total: Measures
  groups: UsageGroupAnswer[]
}

export const GROUPS = ['model', 'key', 'account', 'provider', 'outcome', 'code', 'user'] as const
type GroupName = (typeof GROUPS)[number]

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TOP = 8
const TOP_MAX = 1_000

/** `GET /v1/management/usage`: sums over a range, in buckets of a time zone, by up to two groups. */
export async function getUsage(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const format = inbound.query.get('format') ?? 'json'
  if (format !== 'json' && format !== 'csv') throw invalid('format', "must be 'json' or 'csv'")
  const usage = await usageOf(app, inbound)
  if (format === 'json') return answer(usage)
  return new Response(usageTable(usage, groupsIn(inbound), 'csv'), {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': 'attachment; filename="usage.csv"',
      'cache-control': 'no-store',
    },
  })
}

async function usageOf(app: AppContext, inbound: ManagementRequest): Promise<UsageAnswer> {
  const now = app.clock.now()
  const to = instantIn(inbound, 'to', now) ?? now
  const from = instantIn(inbound, 'from', now) ?? to - DAY_MS
  if (from >= to) throw invalid('from', 'must be before to')
  const choices = await choicesIn(app, inbound, ['account', 'key', 'model', 'provider', 'outcome', 'code'])
  const groups = groupsIn(inbound)
  const isByKey = choices.key !== undefined || groups.includes('key') || groups.includes('user')
  return sumUsage(app, {
    now,
    from,
    to,
    zone: new Zone(inbound.query.get('tz') ?? 'UTC'),
    bucket: bucketIn(inbound),
    groups,
    top: topIn(inbound),
    // Members see the totals of their account, and of single keys only their own.
    scope: { ...(await scopeOf(app, inbound, isByKey ? 'requests.read' : 'usage.read')), choices },
  })
}

type UsageRequest = {
  now: number
  from: number
  to: number
  zone: Zone
  bucket: BucketName
  groups: readonly GroupName[]
  top: number
  scope: Omit<UsageQuestion, 'bounds' | 'groups'>
}

/** The instant before which records are still being counted; null once all are. */
export async function countedFrom({ store }: Pick<AppContext, 'store'>): Promise<string | null> {
  const at = await store.reports.countedFrom()
  return timeOrNull(at === 0 ? null : at)
}

/** Sums for an answer or a table. */
export async function sumUsage(app: NamesServices, request: UsageRequest): Promise<UsageAnswer> {
  const { from, to, zone, bucket, groups, top, scope } = request
  const { reports, accounts } = app.store
  const bounds = zone.bounds(bucket, from, to)
  // Refusals that are only counted belong to the piece with the end of their hour, which the present one has not
  // reached.
  if (to >= request.now) bounds.splice(-1, 1, Math.ceil(to / HOUR_MS) * HOUR_MS)
  const stored = groups.map((name): UsageGroup => (name === 'user' ? 'key' : name))
  const rows = await reports.usage({ ...scope, bounds, groups: stored })
  const keys = groups.includes('user') ? new Map((await accounts.keys()).map((key) => [key.id, key])) : undefined
  return {
    from: time(from),
    to: time(to),
    tz: zone.name,
    bucket,
    counted_from: await countedFrom(app),
    total: measured(rows),
    groups: grouped(keys === undefined ? rows : rows.map((row) => byUser(row, groups, keys)), {
      bounds,
      groups,
      top,
      names: await groupNames(app, groups),
    }),
  }
}

type GroupNames = { readonly [Name in GroupName]?: ReadonlyMap<string, string | null> }

/** Names by id of the groups that have them. */
async function groupNames(app: NamesServices, groups: readonly GroupName[]): Promise<GroupNames> {
  const { accounts, keys } = await namesOf(app)
  if (!groups.includes('user')) return { account: accounts, key: keys }
  const users = await app.store.people.users()
  return { account: accounts, key: keys, user: new Map(users.map(({ id, name }) => [id, name])) }
}

const byUser = (row: UsageRow, groups: readonly GroupName[], keys: ReadonlyMap<string, StoredKey>): UsageRow => ({
  ...row,
  group: row.group.map((key, at) => (groups[at] === 'user' ? (keys.get(key ?? '')?.createdBy ?? null) : key)),
})

type Grouping = {
  bounds: readonly number[]
  groups: readonly GroupName[]
  top: number
  names: GroupNames
}

/** The groups with most, and the rest as one. Without groups there is one of all. */
function grouped(rows: readonly UsageRow[], { bounds, groups, top, names }: Grouping): UsageGroupAnswer[] {
  const idOf = ({ group }: UsageRow): string => JSON.stringify(group.slice(0, groups.length))
  const all = [...Map.groupBy(rows, idOf).values()].sort(byWeight)
  const write = (key: UsageGroupAnswer['key'], labels: string[], own: readonly UsageRow[]): UsageGroupAnswer => ({
    key,
    label: labels.length === 0 ? 'all' : labels.join(', '),
    labels,
    total: measured(own),
    points: [...Map.groupBy(own, ({ bucket }) => bucket)]
      .sort(([a], [b]) => a - b)
      .map(([bucket, some]) => [time(bounds[bucket]!), measured(some)]),
  })
  const labels = groups.map((name, at) => labelsOf(new Set(rows.map(({ group }) => group[at]!)), names[name]))
  const written = all.slice(0, top).map((own) => {
    const keys = own[0]!.group.slice(0, groups.length)
    const labelled = keys.map((key, at) => labels[at]!.get(key)!)
    return write(keys.length === 1 ? keys[0]! : keys, labelled, own)
  })
  const rest = all.slice(top).flat()
  return rest.length === 0 ? written : [...written, write('other', ['other'], rest)]
}

/** The names of groups, with the id where several have the same name. */
function labelsOf(
  ids: ReadonlySet<string | null>,
  names: ReadonlyMap<string, string | null> = new Map(),
): ReadonlyMap<string | null, string> {
  const named = [...ids].map((id) => ({ id, name: names.get(id ?? '') ?? id ?? 'none' }))
  const withName = Map.groupBy(named, ({ name }) => name)
  return new Map(named.map(({ id, name }) => [id, withName.get(name)!.length === 1 ? name : `${name} (${id})`]))
}

/** By cost, then by requests. */
function byWeight(a: readonly UsageRow[], b: readonly UsageRow[]): number {
  const [one, other] = [summed(a), summed(b)]
  if (one.bill !== other.bill) return one.bill < other.bill ? 1 : -1
  return other.requests + other.refused - one.requests - one.refused
}

function summed(rows: readonly UsageSums[]): UsageSums {
  const sums: UsageSums = { requests: 0, failed: 0, refused: 0, bill: 0n, flows: 0n, usage: noUsage() }
  for (const { requests, failed, refused, bill, flows, usage } of rows) {
    sums.requests += requests
    sums.failed += failed
    sums.refused += refused
    sums.bill += bill
    sums.flows += flows
    addUsage(sums.usage, usage)
  }
  return sums
}

function measured(rows: readonly UsageSums[]): Measures {
  const { requests, failed, refused, bill, flows, usage } = summed(rows)
  return { requests, failed, refused, cost_usd: usd(bill), flows: flowsOf(flows), tokens: tokensOf(usage) }
}

/** `bucket` of a request. */
export function bucketIn({ query }: ManagementRequest): BucketName {
  const name = query.get('bucket') ?? 'none'
  if (!(BUCKETS as readonly string[]).includes(name)) throw invalid('bucket', `must be one of ${BUCKETS.join(', ')}`)
  return name as BucketName
}

function groupsIn({ query }: ManagementRequest): GroupName[] {
  return readGroups(query.getAll('group').flatMap((text) => text.split(',')))
}

/** Throws invalid_request (400) for more than two groups, and for unknown ones. */
export function readGroups(names: readonly string[]): GroupName[] {
  const wrong = names.some((name) => !(GROUPS as readonly string[]).includes(name))
  if (wrong || names.length > 2 || new Set(names).size < names.length)
    throw invalid('group', `must be one or two of ${GROUPS.join(', ')}`)
  return names as GroupName[]
}

function topIn({ query }: ManagementRequest): number {
  const text = query.get('top') ?? String(TOP)
  const top = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (top < 1 || top > TOP_MAX) throw invalid('top', `must be a whole number from 1 to ${TOP_MAX}`)
  return top
}
