import type { GenerationRequest, Located, Part, Tool, Turn } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

type Cacheable = { cache?: { ttl?: '5m' | '1h' } | undefined }

/** Anthropic refuses a request with more, and OpenAI ignores more. */
const BREAKPOINTS_MAX = 4

/** The breakpoint of an element as a member of it; none for a provider that caches by itself. */
export function breakpointOf({ cache }: Cacheable, field: Capabilities['cacheBreakpoints']): Record<string, unknown> {
  if (cache === undefined || field === undefined) return {}
  return field === 'cache_control'
    ? { cache_control: { type: 'ephemeral', ...cache } }
    : { prompt_cache_breakpoint: { mode: 'explicit' } }
}

/**
 * Removes the first breakpoints of more than the provider accepts, since each covers all that is before it. `elements`:
 * body elements in prompt order. A breakpoint of the whole request counts too.
 */
export function limitBreakpoints(elements: readonly Record<string, unknown>[], translation: Translation): void {
  const { cache } = translation.request
  const most = cache === undefined ? BREAKPOINTS_MAX : BREAKPOINTS_MAX - 1
  if (!elements.some(hasBreakpoint)) return
  const marked = elements
    .flatMap((element) => [...(Array.isArray(element.content) ? element.content.filter(isObject) : []), element])
    .filter((element) => element.cache_control !== undefined)
  if (marked.length <= most) return
  const breakpoints = breakpointsOf(translation.request)
  for (const element of breakpoints.slice(0, breakpoints.length - most))
    translation.lose(
      'cache_breakpoint_adjusted',
      translation.at(element, 'cache'),
      `the provider accepts at most ${BREAKPOINTS_MAX} cache breakpoints; the last ones are kept`,
    )
  for (const element of marked.slice(0, -most)) delete element.cache_control
}

const hasBreakpoint = ({ content, cache_control: own }: Record<string, unknown>): boolean =>
  own !== undefined ||
  (Array.isArray(content) && content.some((one) => isObject(one) && one.cache_control !== undefined))

type Breakpoint = Cacheable & Located & { type: string }

/** All elements with a breakpoint in prompt order: tools, instructions, turns. */
function breakpointsOf({ tools, system, turns }: GenerationRequest): Breakpoint[] {
  const found: Breakpoint[] = []
  const add = (element: Tool | Part): void => {
    if (element.type === 'tool-result') for (const part of element.content) add(part)
    if ('cache' in element && element.cache !== undefined) found.push(element as Breakpoint)
  }
  for (const tool of tools) add(tool)
  for (const part of system) add(part)
  if (someElement(turns, hasCache)) for (const { parts } of turns) for (const part of parts) add(part)
  return found
}

const hasCache = ({ parts }: Turn): boolean => parts.some(isOrHasCached)

const isOrHasCached = (part: Part): boolean =>
  ('cache' in part && part.cache !== undefined) || (part.type === 'tool-result' && part.content.some(isOrHasCached))

/** Reports the breakpoints of which a provider of another protocol than messages is not sent all. */
export function loseBreakpoints(translation: Translation, field: Capabilities['cacheBreakpoints']): void {
  const { request } = translation
  if (request.cache !== undefined && field === undefined)
    translation.lose('cache_breakpoint_dropped', translation.setting('cache'))
  else if (request.cache?.ttl !== undefined && field !== 'cache_control')
    translation.lose('cache_lifetime_adjusted', translation.setting('cache'))
  const tools = new Set<unknown>(request.tools)
  for (const element of breakpointsOf(request)) {
    const path = translation.at(element, 'cache')
    if (field === undefined) translation.lose('cache_breakpoint_dropped', path)
    else if (element.type === 'tool-call' || (tools.has(element) && field !== 'cache_control'))
      translation.lose('cache_breakpoint_dropped', path, 'the next cache breakpoint covers it')
    else if (field !== 'cache_control' && element.cache?.ttl !== undefined)
      translation.lose('cache_lifetime_adjusted', path)
  }
}
