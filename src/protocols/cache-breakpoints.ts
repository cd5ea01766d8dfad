import type { GenerationRequest, Located } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

type WithBreakpoint = { cache?: { ttl?: '5m' | '1h' } | undefined }

// Anthropic refuses a request with more; OpenAI ignores more.
const BREAKPOINTS_MAX = 4

/** The fields of an element's cache breakpoint; none for a provider that caches by itself. */
export function breakpointOf(
  { cache }: WithBreakpoint,
  breakpoints: Capabilities['cacheBreakpoints'],
): Record<string, unknown> {
  if (cache === undefined || breakpoints === undefined) return {}
  return breakpoints === 'cache_control'
    ? { cache_control: { type: 'ephemeral', ...cache } }
    : { prompt_cache_breakpoint: { mode: 'explicit' } }
}

/**
 * Removes the first breakpoints if there are more than the provider accepts, since a later one covers the earlier ones.
 * `elements`: body elements in prompt order. A breakpoint on the whole request counts too.
 */
export function limitBreakpoints(elements: readonly Record<string, unknown>[], translation: Translation): void {
  const { cache } = translation.request
  const limit = cache === undefined ? BREAKPOINTS_MAX : BREAKPOINTS_MAX - 1
  const marked = elements
    .flatMap((element) => [...(Array.isArray(element.content) ? element.content.filter(isObject) : []), element])
    .filter((element) => element.cache_control !== undefined)
  if (marked.length <= limit) return
  const elementsOfClient = breakpointsOf(translation.request)
  for (const element of elementsOfClient.slice(0, elementsOfClient.length - limit))
    translation.lose(
      'cache_breakpoint_adjusted',
      translation.at(element, 'cache'),
      `the provider accepts at most ${BREAKPOINTS_MAX} cache breakpoints; the last ones are kept`,
    )
  for (const element of marked.slice(0, -limit)) delete element.cache_control
}

type Breakpoint = WithBreakpoint & Located & { type: string }

/** All elements with a breakpoint in prompt order: tools, instructions, turns. */
function breakpointsOf({ tools, system, turns }: GenerationRequest): Breakpoint[] {
  const parts = [...system, ...turns.flatMap((turn) => turn.parts)].flatMap((part): Located[] =>
    part.type === 'tool-result' ? [...part.content, part] : [part],
  )
  return ([...tools, ...parts] as Breakpoint[]).filter(({ cache }) => cache !== undefined)
}

/** Reports breakpoints that a provider of another protocol than messages cannot be sent. */
export function loseBreakpoints(translation: Translation, breakpoints: Capabilities['cacheBreakpoints']): void {
  const { request } = translation
  if (request.cache !== undefined && breakpoints === undefined)
    translation.lose('cache_breakpoint_dropped', translation.setting('cache'))
  else if (request.cache?.ttl !== undefined && breakpoints !== 'cache_control')
    translation.lose('cache_lifetime_adjusted', translation.setting('cache'))
  const tools = new Set<unknown>(request.tools)
  for (const element of breakpointsOf(request)) {
    const path = translation.at(element, 'cache')
    if (breakpoints === undefined) translation.lose('cache_breakpoint_dropped', path)
    else if (element.type === 'tool-call' || (tools.has(element) && breakpoints !== 'cache_control'))
      translation.lose('cache_breakpoint_dropped', path, 'the next cache breakpoint covers it')
    else if (breakpoints !== 'cache_control' && element.cache?.ttl !== undefined)
      translation.lose('cache_lifetime_adjusted', path)
  }
}
