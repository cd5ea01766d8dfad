import { invalid } from '../../error.ts'
import type { ConversationName } from '../../generation/request.ts'

type Json = Record<string, any>

/**
 * What the real services refuse beyond the shapes, as seen in their answers: asked for by `[[strict]]`, so that an
 * application
 * (or a translator) can prove that its history would be taken. Throws the 400 that names the path. `body` has passed
 * the reader.
 */
export function checkRules(protocol: ConversationName, body: Json): void {
  const unknown = Object.keys(body).find((name) => !FIELDS[protocol].has(name))
  if (unknown !== undefined) throw invalid(unknown, 'is no parameter of this API')
  RULES[protocol](body)
}

const names = (text: string): ReadonlySet<string> => new Set(text.split(' '))

/** `client_metadata` is in no document, but the service takes it from Codex. */
const FIELDS: Record<ConversationName, ReadonlySet<string>> = {
  'chat.completions': names(
    'audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options',
  ),
  responses: names(
    'background client_metadata context_management conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user',
  ),
  messages: names(
    'cache_control container context_management inference_geo max_tokens mcp_servers messages metadata model output_config service_tier stop_sequences stream system temperature thinking tool_choice tools top_k top_p',
  ),
  generateContent: names(
    'cachedContent contents generationConfig model safetySettings serviceTier store systemInstruction toolConfig tools',
  ),
}

const RULES: Record<ConversationName, (body: Json) => void> = {
  'chat.completions': chatRules,
  responses: responsesRules,
  messages: messagesRules,
  generateContent: geminiRules,
}

const MAX_CALL_ID = 64

/** Every call is answered by tool messages right after it, and every tool message answers one. */
function chatRules({ messages }: Json): void {
  let open = new Set<string>()
  for (const [index, message] of (messages as Json[]).entries()) {
    const path = `messages[${index}]`
    if (message['role'] === 'tool') {
      if (!open.delete(message['tool_call_id']))
        throw invalid(`${path}.tool_call_id`, 'must answer a call of the assistant message before it')
      continue
    }
    if (open.size > 0) throw invalid(path, `must be preceded by the results of ${[...open].join(', ')}`)
    const calls = (message['tool_calls'] ?? []) as Json[]
    const long = calls.findIndex((call) => call['id'].length > MAX_CALL_ID)
    if (long >= 0) throw invalid(`${path}.tool_calls[${long}].id`, `must be at most ${MAX_CALL_ID} characters long`)
    if (
      message['role'] === 'assistant' &&
      calls.length === 0 &&
      isEmpty(message['content']) &&
      message['refusal'] == null
    )
      throw invalid(`${path}.content`, 'must not be empty without tool_calls')
    open = new Set(calls.map((call) => call['id'] as string))
  }
  if (open.size > 0) throw invalid('messages', `must end with the results of ${[...open].join(', ')}`)
}

/**
 * Every call has its output and every output its call; ids have their item's prefix; reasoning stands before what it
 * led to.
 */
function responsesRules({ input }: Json): void {
  if (!Array.isArray(input)) return
  const calls = new Map<string, number>()
  for (const [index, item] of (input as Json[]).entries()) {
    const path = `input[${index}]`
    const prefix = PREFIXES.get(item['type'])
    if (typeof item['id'] === 'string' && prefix !== undefined && !item['id'].startsWith(prefix))
      throw invalid(`${path}.id`, `must begin with '${prefix}'`)
    if (
      item['type'] === 'reasoning' &&
      !['reasoning', 'function_call', 'custom_tool_call', 'message'].includes(
        input[index + 1]?.type ?? (input[index + 1]?.role === 'assistant' ? 'message' : ''),
      )
    )
      throw invalid(path, 'was given without the item that followed it')
    if (item['type'] === 'function_call') {
      if (item['call_id'].length > MAX_CALL_ID)
        throw invalid(`${path}.call_id`, `must be at most ${MAX_CALL_ID} characters long`)
      calls.set(item['call_id'], index)
    }
    if (item['type'] === 'function_call_output' && !calls.delete(item['call_id']))
      throw invalid(`${path}.call_id`, 'must answer a call before it')
  }
  for (const [, index] of calls) throw invalid(`input[${index}].call_id`, 'has no output')
}

const PREFIXES: ReadonlyMap<unknown, string> = new Map([
  ['reasoning', 'rs_'],
  ['function_call', 'fc_'],
])

/**
 * Calls are answered in the next message, first in it and all of them; no empty text; thinking leaves room and forbids
 * forcing.
 */
