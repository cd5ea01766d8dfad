import type { GatewayError } from '../../error.ts'
import type { LossReport } from '../translation.ts'
import { insertAt, replaceAt, splice } from '../../json/edit.ts'
import { belongsTo, ENVELOPE_PREFIX, unwrapSignature, type Signature } from '../../generation/signature.ts'
import { issuedBy, type ReplayState } from '../../generation/replay.ts'
import type { TranslationContext, Target } from '../protocol.ts'
import { plainText, upstreamError, upstreamStreamError, type ProviderSaid } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { either } from './fields.ts'
import { UNSIGNED, UNSIGNED_WHY, type WireContent, type WirePart } from './shapes.ts'

export const path = ({ model }: Target, stream: boolean): string =>
  `/models/${encodeURIComponent(model).replaceAll('%2F', '/')}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`

export const headers = (): Record<string, string> => ({})

/**
 * The client's body as it is, since the model stands in the path; a body that names a model too names the provider's.
 * Only what was signed is looked at.
 */
export function forward(
  { rawRequest, restoredReasoning }: TranslationContext,
  target: Target,
  report: LossReport,
): string {
  const text = Object.hasOwn(rawRequest.body, 'model')
    ? splice(rawRequest.text, { model: JSON.stringify(target.model) })
    : rawRequest.text
  if (!MAY_CHANGE.test(text)) return text
  const contents = rawRequest.body.contents as WireContent[]
  const changes = answersOf(contents).flatMap((parts) =>
    changesOf(parts, issuedBy(restoredReasoning, target), target, report),
  )
  return changes.length === 0
    ? text
    : replaceAt(text, [{ path: ['contents'], value: (all) => withChanges(all, contents, changes) }])
}

const MAY_CHANGE = new RegExp(`"function_?[cC]all"|"${ENVELOPE_PREFIX}`)

/** A part of an earlier answer. `call`: the id, empty where there is none. */
type Placed = {
  at: number
  index: number
  thought: boolean
  call?: string
  signature: Signature | undefined
  member: string
}

/** The parts of each answer. What a stream told in pieces, SDKs keep as several contents side by side. */
function answersOf(contents: readonly WireContent[]): Placed[][] {
  const answers: Placed[][] = [[]]
  for (const [at, { role, parts }] of contents.entries()) {
    if (role !== 'model') answers.push([])
    for (const [index, part] of parts.entries()) answers.at(-1)!.push(placed(part, at, index))
  }
  return answers
}

function placed(part: WirePart, at: number, index: number): Placed {
  const call = either(part, 'functionCall'),
    signature = either(part, 'thoughtSignature')
  return {
    at,
    index,
    thought: part.thought === true,
    ...(isObject(call) ? { call: typeof call.id === 'string' ? call.id : '' } : {}),
    signature: typeof signature === 'string' && signature !== '' ? unwrapSignature(signature) : undefined,
    member: Object.hasOwn(part, 'thought_signature') ? 'thought_signature' : 'thoughtSignature',
  }
}

/** `signature`: undefined takes the part away. */
type Change = Pick<Placed, 'at' | 'index' | 'member'> & { signature: string | undefined }

/**
 * What this model signed comes back as it was, also what its client left out; of what others signed, their words and
 * calls are sent, and their thoughts are not.
 * Models that take levels refuse an answer's first call without a signature, and accept a word in its place.
 */
