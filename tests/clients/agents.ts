/**
 * The coding agents as a gateway meets them: bodies of the shape that each sends, answers read the way each reads them, and history
 * sent back as each keeps it. The words are ours.
 */

export type Json = Record<string, any>
export type Wire = { url: string; key: string }

/** One frame of a stream as it stood on the wire. */
export type SseFrame = { event?: string; data: string }

/** Frames of a whole stream; lines that are no frame's (comments) are left out. */
export const framesOf = (text: string): SseFrame[] =>
  text.split('\n\n').filter((block) => /^data:/m.test(block)).map((block) => {
    const event = /^event: (.*)$/m.exec(block)?.[1]
    return { ...(event === undefined ? {} : { event }), data: [...block.matchAll(/^data: ?(.*)$/gm)].map((line) => line[1]).join('\n') }
  })

export const jsonFrames = (text: string): Json[] => framesOf(text).filter(({ data }) => data !== '[DONE]').map(({ data }) => JSON.parse(data) as Json)

export type Call = { id: string; name: string; input: Json; place: unknown }
export type Turn = { text: string; calls: Call[] }

/** An agent: where it posts, what it sends first, what it makes of a stream, and how it goes on with the results. */
export type Agent = {
  name: string
  /** The name of the tool it runs commands with, and what it calls the command. */
  tool: string
  argument: string
  path(model: string): string
  headers(key: string): Record<string, string>
  first(model: string, prompt: string): Json
  read(stream: string): Turn
  /** The next body: what came goes into the history, then the results. */
  next(body: Json, stream: string, outputs: string[]): Json
}

const COMMAND = { type: 'object', properties: { cmd: { type: 'string' }, command: { type: 'string' } }, additionalProperties: false }
const DRAFT = { $schema: 'https://json-schema.org/draft/2020-12/schema', ...COMMAND }

export const codex: Agent = {
  name: 'codex', tool: 'exec_command', argument: 'cmd',
  path: () => '/v1/responses',
  headers: (key) => ({ authorization: `Bearer ${key}`, accept: 'text/event-stream', 'x-client-request-id': 'c1', 'session-id': 's1', 'thread-id': 's1', originator: 'codex_exec' }),
  first: (model, prompt) => ({
    model, stream: true, store: false, tool_choice: 'auto', parallel_tool_calls: true,
    reasoning: { summary: 'auto' }, include: ['reasoning.encrypted_content'], prompt_cache_key: 'session-1', client_metadata: { session_id: 's1', turn_id: 't1' },
    input: [
      { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'You write code.' }] },
      { type: 'message', id: 'msg_2', role: 'developer', content: [{ type: 'input_text', text: 'Skills: none.' }, { type: 'input_text', text: 'Permissions: all.' }] },
      { type: 'message', id: 'msg_3', role: 'user', content: [{ type: 'input_text', text: '<environment>cwd /tmp</environment>' }] },
      { type: 'message', id: 'msg_4', role: 'user', content: [{ type: 'input_text', text: prompt }] },
    ],
    tools: [
      { type: 'function', name: 'exec_command', description: 'Runs a command.', strict: false, parameters: COMMAND },
      { type: 'namespace', name: 'agents', description: 'Helpers.', tools: [{ type: 'function', name: 'spawn', description: 'Starts one.', strict: false, parameters: COMMAND }] },
      { type: 'web_search', external_web_access: true },
    ],
  }),
  read: (stream) => {
    const done = jsonFrames(stream).filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as Json)
    return {
      text: done.filter(({ type }) => type === 'message').map(({ content }) => content.map(({ text }: Json) => text).join('')).join(''),
      calls: done.filter(({ type }) => type === 'function_call').map((item) => ({ id: item.call_id, name: item.name, input: JSON.parse(item.arguments), place: item })),
    }
  },
  next: (body, stream, outputs) => {
    const items = jsonFrames(stream).filter(({ type }) => type === 'response.output_item.done')
      .map(({ item }) => (item.type === 'reasoning' ? { type: 'reasoning', id: item.id, summary: item.summary, content: null, encrypted_content: item.encrypted_content } : item))
    const results = codex.read(stream).calls.map(({ id }, i) => ({ type: 'function_call_output', id: `fco_${id}`, call_id: id, output: outputs[i] }))
    return { ...body, input: [...body.input, ...items, ...results] }
  },
}

