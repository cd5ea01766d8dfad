import type { GatewayError } from '../../error.ts'
import { issuedBy, type ReplayState } from '../../generation/replay.ts'
import { isReplayableAt, ENVELOPE_PREFIX, unwrapSignature } from '../../generation/signature.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { replaceAt, splice } from '../../json/edit.ts'
import { members } from '../../json/scan.ts'
import { isObject, objectOf, tryParse } from '../../json/parse.ts'
import { scrub } from '../../log/secrets.ts'
import { objectsIn } from '../media.ts'
import { errorObject } from '../openai-error.ts'
import { removeRoutingMembers } from '../routing-members.ts'
import type {
  EarlyEnd,
  Passthrough,
  RawRequest,
  ResponseIdentity,
  Target,
  ResponseContext,
  ForwardContext,
} from '../protocol.ts'
import type { Quirks } from '../quirks.ts'
import type { LossReport } from '../translation.ts'
import { callSignature, writeEntries } from './reasoning-details.ts'
import { imageId, nonEmpty, TEXT_ID, writeUsage, type Json } from './shapes.ts'
import { requiredReasoningField } from './write-request-assistant.ts'
import { errorFrames, limitFrame, usageFrame } from './write-response-stream.ts'

/** The objects of an array, with their indexes. */
type Elements = readonly [index: number, element: Json][]

/** A change of one element of the body's text. */
type Edit = { path: (string | number)[]; value: (text: string) => string }

/**
 * The provider's model name, and a request for usage: it is billed, and the client sees it only if it requested it.
 */
export function memberChanges(
  { body, text }: RawRequest,
  { model, quirks }: Target,
): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = { model: JSON.stringify(model) }
  removeRoutingMembers(changes, body, quirks)
  // OpenRouter's request for usage, which OpenAI refuses. Every provider is asked for usage below.
  if (quirks.routesItself !== true && isObject(body.usage)) changes.usage = undefined
  if (quirks.refuses?.includes('stream_options') === true) changes.stream_options = undefined
  else if (body.stream === true)
    changes.stream_options = isObject(body.stream_options)
      ? splice(memberText(text, 'stream_options'), { include_usage: 'true' })
      : '{"include_usage":true}'
  return Object.assign(changes, renamedLimit(body, quirks))
}

/** The client's own body with these changes, and with reasoning as this provider accepts it. */
export function forward({ rawRequest, restoredReasoning }: ForwardContext, target: Target, report: LossReport): string {
  const { quirks } = target
  const { body } = rawRequest
  const changes = memberChanges(rawRequest, target)
  if (rawRequest.text.includes(ENVELOPE_PREFIX))
    changes.messages = JSON.stringify(withUnwrappedSignatures(body.messages, target, report))
  const messages = objectsIn(body.messages)
  const restored = restoredReasoningEdits(messages, issuedBy(restoredReasoning, target), quirks)
  const edits = [...restored, ...emptyReasoningEdits(messages, requiredReasoningField(quirks, body.tools), restored)]
  const text = splice(rawRequest.text, changes)
  return edits.length === 0 ? text : replaceAt(text, edits)
}

/** Adds the reasoning and the signatures of calls that the client dropped, in the fields of the provider. */
function restoredReasoningEdits(
  messages: Elements,
  replayStates: readonly ReplayState[],
  { reasoningField: field = 'reasoning_content' }: Quirks,
): Edit[] {
  return replayStates.flatMap(({ call, parts }) => {
    const found = messages.find(([, { tool_calls: calls }]) => objectsIn(calls).some(([, { id }]) => id === call.id))
    if (found === undefined) return []
    const [index, { tool_calls: calls }] = found
    const signed = parts.flatMap((part): Edit[] => {
      const position =
        part.type === 'tool-call' ? objectsIn(calls).find(([, { id }]) => id === part.id)?.[0] : undefined
      const { signature } = part
      if (position === undefined || signature === undefined) return []
      const members = { extra_content: JSON.stringify(callSignature(signature)) }
      return [{ path: ['tool_calls', position], value: (text) => splice(text, members) }]
    })
    const reasoning = parts.filter((part) => part.type === 'reasoning')
    const details = writeEntries(
      reasoning.flatMap(({ signature, ...part }) =>
        signature === undefined ? [] : [{ ...part, signature: { data: signature } }],
      ),
    )
    const unsigned = reasoning.map(({ signature, text }) => (signature === undefined ? text : '')).join('')
    const hasTextField = field === 'reasoning_content' || field === 'reasoning'
    const members = {
      ...(details.length === 0 ? {} : { reasoning_details: JSON.stringify(details) }),
      ...(unsigned === '' || !hasTextField ? {} : { [field]: JSON.stringify(unsigned) }),
    }
    const value = (text: string): string => splice(signed.length === 0 ? text : replaceAt(text, signed), members)
    return [{ path: ['messages', index], value }]
  })
}

