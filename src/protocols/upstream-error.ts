import { GatewayError, type ErrorCode } from '../error.ts'
import { objectOf } from '../json/parse.ts'
import { isTooDeep, WRITABLE_LEVELS } from '../json/scan.ts'
import { scrub } from '../log/secrets.ts'

/** The fields of a provider's error beside its message. */
export type ProviderErrorFields = {
  type?: string
  code?: string | number
  /** Path of the refused parameter in the provider's request. */
  param?: string
  retryAfterSeconds?: number
}

/**
 * The error for a provider's failure. A 4xx about the request keeps its status and message; refused credentials, rate
 * limits, timeouts and outages become 502, 429, 504 and 503. `metadata` has the provider's status, message, type and
 * code, without credentials.
 */
export function upstreamError(status: number, message: string, fields: ProviderErrorFields = {}): GatewayError {
  const text = `${fields.type ?? ''} ${fields.code ?? ''} ${message}`
  const mapping = refusesCredentials(status, text) ? CREDENTIALS : mappingOf(status, text)
  const quoted = truncated(scrub(message).trim())
  return new GatewayError(
    mapping.code,
    mapping.message === undefined
      ? quoted || `The provider responded with ${status} and no message.`
      : mapping.message + (mapping.quote && quoted !== '' ? ` Its message: ${quoted}` : ''),
    {
      ...(mapping.status === undefined ? {} : { status: mapping.status }),
      ...(fields.param === undefined || mapping.message !== undefined ? {} : { param: scrub(fields.param) }),
      ...(fields.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: fields.retryAfterSeconds }),
      metadata: {
        status,
        ...(mapping === CREDENTIALS || quoted === '' ? {} : { message: quoted }),
        ...(fields.type === undefined ? {} : { type: scrub(fields.type) }),
        ...(fields.code === undefined
          ? {}
          : { code: typeof fields.code === 'string' ? scrub(fields.code) : fields.code }),
      },
    },
  )
}

/** The error for a failure within a stream. Without an HTTP status, the error's code, type or message implies one. */
export const upstreamStreamError = (message: string, fields: ProviderErrorFields = {}): GatewayError =>
  upstreamError(statusOf(message, fields), message, fields)

/** The error of a stream without its terminal event, the same for all protocols. */
export const truncatedStream = (): GatewayError =>
  new GatewayError('upstream_error', "The provider's stream ended before its answer was complete.")

/** Throws upstream_error for a response that could not be written again. */
export function checkDepth(json: string): void {
  if (isTooDeep(json))
    throw new GatewayError(
      'upstream_error',
      `The provider's response is nested deeper than ${WRITABLE_LEVELS} levels, which Sluice does not pass on.`,
    )
}

/**
 * An error body that is not JSON (an HTML page, plain text) as one line. No expression looks beyond the next tag: a
 * body full of opened ones would take minutes.
 */
export const plainText = (body: string): string =>
  body
    .split(/<(?=script|style)/i)
    .map((text, index) => (index === 0 ? text : withoutCode(text)))
    .join('')
    .replace(/<[^<>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 500)

/** `text`: from the name of a tag whose content is code, to the next one. */
function withoutCode(text: string): string {
  const [code, ...rest] = text.split(/<\/(?:script|style)>/i)
  return rest.length === 0 ? `<${code}` : ` ${rest.join(' ')}`
}

/** `message`: replaces the provider's message, or precedes it with `quote`. */
type Mapping = { code: ErrorCode; status?: number; message?: string; quote?: boolean }

const CREDENTIALS: Mapping = {
  code: 'upstream_error',
  message: "The provider refused Sluice's credentials or account. The operator of this service must correct them.",
}

/** Google and xAI return 400 for an invalid key, so the text counts beside the status. */
const refusesCredentials = (status: number, text: string): boolean =>
  status === 401 || status === 402 || status === 403 || (status === 400 && INVALID_KEY.test(text))

const INVALID_KEY = anyOf(
  /api[ _]key (not valid|expired|not found)/,
  /API_KEY_INVALID/,
  /(incorrect|invalid) api[ _]key/,
  /authentication_error/,
)

function mappingOf(status: number, text: string): Mapping {
  switch (status) {
    case 429:
      return {
        code: 'upstream_rate_limited',
        message: 'The provider limits the rate of requests.',
        quote: true,
      }
    case 408:
    case 504:
      return { code: 'upstream_timeout', message: 'The provider did not respond in time.', quote: true }
    case 503:
    case 529:
      return { code: 'overloaded', message: 'The provider is overloaded.', quote: true }
    case 413:
      return { code: 'request_too_large' }
    case 404:
      // Azure has deployments of models.
      return { code: /model|DeploymentNotFound/i.test(text) ? 'model_not_found' : 'not_found' }
    // Sluice chooses the method, media type and protocol version, not the client.
    case 405:
    case 406:
    case 415:
    case 426:
      return {
        code: 'upstream_error',
        message: `The provider does not accept Sluice's request format (${status}).`,
        quote: true,
      }
  }
  if (status < 400 || status >= 500)
    return { code: 'upstream_error', message: `The provider failed (${status}).`, quote: true }
  if (CONTEXT_LENGTH.test(text)) return { code: 'context_length_exceeded' }
  return { code: 'invalid_request', status: status === 422 ? 400 : status }
}

const CONTEXT_LENGTH = anyOf(
  /context_length_exceeded/,
  /exceed_context_size/,
  /maximum context length/,
  /context (?:window|length|size)[^.]{0,60}exceed/,
  /exceeds?[^.]{0,60}context (?:window|length|size)/,
  /prompt is too long/,
  /input is too long/,
  /token count[^.]{0,80}exceeds the maximum/,
)

const STATUS_BY_TEXT: [RegExp, number][] = [
  [/rate.?limit|resource.?exhausted|too many requests|insufficient_quota/i, 429],
  [/overload|unavailable|capacity/i, 529],
  [/time.?out|deadline/i, 504],
  [/authentication|unauthenticated|invalid_api_key/i, 401],
  [/permission|billing/i, 403],
  [
    /context_length_exceeded|invalid.?request|invalid.?argument|invalid_prompt|failed_precondition|image_parse_error/i,
    400,
  ],
]

function statusOf(message: string, fields: ProviderErrorFields): number {
  const number = Number(fields.code)
  if (Number.isInteger(number) && number >= 400 && number <= 599) return number
  const text = `${fields.type ?? ''} ${fields.code ?? ''}`
  const found =
    STATUS_BY_TEXT.find(([pattern]) => pattern.test(text)) ??
    (text.trim() === '' ? STATUS_BY_TEXT.find(([pattern]) => pattern.test(message)) : undefined)
  return found?.[1] ?? 500
}

/** One pattern for several; case is ignored. */
function anyOf(...patterns: RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('|'), 'i')
}

const truncated = (text: string): string => (text.length > 4000 ? `${text.slice(0, 4000)}…` : text)

/**
 * Errors of pydantic in one line, as Mistral, Cog's servers and others return them: `seed: Extra inputs are not
 * permitted`. Undefined for any other value.
 */
export function validationProblems(detail: unknown): string | undefined {
  const problems = Array.isArray(detail) ? detail.map(validationProblem) : []
  return problems.length > 0 && problems.every((one) => one !== undefined) ? problems.join('; ') : undefined
}

function validationProblem(value: unknown): string | undefined {
  const { loc, msg } = objectOf(value)
  if (!Array.isArray(loc) || typeof msg !== 'string') return undefined
  return `${loc.filter((step) => step !== 'body' && typeof step !== 'object').join('.')}: ${msg}`
}