const gather = (stream: string): Json[] => {
  const blocks: Json[] = []
  for (const frame of jsonFrames(stream)) {
    if (frame.type === 'content_block_start') blocks[frame.index] = { ...frame.content_block, ...(frame.content_block.type === 'tool_use' ? { partial: '' } : {}) }
    const { type, text, thinking, signature, partial_json } = frame.delta ?? {}
    const block = blocks[frame.index] as Json
    if (type === 'text_delta') block.text += text
    if (type === 'thinking_delta') block.thinking += thinking
    if (type === 'signature_delta') block.signature = signature
    if (type === 'input_json_delta') block.partial += partial_json
  }
  return blocks.map(({ partial, ...block }) => (partial === undefined ? block : { ...block, input: partial === '' ? block.input : JSON.parse(partial) }))
}

export const claudeCode: Agent = {
  name: 'Claude Code', tool: 'Bash', argument: 'command',
  path: () => '/v1/messages?beta=true',
  headers: (key) => ({ authorization: `Bearer ${key}`, accept: 'application/json', 'anthropic-version': '2023-06-01', 'x-claude-code-session-id': 's1', 'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20,effort-2025-11-24' }),
  first: (model, prompt) => ({
    model, max_tokens: 32000, stream: true, thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }, metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
    system: [{ type: 'text', text: 'x-billing: v1;' }, { type: 'text', text: 'You write code.', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: '<reminder>Sign your work.</reminder>' }, { type: 'text', text: prompt }] },
      { role: 'system', content: [{ type: 'text', text: 'ENVIRONMENT: /tmp', cache_control: { type: 'ephemeral' } }] },
    ],
    tools: [
      { name: 'Bash', description: 'Runs a command.', input_schema: DRAFT },
      { name: 'Later', description: 'Is loaded when it is looked for.', input_schema: DRAFT, defer_loading: true },
    ],
  }),
  read: (stream) => {
    const blocks = gather(stream)
    return {
      // What is printed at the end is the last block's text.
      text: blocks.at(-1)?.text ?? '',
      calls: blocks.filter(({ type }) => type === 'tool_use').map((block) => ({ id: block.id, name: block.name, input: block.input, place: block })),
    }
  },
  next: (body, stream, outputs) => {
    const results = claudeCode.read(stream).calls.map(({ id }, i) => ({ tool_use_id: id, type: 'tool_result', content: outputs[i], is_error: false, cache_control: { type: 'ephemeral' } }))
    const [user, system, ...rest] = body.messages
    return { ...body, messages: [user, { ...system, content: 'ENVIRONMENT: /tmp' }, ...rest, { role: 'assistant', content: gather(stream) }, { role: 'user', content: results }] }
  },
}

export const geminiCli: Agent = {
  name: 'gemini-cli', tool: 'run_shell_command', argument: 'command',
  path: (model) => `/v1/publishers/${model.replace('/', '/models/')}:streamGenerateContent?alt=sse`,
  headers: (key) => ({ 'x-goog-api-key': key, accept: '*/*', 'x-goog-api-client': 'google-genai-sdk/1.30.0 gl-node/v22' }),
  first: (_model, prompt) => ({
    contents: [{ role: 'user', parts: [{ text: '<context>Today is a day.</context>' }, { text: prompt }] }],
    systemInstruction: { role: 'user', parts: [{ text: 'You write code.' }] },
    tools: [{ functionDeclarations: [{ name: 'run_shell_command', description: 'Runs a command.', parametersJsonSchema: DRAFT }] }],
    generationConfig: { temperature: 1, topP: 0.95, topK: 64, thinkingConfig: { includeThoughts: true } },
  }),
  read: (stream) => {
    const parts = jsonFrames(stream).flatMap(({ candidates }) => (candidates?.[0]?.content?.parts ?? []) as Json[])
    return {
      text: parts.filter(({ thought }) => thought !== true).map(({ text }) => text ?? '').join(''),
      calls: parts.filter(({ functionCall }) => functionCall !== undefined).map((part) => ({ id: part.functionCall.id, name: part.functionCall.name, input: part.functionCall.args, place: part })),
    }
  },
  // Thoughts are dropped, the signature of a call is kept.
  next: (body, stream, outputs) => {
    const { calls } = geminiCli.read(stream)
    return { ...body, contents: [...body.contents, { role: 'model', parts: calls.map(({ place }) => place) }, { role: 'user', parts: calls.map(({ id, name }, i) => ({ functionResponse: { id, name, response: { output: outputs[i] } } })) }] }
  },
}

