/** Filters of requests by the names of the API; the URL of the page has the same ones. */
export type Filters = Readonly<Record<string, readonly string[]>>

/** `choice`: any of several values; `number`: the least one; `flag`: `true` or `false`; `text`: a search. */
type FilterKind = 'choice' | 'number' | 'flag' | 'text'
type FilterField = { label: string; kind: FilterKind; unit?: string; help?: string }

/** Every filter, in the order in which they are offered. */
export const FILTER_FIELDS: Readonly<Record<string, FilterField>> = {
  q: { label: 'Id or error', kind: 'text' },
  model: { label: 'Model', kind: 'choice' },
  key: { label: 'Key', kind: 'choice' },
  outcome: { label: 'Outcome', kind: 'choice' },
  provider: { label: 'Provider', kind: 'choice' },
  api: { label: 'Protocol', kind: 'choice' },
  code: { label: 'Error code', kind: 'choice' },
  client: { label: 'Client', kind: 'choice' },
  streamed: { label: 'Streamed', kind: 'flag' },
  lossy: { label: 'Lost in translation', kind: 'flag' },
  retried: { label: 'More than one try', kind: 'flag' },
  estimated: { label: 'Usage estimated', kind: 'flag' },
  min_cost_usd: { label: 'Cost at least', kind: 'number', unit: 'USD' },
  min_first_token_ms: { label: 'First token after', kind: 'number', unit: 'ms' },
  min_total_ms: { label: 'Duration at least', kind: 'number', unit: 'ms' },
  min_tokens: { label: 'Tokens at least', kind: 'number' },
}

/** Fields by which sums are counted, too. */
export const COUNTED_FIELDS: ReadonlySet<string> = new Set(['model', 'key', 'provider', 'code', 'outcome'])

/** The filters by which sums can be narrowed. */
export const countedOf = (filters: Filters): Filters =>
  Object.fromEntries(Object.entries(filters).filter(([name]) => COUNTED_FIELDS.has(fieldOf(name).field)))

/** The prefix of the name of a choice whose values are left out. */
const NOT = 'not_'

const NAMES = Object.entries(FILTER_FIELDS).flatMap(([name, { kind }]) =>
  kind === 'choice' ? [name, NOT + name] : [name],
)

/** The field that a filter of the URL is about, and if it leaves values out. */
export const fieldOf = (name: string): { field: string; excludes: boolean } =>
  name.startsWith(NOT) ? { field: name.slice(NOT.length), excludes: true } : { field: name, excludes: false }

/** The filters that a URL has. Unknown names belong to other parts of the page; empty values count as none. */
export function readFilters(search: URLSearchParams): Filters {
  const filters: Record<string, string[]> = {}
  for (const name of NAMES) {
    const values = [...new Set(search.getAll(name).filter((value) => value !== ''))]
    const { kind } = FILTER_FIELDS[fieldOf(name).field]!
    if (values.length > 0) filters[name] = kind === 'choice' ? values : values.slice(-1)
  }
  return filters
}

/** The URL with these filters in place of its own; the rest of it stays. */
export function writeFilters(search: URLSearchParams, filters: Filters): URLSearchParams {
  const written = new URLSearchParams(search)
  for (const name of NAMES) written.delete(name)
  for (const [name, value] of filterQuery(filters)) written.append(name, value)
  return written
}

/** The parameters of the API, always in the same order, so that equal filters make equal questions. */
export const filterQuery = (filters: Filters): [string, string][] =>
  NAMES.flatMap((name) => (filters[name] ?? []).map((value): [string, string] => [name, value]))

/** One value more or less. A value that is asked for is no longer left out, and the reverse. */
export function toggled(filters: Filters, field: string, value: string, excludes = false): Filters {
  if (FILTER_FIELDS[field]?.kind === 'flag') return toggledFlag(filters, field, excludes ? 'false' : value)
  const name = excludes ? NOT + field : field
  const opposite = excludes ? field : NOT + field
  const values = filters[name] ?? []
  const changed = FILTER_FIELDS[field]?.kind === 'choice' ? withToggled(values, value) : [value]
  return compact({
    ...filters,
    [name]: changed,
    [opposite]: (filters[opposite] ?? []).filter((one) => one !== value),
  })
}

/** A flag has one value: what leaves `true` out is `false`. */
const toggledFlag = (filters: Filters, field: string, value: string): Filters =>
  withValues(filters, field, filters[field]?.[0] === value ? [] : [value])

const withToggled = (values: readonly string[], value: string): readonly string[] =>
  values.includes(value) ? values.filter((one) => one !== value) : [...values, value]

/** All values of one filter. */
export const withValues = (filters: Filters, name: string, values: readonly string[]): Filters =>
  compact({ ...filters, [name]: values.filter((value) => value !== '') })

export const hasFilters = (filters: Filters): boolean => Object.keys(filters).length > 0

const compact = (filters: Filters): Filters =>
  Object.fromEntries(Object.entries(filters).filter(([, values]) => values.length > 0))

/** The filter in words, for its chip: `model: a or b`, `not key: ci`, `cost at least 0.5 USD`. */
export function filterText(name: string, values: readonly string[], labelOf: (value: string) => string): string {
  const { field, excludes } = fieldOf(name)
  const { label, kind, unit } = FILTER_FIELDS[field]!
  if (kind === 'flag') return values[0] === 'false' ? `not ${label.toLowerCase()}` : label.toLowerCase()
  if (kind === 'number') return `${label.toLowerCase()} ${values[0]}${unit === undefined ? '' : ` ${unit}`}`
  const words = values.map(labelOf)
  const all = words.length > 3 ? `${words.slice(0, 2).join(', ')} and ${words.length - 2} more` : words.join(' or ')
  return `${excludes ? 'not ' : ''}${label.toLowerCase()}: ${all}`
}
