import type { GenerationRequest } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Capabilities, Loss } from './protocol.ts'

type Marked = { cache?: { ttl?: '5m' | '1h' } | undefined }

// Anthropic refuses a request with more, and OpenAI heeds no more.
const BREAKPOINTS_MAX = 4

/** The mark of an element as members of it; none for a provider that caches by itself. */
export function breakpointOf({ cache }: Marked, marks: Capabilities['cacheBreakpoints']): Record<string, unknown> {
  if (cache === undefined || marks === undefined) return {}
  return marks === 'cache_control'
    ? { cache_control: { type: 'ephemeral', ...cache } }
    : { prompt_cache_breakpoint: { mode: 'explicit' } }
}

/**
 * `elements`: of a body, in the order in which they are read. The last marks are kept, as each covers what stands
 * before it; one on the whole request is one of them.
 */
export function limitBreakpoints(
  elements: readonly Record<string, unknown>[],
  { cache }: Marked,
  losses: Loss[],
): void {
  const most = cache === undefined ? BREAKPOINTS_MAX : BREAKPOINTS_MAX - 1
  const marked = elements
    .flatMap((element) => [...(Array.isArray(element.content) ? element.content.filter(isObject) : []), element])
    .filter((element) => element.cache_control !== undefined)
  if (marked.length <= most) return
  losses.push({
    field: 'cache',
    what: 'approximated',
    why: `the provider takes at most ${BREAKPOINTS_MAX} cache marks; the last ones are kept`,
  })
  for (const element of marked.slice(0, -most)) delete element.cache_control
}

/** Tells of marks for which a provider other than of messages has no place. */
export function loseBreakpoints(
  { system, turns, tools, cache }: GenerationRequest,
  marks: Capabilities['cacheBreakpoints'],
  losses: Loss[],
): void {
  const lose = (field: Loss['field'], what: Loss['what'], why: string): void => void losses.push({ field, what, why })
  const parts = [...system, ...turns.flatMap((turn) => turn.parts)].flatMap((part) => [
    part,
    ...(part.type === 'tool-result' ? part.content : []),
  ])
  const marked = (parts as (Marked & { type: string })[]).filter((part) => part.cache !== undefined)
  const none = 'the provider has no cache marks: it caches by itself',
    there = 'calls and tools bear no marks there: the next mark covers them',
    decides = 'the provider decides how long it keeps a prefix'
  if (marks !== 'cache_control' && tools.some((tool) => 'cache' in tool && tool.cache !== undefined))
    lose('tool.cache', 'left out', marks === undefined ? none : there)
  if (marks === undefined) {
    if (cache !== undefined) lose('request.cache', 'left out', none)
    if (marked.length > 0) lose('cache', 'left out', none)
    return
  }
  if (marked.some(({ type }) => type === 'tool-call')) lose('cache', 'left out', there)
  if (marks === 'cache_control') return
  if (cache?.ttl !== undefined) lose('request.cache', 'approximated', decides)
  if (marked.some((part) => part.cache?.ttl !== undefined)) lose('cache', 'approximated', decides)
}
