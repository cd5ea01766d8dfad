import { invalid, GatewayError, type ErrorCode } from '../../error.ts'
import type { FinishReason } from '../../generation/event.ts'
import type { Usage } from '../../generation/usage.ts'
import { directivesIn, milliseconds, options, type Directive } from './directives.ts'
import { isDrawable, SIDE_LIMITS, type Size } from './picture.ts'

/** One thing the answer holds, in the order in which the prompt asks for it. */
export type Step =
  | { kind: 'reply'; text: string }
  | { kind: 'length'; words: number }
  | { kind: 'think'; text?: string; sealed: 'signed' | 'unsigned' | 'redacted' }
  | { kind: 'call'; name: string; input?: string }
  | { kind: 'refuse'; text: string }
  | { kind: 'json' }
  | { kind: 'cite'; url: string; title?: string }
  /** What is absent is what the request says. */
  | { kind: 'image'; size?: Size; prompt?: string }
  | { kind: 'echo'; what: 'summary' | 'body' | 'headers' }

/** Where a stream goes wrong: after this many deltas. */
export type Break = { how: 'error' | 'cut' | 'end' | 'hang'; deltas: number; error?: GatewayError }

/** What one answer is to be. A conversation with tools has several: one before the first results, one after, ... */
export type Act = {
  steps: Step[]
  empty?: boolean
  finish?: FinishReason
  stopSequence?: string | true
  error?: GatewayError
  page?: { status: number; text: string }
  break?: Break
  delayMs?: number
  hang?: boolean
  usage?: Partial<Usage>
  otherForm?: boolean
}

/** All that a prompt says. The members besides `acts` hold for every act. */
export type Script = {
  acts: Act[]
  paceMs?: number
  chunk?: number
  strict?: boolean
  strictSignatures?: boolean
  noUsage?: boolean
}

type Apply = (act: Act, argument: string, script: Script) => void

const FINISH_REASONS: readonly FinishReason[] = [
  'stop',
  'stop-sequence',
  'length',
  'tool-calls',
  'content-filter',
  'refusal',
  'pause',
  'other',
]

/** Every directive. docs/sandbox.md shows each with an example. */
const DIRECTIVES: ReadonlyMap<string, Apply> = new Map<string, Apply>([
  [
    'reply',
    (act, text) => {
      act.steps.push({ kind: 'reply', text })
    },
  ],
  [
    'length',
    (act, argument) => {
      act.steps.push({ kind: 'length', words: whole('length', argument, 200_000) })
    },
  ],
  [
    'think',
    (act, text) => {
      act.steps.push({ kind: 'think', sealed: 'signed', ...(text === '' ? {} : { text }) })
    },
  ],
  [
    'think-unsigned',
    (act, text) => {
      act.steps.push({ kind: 'think', sealed: 'unsigned', ...(text === '' ? {} : { text }) })
    },
  ],
  [
    'think-redacted',
    (act) => {
      act.steps.push({ kind: 'think', sealed: 'redacted' })
    },
  ],
  [
    'call',
    (act, argument) => {
      act.steps.push(call(argument))
    },
  ],
  [
    'refuse',
    (act, text) => {
      act.steps.push({ kind: 'refuse', text: text === '' ? 'I cannot help with that.' : text })
    },
  ],
  [
    'json',
    (act, text) => {
      act.steps.push(text === '' ? { kind: 'json' } : { kind: 'reply', text })
    },
  ],
  [
    'cite',
    (act, argument) => {
      act.steps.push(cite(argument))
    },
  ],
  [
    'image',
    (act, argument) => {
      act.steps.push(image(argument))
    },
  ],
  [
    'echo',
    (act, what) => {
      act.steps.push({
        kind: 'echo',
        what: oneOf('echo', what === '' ? 'summary' : what, ['summary', 'body', 'headers']),
      })
    },
  ],
  [
    'empty',
    (act) => {
      act.empty = true
    },
  ],
  [
    'finish',
    (act, reason) => {
      act.finish = oneOf('finish', reason, FINISH_REASONS)
    },
  ],
  [
    'stop',
    (act, sequence) => {
      act.stopSequence = sequence === '' ? true : sequence
    },
  ],
  [
    'error',
    (act, argument) => {
      act.error = failure('error', argument)
    },
  ],
  [
    'html',
    (act, argument) => {
      act.page = {
        status: argument === '' ? 200 : whole('html', argument, 599, 200),
        text: '<html><body><h1>Sandbox page</h1><p>This is no answer in any protocol.</p></body></html>',
      }
    },
  ],
  [
    'raw',
    (act, text) => {
      act.page = { status: 200, text }
    },
  ],
  [
    'error-after',
    (act, argument) => {
      act.break = { how: 'error', ...after('error-after', argument) }
    },
  ],
  [
    'cut-after',
    (act, argument) => {
      act.break = { how: 'cut', ...after('cut-after', argument) }
    },
  ],
  [
    'end-after',
    (act, argument) => {
      act.break = { how: 'end', ...after('end-after', argument) }
    },
  ],
  [
    'hang-after',
    (act, argument) => {
      act.break = { how: 'hang', ...after('hang-after', argument) }
    },
  ],
  [
    'hang',
    (act) => {
      act.hang = true
    },
  ],
  [
    'delay',
    (act, argument) => {
      act.delayMs = duration('delay', argument)
    },
  ],
  [
    'usage',
    (act, argument) => {
      act.usage = usage(argument)
    },
  ],
  [
    'other-form',
    (act) => {
      act.otherForm = true
    },
  ],
  [
    'pace',
    (_act, argument, script) => {
      script.paceMs = duration('pace', argument)
    },
  ],
  [
    'chunk',
    (_act, argument, script) => {
      script.chunk = whole('chunk', argument, 10_000, 1)
    },
  ],
  [
    'no-usage',
    (_act, _argument, script) => {
      script.noUsage = true
    },
  ],
  [
    'strict',
    (_act, _argument, script) => {
      script.strict = true
    },
  ],
  [
    'strict-signatures',
    (_act, _argument, script) => {
      script.strictSignatures = true
    },
  ],
  [
    'then',
    (_act, _argument, script) => {
      script.acts.push({ steps: [] })
    },
  ],
])

