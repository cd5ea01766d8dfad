import type { Part, Turn, WebSearch } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import type { Translation } from './translation.ts'

const REASONS: Record<Exclude<keyof WebSearch, 'path'>, string> = {
  contextSize: 'the provider chooses how much context it reads',
  userLocation: 'the provider accepts no location for searches',
  allowedDomains: 'the provider cannot restrict searches to domains',
  blockedDomains: 'the provider cannot exclude domains from searches',
  maxUses: 'the provider chooses the number of searches',
}

/** Reports the search options that the provider does not accept. */
export function loseSearchOptions(search: WebSearch, translation: Translation, ...accepted: (keyof WebSearch)[]): void {
  for (const option of Object.keys(REASONS) as (keyof typeof REASONS)[])
    if (search[option] !== undefined && !accepted.includes(option))
      translation.lose('unsupported_field', translation.at(search, option), REASONS[option])
}

/** Reports citations of earlier responses: their text is sent without its sources. */
export function loseCitations(translation: Translation): void {
  const { system, turns } = translation.request
  loseCitationsIn(system, translation)
  if (someElement(turns, hasCitations)) for (const { parts } of turns) loseCitationsIn(parts, translation)
}

const hasCitations = ({ parts }: Turn): boolean => parts.some(isOrHasCited)

const isOrHasCited = (part: Part): boolean =>
  part.type === 'tool-result' ? part.content.some(isOrHasCited) : part.type === 'text' && part.citations !== undefined

function loseCitationsIn(parts: readonly Part[], translation: Translation): void {
  for (const part of parts) {
    if (part.type === 'tool-result') loseCitationsIn(part.content, translation)
    else if (part.type === 'text' && part.citations !== undefined)
      translation.lose('citations_dropped', translation.at(part, 'citations'))
  }
}

/** City, region, country and time zone: in `approximate` in chat completions, beside `type` in other protocols. */
export function locationFields({ userLocation: location }: WebSearch): Record<string, unknown> | undefined {
  if (!isObject(location)) return undefined
  const { type: _, ...fields } = isObject(location.approximate) ? location.approximate : location
  return fields
}