/** Adds an empty reasoning field to assistant messages that have none, for a provider that requires it. */
function emptyReasoningEdits(messages: Elements, field: string | undefined, restored: readonly Edit[]): Edit[] {
  if (field === undefined) return []
  const edited = new Set(restored.map(({ path }) => path[1]))
  return messages.flatMap(([index, message]) =>
    message.role === 'assistant' && typeof message[field] !== 'string' && !edited.has(index)
      ? [{ path: ['messages', index], value: (text: string): string => splice(text, { [field]: '""' }) }]
      : [],
  )
}

const memberText = (text: string, key: string): string => {
  const found = members(text).findLast((member) => member.key === key)
  return found === undefined ? '{}' : text.slice(found.start, found.end)
}

/** The limit under the name that this provider reads; where the client gave both, the newer one counts. */
function renamedLimit(body: Json, { maxTokensField: field }: Quirks): Record<string, string | undefined> {
  const limit = body.max_completion_tokens ?? body.max_tokens
  if (field === undefined || limit === undefined || limit === null) return {}
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  return other in body ? { [field]: JSON.stringify(limit), [other]: undefined } : {}
}

/**
 * Messages with the signatures that came to this client through another protocol: unwrapped for their issuer, removed
 * for any other model, which would refuse them.
 */
function withUnwrappedSignatures(messages: unknown, target: Target, report: LossReport): unknown {
  if (!Array.isArray(messages)) return messages
  return messages.map((message: unknown, index) => {
    if (!isObject(message) || !Array.isArray(message.reasoning_details)) return message
    const details = message.reasoning_details.flatMap((detail: unknown, at) => {
      if (!isObject(detail)) return [detail]
      const field = detail.type === 'reasoning.encrypted' ? 'data' : 'signature'
      const signature = nonEmpty(detail[field]) === undefined ? undefined : unwrapSignature(detail[field] as string)
      if (signature?.issuer === undefined) return [detail]
      if (isReplayableAt(signature, target, true)) return [{ ...detail, [field]: signature.data }]
      const code = signsPart(detail, message) ? 'signature_dropped' : 'reasoning_dropped'
      report.add(code, `messages[${index}].reasoning_details[${at}]`)
      return []
    })
    const { reasoning_details: _, ...rest } = message
    return details.length > 0 ? { ...rest, reasoning_details: details } : rest
  })
}

/** Reports whether an entry is the signature of a text, call or image, which are sent without it. */
const signsPart = ({ type, id }: Json, { tool_calls: calls, images }: Json): boolean =>
  type === 'reasoning.encrypted' &&
  (id === TEXT_ID ||
    objectsIn(calls).some(([, call]) => call.id === id) ||
    objectsIn(images).some(([at]) => imageId(at) === id))