function messagesRules(body: Json): void {
  const messages = body['messages'] as Json[]
  if (messages[0]?.['role'] !== 'user') throw invalid('messages[0].role', "must be 'user'")
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}].content`
    if (message['content'] === '') throw invalid(path, 'must not be empty')
    const blocks = blocksOf(message)
    const bad = blocks.findIndex(
      (block) =>
        (block['type'] === 'text' && !/\S/.test(block['text'])) ||
        (block['type'] === 'tool_use' && !/^[a-zA-Z0-9_-]+$/.test(block['id'])),
    )
    if (bad >= 0)
      throw invalid(
        `${path}[${bad}]`,
        blocks[bad]!['type'] === 'text' ? 'text must not be empty' : 'id must be made of letters, digits, _ and -',
      )
    answersAll(blocks, index === 0 ? [] : blocksOf(messages[index - 1]!), path)
  }
  const asked = blocksOf(messages.at(-1)!).some((block) => block['type'] === 'tool_use')
  if (asked) throw invalid('messages', 'must end with the tool_result of each tool_use')
  if ((body['temperature'] ?? 0) > 1) throw invalid('temperature', 'must be at most 1')
  const thinking = body['thinking'] as Json | undefined
  if (thinking?.['type'] !== 'enabled') return
  if (!(thinking['budget_tokens'] >= 1024 && thinking['budget_tokens'] < body['max_tokens']))
    throw invalid('thinking.budget_tokens', 'must be at least 1024 and below max_tokens')
  if (!['auto', 'none', undefined].includes(body['tool_choice']?.type))
    throw invalid('tool_choice', 'must not force a tool while thinking is on')
  if ((body['temperature'] ?? 1) !== 1) throw invalid('temperature', 'must be 1 while thinking is on')
}

function answersAll(blocks: Json[], before: Json[], path: string): void {
  const calls = before.flatMap((block) => (block['type'] === 'tool_use' ? [block['id'] as string] : []))
  const results = blocks.flatMap((block) => (block['type'] === 'tool_result' ? [block['tool_use_id'] as string] : []))
  const unanswered = calls.find((id) => !results.includes(id))
  if (unanswered !== undefined) throw invalid(path, `must begin with the tool_result of ${unanswered}`)
  const stray = results.findIndex((id) => !calls.includes(id))
  if (stray >= 0)
    throw invalid(path, `holds a tool_result for ${results[stray]}, which was not called in the message before`)
  if (results.length > 0 && blocks.slice(0, results.length).some((block) => block['type'] !== 'tool_result'))
    throw invalid(path, 'must hold its tool_result blocks before all others')
}

const blocksOf = ({ content }: Json): Json[] => (Array.isArray(content) ? (content as Json[]) : [])

/**
 * As many responses as calls in the content after them; the first call of a round is signed; schemas are of Google's
 * dialect.
 */
function geminiRules({ contents, tools }: Json): void {
  for (const [index, content] of (contents as Json[]).entries()) {
    const path = `contents[${index}]`
    const calls = countOf(content, 'functionCall')
    const answers = countOf((contents as Json[])[index + 1], 'functionResponse')
    if (calls !== answers && (calls > 0 || content['role'] === 'model'))
      throw invalid(path, `must be followed by as many function responses as it holds calls (${calls}), not ${answers}`)
    const first = (content['parts'] as Json[]).findIndex((part) => part['functionCall'] !== undefined)
    if (first >= 0 && typeof content['parts'][first]['thoughtSignature'] !== 'string')
      throw invalid(`${path}.parts[${first}]`, 'the first function call is missing a thoughtSignature')
  }
  for (const [index, tool] of ((tools ?? []) as Json[]).entries()) {
    for (const [at, declaration] of ((tool['functionDeclarations'] ?? []) as Json[]).entries()) {
      const odd = foreignKeyword(declaration['parameters'])
      if (odd !== undefined)
        throw invalid(`tools[${index}].functionDeclarations[${at}].parameters`, `must not use '${odd}'`)
    }
  }
}

const countOf = (content: Json | undefined, kind: string): number =>
  ((content?.['parts'] ?? []) as Json[]).filter((part) => part[kind] !== undefined).length

const FOREIGN_KEYWORDS = names(
  '$ref $defs $schema definitions additionalProperties const oneOf allOf not patternProperties exclusiveMinimum exclusiveMaximum',
)

/** The first keyword of JSON Schema that Google's `Schema` does not have. */
function foreignKeyword(schema: unknown): string | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined
  const { properties, ...rest } = schema as Json
  for (const [name, value] of Object.entries(rest)) {
    if (FOREIGN_KEYWORDS.has(name)) return name
    const inside = Array.isArray(value)
      ? value.map(foreignKeyword).find((found) => found !== undefined)
      : foreignKeyword(value)
    if (inside !== undefined) return inside
  }
  return Object.values((properties ?? {}) as Json)
    .map(foreignKeyword)
    .find((found) => found !== undefined)
}

const isEmpty = (content: unknown): boolean =>
  content === undefined || content === null || content === '' || (Array.isArray(content) && content.length === 0)
