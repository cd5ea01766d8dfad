import { GatewayError, type ErrorCode } from '../error.ts'

/** What a provider said about its failure besides the message, in its own words. */
export type ProviderSaid = {
  type?: string
  code?: string | number
  /** Path of the parameter the provider complains about, in the provider's words. */
  param?: string
  retryAfterSeconds?: number
}

/**
 * A provider's failure -> our error. 4xx about the request keep status and message; refused credentials, rate limits,
 * time-outs and
 * breakdowns become ours (502, 429, 504, 503). `metadata` carries the provider's status, message, type and code,
 * secrets scrubbed.
 */
export function upstreamError(status: number, message: string, said: ProviderSaid = {}): GatewayError {
  const words = `${said.type ?? ''} ${said.code ?? ''} ${message}`
  const verdict = refusesCredentials(status, words) ? CREDENTIALS : verdictOn(status, words)
  const spoken = cut(scrub(message).trim())
  return new GatewayError(
    verdict.code,
    verdict.about === undefined
      ? spoken || `The provider answered ${status} without saying why.`
      : verdict.about + (verdict.quote && spoken !== '' ? ` It said: ${spoken}` : ''),
    {
      ...(verdict.status === undefined ? {} : { status: verdict.status }),
      ...(said.param === undefined || verdict.about !== undefined ? {} : { param: scrub(said.param) }),
      ...(said.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: said.retryAfterSeconds }),
      metadata: {
        status,
        ...(verdict === CREDENTIALS || spoken === '' ? {} : { message: spoken }),
        ...(said.type === undefined ? {} : { type: scrub(said.type) }),
        ...(said.code === undefined ? {} : { code: typeof said.code === 'string' ? scrub(said.code) : said.code }),
      },
    },
  )
}

/**
 * A failure told inside a stream, where there is no HTTP status: its words (or a number in them) say which status it
 * would have been.
 */
export const upstreamStreamError = (message: string, said: ProviderSaid = {}): GatewayError =>
  upstreamError(statusOf(message, said), message, said)

/** The error of a stream that ends without its terminal event. One text for all protocols. */
export const cutStream = (): GatewayError =>
  new GatewayError('upstream_error', "The provider's stream ended before its answer was complete.")

/** A body that is no error object (HTML page, bare string, nothing) as one line of text. */
export const plainText = (body: string): string =>
  body
    .replace(/<(script|style)[\s\S]*?<\/\1>/gi, ' ')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 500)

/** Takes out whatever looks like a credential: API keys of the known makes, bearer tokens, `key=` parameters. */
export const scrub = (text: string): string =>
  text
    .replace(/\b(Bearer|Basic)\s+[\w.~+/=-]{6,}/gi, '$1 [hidden]')
    .replace(/\b(?:sk|pk|rk|gsk|xai|key|pplx|nvapi|hf|r8)[-_][\w*.-]{6,}/gi, '[hidden]')
    .replace(/\bAIza[\w*-]{4,}/g, '[hidden]')
    .replace(/\bya29\.[\w.-]+/g, '[hidden]')
    .replace(/\b(api[-_ ]?key|access[-_ ]?token|key)(["']?\s*[=:]\s*["']?)[\w*.-]{8,}/gi, '$1$2[hidden]')

/** `about`: our own words instead of the provider's; `quote`: the provider's words follow them. */
type Verdict = { code: ErrorCode; status?: number; about?: string; quote?: boolean }

const CREDENTIALS: Verdict = {
  code: 'upstream_error',
  about: "The provider refused Sluice's credentials or account. The operator of this service has to repair it.",
}

/** Google and xAI answer a bad key with 400, so the words count beside the status. */
const refusesCredentials = (status: number, words: string): boolean =>
  status === 401 ||
  status === 402 ||
  status === 403 ||
  (status === 400 &&
    /api[ _]key (not valid|expired|not found)|API_KEY_INVALID|(incorrect|invalid) api[ _]key|authentication_error/i.test(
      words,
    ))

function verdictOn(status: number, words: string): Verdict {
  switch (status) {
    case 429:
      return {
        code: 'upstream_rate_limited',
        about: 'The provider limits the rate of requests at the moment.',
        quote: true,
      }
    case 408:
    case 504:
      return { code: 'upstream_timeout', about: 'The provider did not answer in time.', quote: true }
    case 503:
    case 529:
      return { code: 'overloaded', about: 'The provider is overloaded.', quote: true }
    case 413:
      return { code: 'request_too_large' }
    case 404:
      return { code: /model/i.test(words) ? 'model_not_found' : 'not_found' }
    // A method, media type or protocol version is our choice, never the client's.
    case 405:
    case 406:
    case 415:
    case 426:
      return { code: 'upstream_error', about: `The provider refused how Sluice called it (${status}).`, quote: true }
  }
  if (status < 400 || status >= 500)
    return { code: 'upstream_error', about: `The provider failed (${status}).`, quote: true }
  if (CONTEXT_LENGTH.test(words)) return { code: 'context_length_exceeded' }
  return { code: 'invalid_request', status: status === 422 ? 400 : status }
}

const CONTEXT_LENGTH =
  /context_length_exceeded|exceed_context_size|maximum context length|context (?:window|length|size)[^.]{0,60}exceed|exceeds?[^.]{0,60}context (?:window|length|size)|prompt is too long|input is too long|token count[^.]{0,80}exceeds the maximum/i

const STATUS_BY_WORD: [RegExp, number][] = [
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

function statusOf(message: string, said: ProviderSaid): number {
  const number = Number(said.code)
  if (Number.isInteger(number) && number >= 400 && number <= 599) return number
  const words = `${said.type ?? ''} ${said.code ?? ''}`
  const found =
    STATUS_BY_WORD.find(([pattern]) => pattern.test(words)) ??
    (words.trim() === '' ? STATUS_BY_WORD.find(([pattern]) => pattern.test(message)) : undefined)
  return found?.[1] ?? 500
}

const cut = (text: string): string => (text.length > 4000 ? `${text.slice(0, 4000)}…` : text)
