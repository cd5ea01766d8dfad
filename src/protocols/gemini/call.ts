import type { GatewayError } from '../../error.ts'
import { splice } from '../../generation/json-text.ts'
import { belongsTo, unseal } from '../../generation/signature.ts'
import type { Exchange, Target } from '../protocol.ts'
import { plainText, upstreamError, upstreamStreamError, type ProviderSaid } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { UNSIGNED } from './shapes.ts'

export const path = ({ model }: Target, stream: boolean): string =>
  `/models/${encodeURIComponent(model).replaceAll('%2F', '/')}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`

export const headers = (): Record<string, string> => ({})

/** The client's body as it is, since the model stands in the path. A body that names a model too names the provider's; signatures sealed for another provider are unwrapped or emptied. */
export function forward({ wire }: Exchange, target: Target): string {
  const text = Object.hasOwn(wire.body, 'model') ? splice(wire.text, { model: JSON.stringify(target.model) }) : wire.text
  return text.replace(SEALED_MEMBER, (whole, head: string, value: string) => {
    const signature = unseal(value)
    if (signature.maker === undefined) return whole
    const own = belongsTo(signature, target, true) ? signature.data : target.abilities.reasoning === 'level' ? UNSIGNED : ''
    return head + JSON.stringify(own)
  })
}

// A sealed value begins with the base64 of "slc1" and a zero byte. A quote inside a JSON string is escaped, so only real members match.
const SEALED_MEMBER = /("thought(?:S|_s)ignature"\s*:\s*)"(c2xjMQ[A-Za-z0-9+/_=-]*)"/g

/** google.rpc.Status, alone or in an array; or whatever a proxy before Google wrote. */
export function readError(status: number, body: string): GatewayError {
  const error = findError(body)
  if (error === undefined) return upstreamError(status, plainText(body))
  return upstreamError(status, messageOf(error), saidBy(error))
}

/** The error object in a stream's chunk, or its text. */
export function readStreamError(found: Record<string, unknown> | string): GatewayError {
  const error = typeof found === 'string' ? findError(`{"error":${found}}`) ?? {} : found
  const said = saidBy(error)
  // 499 says that somebody on Google's side hung up; the client's request was not at fault.
  return upstreamStreamError(messageOf(error), said.code === 499 ? { ...said, code: 502 } : said)
}

function findError(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body)
    const first: unknown = Array.isArray(value) ? value[0] : value
    if (!isObject(first)) return typeof first === 'string' ? { message: first } : undefined
    return isObject(first['error']) ? first['error'] : typeof first['error'] === 'string' ? { message: first['error'] } : typeof first['message'] === 'string' ? first : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

const messageOf = (error: Record<string, unknown>): string => typeof error['message'] === 'string' ? error['message'] : ''

function saidBy(error: Record<string, unknown>): ProviderSaid {
  const details = Array.isArray(error['details']) ? error['details'].filter(isObject) : []
  const reason = details.map((detail) => detail['reason']).find((word) => typeof word === 'string')
  const field = details.flatMap((detail) => Array.isArray(detail['fieldViolations']) ? detail['fieldViolations'] : []).filter(isObject).map((violation) => violation['field']).find((name) => typeof name === 'string')
  const delay = details.map((detail) => detail['retryDelay']).find((text) => typeof text === 'string')
  const seconds = delay === undefined ? NaN : Number.parseFloat(delay)
  return {
    ...(typeof error['status'] === 'string' ? { type: error['status'] } : {}),
    ...(typeof error['code'] === 'number' ? { code: error['code'] } : typeof reason === 'string' ? { code: reason } : {}),
    ...(field === undefined ? {} : { param: field }),
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterSeconds: Math.ceil(seconds) } : {}),
  }
}
