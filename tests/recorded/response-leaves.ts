import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './response-content.ts'

/**
 * Every word and number of an answer with the members that lead to it, so that nothing can be missing that nobody
 * thought of.
 */
export type Leaf = { path: string; value: string | number }

/** `[kind]` stands where an object says its type. */
function leavesOf(value: unknown, path = ''): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((element) => leavesOf(element, path))
  if (typeof value === 'object' && value !== null) {
    const { type } = value as { type?: unknown }
    const kind = typeof type === 'string' ? `[${type}]` : ''
    return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, `${path}${kind}.${name}`))
  }
  return (typeof value === 'string' && value.trim() !== '') || typeof value === 'number' ? [{ path, value }] : []
}

/**
 * What a provider says besides its answer, in the words of docs/translation.md: how it knows the answer, what it thinks
 * of it, what it cost to make.
 */
const BOOKKEEPING = [
  // By which the answer and its pieces are known. A call's own id is carried.
  /(?<!tool_calls(\[\w+\])?|\[tool_use\]|functionCall)\.(id|item_id)$/,
  /\.(object|model|modelVersion|responseId|system_fingerprint|turnToken|tokenId|tool_use_id|p|obfuscation)$/,
  /\.(created|created_at|createTime|completed_at|container\.expires_at)$/,
  /\.(index|output_index|content_index)$/,
  /\.(role|type|status|format|channel)$/,
  // What it was made with.
  /\.(provider|service_tier|serviceTier|trafficType|inference_geo|x_groq\.\w+|background|quality|size|output_format|action)$/,
  // What is thought of it.
  /[sS]afety|content_filter|\.avgLogprobs$|\.confidenceScores$/,
]

/** What is compared in another way: endings, tokens, and places in texts, which each protocol counts differently. */
const COMPARED = [
  /\.(finish_reason|native_finish_reason|stop_reason|finishReason|incomplete_details\.reason|blockReason)$/,
  /\.(usage|usageMetadata)\./,
  /\.(start|end)(_index|Index)$/,
  /\.partialArgs\.jsonPath$/,
  /\.mimeType$/,
]

/** An answer as its own protocol's client has it in the end: what is told two or three times in a stream, once. */
function contentIn(protocol: ConversationName, datas: unknown[], stream: boolean): unknown {
  const objects = datas.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
  if (!stream && protocol === 'responses')
    return objects.map(({ output, incomplete_details }) => ({ output, incomplete_details }))
  if (!stream) return protocol === 'generateContent' ? objects.map(withoutStopMessage) : objects
  if (protocol === 'messages')
    return withBlockTypes(
      objects.slice(
        0,
        objects.findIndex(({ type }) => type === 'message_stop'),
      ),
    )
  if (protocol === 'generateContent') return objects.map(withoutStopMessage)
  if (protocol !== 'responses') return objects
  const end = objects.findIndex(
    ({ response }) => response !== undefined && !['queued', 'in_progress'].includes(response.status),
  )
  const done = objects
    .slice(0, end)
    .filter(({ type }) => type === 'response.output_item.done')
    .map(({ item }) => item as unknown)
  return { output: done.length > 0 ? done : objects[end]?.response.output }
}

/** The message of an ordinary end only says that it is one. */
const withoutStopMessage = (chunk: Any): unknown => ({
  ...chunk,
  candidates: chunk.candidates?.map((one: Any) =>
    one.finishReason === 'STOP' ? { ...one, finishMessage: undefined } : one,
  ),
})

/** Deltas with the kind of the block that grows by them. */
function withBlockTypes(events: Any[]): unknown[] {
  const kinds = new Map<number, string>()
  return events.map((event) => {
    if (event.type === 'content_block_start') kinds.set(event.index, event.content_block.type)
    return event.type === 'content_block_delta'
      ? { type: kinds.get(event.index), delta: event.delta as unknown }
      : event
  })
}

/** Without white space and escapes: arguments are text here and objects there. */
export const withoutWhitespace = (text: string): string => text.replaceAll(/\\[nrtbf]|\\|\s+/g, '')

/** Frames of a stream that hold pieces of one text hold it whole when they are joined. */
function searchable(datas: unknown[]): { text: string; numbers: Set<number> } {
  const joined = new Map<string, string>()
  const numbers = new Set<number>()
  for (const { path, value } of leavesOf(datas)) {
    if (typeof value === 'number') numbers.add(value)
    else joined.set(path, (joined.get(path) ?? '') + value)
  }
  const text = JSON.stringify(datas)
  const sealed = [...text.matchAll(/"(c2xjMQ[\w+/=-]+)"/g)].map(([, value]) => Buffer.from(value!, 'base64').toString())
  return { text: [...[...joined.values(), text].map(withoutWhitespace), ...sealed].join('\n'), numbers }
}

/** A finished item rounds what its deltas said. */
const isClose = (a: number, b: number): boolean => a === b || (!Number.isInteger(b) && Math.abs(a - b) < 1e-6)

/**
 * What a recorded answer says that neither stands in the client's answer nor is named in `told`, the fields of its
 * losses.
 */
export function missingLeaves(
  protocol: ConversationName,
  recorded: unknown[],
  heard: unknown[],
  stream: boolean,
  told: readonly string[],
): string[] {
  const { text, numbers } = searchable(heard)
  const named = new Set(told.map((field) => field.replace(/^response\./, '')))
  const unsaid = leavesOf(contentIn(protocol, recorded, stream)).filter(({ path, value }) => {
    if ([...BOOKKEEPING, ...COMPARED].some((pattern) => pattern.test(path))) return false
    if (
      typeof value === 'number'
        ? [...numbers].some((number) => isClose(number, value)) || text.includes(String(value))
        : text.includes(withoutWhitespace(value)) || text.includes(value)
    )
      return false
    return !lossNamesOf(path).some((name) => named.has(name))
  })
  return [...new Set(unsaid.map(({ path, value }) => `${path}: ${String(value).slice(0, 60)}`))]
}

/** The words of our reports for the places in which a provider says a thing. */
const LOSS_NAMES: [RegExp, string[]][] = [
  [/annotations|citation|groundingSupports|groundingChunks|search_results/, ['citations']],
  [/logprobs/i, ['logprobs']],
  [/inlineData|image_generation_call|audio/, ['image', 'audio']],
  [/image_generation_call.*prompt$/, ['revised_prompt']],
  [/urlMetadata/, ['urlContextMetadata']],
  // It goes with the part that it stands on.
  [/thoughtSignature/, ['signature', 'executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse']],
  [/caller/, ['server_tool_use']],
  [/arguments|partial_json/, ['tool_calls.arguments']],
  [/finishMessage|blockReasonMessage|stop_details/, ['stop_details']],
]

const lossNamesOf = (path: string): string[] => [
  ...path.split(/[.[\]]+/),
  ...LOSS_NAMES.flatMap(([place, words]) => (place.test(path) ? words : [])),
]
