import type { GenerationRequest, WebSearch } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Loss } from './protocol.ts'

const WHY: Record<keyof WebSearch, string> = {
  contextSize: 'the provider decides how much it reads',
  userLocation: 'the provider takes no place for its searches',
  allowedDomains: 'the provider cannot be told where to search',
  blockedDomains: 'the provider cannot be told where not to search',
  maxUses: 'the provider searches as often as it wants',
}

/** Of a search that a provider is asked for: what else than `taken` was wished. */
export const lossesOfSearch = (search: WebSearch, ...taken: (keyof WebSearch)[]): Loss[] =>
  (Object.keys(WHY) as (keyof WebSearch)[])
    .filter((wish) => search[wish] !== undefined && !taken.includes(wish))
    .map((wish) => ({ field: `webSearch.${wish}`, what: 'left out', why: WHY[wish] }))

/** What earlier answers cited is not told again: what they said is. */
export const lossesOfCitations = ({ turns }: GenerationRequest): Loss[] =>
  turns.some(({ parts }) => parts.some((part) => part.type === 'text' && part.citations !== undefined))
    ? [{ field: 'citations', what: 'left out', why: 'the provider takes back only its own citations' }]
    : []

/**
 * City, region, country and time zone. Chat completions keeps them in an object of their own, the other protocols
 * beside their type.
 */
export function placeOf({ userLocation: location }: WebSearch): Record<string, unknown> | undefined {
  if (!isObject(location)) return undefined
  const { type: _, ...place } = isObject(location.approximate) ? location.approximate : location
  return place
}
