import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './said.ts'

/** Every string and number of a response with its path, so that no unforeseen field can be missing. */
export type Leaf = { path: string; value: string | number }

/** `[kind]` precedes the members of an object with a type. */
function leavesOf(value: unknown, path = ''): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((element) => leavesOf(element, path))
  if (typeof value === 'object' && value !== null) {
    const { type } = value as { type?: unknown }
    const kind = typeof type === 'string' ? `[${type}]` : ''
    return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, `${path}${kind}.${name}`))
  }
  return (typeof value === 'string' && value.trim() !== '') || typeof value === 'number' ? [{ path, value }] : []
}

/** Bookkeeping of providers that is not reported (docs/translation.md): ids, ratings and charges. */
const BOOKKEEPING = [
  // Ids of the response and its parts. The id of a tool call is carried.
  /(?<!tool_calls(\[\w+\])?|\[tool_use\]|functionCall)\.(id|item_id)$/,
  /\.(object|model|modelVersion|responseId|system_fingerprint|turnToken|tokenId|tool_use_id|p|obfuscation)$/,
  /\.(created|created_at|createTime|completed_at|container\.expires_at)$/,
  /\.(index|output_index|content_index)$/,
  /\.(role|type|status|format|channel)$/,
  // Settings of the generation.
  /\.(provider|service_tier|serviceTier|trafficType|inference_geo|x_groq\.\w+|background|quality|size|output_format|action)$/,
  // Ratings.
  /[sS]afety|content_filter|\.avgLogprobs$|\.confidenceScores$/,
]

/** Compared elsewhere: finish reasons, tokens, and offsets, which each protocol counts differently. */
const COMPARED = [
  /\.(finish_reason|native_finish_reason|stop_reason|finishReason|incomplete_details\.reason|blockReason)$/,
  /\.(usage|usageMetadata)\./,
  /\.(start|end)(_index|Index)$/,
  /\.partialArgs\.jsonPath$/,
  /\.mimeType$/,
]

/** The final response of a client of its protocol: repetitions in a stream are counted once. */
function answerOf(protocol: ConversationName, datas: unknown[], stream: boolean): unknown {
  const objects = datas.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
  if (!stream && protocol === 'responses')
    return objects.map(({ output, incomplete_details }) => ({ output, incomplete_details }))
  if (!stream) return protocol === 'generateContent' ? objects.map(ofGoogle) : objects
  if (protocol === 'messages')
    return ofBlocks(
      objects.slice(
        0,
        objects.findIndex(({ type }) => type === 'message_stop'),
      ),
    )
  if (protocol === 'generateContent') return objects.map(ofGoogle)
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

/** The message of an ordinary finish reason has no information. */
const ofGoogle = (chunk: Any): unknown => ({
  ...chunk,
  candidates: chunk.candidates?.map((one: Any) =>
    one.finishReason === 'STOP' ? { ...one, finishMessage: undefined } : one,
  ),
})

/** Deltas with the kind of their block. */
function ofBlocks(events: Any[]): unknown[] {
  const kinds = new Map<number, string>()
  return events.map((event) => {
    if (event.type === 'content_block_start') kinds.set(event.index, event.content_block.type)
    return event.type === 'content_block_delta'
      ? { type: kinds.get(event.index), delta: event.delta as unknown }
      : event
  })
}

/** Without whitespace and escapes: arguments are text in one protocol and objects in another. */
export const squeezed = (text: string): string => text.replaceAll(/\\[nrtbf]|\\|\s+/g, '')

/** The frames of a stream with the deltas of each text joined. */
function heap(datas: unknown[]): { text: string; numbers: Set<number> } {
  const joined = new Map<string, string>()
  const numbers = new Set<number>()
  for (const { path, value } of leavesOf(datas)) {
    if (typeof value === 'number') numbers.add(value)
    else joined.set(path, (joined.get(path) ?? '') + value)
  }
  const text = JSON.stringify(datas)
  const sealed = [...text.matchAll(/"(c2xjMQ[\w+/=-]+)"/g)].map(([, value]) => Buffer.from(value!, 'base64').toString())
  return { text: [...[...joined.values(), text].map(squeezed), ...sealed].join('\n'), numbers }
}

/** A finished item rounds the numbers of its deltas. */
const isSame = (a: number, b: number): boolean => a === b || (!Number.isInteger(b) && Math.abs(a - b) < 1e-6)

/**
 * The leaves of a recorded response that are neither in the client's response nor in `told`, the fields of its losses.
 */
export function missing(
  protocol: ConversationName,
  recorded: unknown[],
  heard: unknown[],
  stream: boolean,
  told: readonly string[],
): string[] {
  const { text, numbers } = heap(heard)
  const named = new Set(told.map((field) => field.replace(/^response\./, '')))
  const unsaid = leavesOf(answerOf(protocol, recorded, stream)).filter(({ path, value }) => {
    if ([...BOOKKEEPING, ...COMPARED].some((pattern) => pattern.test(path))) return false
    if (
      typeof value === 'number'
        ? [...numbers].some((number) => isSame(number, value)) || text.includes(String(value))
        : text.includes(squeezed(value)) || text.includes(value)
    )
      return false
    return !namesOf(path).some((name) => named.has(name))
  })
  return [...new Set(unsaid.map(({ path, value }) => `${path}: ${String(value).slice(0, 60)}`))]
}

/** The fields in loss reports for paths of the provider. */
const WORDS: [RegExp, string[]][] = [
  [/annotations|citation|groundingSupports|groundingChunks|search_results/, ['citations']],
  [/logprobs/i, ['logprobs']],
  [/inlineData|image_generation_call|audio/, ['image', 'audio']],
  [/image_generation_call.*prompt$/, ['revised_prompt']],
  [/urlMetadata/, ['urlContextMetadata']],
  // It is reported with its part.
  [/thoughtSignature/, ['signature', 'executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse']],
  [/caller/, ['server_tool_use']],
  [/arguments|partial_json/, ['tool_calls.arguments']],
  [/finishMessage|blockReasonMessage|stop_details/, ['stop_details']],
]

const namesOf = (path: string): string[] => [
  ...path.split(/[.[\]]+/),
  ...WORDS.flatMap(([place, words]) => (place.test(path) ? words : [])),
]
