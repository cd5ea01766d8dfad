import { invalid } from '../../error.ts'
import type { ConversationName } from '../../generation/request.ts'

/** The members that the rules below read. The protocol's reader has checked their shapes. */
type ChatBody = { messages: ChatMessage[] }
type ChatMessage = {
  role: string
  content?: unknown
  refusal?: string | null
  tool_call_id?: string
  tool_calls?: { id: string }[] | null
}
type ResponsesBody = { input?: string | ResponsesItem[] }
type ResponsesItem = { type?: string; role?: string; id?: string; call_id?: string }
type MessagesBody = {
  messages: Message[]
  max_tokens: number
  temperature?: number
  thinking?: { type: string; budget_tokens?: number }
  tool_choice?: { type: string }
}
type Message = { role: string; content: string | Block[] }
type Block = { type: string; text?: string; id?: string; tool_use_id?: string }
type GeminiBody = { contents: Content[]; tools?: { functionDeclarations?: { parameters?: unknown }[] }[] }
type Content = { role?: string; parts?: ContentPart[] }
type ContentPart = { functionCall?: object; functionResponse?: object; thoughtSignature?: unknown }

/**
 * Rules that the real services enforce beyond the shapes, taken from their responses. `[[strict]]` turns them on, so
 * that an application (or a translator) can prove that its history would be accepted. Throws a 400 that names the path.
 */
export function checkRules(protocol: ConversationName, body: Record<string, unknown>): void {
  const unknown = Object.keys(body).find((name) => !KNOWN_PARAMETERS[protocol].has(name))
  if (unknown !== undefined) throw invalid(unknown, 'is not a parameter of this API')
  switch (protocol) {
    case 'chat.completions':
      return checkChat(body as ChatBody)
    case 'responses':
      return checkResponses(body as ResponsesBody)
    case 'messages':
      return checkMessages(body as MessagesBody)
    case 'generateContent':
      return checkGemini(body as GeminiBody)
  }
}

const words = (...lines: string[]): ReadonlySet<string> => new Set(lines.join(' ').split(' '))

/** `client_metadata` is undocumented, but OpenAI accepts it from Codex. */
const KNOWN_PARAMETERS: Record<ConversationName, ReadonlySet<string>> = {
  'chat.completions': words(
    'audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities model n',
    'parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort',
    'response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice',
    'tools top_logprobs top_p user verbosity web_search_options',
  ),
  responses: words(
    'background client_metadata context_management conversation include input instructions max_output_tokens',
    'max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key',
    'prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text',
    'tool_choice tools top_logprobs top_p truncation user',
  ),
  messages: words(
    'cache_control container context_management inference_geo max_tokens mcp_servers messages metadata model',
    'output_config service_tier stop_sequences stream system temperature thinking tool_choice tools top_k top_p',
  ),
  generateContent: words(
    'cachedContent contents generationConfig model safetySettings serviceTier store systemInstruction toolConfig tools',
  ),
}

const MAX_CALL_ID = 64

/** Tool messages follow their calls directly, one for each call; an assistant message has text, a refusal or calls. */
function checkChat({ messages }: ChatBody): void {
  let unanswered = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`
    if (message.role === 'tool') {
      if (!unanswered.delete(message.tool_call_id ?? ''))
        throw invalid(`${path}.tool_call_id`, 'must be the id of a call in the preceding assistant message')
      continue
    }
    if (unanswered.size > 0) throw invalid(path, `must follow the results of ${[...unanswered].join(', ')}`)
    const calls = message.tool_calls ?? []
    const long = calls.findIndex((call) => call.id.length > MAX_CALL_ID)
    if (long >= 0) throw invalid(`${path}.tool_calls[${long}].id`, `must be at most ${MAX_CALL_ID} characters long`)
    const hasContent = calls.length > 0 || !isEmpty(message.content) || (message.refusal ?? null) !== null
    if (message.role === 'assistant' && !hasContent)
      throw invalid(`${path}.content`, 'must not be empty without tool_calls')
    unanswered = new Set(calls.map((call) => call.id))
  }
  if (unanswered.size > 0) throw invalid('messages', `must end with the results of ${[...unanswered].join(', ')}`)
}

/** Every call has an output and every output a call; ids have their item's prefix; reasoning has its next item. */
function checkResponses({ input }: ResponsesBody): void {
  if (!Array.isArray(input)) return
  const callIndexes = new Map<string, number>()
  for (const [index, item] of input.entries()) {
    const path = `input[${index}]`
    const prefix = ID_PREFIXES.get(item.type)
    if (typeof item.id === 'string' && prefix !== undefined && !item.id.startsWith(prefix))
      throw invalid(`${path}.id`, `must begin with '${prefix}'`)
    if (item.type === 'reasoning' && !mayFollowReasoning(input[index + 1]))
      throw invalid(path, 'must be followed by the message or call that it led to')
    if (item.type === 'function_call') {
      const callId = item.call_id ?? ''
      if (callId.length > MAX_CALL_ID)
        throw invalid(`${path}.call_id`, `must be at most ${MAX_CALL_ID} characters long`)
      callIndexes.set(callId, index)
    }
    if (item.type === 'function_call_output' && !callIndexes.delete(item.call_id ?? ''))
      throw invalid(`${path}.call_id`, 'must be the call_id of an earlier function_call')
  }
  for (const [, index] of callIndexes) throw invalid(`input[${index}].call_id`, 'has no function_call_output')
}

const ID_PREFIXES: ReadonlyMap<unknown, string> = new Map([
  ['reasoning', 'rs_'],
  ['function_call', 'fc_'],
])

const REASONING_FOLLOWERS: ReadonlySet<string> = new Set(['reasoning', 'function_call', 'custom_tool_call', 'message'])

const mayFollowReasoning = (item: ResponsesItem | undefined): boolean =>
  REASONING_FOLLOWERS.has(item?.type ?? (item?.role === 'assistant' ? 'message' : ''))

/** All results of a message's calls come first in the next message; no text is empty; thinking limits other options. */
function checkMessages(body: MessagesBody): void {
  const { messages } = body
  if (messages[0]?.role !== 'user') throw invalid('messages[0].role', "must be 'user'")
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}].content`
    if (message.content === '') throw invalid(path, 'must not be empty')
    const blocks = blocksOf(message)
    for (const [at, block] of blocks.entries()) checkBlock(block, `${path}[${at}]`)
    checkResults(blocks, index === 0 ? [] : blocksOf(messages[index - 1]!), path)
  }
  if (blocksOf(messages.at(-1)!).some((block) => block.type === 'tool_use'))
    throw invalid('messages', 'must end with the tool_result of each tool_use')
  if ((body.temperature ?? 0) > 1) throw invalid('temperature', 'must be at most 1')
  if (body.thinking?.type === 'enabled') checkThinking(body, body.thinking.budget_tokens ?? 0)
}

