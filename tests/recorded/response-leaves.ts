import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './response-content.ts'

/** A text or number of a response with its path without indices. `[type]` follows an object that has a type. */
export type Leaf = { path: string; value: string | number }

function leavesOf(value: unknown, path = ''): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((element) => leavesOf(element, path))
  if (typeof value === 'object' && value !== null) {
    const { type } = value as { type?: unknown }
    const kind = typeof type === 'string' ? `[${type}]` : ''
    return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, `${path}${kind}.${name}`))
  }
  return (typeof value === 'string' && value.trim() !== '') || typeof value === 'number' ? [{ path, value }] : []
}

/** Provider metadata that is not translated, by the terms of docs/translation.md. */
const BOOKKEEPING = [
  // Ids of the response and its elements, except those of tool calls.
  /(?<!tool_calls(\[\w+\])?|\[tool_use\]|functionCall)\.(id|item_id)$/,
  /\.(object|model|modelVersion|responseId|system_fingerprint|turnToken|tokenId|tool_use_id|p|obfuscation)$/,
  /\.(created|created_at|createTime|completed_at|container\.expires_at)$/,
  /\.(index|output_index|content_index)$/,
  /\.(role|type|status|format|channel)$/,
  // Properties of the service.
  /\.(provider|service_tier|serviceTier|trafficType|inference_geo|x_groq\.\w+)$/,
  /\.(background|quality|size|output_format|action)$/,
  // Ratings.
  /[sS]afety|content_filter|\.avgLogprobs$|\.candidates\.score$|\.confidenceScores$/,
  // Where the client's own tool is: only clients of the responses API group their tools.
  /\[function_call\]\.namespace$/,
]

/** Compared in another way: finish reasons, usage and offsets, which each protocol counts differently. */
const COMPARED = [
  /\.(finish_reason|native_finish_reason|stop_reason|finishReason|incomplete_details\.reason|blockReason)$/,
  /\.(usage|usageMetadata)\./,
  /\.(start|end)(_index|Index)$/,
  /\.partialArgs\.jsonPath$/,
  /\.mimeType$/,
]

/** The final content of a response, without what a stream repeats. */
function contentIn(protocol: ConversationName, frames: unknown[], stream: boolean): unknown {
  const objects = frames.flat().filter((data): data is Any => typeof data === 'object' && data !== null)
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

/** The message of an ordinary stop has no information. */
const withoutStopMessage = (chunk: Any): unknown => ({
  ...chunk,
  candidates: chunk.candidates?.map((one: Any) =>
    one.finishReason === 'STOP' ? { ...one, finishMessage: undefined } : one,
  ),
})

/** Deltas with the type of their block. */
function withBlockTypes(events: Any[]): unknown[] {
  const kinds = new Map<number, string>()
  return events.map((event) => {
    if (event.type === 'content_block_start') kinds.set(event.index, event.content_block.type)
    return event.type === 'content_block_delta'
      ? { type: kinds.get(event.index), delta: event.delta as unknown }
      : event
  })
}

/** Without white space and escapes, since arguments are text in some protocols and objects in others. */
export const withoutWhitespace = (text: string): string => text.replaceAll(/\\[nrtbf]|\\|\s+/g, '')

/** The texts at each path joined over all frames, and all numbers. */
function searchable(frames: unknown[]): { text: string; numbers: Set<number> } {
  const joined = new Map<string, string>()
  const numbers = new Set<number>()
  for (const { path, value } of leavesOf(frames)) {
    if (typeof value === 'number') numbers.add(value)
    else joined.set(path, (joined.get(path) ?? '') + value)
  }
  const text = JSON.stringify(frames)
  const signatures = [...text.matchAll(/"(c2xjMQ[\w+/=-]+)"/g)].map(([, value]) =>
    Buffer.from(value!, 'base64').toString(),
  )
  return { text: [...[...joined.values(), text].map(withoutWhitespace), ...signatures].join('\n'), numbers }
}

/** Numbers of a finished item are rounded, unlike those of its deltas. */
const isClose = (a: number, b: number): boolean => a === b || (!Number.isInteger(b) && Math.abs(a - b) < 1e-6)

/** The leaves of a recorded response that are neither in the client's response nor reported in `lostPaths`. */
export function missingLeaves(
  protocol: ConversationName,
  recorded: unknown[],
  received: unknown[],
  stream: boolean,
  lostPaths: readonly string[],
): string[] {
  const { text, numbers } = searchable(received)
  const named = new Set(lostPaths.map((field) => field.replace(/^response\./, '')))
  const missing = leavesOf(contentIn(protocol, recorded, stream)).filter(({ path, value }) => {
    if ([...BOOKKEEPING, ...COMPARED].some((pattern) => pattern.test(path))) return false
    if (
      typeof value === 'number'
        ? [...numbers].some((number) => isClose(number, value)) || text.includes(String(value))
        : text.includes(withoutWhitespace(value)) || text.includes(value)
    )
      return false
    return !lossNamesOf(path).some((name) => named.has(name))
  })
  return [...new Set(missing.map(({ path, value }) => `${path}: ${String(value).slice(0, 60)}`))]
}

/** The fields that losses report for paths of a provider's response. */
const LOSS_NAMES: [RegExp, string[]][] = [
  [/annotations|citation|groundingSupports|groundingChunks|search_results/, ['citations']],
  [/logprobs/i, ['logprobs']],
  [/inlineData|image_generation_call|audio/, ['image', 'audio']],
  [/image_generation_call.*prompt$/, ['revised_prompt']],
  [/urlMetadata/, ['urlContextMetadata']],
  // It is lost with its part.
  [/thoughtSignature/, ['signature', 'executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse']],
  [/caller/, ['server_tool_use']],
  // A call whose arguments are lost may be left out.
  [/arguments|partial_json|\[(?:tool_use|function_call)\]\.(?:id|call_id|name)$/, ['tool_calls.arguments']],
  [/finishMessage|blockReasonMessage|stop_details/, ['stop_details']],
]

const lossNamesOf = (path: string): string[] => [
  ...path.split(/[.[\]]+/),
  ...LOSS_NAMES.flatMap(([pattern, fields]) => (pattern.test(path) ? fields : [])),
]
