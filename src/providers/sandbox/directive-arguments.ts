import { GatewayError, invalid, type ErrorCode } from '../../error.ts'
import type { Usage } from '../../generation/usage.ts'
import { isValidSize, SIDE_LIMITS } from './image.ts'
import type { Step, StreamFault } from './script.ts'

const MAX_TIME_MS = 600_000

/** `20ms`, `1.5s` or a plain number of milliseconds -> milliseconds; undefined otherwise and above ten minutes. */
export function milliseconds(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s)?$/i.exec(text)
  if (match === null) return undefined
  const value = Number(match[1]) * (match[2]?.toLowerCase() === 's' ? 1000 : 1)
  return value <= MAX_TIME_MS ? value : undefined
}

/** Splits `key=value` pairs with the given keys off a text: `429 retry-after=2 slow down` -> the pairs and the rest. */
export function keyValuePairs(text: string, keys: readonly string[]): { pairs: Map<string, string>; rest: string } {
  const pairs = new Map<string, string>()
  const rest = text.replace(/(^|\s)([a-z][a-z-]*)=(\S+)/gi, (match, space: string, key: string, value: string) => {
    if (!keys.includes(key.toLowerCase())) return match
    pairs.set(key.toLowerCase(), value)
    return space
  })
  return { pairs, rest: rest.replace(/\s+/g, ' ').trim() }
}

/** Every function below throws a 400 that names the directive and says what a correct argument looks like. */
const invalidArgument = (name: string, message: string): GatewayError => invalid(`[[${name}]]`, message)

export function wholeNumber(name: string, text: string, max: number, min = 0): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN
  if (value >= min && value <= max) return value
  throw invalidArgument(name, `must be a whole number from ${min} to ${max}`)
}

export function duration(name: string, text: string): number {
  const value = milliseconds(text)
  if (value === undefined) throw invalidArgument(name, 'must be a time of at most ten minutes, like 20ms or 1.5s')
  return value
}

export function oneOf<T extends string>(name: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((value) => value === text)
  if (found === undefined) throw invalidArgument(name, `must be one of ${allowed.join(', ')}`)
  return found
}

export function toolCallStep(argument: string): Step {
  const [, name, input] = /^([^\s{[]+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (name === undefined) throw invalidArgument('call', 'must name a tool: [[call: get_weather {"city":"Paris"}]]')
  return { kind: 'call', name, ...(input === '' || input === undefined ? {} : { input }) }
}

export function citationStep(argument: string): Step {
  const [, url, title] = /^(\S+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (url === undefined)
    throw invalidArgument('cite', 'must be a URL, optionally with a title: [[cite: https://example.com A title]]')
  return { kind: 'cite', url, ...(title === '' || title === undefined ? {} : { title }) }
}

export function imageStep(argument: string): Step {
  const [, digits, prompt = ''] = /^(\d+x\d+(?=\s|$))?\s*([\s\S]*)$/.exec(argument)!
  const [width = 0, height = 0] = digits?.split('x').map(Number) ?? []
  const size = { width, height }
  if (digits !== undefined && !isValidSize(size)) throw invalidArgument('image', `must be ${SIDE_LIMITS}`)
  return { kind: 'image', ...(digits === undefined ? {} : { size }), ...(prompt === '' ? {} : { prompt }) }
}

/** The argument of `error-after`, `cut-after`, `end-after` and `hang-after`; only the first takes an error. */
export function streamFault(kind: StreamFault['kind'], argument: string): StreamFault {
  const name = `${kind}-after`
  const [, deltas, rest = ''] = /^(\d+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (deltas === undefined) throw invalidArgument(name, `must be a number of deltas: [[${name}: 3]]`)
  const afterDeltas = Number(deltas)
  return kind === 'error'
    ? { kind, afterDeltas, error: providerError(name, rest === '' ? '500' : rest) }
    : { kind, afterDeltas }
}

const CODE_BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_request',
  401: 'invalid_api_key',
  402: 'insufficient_credit',
  403: 'permission_denied',
  404: 'model_not_found',
  408: 'upstream_timeout',
  413: 'request_too_large',
  422: 'invalid_request',
  429: 'rate_limit_exceeded',
  500: 'internal_error',
  503: 'overloaded',
  504: 'upstream_timeout',
  529: 'overloaded',
}

const SELECTABLE_CODES = [
  'invalid_request',
  'unsupported_parameter',
  'context_length_exceeded',
  'invalid_api_key',
  'insufficient_credit',
  'permission_denied',
  'not_found',
  'model_not_found',
  'request_too_large',
  'rate_limit_exceeded',
  'quota_exceeded',
  'internal_error',
  'upstream_error',
  'overloaded',
  'upstream_timeout',
] as const

/** `429 retry-after=2 code=quota_exceeded message` -> the error that a provider would send. */
export function providerError(name: string, argument: string): GatewayError {
  const { pairs, rest } = keyValuePairs(argument, ['retry-after', 'code'])
  const [, digits, message] = /^(\d{3})?\s*([\s\S]*)$/.exec(rest)!
  const status = digits === undefined ? 500 : wholeNumber(name, digits, 599, 400)
  const code = pairs.get('code')
  const retryAfter = pairs.get('retry-after')
  if (retryAfter !== undefined && !/^\d+(\.\d+)?$/.test(retryAfter))
    throw invalidArgument(name, 'retry-after must be a number of seconds')
  return new GatewayError(
    code === undefined
      ? (CODE_BY_STATUS[status] ?? (status < 500 ? 'invalid_request' : 'upstream_error'))
      : oneOf(name, code, SELECTABLE_CODES),
    message === '' || message === undefined ? `The sandbox was asked for a ${status}.` : message,
    { status, ...(retryAfter === undefined ? {} : { retryAfterSeconds: Number(retryAfter) }) },
  )
}

const USAGE_FIELDS = {
  in: 'inputTokens',
  out: 'outputTokens',
  cached: 'cacheReadTokens',
  reasoning: 'reasoningTokens',
  written: 'cacheWrite5mTokens',
  image: 'outputImageTokens',
} as const

/** `in=10 out=20 cached=5 reasoning=3`: disjoint buckets, so 10 in and 5 cached are 15 prompt tokens. */
export function usageCounts(argument: string): Partial<Usage> {
  const keys = Object.keys(USAGE_FIELDS)
  const { pairs, rest } = keyValuePairs(argument, keys)
  if (rest !== '' || pairs.size === 0)
    throw invalidArgument('usage', `must contain only ${keys.map((key) => `${key}=N`).join(' ')}`)
  const counts: Partial<Usage> = {}
  for (const [key, field] of Object.entries(USAGE_FIELDS)) {
    const text = pairs.get(key)
    if (text !== undefined) counts[field] = wholeNumber('usage', text, 1_000_000_000)
  }
  return counts
}