export const DIRECTIVE_NAMES: readonly string[] = [...DIRECTIVES.keys()]

/** The directives of a text, and the text without them. */
export const readDirectives = (text: string): { directives: Directive[]; rest: string } =>
  text.includes('[[') ? directivesIn(text, (name) => DIRECTIVES.has(name)) : { directives: [], rest: text.trim() }

/** Directives -> what they ask for. A known directive with a wrong argument is a 400 that says what would be right. */
export function scriptOf(directives: readonly Directive[]): Script {
  const script: Script = { acts: [{ steps: [] }] }
  for (const { name, argument } of directives) DIRECTIVES.get(name)!(script.acts.at(-1)!, argument, script)
  return script
}

const wrong = (name: string, message: string): GatewayError => invalid(`[[${name}]]`, message)

function whole(name: string, text: string, max: number, min = 0): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN
  if (value >= min && value <= max) return value
  throw wrong(name, `must be a whole number from ${min} to ${max}`)
}

function duration(name: string, text: string): number {
  const value = milliseconds(text)
  if (value === undefined) throw wrong(name, 'must be a time of at most ten minutes, like 20ms or 1.5s')
  return value
}

function oneOf<T extends string>(name: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((word) => word === text)
  if (found === undefined) throw wrong(name, `must be one of ${allowed.join(', ')}`)
  return found
}

function call(argument: string): Step {
  const [, name, input] = /^([^\s{[]+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (name === undefined) throw wrong('call', 'must name a tool: [[call: get_weather {"city":"Paris"}]]')
  return { kind: 'call', name, ...(input === '' || input === undefined ? {} : { input }) }
}

function cite(argument: string): Step {
  const [, url, title] = /^(\S+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (url === undefined)
    throw wrong('cite', 'must hold an address and may hold a title: [[cite: https://example.com A title]]')
  return { kind: 'cite', url, ...(title === '' || title === undefined ? {} : { title }) }
}

function image(argument: string): Step {
  const [, digits, prompt = ''] = /^(\d+x\d+(?=\s|$))?\s*([\s\S]*)$/.exec(argument)!
  const [width = 0, height = 0] = digits?.split('x').map(Number) ?? []
  const size = { width, height }
  if (digits !== undefined && !isDrawable(size)) throw wrong('image', `must be of ${SIDE_LIMITS}`)
  return { kind: 'image', ...(digits === undefined ? {} : { size }), ...(prompt === '' ? {} : { prompt }) }
}

function after(name: string, argument: string): { deltas: number; error?: GatewayError } {
  const [, deltas, rest] = /^(\d+)\s*([\s\S]*)$/.exec(argument) ?? []
  if (deltas === undefined) throw wrong(name, `must be a number of deltas: [[${name}: 3]]`)
  return {
    deltas: Number(deltas),
    ...(name === 'error-after' ? { error: failure(name, rest === '' || rest === undefined ? '500' : rest) } : {}),
  }
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

const CODES_TO_CHOOSE = [
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

/** `429 retry-after=2 code=quota_exceeded message` -> the error a provider would send. */
function failure(name: string, argument: string): GatewayError {
  const { given, rest } = options(argument, ['retry-after', 'code'])
  const [, digits, message] = /^(\d{3})?\s*([\s\S]*)$/.exec(rest)!
  const status = digits === undefined ? 500 : whole(name, digits, 599, 400)
  const code = given.get('code')
  const retryAfter = given.get('retry-after')
  if (retryAfter !== undefined && !/^\d+(\.\d+)?$/.test(retryAfter))
    throw wrong(name, 'retry-after must be a number of seconds')
  return new GatewayError(
    code === undefined
      ? (CODE_BY_STATUS[status] ?? (status < 500 ? 'invalid_request' : 'upstream_error'))
      : oneOf(name, code, CODES_TO_CHOOSE),
    message === '' || message === undefined ? `The sandbox was asked for a ${status}.` : message,
    { status, ...(retryAfter === undefined ? {} : { retryAfterSeconds: Number(retryAfter) }) },
  )
}

const USAGE_KEYS = ['in', 'out', 'cached', 'reasoning', 'written', 'image'] as const

/** `in=10 out=20 cached=5 reasoning=3`: each bucket by itself, so that 10 in and 5 cached are 15 prompt tokens. */
function usage(argument: string): Partial<Usage> {
  const { given, rest } = options(argument, USAGE_KEYS)
  if (rest !== '' || given.size === 0)
    throw wrong('usage', `must be made of ${USAGE_KEYS.map((key) => `${key}=N`).join(' ')}`)
  const counts: Partial<Usage> = {}
  const buckets = {
    in: 'inputTokens',
    out: 'outputTokens',
    cached: 'cacheReadTokens',
    reasoning: 'reasoningTokens',
    written: 'cacheWrite5mTokens',
    image: 'outputImageTokens',
  } as const
  for (const key of USAGE_KEYS) {
    const text = given.get(key)
    if (text !== undefined) counts[buckets[key]] = whole('usage', text, 1_000_000_000)
  }
  return counts
}
