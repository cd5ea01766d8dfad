import type { GatewayError } from '../../error.ts'
import { replaceAt, splice } from '../../generation/json-text.ts'
import { belongsTo, unseal } from '../../generation/signature.ts'
import { madeBy, type Trace } from '../../generation/trace.ts'
import type { Exchange, Loss, Target } from '../protocol.ts'
import { plainText, upstreamError, upstreamStreamError, type ProviderSaid } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { either } from './fields.ts'
import { UNSIGNED, UNSIGNED_WHY } from './shapes.ts'

export const path = ({ model }: Target, stream: boolean): string =>
  `/models/${encodeURIComponent(model).replaceAll('%2F', '/')}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`

export const headers = (): Record<string, string> => ({})

/** The client's body as it is, since the model stands in the path. A body that names a model too names the provider's; signatures sealed for another provider are unwrapped or emptied. */
export function forward({ wire, recalled }: Exchange, target: Target, losses: Loss[] = []): string {
  const named = Object.hasOwn(wire.body, 'model') ? splice(wire.text, { model: JSON.stringify(target.model) }) : wire.text
  const text = named.includes('"functionCall"') || named.includes('"function_call"') ? withSignatures(named, wire.body.contents, madeBy(recalled, target), target, losses) : named
  return text.replace(SEALED_MEMBER, (whole, head: string, value: string) => {
    const signature = unseal(value)
    if (signature.maker === undefined) return whole
    const own = belongsTo(signature, target, true) ? signature.data : target.abilities.reasoning === 'level' ? UNSIGNED : ''
    return head + JSON.stringify(own)
  })
}

/** Where the first call of an answer stands without a signature: what its client left out, or the word for a call of others that models which take levels accept. */
function withSignatures(text: string, contents: unknown, traces: readonly Trace[], { abilities }: Target, losses: Loss[]): string {
  const signatures = new Map(traces.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'tool-call' && part.signature !== undefined ? [[part.id, part.signature]] : []))))
  const changes = callsOf(contents).flatMap((calls) => {
    if (calls.some(({ signed }) => signed)) return []
    const own = calls.flatMap((call) => (signatures.has(call.id) ? [{ ...call, signature: signatures.get(call.id)! }] : []))
    if (own.length > 0 || abilities.reasoning !== 'level') return own
    losses.push({ field: 'signature', of: calls[0]!.id, what: 'approximated', why: UNSIGNED_WHY })
    return [{ ...calls[0]!, signature: UNSIGNED }]
  })
  return changes.length === 0 ? text : replaceAt(text, changes.map(({ path, member, signature }) => ({ path, value: (part) => splice(part, { [member]: JSON.stringify(signature) }) })))
}

type PlacedCall = { path: (string | number)[]; id: string; signed: boolean; member: string }

/** The calls of each answer. What a stream told in pieces, SDKs keep as several contents side by side. */
function callsOf(contents: unknown): PlacedCall[][] {
  const answers: PlacedCall[][] = [[]]
  for (const [at, content] of (contents as { role?: unknown; parts: unknown[] }[]).entries()) {
    if (content.role !== 'model') answers.push([])
    answers.at(-1)!.push(...content.parts.flatMap((part, index) => placed(part, ['contents', at, 'parts', index])))
  }
  return answers.filter((calls) => calls.length > 0)
}

function placed(part: unknown, path: PlacedCall['path']): PlacedCall[] {
  const call = either(part, 'functionCall')
  if (!isObject(part) || !isObject(call)) return []
  const signature = either(part, 'thoughtSignature')
  const id = typeof call.id === 'string' ? call.id : ''
  return [{ path, id, signed: typeof signature === 'string' && signature !== '', member: Object.hasOwn(part, 'thought_signature') ? 'thought_signature' : 'thoughtSignature' }]
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