const chatTurn = (stream: string): Turn & { reasoning: string } => {
  const calls: { id: string; name: string; text: string }[] = []
  let text = ''
  let reasoning = ''
  for (const { choices } of jsonFrames(stream)) for (const { delta } of choices as { delta: Json }[]) {
    text += delta.content ?? ''
    reasoning += delta.reasoning ?? ''
    for (const call of delta.tool_calls ?? []) {
      calls[call.index] ??= { id: call.id, name: call.function.name, text: '' }
      calls[call.index]!.text += call.function.arguments ?? ''
    }
  }
  return { text, reasoning, calls: calls.map((call) => ({ id: call.id, name: call.name, input: JSON.parse(call.text), place: { id: call.id, type: 'function', function: { name: call.name, arguments: call.text } } })) }
}

const chatBody = (model: string, prompt: unknown): Json => ({
  model, max_tokens: 32000, stream: true, stream_options: { include_usage: true },
  messages: [{ role: 'system', content: 'You write code.' }, { role: 'user', content: prompt }],
  tools: [{ type: 'function', function: { name: 'bash', description: 'Runs a command.', parameters: DRAFT } }],
})

export const opencode: Agent = {
  name: 'opencode', tool: 'bash', argument: 'command',
  path: () => '/v1/chat/completions',
  headers: (key) => ({ authorization: `Bearer ${key}`, accept: '*/*', 'x-session-affinity': 's1', 'x-session-id': 's1' }),
  first: (model, prompt) => ({ ...chatBody(model, prompt), tool_choice: 'auto' }),
  read: chatTurn,
  next: (body, stream, outputs) => {
    const { calls, text, reasoning } = chatTurn(stream)
    const assistant = { role: 'assistant', content: text, ...(reasoning === '' ? {} : { reasoning_content: reasoning }), tool_calls: calls.map(({ place }) => place) }
    return { ...body, messages: [...body.messages, assistant, ...calls.map(({ id }, i) => ({ role: 'tool', tool_call_id: id, content: outputs[i] }))] }
  },
}

export const qwen: Agent = {
  name: 'qwen-code', tool: 'bash', argument: 'command',
  path: () => '/v1/chat/completions',
  headers: (key) => ({ authorization: `Bearer ${key}`, accept: 'application/json', 'x-stainless-lang': 'js' }),
  first: (model, prompt) => chatBody(model, [{ type: 'text', text: '<reminder>Skills: none.</reminder>' }, { type: 'text', text: prompt }]),
  read: chatTurn,
  next: (body, stream, outputs) => {
    const { calls } = chatTurn(stream)
    return { ...body, messages: [...body.messages, { role: 'assistant', content: null, tool_calls: calls.map(({ place }) => place) }, ...calls.map(({ id, name }, i) => ({ role: 'tool', tool_call_id: id, name, content: [{ type: 'text', text: outputs[i] }] }))] }
  },
}

export const agents: readonly Agent[] = [codex, claudeCode, geminiCli, opencode, qwen]

export const post = ({ url, key }: Wire, agent: Agent, model: string, body: Json): Promise<Response> =>
  fetch(url + agent.path(model), { method: 'POST', headers: { 'content-type': 'application/json', ...agent.headers(key) }, body: JSON.stringify(body) })