function checkBlock(block: Block, path: string): void {
  if (block.type === 'text' && !/\S/.test(block.text ?? '')) throw invalid(path, 'text must not be empty')
  if (block.type === 'tool_use' && !/^[a-zA-Z0-9_-]+$/.test(block.id ?? ''))
    throw invalid(path, 'id must contain only letters, digits, _ and -')
}

function checkThinking({ max_tokens, temperature, tool_choice }: MessagesBody, budget: number): void {
  if (budget < 1024 || budget >= max_tokens)
    throw invalid('thinking.budget_tokens', 'must be at least 1024 and below max_tokens')
  if (!['auto', 'none'].includes(tool_choice?.type ?? 'auto'))
    throw invalid('tool_choice', 'must not force a tool while thinking is enabled')
  if ((temperature ?? 1) !== 1) throw invalid('temperature', 'must be 1 while thinking is enabled')
}

function checkResults(blocks: Block[], previousBlocks: Block[], path: string): void {
  const calls = previousBlocks.filter((block) => block.type === 'tool_use').map((block) => block.id)
  const results = blocks.filter((block) => block.type === 'tool_result').map((block) => block.tool_use_id)
  const unanswered = calls.find((id) => !results.includes(id))
  if (unanswered !== undefined) throw invalid(path, `must begin with the tool_result of ${unanswered}`)
  const unmatched = results.find((id) => !calls.includes(id))
  if (unmatched !== undefined)
    throw invalid(path, `has a tool_result for ${unmatched}, which the preceding message did not call`)
  if (blocks.slice(0, results.length).some((block) => block.type !== 'tool_result'))
    throw invalid(path, 'must have its tool_result blocks before all others')
}

const blocksOf = ({ content }: Message): Block[] => (Array.isArray(content) ? content : [])

/** As many function responses as calls; the first call of a turn is signed; schemas are in Google's dialect. */
function checkGemini({ contents, tools }: GeminiBody): void {
  /** The number of calls in contents of the model that follow one another: Google's SDK keeps each chunk as one. */
  let calls = 0
  for (const [index, content] of contents.entries()) {
    const path = `contents[${index}]`
    const parts = content.parts ?? []
    const first = parts.findIndex((part) => part.functionCall !== undefined)
    if (calls === 0 && first >= 0 && typeof parts[first]!.thoughtSignature !== 'string')
      throw invalid(`${path}.parts[${first}]`, 'the first function call is missing a thoughtSignature')
    calls += countParts(content, 'functionCall')
    const next = contents[index + 1]
    if (content.role === 'model' && next?.role === 'model') continue
    const responses = countParts(next, 'functionResponse')
    if (calls !== responses && (calls > 0 || content.role === 'model'))
      throw invalid(
        path,
        `must be followed by as many function responses as it has function calls (${calls}), not ${responses}`,
      )
    calls = 0
  }
  for (const [index, tool] of (tools ?? []).entries()) {
    for (const [at, declaration] of (tool.functionDeclarations ?? []).entries()) {
      const keyword = unsupportedKeyword(declaration.parameters)
      if (keyword !== undefined)
        throw invalid(`tools[${index}].functionDeclarations[${at}].parameters`, `must not use '${keyword}'`)
    }
  }
}

const countParts = (content: Content | undefined, kind: 'functionCall' | 'functionResponse'): number =>
  (content?.parts ?? []).filter((part) => part[kind] !== undefined).length

const UNSUPPORTED_KEYWORDS = words(
  '$ref $defs $schema definitions additionalProperties const oneOf allOf not patternProperties exclusiveMinimum',
  'exclusiveMaximum',
)

/** The first JSON Schema keyword that Google's `Schema` does not have. */
function unsupportedKeyword(schema: unknown): string | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined
  const { properties, ...keywords } = schema as { properties?: Record<string, unknown> }
  for (const [name, value] of Object.entries(keywords)) {
    if (UNSUPPORTED_KEYWORDS.has(name)) return name
    const nested = Array.isArray(value) ? firstUnsupportedKeyword(value) : unsupportedKeyword(value)
    if (nested !== undefined) return nested
  }
  return firstUnsupportedKeyword(Object.values(properties ?? {}))
}

const firstUnsupportedKeyword = (schemas: unknown[]): string | undefined =>
  schemas.map(unsupportedKeyword).find((keyword) => keyword !== undefined)

const isEmpty = (content: unknown): boolean =>
  content === undefined || content === null || content === '' || (Array.isArray(content) && content.length === 0)
