import type { GatewayError } from '../../error.ts'
import { issuedBy, type ReplayState } from '../../generation/replay.ts'
import { isReplayableAt, ENVELOPE_PREFIX, unwrapSignature, type Signature } from '../../generation/signature.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { applyEdits, splice, type Edit } from '../../json/edit.ts'
import { elements, members } from '../../json/scan.ts'
import { arrayOf, isObject, objectOf, stringOf } from '../../json/parse.ts'
import { scrub } from '../../log/secrets.ts'
import type { EarlyEnd, Passthrough, RawRequest, Target, ResponseContext, ForwardContext } from '../protocol.ts'
import type { LossReport } from '../translation.ts'
import { either } from './fields.ts'
import { PLACEHOLDER_SIGNATURE, writeUsage, type GeminiPart } from './shapes.ts'
import { errorFrames } from './write-error.ts'

/** Requests: the client's own body with signatures as the model accepts them. */

const MAY_NEED_EDITS = new RegExp(`"function_?[cC]all"|"${ENVELOPE_PREFIX}`)

/** The path names the model; a body that names it too gets the provider's name. */
export const memberChanges = ({ body }: RawRequest, { model }: Target): Record<string, string> =>
  Object.hasOwn(body, 'model') ? { model: JSON.stringify(model) } : {}

/** The client's body unchanged, since the path names the model; in a body that names it too, the provider's name. */
export function forward({ rawRequest, restoredReasoning }: ForwardContext, target: Target, report: LossReport): string {
  const { text, body } = rawRequest
  const edits: Edit[] = []
  if (Object.hasOwn(body, 'model')) edits.push({ path: ['model'], op: 'replace', value: JSON.stringify(target.model) })
  if (MAY_NEED_EDITS.test(text)) {
    const states = issuedBy(restoredReasoning, target)
    for (const edit of signatureEdits(contentsOf(body.contents), states, target, report)) edits.push(edit)
  }
  return edits.length === 0 ? text : applyEdits(text, edits)
}

/** Contents whose parts are objects; others than Google documents have none, so that indexes stay. */
const contentsOf = (contents: unknown): Content[] =>
  arrayOf(contents).map((content) => {
    const { role, parts } = objectOf(content)
    return { role, parts: arrayOf(parts).map(objectOf) }
  })

type Content = { role: unknown; parts: GeminiPart[] }

/** A part of an earlier response. `callId`: of a tool call, empty where the client sent none. */
type ModelPart = {
  content: number
  index: number
  isReasoning: boolean
  callId?: string
  signature: Signature | undefined
  /** The member of the signature as the client spelled it; undefined where there is none. */
  signatureMember: string | undefined
}

/** Edits of all signatures. Contents that are left without parts are removed, since Google refuses empty ones. */
function signatureEdits(
  contents: readonly Content[],
  replayStates: readonly ReplayState[],
  target: Target,
  report: LossReport,
): Edit[] {
  const changes = responsesOf(contents).flatMap((parts) => changesOf(parts, replayStates, target, report))
  return [...Map.groupBy(changes, ({ part }) => part.content)].flatMap(([content, ofContent]): Edit[] => {
    const removed = ofContent.filter(({ signature }) => signature === undefined).length
    if (removed === contents[content]!.parts.length) return [{ path: ['contents', content], op: 'remove' }]
    return ofContent.map(({ part: { index, signatureMember = 'thoughtSignature' }, signature }): Edit => {
      const path = ['contents', content, 'parts', index]
      return signature === undefined
        ? { path, op: 'remove' }
        : { path: [...path, signatureMember], op: 'insert', value: JSON.stringify(signature) }
    })
  })
}

/** The parts of each response. SDKs keep the pieces of a stream as several contents of the model in a row. */
function responsesOf(contents: readonly Content[]): ModelPart[][] {
  const responses: ModelPart[][] = [[]]
  for (const [content, { role, parts }] of contents.entries()) {
    if (role !== 'model') responses.push([])
    for (const [index, part] of parts.entries()) responses.at(-1)!.push(readPart(part, content, index))
  }
  return responses
}

function readPart(part: GeminiPart, content: number, index: number): ModelPart {
  const call = either(part, 'functionCall')
  const signature = either(part, 'thoughtSignature')
  return {
    content,
    index,
    isReasoning: part.thought === true,
    ...(isObject(call) ? { callId: stringOf(call.id) } : {}),
    signature: typeof signature === 'string' && signature !== '' ? unwrapSignature(signature) : undefined,
    signatureMember: ['thoughtSignature', 'thought_signature'].find((name) => Object.hasOwn(part, name)),
  }
}

/** `signature`: undefined removes the part. */
type Change = { part: ModelPart; signature: string | undefined }

