import { STATUS_BY_CODE, type ErrorCode } from '../error.ts'

export type Schema = Readonly<Record<string, unknown>>

/** The format of an operation's errors. */
type ErrorFormat = 'OpenAIError' | 'AnthropicError' | 'GoogleError'

/** One route as a client sees it. */
export type Operation = {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete' | 'head'
  path: string
  tag: string
  summary: string
  /** `key`: any that the page on accounts allows; `management`: a management key or a session. */
  security: 'none' | 'key' | 'management'
  errors: ErrorFormat
  /** Codes of its errors. */
  codes: readonly ErrorCode[]
  /** Errors of providers pass, with any status from 400 on. */
  hasProviderErrors?: boolean
  query?: Readonly<Record<string, Schema>>
  body?: { type: string; schema: Schema; example?: unknown }
  answer: Answer
}

/** `also`: another status with the same body. `otherTypes`: other content types, as the client asks. */
type Answer = {
  status?: number
  also?: number
  type?: string
  otherTypes?: readonly string[]
  schema?: Schema
  description: string
}

export const text: Schema = { type: 'string' }
export const whole: Schema = { type: 'integer' }
export const real: Schema = { type: 'number' }
export const flag: Schema = { type: 'boolean' }
export const anything: Schema = {}
export const oneOf = (...values: readonly string[]): Schema => ({ type: 'string', enum: values })
export const nullable = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] })
export const listOf = (items: Schema): Schema => ({ type: 'array', items })
export const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

/** An object that may have other members, too. Names of required ones begin with `!`. */
export function object(members: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(members)
  const required = names.filter((name) => name.startsWith('!')).map((name) => name.slice(1))
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name.replace(/^!/, ''), members[name]])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: true,
  }
}

/** Errors that any request can get. */
const ANY: readonly ErrorCode[] = [
  'invalid_request',
  'rate_limit_exceeded',
  'internal_error',
  'store_unavailable',
  'overloaded',
]
const WITH_KEY: readonly ErrorCode[] = [
  ...ANY,
  'invalid_api_key',
  'permission_denied',
  'account_suspended',
  'not_found',
]
const WITH_BODY: readonly ErrorCode[] = ['request_too_large', 'unsupported_media_type', 'request_in_progress']

export const CODES = {
  public: [...ANY, 'not_found'],
  read: WITH_KEY,
  write: [...WITH_KEY, ...WITH_BODY],
  generation: [
    ...WITH_KEY,
    ...WITH_BODY,
    'unsupported_parameter',
    'context_length_exceeded',
    'insufficient_credit',
    'model_not_found',
    'quota_exceeded',
    'upstream_rate_limited',
    'upstream_error',
    'upstream_timeout',
  ],
  management: [
    ...WITH_KEY,
    'sign_in_required',
    'role_required',
    'misdirected_request',
    'request_too_large',
    'unsupported_media_type',
  ],
} as const satisfies Record<string, readonly ErrorCode[]>

/** Status -> codes. A body that comes too slowly is an invalid request with a status of its own. */
export function statusesOf(
  codes: readonly ErrorCode[],
  errors: ErrorFormat,
  hasBody: boolean,
): Map<number, ErrorCode[]> {
  const statuses = new Map<number, ErrorCode[]>()
  for (const code of codes) {
    const usual = STATUS_BY_CODE[code]
    const status = usual === 503 && errors === 'AnthropicError' ? 529 : usual
    statuses.set(status, [...(statuses.get(status) ?? []), code])
  }
  if (hasBody) statuses.set(408, ['invalid_request'])
  return new Map([...statuses].sort(([a], [b]) => a - b))
}