function changesOf(
  parts: readonly Placed[],
  replayStates: readonly ReplayState[],
  target: Target,
  report: LossReport,
): Change[] {
  const isOwn = ({ signature }: Placed): boolean =>
    signature !== undefined && signature.data !== '' && belongsTo(signature, target, true)
  const calls = parts.filter(({ call }) => call !== undefined)
  const kept = new Map(
    calls.some(isOwn)
      ? []
      : replayStates.flatMap((replayState) =>
          replayState.parts.flatMap((part) =>
            part.type === 'tool-call' && part.signature !== undefined ? [[part.id, part.signature]] : [],
          ),
        ),
  )
  const [first] = calls
  const unsigned =
    first !== undefined &&
    target.capabilities.reasoning === 'level' &&
    !calls.some((call) => isOwn(call) || kept.has(call.call!))
  if (unsigned) report.add('signature_replaced', `contents[${first.at}].parts[${first.index}].thoughtSignature`)
  return parts.flatMap((part): Change[] => {
    const put = unsigned && part === first ? UNSIGNED : part.call === undefined ? undefined : kept.get(part.call)
    if (put !== undefined) return [{ ...part, signature: put }]
    if (part.signature?.issuer === undefined) return []
    return [{ ...part, signature: isOwn(part) ? part.signature.data : part.thought ? undefined : '' }]
  })
}

/** Contents that are left without a part go, too: Google refuses empty ones. */
function withChanges(text: string, contents: readonly WireContent[], changes: readonly Change[]): string {
  const gone = (at: number): Set<number> =>
    new Set(changes.filter((change) => change.at === at && change.signature === undefined).map(({ index }) => index))
  const empty = new Set(contents.flatMap(({ parts }, at) => (gone(at).size === parts.length ? [at] : [])))
  const places = Map.groupBy(
    changes.filter(({ at }) => !empty.has(at)),
    ({ at }) => at,
  )
  const changed = replaceAt(
    text,
    [...places].map(([at, here]) => ({
      path: [at, 'parts'],
      value: (parts) => {
        const signed = here.flatMap(({ index, member, signature }) =>
          signature === undefined
            ? []
            : [{ path: [index], value: (part: string) => splice(part, { [member]: JSON.stringify(signature) }) }],
        )
        return insertAt(replaceAt(parts, signed), [], gone(at))
      },
    })),
  )
  return insertAt(changed, [], empty)
}

/** google.rpc.Status, alone or in an array; or whatever a proxy before Google wrote. */
export function readError(status: number, body: string): GatewayError {
  const error = findError(body)
  if (error === undefined) return upstreamError(status, plainText(body))
  return upstreamError(status, messageOf(error), saidBy(error))
}

/** The error object in a stream's chunk, or its text. */
export function readStreamError(found: Record<string, unknown> | string): GatewayError {
  const error = typeof found === 'string' ? (findError(`{"error":${found}}`) ?? {}) : found
  const said = saidBy(error)
  // 499 says that somebody on Google's side hung up; the client's request was not at fault.
  return upstreamStreamError(messageOf(error), said.code === 499 ? { ...said, code: 502 } : said)
}

function findError(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body)
    const first: unknown = Array.isArray(value) ? value[0] : value
    if (!isObject(first)) return typeof first === 'string' ? { message: first } : undefined
    return isObject(first['error'])
      ? first['error']
      : typeof first['error'] === 'string'
        ? { message: first['error'] }
        : typeof first['message'] === 'string'
          ? first
          : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

const messageOf = (error: Record<string, unknown>): string =>
  typeof error['message'] === 'string' ? error['message'] : ''

function saidBy(error: Record<string, unknown>): ProviderSaid {
  const details = Array.isArray(error['details']) ? error['details'].filter(isObject) : []
  const reason = details.map((detail) => detail['reason']).find((word) => typeof word === 'string')
  const field = details
    .flatMap((detail) => (Array.isArray(detail['fieldViolations']) ? detail['fieldViolations'] : []))
    .filter(isObject)
    .map((violation) => violation['field'])
    .find((name) => typeof name === 'string')
  const delay = details.map((detail) => detail['retryDelay']).find((text) => typeof text === 'string')
  const seconds = delay === undefined ? NaN : Number.parseFloat(delay)
  return {
    ...(typeof error['status'] === 'string' ? { type: error['status'] } : {}),
    ...(typeof error['code'] === 'number'
      ? { code: error['code'] }
      : typeof reason === 'string'
        ? { code: reason }
        : {}),
    ...(field === undefined ? {} : { param: field }),
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterSeconds: Math.ceil(seconds) } : {}),
  }
}
