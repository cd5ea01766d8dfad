import { replayPositions, type ReplayState } from '../../generation/replay.ts'
import { isReplayableAt, unwrapSignature } from '../../generation/signature.ts'
import { arrayOf, isObject } from '../../json/parse.ts'
import type { RawRequest, Target } from '../protocol.ts'
import type { LossReport } from '../translation.ts'
import { inputPath } from './namespaces.ts'
import type { Json } from './shapes.ts'
import { isOfReasoning, readTaggedSignature } from './tagged-signature.ts'
import { reasoningItem } from './write-request-input.ts'

/** The reasoning in a forwarded `input`, as the provider accepts it. */

type Added = { before: number; item: Json }

/**
 * The reasoning that the client left out, and the index of the item that each is put before. Reasoning that nothing
 * follows is left out, since providers refuse it.
 */
export function missingItems(input: readonly unknown[], replayStates: readonly ReplayState[]): Added[] {
  return replayStates.flatMap((replayState) => {
    const call = input.findIndex((item) => isObject(item) && item.call_id === replayState.call.id && isGenerated(item))
    if (call < 0) return []
    let start = call
    while (isGenerated(input[start - 1])) start--
    let end = call + 1
    while (isGenerated(input[end])) end++
    const elements = input.slice(start, end).map((item) => elementOf(item as Json))
    return replayPositions(replayState, elements).reasoning.flatMap(({ part: { signature, ...part }, before }) =>
      signature !== undefined && before < elements.length
        ? [{ before: start + before, item: reasoningItem({ ...part, signature: { data: signature } }) }]
        : [],
    )
  })
}

/** Reports whether an item was generated: neighbours are items of one response. */
const isGenerated = (item: unknown): boolean =>
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

/**
 * The input with what was added and without reasoning that this provider would refuse, which is reported; undefined
 * where there is none: the text stays.
 */
export function withoutUnusable(
  rawRequest: RawRequest,
  added: readonly Added[],
  target: Target,
  report: LossReport,
): unknown[] | undefined {
  const { input } = rawRequest.body
  if (!Array.isArray(input)) return undefined
  let changed = false
  const kept = input.flatMap((item: unknown, index): unknown[] => {
    const own = replayable(item, target)
    if (own !== item) changed = true
    if (own === undefined) loseReasoning(item as Json, inputPath(index, rawRequest), report)
    const before = added.length === 0 ? [] : added.filter((one) => one.before === index).map((one) => one.item)
    return own === undefined ? before : [...before, own]
  })
  return changed ? kept : undefined
}

/** Reports a reasoning item that is not sent, or the signature of another part that it carries. */
function loseReasoning({ encrypted_content: encrypted }: Json, path: string, report: LossReport): void {
  if (typeof encrypted !== 'string')
    return report.add('reasoning_dropped', path, 'the provider stores nothing, and there is no encrypted_content')
  const tagged = readTaggedSignature(unwrapSignature(encrypted).data)
  report.add(tagged === undefined || isOfReasoning(tagged) ? 'reasoning_dropped' : 'signature_dropped', path)
}

/**
 * A reasoning item as its issuer accepts it, or undefined: a signature of another model is refused, and so is an item
 * that is known by its id alone, because nothing was stored. Raw reasoning needs no signature.
 */
function replayable(item: unknown, target: Target): unknown {
  if (!isObject(item) || item.type !== 'reasoning') return item
  const encrypted = item.encrypted_content ?? undefined
  const isKnownById = encrypted === undefined && arrayOf(item.content ?? []).length === 0
  if (typeof encrypted !== 'string') return isKnownById && Array.isArray(item.content ?? []) ? undefined : item
  const signature = unwrapSignature(encrypted)
  if (readTaggedSignature(signature.data) !== undefined) return undefined
  if (signature.issuer === undefined) return item
  return signature.data !== '' && isReplayableAt(signature, target, true)
    ? { ...item, encrypted_content: signature.data }
    : undefined
}
