import type { ConversationName } from '../../src/generation/request.ts'
import type { Json } from './agents.ts'

/** Rules by which the real services refuse requests, written independently of the readers and writers in src/. */

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '))
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : [])

export class Refused extends Error {}

const refuse = (path: string, problem: string): never => {
  throw new Refused(`${path}: ${problem}`)
}
const ensure = (isValid: boolean, path: string, problem: string): void => {
  if (!isValid) refuse(path, problem)
}

function onlyKnown(value: Json, known: ReadonlySet<string>, path: string): void {
  for (const name of Object.keys(value)) ensure(known.has(name), `${path}.${name}`, 'unknown field')
}

const TOP: Record<ConversationName, ReadonlySet<string>> = {
  'chat.completions': words(
    'frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages metadata model n ' +
      'parallel_tool_calls presence_penalty prompt_cache_key reasoning reasoning_effort response_format seed ' +
      'service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user ' +
      'verbosity web_search_options',
  ),
  responses: words(
    'client_metadata include input instructions max_output_tokens metadata model parallel_tool_calls ' +
      'prompt_cache_key reasoning service_tier store stream temperature text tool_choice tools top_logprobs top_p ' +
      'truncation user',
  ),
  messages: words(
    'context_management max_tokens messages metadata model output_config service_tier stop_sequences stream ' +
      'mcp_servers system temperature thinking tool_choice tools top_k top_p',
  ),
  generateContent: words('contents generationConfig safetySettings serviceTier systemInstruction toolConfig tools'),
}

const CALL_ID = 64
/** The longest user id and cache key. */
const LABEL = 64
const FUNCTION_NAME = /^[a-zA-Z0-9_-]{1,64}$/

const CHAT_MESSAGE = words(
  'role content name tool_calls tool_call_id refusal reasoning reasoning_content reasoning_details',
)

function labelRules({ user, prompt_cache_key: key }: Json): void {
  ensure((user ?? '').length <= LABEL, 'user', 'too long')
  ensure((key ?? '').length <= LABEL, 'prompt_cache_key', 'too long')
}

function chatRules(body: Json): void {
  labelRules(body)
  for (const [index, { type, function: own, custom, ...rest }] of listOf(body.tools).entries()) {
    const path = `tools[${index}]`
    ensure(type === 'function' && custom === undefined, path, 'must be a function')
    onlyKnown(rest, words(''), path)
    onlyKnown(own, words('name description parameters strict'), `${path}.function`)
    ensure(FUNCTION_NAME.test(own.name), `${path}.function.name`, 'outside the grammar')
  }
  let open: string[] = []
  for (const [index, message] of listOf(body.messages).entries()) {
    const path = `messages[${index}]`
    onlyKnown(message, CHAT_MESSAGE, path)
    if (message.role === 'tool') {
      ensure(open.includes(message.tool_call_id), path, 'answers no call of the message before')
      ensure(
        typeof message.content === 'string' || listOf(message.content).every(({ type }) => type === 'text'),
        path,
        'a tool message is text',
      )
      open = open.filter((id) => id !== message.tool_call_id)
      continue
    }
    ensure(open.length === 0, path, `calls without results: ${open.join(', ')}`)
    open = listOf(message.tool_calls).map((call) => {
      ensure(
        call.id.length <= CALL_ID && FUNCTION_NAME.test(call.function.name),
        path,
        'id or name of a call outside the grammar',
      )
      JSON.parse(call.function.arguments)
      return call.id as string
    })
    ensure(message.role !== 'assistant' || open.length > 0 || !isEmpty(message.content), path, 'an empty answer')
  }
  ensure(open.length === 0, 'messages', 'ends with calls')
}

const isEmpty = (content: unknown): boolean =>
  content == null || content === '' || (Array.isArray(content) && content.length === 0)

const ITEMS: Record<string, ReadonlySet<string>> = {
  message: words('type id role content status phase'),
  reasoning: words('type id summary content encrypted_content status'),
  function_call: words('type id call_id name namespace arguments status'),
  custom_tool_call: words('type id call_id name namespace input status'),
  function_call_output: words('type id call_id output status'),
  custom_tool_call_output: words('type id call_id output status'),
  additional_tools: words('type id role tools'),
  agent_message: words('type id author recipient content'),
}
const ITEM_PREFIX: Record<string, string> = {
  message: 'msg_',
  reasoning: 'rs_',
  function_call: 'fc_',
  custom_tool_call: 'ctc_',
}

