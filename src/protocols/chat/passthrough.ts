import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { replaceAt, splice } from '../../json/edit.ts'
import { members } from '../../json/scan.ts'
import type { GenerationRequest } from '../../generation/request.ts'
import { belongsTo, ENVELOPE_PREFIX, unwrapSignature } from '../../generation/signature.ts'
import { issuedBy, type ReplayState } from '../../generation/replay.ts'
import type { TranslationContext, Quirks, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { ChunkReader } from './read-response.ts'
import { callSignature, entriesOf, owesReasoning } from './write-request-messages.ts'
import { words, type Json } from './shapes.ts'

/**
 * The client's own body with the provider's model name. Usage is always asked for, because it is billed; the client
 * sees it only if it asked.
 */
export function forward({ rawRequest, restoredReasoning }: TranslationContext, target: Target): string {
  const { quirks } = target
  const changes: Record<string, string | undefined> = { model: JSON.stringify(target.model) }
  if (quirks.routesItself !== true) {
    if ('provider' in rawRequest.body) changes.provider = undefined
    if ('models' in rawRequest.body) changes.models = undefined
  }
  if (quirks.refuses?.includes('stream_options') === true) changes.stream_options = undefined
  else if (rawRequest.body.stream === true)
    changes.stream_options = isObject(rawRequest.body.stream_options)
      ? splice(memberText(rawRequest.text, 'stream_options'), { include_usage: 'true' })
      : '{"include_usage":true}'
  Object.assign(changes, renamedLimit(rawRequest.body, quirks))
  if (rawRequest.text.includes(ENVELOPE_PREFIX))
    changes.messages = JSON.stringify(unwrapped(rawRequest.body.messages, target))
  const messages = rawRequest.body.messages as Json[]
  const back = putBack(messages, issuedBy(restoredReasoning, target), quirks.reasoningField ?? 'reasoning_content')
  const places = owesReasoning(target, rawRequest.body.tools)
    ? messages.flatMap(({ role, reasoning_content: text }, place) =>
        role === 'assistant' && typeof text !== 'string' && !back.some(({ path }) => path[1] === place) ? [place] : [],
      )
    : []
  const empty = places.map((place) => ({
    path: ['messages', place],
    value: (message: string): string => splice(message, { reasoning_content: '""' }),
  }))
  const text = splice(rawRequest.text, changes)
  return back.length + empty.length === 0 ? text : replaceAt(text, [...back, ...empty])
}

/**
 * What the client left out of its messages, where the provider had put it: details of the reasoning, and the signatures
 * of calls.
 */
function putBack(
  messages: readonly Json[],
  replayStates: readonly ReplayState[],
  bareField: string,
): { path: (string | number)[]; value: (message: string) => string }[] {
  return replayStates.flatMap(({ call, parts }) => {
    const place = messages.findIndex(
      ({ tool_calls: calls }) =>
        Array.isArray(calls) && calls.some((one: unknown) => isObject(one) && one.id === call.id),
    )
    if (place < 0) return []
    const calls = messages[place]!.tool_calls as Json[]
    const signed = parts.flatMap((part) =>
      part.type === 'tool-call' && part.signature !== undefined
        ? [{ place: calls.findIndex(({ id }) => id === part.id), signature: part.signature }]
        : [],
    )
    const reasoning = parts.filter((part) => part.type === 'reasoning')
    const details = entriesOf(
      reasoning.flatMap(({ signature, ...part }) =>
        signature === undefined ? [] : [{ ...part, signature: { data: signature } }],
      ),
    )
    const bare = reasoning.map(({ signature, text: words }) => (signature === undefined ? words : '')).join('')
    const members = {
      ...(details.length === 0 ? {} : { reasoning_details: JSON.stringify(details) }),
      ...(bare === '' ? {} : { [bareField]: JSON.stringify(bare) }),
    }
    return [
      {
        path: ['messages', place],
        value: (message: string): string => {
          const changes = signed
            .filter((one) => one.place >= 0)
            .map((one) => ({
              path: ['tool_calls', one.place],
              value: (call: string): string =>
                splice(call, { extra_content: JSON.stringify(callSignature(one.signature)) }),
            }))
          return splice(changes.length === 0 ? message : replaceAt(message, changes), members)
        },
      },
    ]
  })
}

const memberText = (text: string, key: string): string => {
  const found = members(text).findLast((member) => member.key === key)
  return found === undefined ? '{}' : text.slice(found.start, found.end)
}

/** The limit under the name this provider reads; where the client gave both, the newer one counts. */
function renamedLimit(body: Json, quirks: Quirks): Record<string, string | undefined> {
  const field = quirks.maxTokensField
  const limit = body.max_completion_tokens ?? body.max_tokens
  if (field === undefined || limit === undefined || limit === null) return {}
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  return other in body ? { [field]: JSON.stringify(limit), [other]: undefined } : {}
}

/**
 * Signatures that came to this client through another protocol: opened for their maker, left out for anyone else, who
 * would refuse them.
 */
function unwrapped(messages: unknown, target: Target): unknown {
  if (!Array.isArray(messages)) return messages
  return messages.map((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message.reasoning_details)) return message
    const details = message.reasoning_details.flatMap((detail: unknown) => {
      if (!isObject(detail)) return [detail]
      const field = detail.type === 'reasoning.encrypted' ? 'data' : 'signature'
      const signature = words(detail[field]) === undefined ? undefined : unwrapSignature(detail[field] as string)
      if (signature?.issuer === undefined) return [detail]
      return belongsTo(signature, target, true) ? [{ ...detail, [field]: signature.data }] : []
    })
    const { reasoning_details: _left, ...rest } = message
    return details.length > 0 ? { ...rest, reasoning_details: details } : rest
  })
}

/**
 * A `chat.completion` body -> the same events as a stream's. Throws a GatewayError on an error body or anything else.
 */
export function readAnswer(body: unknown, quirks: Quirks, request?: GenerationRequest): GenerationEvent[] {
  if (!isObject(body))
    throw new GatewayError('upstream_error', 'The provider answered with something that is no chat completion.')
  const answered = Array.isArray(body.choices) && body.choices.length > 0
  const reader = new ChunkReader(quirks, request)
  if (!answered && (body.error === undefined || body.error === null))
    throw new GatewayError('upstream_error', 'The provider answered with a chat completion without choices.')
  reader.chunk(body)
  const events = reader.endOfBody()
  const failure = events.find((event) => event.type === 'error')
  if (failure !== undefined) throw failure.error
  return events
}
