import type { GenerationRequest, Located, Part, Tool, ToolResultPart, Turn } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import { someElement } from './element-memory.ts'
import type { Fields } from './fields.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

type Cacheable = { cache?: { ttl?: '5m' | '1h' } | undefined }

/** Anthropic refuses a request with more, and OpenAI ignores more. */
const BREAKPOINTS_MAX = 4

/** The breakpoint of an element as a member of it; none for a provider that caches without them. */
export function breakpointOf({ cache }: Cacheable, field: Capabilities['cacheBreakpoints']): Record<string, unknown> {
  if (cache === undefined || field === undefined) return {}
  return field === 'cache_control'
    ? { cache_control: { type: 'ephemeral', ...cache } }
    : { prompt_cache_breakpoint: { mode: 'explicit' } }
}

/** The lifetime in a `cache_control`; one that is not known is left for `collectExtras`. */
export function readLifetime(control: Fields): { ttl?: '5m' | '1h' } {
  const { ttl } = control.value
  if (ttl !== '5m' && ttl !== '1h') return {}
  control.take('ttl')
  return { ttl }
}

type Json = Record<string, unknown>

/**
 * Removes the first breakpoints of more than the provider accepts, since each covers all that is before it. `lists`:
 * body elements in prompt order, of which those that change are copied. A breakpoint of the whole request counts too.
 */
export function limitBreakpoints<L extends readonly (readonly Json[])[]>(lists: L, translation: Translation): L {
  const { cache } = translation.request
  const most = cache === undefined ? BREAKPOINTS_MAX : BREAKPOINTS_MAX - 1
  const breakpoints = breakpointsOf(translation.request)
  if (breakpoints.length <= most) return lists
  const marked = lists
    .flatMap((list) => list.flatMap((element) => [...contentOf(element), element]))
    .filter((element) => element.cache_control !== undefined)
  if (marked.length <= most) return lists
  for (const element of breakpoints.slice(0, breakpoints.length - most))
    translation.lose(
      'cache_breakpoint_adjusted',
      translation.at(element, 'cache'),
      `the provider accepts at most ${BREAKPOINTS_MAX} cache breakpoints; the last ones are kept`,
    )
  const surplus = new Set(marked.slice(0, -most))
  const without = (element: Json): Json => {
    const { cache_control: _, ...rest } = element
    const own = surplus.has(element) ? rest : element
    return contentOf(element).some((one) => surplus.has(one))
      ? { ...own, content: (element.content as Json[]).map(without) }
      : own
  }
  return lists.map((list) => list.map(without)) as unknown as L
}

const contentOf = ({ content }: Json): Json[] => (Array.isArray(content) ? content.filter(isObject) : [])

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

/** True for a result without a text, which OpenAI's protocols have as an empty string. */
export const isEmptyResult = ({ content, isError }: Pick<ToolResultPart, 'content' | 'isError'>): boolean =>
  isError !== true && content.every((part) => part.type === 'text' && part.text === '')

/**
 * Reports the breakpoints of which a provider of another protocol than messages is not sent all. `onOutput`: the texts
 * of earlier responses can have one.
 */
export function loseBreakpoints(
  translation: Translation,
  field: Capabilities['cacheBreakpoints'],
  onOutput = true,
): void {
  const { request } = translation
  if (request.cache !== undefined && field === undefined)
    translation.lose('cache_breakpoint_dropped', translation.setting('cache'))
  else if (request.cache?.ttl !== undefined && field !== 'cache_control')
    translation.lose('cache_lifetime_adjusted', translation.setting('cache'))
  const breakpoints = breakpointsOf(request)
  const tools = new Set<unknown>(request.tools)
  const output = new Set(onOutput || breakpoints.length === 0 ? [] : outputTexts(request))
  for (const element of breakpoints) {
    const path = translation.at(element, 'cache')
    if (field === undefined) translation.lose('cache_breakpoint_dropped', path)
    else if (output.has(element))
      translation.lose('cache_breakpoint_dropped', path, 'the text of an earlier response cannot have one')
    else if (element.type === 'tool-call' || (tools.has(element) && field !== 'cache_control'))
      translation.lose('cache_breakpoint_dropped', path, 'the next cache breakpoint covers it')
    else if (element.type === 'tool-result' && isEmptyResult(element as ToolResultPart))
      translation.lose('cache_breakpoint_dropped', path, 'there is no text that could have it')
    else if (field !== 'cache_control' && element.cache?.ttl !== undefined)
      translation.lose('cache_lifetime_adjusted', path)
  }
}

const outputTexts = ({ turns }: GenerationRequest): unknown[] =>
  turns.flatMap(({ role, parts }) => (role === 'assistant' ? parts.filter(({ type }) => type === 'text') : []))