function responsesRules(body: Json): void {
  labelRules(body)
  for (const [index, tool] of listOf(body.tools).entries()) {
    ensure(
      words('function custom namespace web_search image_generation tool_search code_interpreter mcp').has(tool.type),
      `tools[${index}].type`,
      'unknown kind of tool',
    )
    if (tool.type === 'function') {
      onlyKnown(tool, words('type name description parameters strict defer_loading'), `tools[${index}]`)
      ensure(FUNCTION_NAME.test(tool.name), `tools[${index}].name`, 'outside the grammar')
    }
  }
  const seen = new Set<string>()
  const open = new Map<string, number>()
  for (const [index, item] of listOf(body.input).entries()) {
    const path = `input[${index}]`
    const type = item.type ?? 'message'
    onlyKnown(item, ITEMS[type] ?? refuse(path, `unknown item ${type}`), path)
    if (item.id !== undefined) {
      ensure(!seen.has(item.id), `${path}.id`, 'given twice')
      ensure(
        ITEM_PREFIX[type] === undefined || (item.id.startsWith(ITEM_PREFIX[type]) && item.id.length <= CALL_ID),
        `${path}.id`,
        `must begin with ${ITEM_PREFIX[type]}`,
      )
      seen.add(item.id)
    }
    if (type === 'message')
      for (const part of listOf(item.content))
        ensure(
          (item.role === 'assistant') === (part.type === 'output_text' || part.type === 'refusal'),
          path,
          `${part.type} from ${item.role}`,
        )
    if (type === 'reasoning')
      ensure(
        ['reasoning', 'message', 'assistant', 'function_call', 'custom_tool_call'].includes(
          body.input[index + 1]?.type ?? body.input[index + 1]?.role,
        ),
        path,
        'reasoning without what followed it',
      )
    if (type.endsWith('_call')) {
      ensure(
        item.call_id.length <= CALL_ID && FUNCTION_NAME.test(item.name),
        path,
        'id or name of a call outside the grammar',
      )
      if (type === 'function_call') JSON.parse(item.arguments)
      open.set(item.call_id, index)
    }
    if (type.endsWith('_output')) ensure(open.delete(item.call_id), path, 'answers no call')
  }
  for (const [, index] of open) refuse(`input[${index}]`, 'a call without a result')
}

const BLOCKS: Record<string, ReadonlySet<string>> = {
  text: words('type text cache_control citations'),
  image: words('type source cache_control'),
  document: words('type source title context cache_control citations'),
  thinking: words('type thinking signature'),
  redacted_thinking: words('type data'),
  tool_use: words('type id name input cache_control caller'),
  tool_result: words('type tool_use_id content is_error cache_control'),
  tool_reference: words('type tool_name'),
}
const MESSAGES_TOOL = words(
  'type name description input_schema cache_control strict defer_loading eager_input_streaming ' +
    'allowed_callers input_examples',
)
const TOOL_ID = /^[a-zA-Z0-9_-]+$/