// With usage requested, providers write `"usage":null` in every chunk but one.
const USAGE = /"usage"\s*:\s*\{/

/** The provider's own frames with Sluice's id and model name; all else as it was written. */
export class ChatPassthrough implements Passthrough {
  readonly #responseIdentity: ResponseIdentity
  readonly #changes: Record<string, string>
  readonly #hidesUsage: boolean
  /** Indexes of choices that have not ended; undefined where there is only the first. */
  readonly #open: Set<number> | undefined
  #hasBegun = false
  /** The start of the last chunk, to the end of its id and model, and its replacement: most chunks start alike. */
  #start = ''
  #replacement = ''

  constructor({ responseIdentity, request }: ResponseContext) {
    this.#responseIdentity = responseIdentity
    this.#changes = { id: JSON.stringify(responseIdentity.id), model: JSON.stringify(responseIdentity.model) }
    this.#hidesUsage = request.includeUsage !== true
    const { candidates = 1 } = request
    if (candidates > 1) this.#open = new Set(Array(candidates).keys())
  }

  frame(frame: Frame): Frame | undefined {
    const { data } = frame
    this.#hasBegun = true
    if (this.#open !== undefined && this.#open.size > 1) this.#recordEnds(data, this.#open)
    // `end` writes the end of the stream, once the response is known to be complete.
    if (data.trim() === '[DONE]') return undefined
    const mayHaveUsage = this.#hidesUsage && USAGE.test(data)
    const isPlain = !mayHaveUsage && !data.includes('"error"')
    if (isPlain && this.#start !== '' && data.startsWith(this.#start))
      return { data: this.#replacement + data.slice(this.#start.length) }
    return this.#rewrite(frame, mayHaveUsage)
  }

  #rewrite(frame: Frame, mayHaveUsage: boolean): Frame | undefined {
    const { data } = frame
    const found = members(data)
    const choices = found.find((member) => member.key === 'choices')
    const error = found.find(({ key, start }) => key === 'error' && data[start] !== 'n')
    if (error !== undefined) {
      // A chunk may have an error beside its choices.
      const changes = choices === undefined ? {} : this.#changes
      return { ...frame, data: splice(data, { ...changes, error: scrub(data.slice(error.start, error.end)) }) }
    }
    if (choices === undefined) return frame
    const isUsageChunk =
      mayHaveUsage &&
      /^\[\s*\]$/.test(data.slice(choices.start, choices.end)) &&
      found.some((member) => member.key === 'usage' && data[member.start] === '{')
    if (isUsageChunk) return undefined
    const identity = found.filter((member) => member.key === 'id' || member.key === 'model')
    const last = identity.at(-1)?.end ?? -1
    const changed = splice(data, this.#changes)
    if (identity.length === 2 && choices.start > last) {
      this.#start = data.slice(0, last)
      this.#replacement = changed.slice(0, changed.length - (data.length - last))
    }
    return { ...frame, data: changed }
  }

  #recordEnds(data: string, open: Set<number>): void {
    if (!data.includes('"finish_reason"')) return
    const chunk = tryParse(data)
    for (const [, { index, finish_reason: reason }] of objectsIn(isObject(chunk) ? chunk.choices : undefined))
      if (typeof reason === 'string') open.delete(Number(index))
  }

  /** An error beside choices, in one of them, or without the member: alone, as all clients read it. */
  again({ data }: Frame, error: GatewayError): Frame[] {
    const chunk = objectOf(tryParse(data))
    if (chunk.choices === undefined && chunk.error !== undefined) return []
    const own = chunk.error ?? objectsIn(chunk.choices).find(([, choice]) => isObject(choice.error))?.[1].error
    return [{ data: scrub(JSON.stringify({ error: own ?? errorObject(error) })) }]
  }

  fail(error: GatewayError): Frame[] {
    return errorFrames(this.#responseIdentity, error)
  }

  endEarly({ report }: EarlyEnd): Frame[] {
    const delta = this.#hasBegun ? {} : { role: 'assistant', content: '' }
    return [limitFrame(this.#responseIdentity, [...(this.#open ?? [0])], delta, report)]
  }

  end(counted?: Usage): Frame[] {
    return [
      ...(counted === undefined || this.#hidesUsage ? [] : [usageFrame(this.#responseIdentity, counted)]),
      { data: '[DONE]' },
    ]
  }

  answer(text: string, counted?: Usage): string {
    return splice(
      text,
      counted === undefined ? this.#changes : { ...this.#changes, usage: JSON.stringify(writeUsage(counted)) },
    )
  }
}
