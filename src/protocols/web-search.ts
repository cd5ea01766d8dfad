import type { WebSearch } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Translation } from './translation.ts'

const REASONS: Record<Exclude<keyof WebSearch, 'path'>, string> = {
  contextSize: 'the provider decides how much it reads',
  userLocation: 'the provider takes no place for its searches',
  allowedDomains: 'the provider cannot be told where to search',
  blockedDomains: 'the provider cannot be told where not to search',
  maxUses: 'the provider searches as often as it wants',
}

/** Reports the options of a search that the provider does not take. */
export function loseSearchOptions(search: WebSearch, translation: Translation, ...taken: (keyof WebSearch)[]): void {
  for (const option of Object.keys(REASONS) as (keyof typeof REASONS)[])
    if (search[option] !== undefined && !taken.includes(option))
      translation.lose('unsupported_field', translation.at(search, option), REASONS[option])
}

/** Reports the citations of earlier responses: their text is sent, their sources are not. */
export function loseCitations(translation: Translation): void {
  for (const { parts } of translation.request.turns)
    for (const part of parts)
      if (part.type === 'text' && part.citations !== undefined)
        translation.lose('citations_dropped', translation.at(part, 'citations'))
}

/**
 * City, region, country and time zone. Chat completions keeps them in an object of their own, the other protocols
 * beside their type.
 */
export function placeOf({ userLocation: location }: WebSearch): Record<string, unknown> | undefined {
  if (!isObject(location)) return undefined
  const { type: _, ...place } = isObject(location.approximate) ? location.approximate : location
  return place
}