function messagesRules(body: Json, betas: string): void {
  ensure(Number.isInteger(body.max_tokens), 'max_tokens', 'is required')
  for (const [index, tool] of listOf(body.tools).entries()) {
    if (/^(web_search_|code_execution_|mcp_toolset$)/.test(tool.type)) continue
    onlyKnown(tool, MESSAGES_TOOL, `tools[${index}]`)
    ensure(/^[a-zA-Z0-9_-]{1,128}$/.test(tool.name), `tools[${index}].name`, 'outside the grammar')
    ensure(tool.input_schema?.type === 'object', `tools[${index}].input_schema.type`, 'must be object')
    ensure(
      tool.defer_loading !== true || betas.includes('advanced-tool-use'),
      `tools[${index}].defer_loading`,
      'unknown without its beta',
    )
  }
  const { thinking, tool_choice: choice } = body
  ensure(
    body.context_management === undefined || betas.includes('context-management'),
    'context_management',
    'unknown without its beta',
  )
  if (thinking !== undefined) onlyKnown(thinking, words('type budget_tokens display'), 'thinking')
  if (thinking?.type === 'enabled')
    ensure(
      thinking.budget_tokens >= 1024 && thinking.budget_tokens < body.max_tokens,
      'thinking.budget_tokens',
      'must be at least 1024 and below max_tokens',
    )
  if (thinking !== undefined && thinking.type !== 'disabled') {
    ensure((body.temperature ?? 1) === 1 && body.top_k === undefined, 'temperature', 'must be 1 while thinking is on')
    ensure(
      choice === undefined || choice.type === 'auto' || choice.type === 'none',
      'tool_choice',
      'must not be forced while thinking is on',
    )
  }
  ensure(JSON.stringify(body).split('"cache_control":{').length - 1 <= 4, 'cache_control', 'at most four')
  const messages = listOf(body.messages)
  ensure(messages[0]?.role === 'user', 'messages[0].role', 'must be user')
  let pending: string[] = []
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`
    onlyKnown(message, words('role content'), path)
    ensure(
      message.role !== 'system' || betas.includes('claude-code'),
      path,
      'role system, which only the newest models take',
    )
    if (message.role === 'system') continue
    const blocks =
      typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : listOf(message.content)
    ensure(blocks.length > 0, path, 'empty')
    const results = blocks
      .filter(({ type }) => type === 'tool_result')
      .map((block) => (block as Json).tool_use_id as string)
    ensure(
      results.length === pending.length && pending.every((id) => results.includes(id)),
      path,
      `must have the results of ${pending.join(', ')}, has those of ${results.join(', ')}`,
    )
    ensure(
      blocks.slice(0, results.length).every(({ type }) => type === 'tool_result'),
      path,
      'results must come first',
    )
    for (const block of blocks as Json[]) blockRules(block, path, message.role)
    pending = (blocks as Json[]).filter(({ type }) => type === 'tool_use').map(({ id }) => id as string)
    const firstCall = blocks.findIndex(({ type }) => type === 'tool_use')
    ensure(
      firstCall < 0 || blocks.slice(firstCall).every(({ type }) => type === 'tool_use' || type === 'redacted_thinking'),
      path,
      'nothing may follow a call',
    )
  }
  ensure(pending.length === 0, 'messages', 'ends with calls')
}

function blockRules(block: Json, path: string, role: string): void {
  onlyKnown(block, BLOCKS[block.type] ?? refuse(path, `unknown block ${block.type}`), path)
  if (block.type === 'text') ensure(/\S/.test(block.text), path, 'empty text')
  if (block.type === 'tool_use')
    ensure(
      TOOL_ID.test(block.id) && typeof block.input === 'object' && role === 'assistant',
      path,
      'a call outside the grammar',
    )
  if (block.type === 'thinking')
    ensure(typeof block.signature === 'string' && block.signature !== '', path, 'thinking without a signature')
  for (const inner of listOf(block.content))
    onlyKnown(inner, BLOCKS[inner.type] ?? refuse(path, `unknown block ${inner.type}`), path)
}

const PARTS = words('text thought thoughtSignature inlineData fileData functionCall functionResponse')
const CONFIG = words(
  'temperature topP topK maxOutputTokens stopSequences candidateCount seed presencePenalty frequencyPenalty ' +
    'responseMimeType responseSchema responseJsonSchema responseModalities responseLogprobs logprobs thinkingConfig',
)

function geminiRules(body: Json): void {
  onlyKnown(body.generationConfig ?? {}, CONFIG, 'generationConfig')
  const thinking = body.generationConfig?.thinkingConfig ?? {}
  onlyKnown(thinking, words('includeThoughts thinkingBudget thinkingLevel'), 'generationConfig.thinkingConfig')
  ensure(
    thinking.thinkingBudget === undefined || thinking.thinkingLevel === undefined,
    'thinkingConfig',
    'budget and level',
  )
  for (const tool of listOf(body.tools)) {
    onlyKnown(tool, words('functionDeclarations googleSearch codeExecution'), 'tools')
    for (const one of listOf(tool.functionDeclarations)) {
      onlyKnown(one, words('name description parameters parametersJsonSchema'), one.name)
      ensure(/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/.test(one.name), one.name, 'outside the grammar')
      ensure(one.parameters === undefined || one.parametersJsonSchema === undefined, one.name, 'two schemas')
    }
  }
  ensure(
    listOf(body.tools).length < 2 || !JSON.stringify(body.tools).includes('googleSearch'),
    'tools',
    'search beside functions',
  )
  const contents = listOf(body.contents)
  for (const [index, { role, parts, ...rest }] of contents.entries()) {
    const path = `contents[${index}]`
    onlyKnown(rest, words(''), path)
    ensure(role === 'user' || role === 'model', `${path}.role`, 'must be user or model')
    ensure(listOf(parts).length > 0, path, 'no parts')
    for (const part of parts as Json[]) onlyKnown(part, PARTS, path)
    const calls = (parts as Json[])
      .filter(({ functionCall }) => functionCall !== undefined)
      .map(({ functionCall }) => functionCall.name as string)
    const results = listOf(contents[index + 1]?.parts)
      .filter(({ functionResponse }) => functionResponse !== undefined)
      .map(({ functionResponse }) => functionResponse.name as string)
    const stray =
      (parts as Json[]).some(({ functionResponse }) => functionResponse !== undefined) &&
      !listOf(contents[index - 1]?.parts).some(({ functionCall }) => functionCall !== undefined)
    ensure(
      role !== 'model' || calls.join() === results.join(),
      path,
      `calls ${calls.join()} are followed by the responses of ${results.join()}`,
    )
    ensure(!stray, path, 'a response without a call')
    const first = (parts as Json[]).find(({ functionCall }) => functionCall !== undefined)
    ensure(
      first === undefined || typeof first.thoughtSignature === 'string',
      path,
      'Function call is missing a thought_signature',
    )
  }
}

/** Throws the refusal of the protocol's service for a body. `betas`: the anthropic-beta header of the request. */
export function checkBody(protocol: ConversationName, body: Json, betas: string): void {
  onlyKnown(body, TOP[protocol], 'body')
  ;({
    'chat.completions': chatRules,
    responses: responsesRules,
    messages: (one: Json) => messagesRules(one, betas),
    generateContent: geminiRules,
  })[protocol](body)
}
