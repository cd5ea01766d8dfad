import { belongsTo, unwrapSignature } from '../../generation/signature.ts'
import { insertAt, replaceAt, splice } from '../../json/edit.ts'
import { issuedBy, placesOf, type ReplayState } from '../../generation/replay.ts'
import type { TranslationContext, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { mayReason } from './write-request.ts'
import { reasoningItem } from './write-request-input.ts'
import { arrayOf, readMark, type Json } from './shapes.ts'

/**
 * The client's own body for a provider that speaks this protocol. Sluice keeps the state itself, so that it is the same
 * on every
 * provider and no tenant reads another's under the shared credential: earlier turns stand in `input` already, the
 * provider stores
 * nothing (unless it has to, to work in the background), and its reasoning comes back sealed so that a later turn can
 * replay it.
 */
export function forward({ rawRequest, restoredReasoning }: TranslationContext, target: Target): string {
  const { body } = rawRequest
  const added = Array.isArray(body.input) ? missingItems(body.input, issuedBy(restoredReasoning, target)) : []
  const text =
    added.length === 0
      ? rawRequest.text
      : replaceAt(rawRequest.text, [
          {
            path: ['input'],
            value: (input) =>
              insertAt(
                input,
                added.map(({ before, item }) => ({ before, value: JSON.stringify(item) })),
              ),
          },
        ])
  const changes: Record<string, string | undefined> = { model: JSON.stringify(target.model) }
  if (Object.hasOwn(body, 'previous_response_id')) changes.previous_response_id = undefined
  if (body.background !== true) changes.store = 'false'
  const include = withSeals(body, target)
  if (include !== undefined) changes.include = JSON.stringify(include)
  const input = withoutStrangers(withItems(body.input, added), target)
  if (input !== undefined) changes.input = JSON.stringify(input)
  return splice(text, changes)
}

type Added = { before: number; item: Json }

/**
 * The reasoning that the client left out, and before which items of its input it belongs: one that nothing follows is
 * refused.
 */
function missingItems(input: readonly unknown[], replayStates: readonly ReplayState[]): Added[] {
  return replayStates.flatMap((replayState) => {
    const call = input.findIndex((item) => isObject(item) && item.call_id === replayState.call.id && isAnswered(item))
    if (call < 0) return []
    let start = call
    while (start > 0 && isAnswered(input[start - 1])) start--
    let end = call + 1
    while (end < input.length && isAnswered(input[end])) end++
    const elements = input.slice(start, end).map((item) => elementOf(item as Json))
    return placesOf(replayState, elements).reasoning.flatMap(({ part: { signature, ...part }, before }) =>
      signature !== undefined && before < elements.length
        ? [{ before: start + before, item: reasoningItem({ ...part, signature: { data: signature } }) }]
        : [],
    )
  })
}

/** Whether an item is of an answer: what stands side by side is one. */
const isAnswered = (item: unknown): boolean =>
  isObject(item) &&
  (item.type === 'function_call' ||
    item.type === 'custom_tool_call' ||
    item.type === 'reasoning' ||
    item.role === 'assistant')

const elementOf = (item: Json): { type: string; id?: string } =>
  item.role === 'assistant'
    ? { type: 'text' }
    : typeof item.call_id === 'string'
      ? { type: 'tool-call', id: item.call_id }
      : { type: 'nothing' }

function withItems(input: unknown, added: readonly Added[]): unknown {
  if (added.length === 0 || !Array.isArray(input)) return input
  return input.flatMap((item: unknown, index) => [
    ...added.filter(({ before }) => before === index).map((one): unknown => one.item),
    item,
  ])
}

const SEALS = 'reasoning.encrypted_content'

function withSeals(body: Json, { capabilities }: Target): unknown[] | undefined {
  const include = arrayOf(body.include)
  const reasoning = isObject(body.reasoning) ? body.reasoning : undefined
  if (
    body.store === false ||
    include.includes(SEALS) ||
    !mayReason(reasoning !== undefined, reasoning?.effort, capabilities)
  )
    return undefined
  return [...include, SEALS]
}

/**
 * Input without the reasoning that this provider would refuse; undefined where there is none such, so that the text
 * stays as it is.
 */
function withoutStrangers(input: unknown, target: Target): unknown[] | undefined {
  if (!Array.isArray(input)) return undefined
  let changed = false
  const kept = input.flatMap((item: unknown) => {
    const own = replayable(item, target)
    if (own !== item) changed = true
    return own === undefined ? [] : [own]
  })
  return changed ? kept : undefined
}

/**
 * A reasoning item as its maker takes it back: the seal of another model is refused, and so is an item that is known by
 * its id alone,
 * because nothing was stored. Raw thoughts need no seal where a provider shows them.
 */
function replayable(item: unknown, target: Target): unknown {
  if (!isObject(item) || item.type !== 'reasoning') return item
  const sealed = item.encrypted_content
  if (typeof sealed !== 'string') return arrayOf(item.content).length > 0 ? item : undefined
  const signature = unwrapSignature(sealed)
  if (signature.issuer === undefined) return readMark(signature.data) === undefined ? item : undefined
  return belongsTo(signature, target, true) && readMark(signature.data) === undefined
    ? { ...item, encrypted_content: signature.data }
    : undefined
}
