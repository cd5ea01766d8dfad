import type { Measures, Usage, UsageGroup } from '../../api/answers.ts'
import { FILTER_FIELDS } from '../../parts/filters.ts'
import { chartUsd, compareUsd, exactUsd, headUsd } from '../../parts/money.ts'
import { outcomeText } from '../../parts/outcomes.ts'
import { bucketAt, bucketStarts } from '../../parts/range.ts'
import { oneLine } from '../../parts/visible.ts'
import { count, percent, shortCount } from '../../parts/when.ts'

export const METRICS = {
  cost: 'Cost',
  requests: 'Requests',
  tokens: 'Tokens',
  cache: 'Cache hit',
  failed: 'Failed',
  refused: 'Refused',
} as const
export type Metric = keyof typeof METRICS

export const GROUPS = {
  model: 'Model',
  key: 'Key',
  account: 'Account',
  provider: 'Provider',
  outcome: 'Outcome',
  code: 'Error code',
  user: 'User',
} as const
export type Group = keyof typeof GROUPS

export const isMetric = (text: string | null): text is Metric => text !== null && text in METRICS
export const isGroup = (text: string | null): text is Group => text !== null && text in GROUPS

/** All tokens that were read. */
export const tokensIn = ({ tokens }: Measures): number => tokens.input + tokens.cache_read + tokens.cache_write
export const tokensOut = ({ tokens }: Measures): number => tokens.output + tokens.reasoning

/** The height of a bar or point. Null: a share of nothing. */
export function heightOf(metric: Metric, measures: Measures): number | null {
  switch (metric) {
    case 'cost':
      return chartUsd(measures.cost_usd)
    case 'tokens':
      return tokensIn(measures) + tokensOut(measures)
    case 'cache':
      return tokensIn(measures) === 0 ? null : measures.tokens.cache_read / tokensIn(measures)
    default:
      return measures[metric]
  }
}

/** The number in words, exact: nothing that was drawn is written from its height. */
export function textOf(metric: Metric, measures: Measures | undefined): string {
  if (measures === undefined) return metric === 'cost' ? '0.00' : metric === 'cache' ? '-' : '0'
  switch (metric) {
    case 'cost':
      return headUsd(measures.cost_usd)
    case 'tokens':
      return count(tokensIn(measures) + tokensOut(measures))
    case 'cache':
      return tokensIn(measures) === 0 ? '-' : percent(measures.tokens.cache_read, tokensIn(measures))
    default:
      return count(measures[metric])
  }
}

/** All digits, for titles. */
export const exactTextOf = (metric: Metric, measures: Measures | undefined): string =>
  metric === 'cost' ? exactUsd(measures?.cost_usd ?? '0') : textOf(metric, measures)

export const axisTextOf = (metric: Metric, value: number): string => {
  if (metric === 'cache') return `${Math.round(value * 100)} %`
  if (metric === 'cost') return value >= 100 ? shortCount(Math.round(value)) : String(Number(value.toPrecision(3)))
  return Number.isInteger(value) ? shortCount(value) : ''
}

/** The number in a file. */
export function plainOf(metric: Metric, measures: Measures): string {
  if (metric === 'cost') return measures.cost_usd ?? ''
  const height = heightOf(metric, measures)
  return height === null ? '' : String(height)
}

const compare = (metric: Metric, a: Measures, b: Measures): number =>
  metric === 'cost' ? compareUsd(a.cost_usd, b.cost_usd) : (heightOf(metric, a) ?? -1) - (heightOf(metric, b) ?? -1)

/** The rest beyond the largest groups. */
export const isRest = ({ key, label }: UsageGroup): boolean => key === 'other' && label === 'other'

/** Names of what has no value of a group. Only requests that were refused have no model. */
const WITHOUT: Readonly<Record<Group, string>> = {
  model: 'refused requests',
  key: 'no valid key',
  account: 'no account',
  provider: 'no provider',
  outcome: 'no outcome',
  code: 'no error',
  user: 'no user',
}

const keysOf = ({ key }: UsageGroup): readonly (string | null)[] => (Array.isArray(key) ? key : [key])
const fieldsOf = (by: Group, then: Group | undefined): readonly Group[] => (then === undefined ? [by] : [by, then])

/** The name of a group. */
export function groupName(group: UsageGroup, by: Group, then: Group | undefined): string {
  if (isRest(group)) return group.label
  const keys = keysOf(group)
  const names = fieldsOf(by, then).map((field, index) => {
    const key = keys[index] ?? null
    if (key === null) return WITHOUT[field]
    return field === 'outcome' ? outcomeText(key) : (group.labels[index] ?? key)
  })
  return oneLine(names.join(', '), 120)
}

/** The filters of requests that find those of a group; undefined where there are none. */
export function groupFilters(group: UsageGroup, by: Group, then: Group | undefined): [string, string][] | undefined {
  const keys = keysOf(group)
  const filters: [string, string][] = []
  for (const [index, field] of fieldsOf(by, then).entries()) {
    const key = keys[index] ?? null
    if (key !== null && (field in FILTER_FIELDS || field === 'account')) filters.push([field, key])
    else if (key === null && field === 'model') filters.push(['outcome', 'refused'])
    else return undefined
  }
  return isRest(group) ? undefined : filters
}

/** The largest first, the rest last. */
export const sortedGroups = ({ groups }: Usage, metric: Metric): UsageGroup[] =>
  groups.toSorted((a, b) => Number(isRest(a)) - Number(isRest(b)) || compare(metric, b.total, a.total))

/** The measures of a group by bucket; undefined where there is none. */
export function byBucket({ points }: UsageGroup, starts: readonly number[]): (Measures | undefined)[] {
  const values = new Array<Measures | undefined>(starts.length).fill(undefined)
  for (const [at, measures] of points) {
    const index = Math.max(0, bucketAt(starts, Date.parse(at)))
    if (index < values.length) values[index] = measures
  }
  return values
}

/** The sum over all groups in each bucket of the range, as a length to draw: zero where there is nothing. */
export function courseOf({ from, to, bucket, tz, groups }: Usage, valueOf: (measures: Measures) => number): number[] {
  const starts = bucketStarts(Date.parse(from), Date.parse(to), bucket, tz)
  const rows = groups.map((group) => byBucket(group, starts))
  return starts.map((_, at) => rows.reduce((sum, row) => sum + (row[at] === undefined ? 0 : valueOf(row[at])), 0))
}