/**
 * Signatures of this model are sent as it issued them, also those that the client left out. Of other models, text and
 * calls are sent without their signatures, and reasoning is not sent. Models that reason by levels refuse a response
 * whose first call has no signature, and accept a placeholder.
 */
function changesOf(
  parts: readonly ModelPart[],
  replayStates: readonly ReplayState[],
  target: Target,
  report: LossReport,
): Change[] {
  const isOwn = ({ signature }: ModelPart): boolean =>
    signature !== undefined && signature.data !== '' && isReplayableAt(signature, target, true)
  const calls = parts.filter(({ callId }) => callId !== undefined)
  const restored = calls.some(isOwn) ? new Map<string, string>() : signaturesOfCalls(replayStates)
  const isSigned = calls.some((call) => isOwn(call) || restored.has(call.callId!))
  const unsigned = target.capabilities.reasoning === 'level' && !isSigned ? calls[0] : undefined
  if (unsigned !== undefined) report.add('signature_replaced', signaturePath(unsigned))
  return parts.flatMap((part): Change[] => {
    const added = part === unsigned ? PLACEHOLDER_SIGNATURE : restored.get(part.callId ?? '')
    if (added !== undefined && part.callId !== undefined) return [{ part, signature: added }]
    if (part.signature?.issuer === undefined) return []
    if (isOwn(part)) return [{ part, signature: part.signature.data }]
    loseSignature(part, part.signature, report)
    return [{ part, signature: part.isReasoning ? undefined : '' }]
  })
}

/** Reports what other models issued. An empty signature is no loss: it only marks a call as that model's. */
function loseSignature(part: ModelPart, { data }: Signature, report: LossReport): void {
  if (part.isReasoning) report.add('reasoning_dropped', partPath(part))
  else if (data !== '') report.add('signature_dropped', signaturePath(part))
}

const signaturesOfCalls = (replayStates: readonly ReplayState[]): Map<string, string> =>
  new Map(
    replayStates.flatMap(({ parts }) =>
      parts.flatMap((part): [string, string][] =>
        part.type === 'tool-call' && part.signature !== undefined ? [[part.id, part.signature]] : [],
      ),
    ),
  )

/** The path of a part's signature, or of the part where the client sent none. */
const signaturePath = (part: ModelPart): string =>
  partPath(part) + (part.signatureMember === undefined ? '' : `.${part.signatureMember}`)

const partPath = ({ content, index }: ModelPart): string => `contents[${content}].parts[${index}]`

/** Responses: a Google provider's chunks with Sluice's id and model name; everything else stays as it came. */
export class GeminiPassthrough implements Passthrough {
  readonly #identity: Record<string, string>
  readonly #candidates: number

  constructor({ responseIdentity, request }: ResponseContext) {
    this.#candidates = request.candidates ?? 1
    this.#identity = {
      modelVersion: JSON.stringify(responseIdentity.model),
      responseId: JSON.stringify(responseIdentity.id),
    }
  }

  frame(frame: Frame): Frame | undefined {
    const present = members(frame.data)
    // Google writes an error in several lines, of which its clients would read only the first as data.
    if (present.some(({ key }) => key === 'error')) return { data: scrub(frame.data).replace(/[\r\n]+/g, ' ') }
    // A proxy between the provider and Sluice wrote this; Google's clients accept only JSON objects.
    if (present.length === 0) return undefined
    return { ...frame, data: splice(frame.data, this.#identity) }
  }

  /** Google's clients recognize an error only without a `data:` field, the AI SDK only with one. */
  again(passed: Frame): Frame[] {
    return [{ ...passed, unprefixed: true }]
  }

  fail(error: GatewayError): Frame[] {
    return errorFrames(error)
  }

  endEarly({ usage, report }: EarlyEnd): Frame[] {
    const candidates = Array.from({ length: this.#candidates }, (_, index) => ({
      content: { parts: [{ text: '' }], role: 'model' },
      finishReason: 'MAX_TOKENS',
      index,
    }))
    const chunk = JSON.stringify({ candidates, usageMetadata: writeUsage(usage), ...report })
    return [{ data: splice(chunk, this.#identity) }]
  }

  counted(frame: Frame, usage: Usage): Frame {
    return { ...frame, data: splice(frame.data, usageMember(usage)) }
  }

  /** An object, or the array of chunks that a stream without `alt=sse` is; counted usage goes into the last chunk. */
  answer(text: string, counted?: Usage): string {
    const ofLast = counted === undefined ? this.#identity : { ...this.#identity, ...usageMember(counted) }
    const chunks = elements(text)
    if (chunks === undefined) return splice(text, ofLast)
    const written = chunks.map(([start, end], index) =>
      splice(text.slice(start, end), index === chunks.length - 1 ? ofLast : this.#identity),
    )
    return `[${written.join(',')}]`
  }
}

const usageMember = (usage: Usage): Record<string, string> => ({ usageMetadata: JSON.stringify(writeUsage(usage)) })
