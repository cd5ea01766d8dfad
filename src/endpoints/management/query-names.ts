import { invalid } from '../../error.ts'
import { CHOICES, FLAGS } from '../../store/store.ts'

/** The query parameters of the management API. Each row of its routes names those that it takes. */

export const PAGE = ['limit', 'cursor'] as const
export const RANGE = ['from', 'to'] as const

const choices = (...names: readonly string[]): string[] => names.flatMap((name) => [name, `not_${name}`])

export const REQUEST_FILTERS: readonly string[] = [
  ...RANGE,
  ...choices(...CHOICES),
  ...FLAGS,
  'min_cost_usd',
  'min_first_token_ms',
  'min_total_ms',
  'min_tokens',
  'q',
]
const BUCKETED = [...RANGE, 'tz', 'bucket'] as const
/** Roll-ups have no others. */
export const USAGE_NAMES: readonly string[] = [
  ...BUCKETED,
  ...choices('account', 'key', 'model', 'provider', 'outcome', 'code'),
  'group',
  'top',
  'format',
]
/** Speeds are kept by provider and model alone. */
export const SPEED_NAMES: readonly string[] = [...BUCKETED, ...choices('model', 'provider')]

/** Throws invalid_request (400) for a parameter that would be ignored: an answer to another question is no answer. */
export function checkQuery(query: URLSearchParams, names: readonly string[]): void {
  for (const name of query.keys())
    if (!names.includes(name))
      throw invalid(
        name.slice(0, 100),
        `is not a parameter of this route, which takes ${names.length === 0 ? 'none' : names.join(', ')}`,
      )
}

/** A parameter that is `true` or `false`; undefined where it is absent. */
export function flagIn(query: URLSearchParams, name: string): boolean | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  if (text !== 'true' && text !== 'false') throw invalid(name, "must be 'true' or 'false'")
  return text === 'true'
}
