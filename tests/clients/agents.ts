/**
 * The coding agents as a gateway meets them: bodies of the shape that each sends, answers read the way each reads them,
 * and history
 * sent back as each keeps it. The words are ours.
 */

export type Json = Record<string, any>
export type RawRequest = { url: string; key: string }

/** One frame of a stream as it stood on the wire. */
export type SseFrame = { event?: string; data: string }

/** Frames of a whole stream; lines that are no frame's (comments) are left out. */
export const framesOf = (text: string): SseFrame[] =>
  text
    .split('\n\n')
    .filter((block) => /^data:/m.test(block))
    .map((block) => {
      const event = /^event: (.*)$/m.exec(block)?.[1]
      return {
        ...(event === undefined ? {} : { event }),
        data: [...block.matchAll(/^data: ?(.*)$/gm)].map((line) => line[1]).join('\n'),
      }
    })

export const jsonFrames = (text: string): Json[] =>
  framesOf(text)
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Json)

/** `input`: of a tool of free text, that text under `input`. */
export type Call = { id: string; name: string; input: Json; place: unknown }
export type Turn = { text: string; calls: Call[] }

/** What a tool gave: text, base64 of a PNG, and whether it failed. */
export type Output = string | { text: string; image?: string; failed?: true }
const outputOf = (output: Output | undefined): { text: string; image?: string; failed?: true } =>
  typeof output === 'object' ? output : { text: output ?? '' }
const dataUrl = (image: string): string => `data:image/png;base64,${image}`

/** An agent: where it posts, what it sends first, what it makes of a stream, and how it goes on with the results. */
export type Agent = {
  name: string
  /** The name of the tool it runs commands with, and what it calls the command. */
  tool: string
  argument: string
  path(model: string): string
  headers(key: string): Record<string, string>
  /** Whether that tool takes free text, and where it lives. */
  free?: { namespace: string }
  first(model: string, prompt: string, system?: string): Json
  read(stream: string): Turn
  /** The next body: what came goes into the history, then the results. */
  next(body: Json, stream: string, outputs: Output[]): Json
  /** Another prompt in the same session. `stream`: the answer before it, where it came to an end. */
  say(body: Json, prompt: string, stream?: string): Json
  /** How it asks for the size of a request. */
  count?(model: string, body: Json): { path: string; body: Json }
}

const COMMAND = {
  type: 'object',
  properties: { cmd: { type: 'string' }, command: { type: 'string' } },
  additionalProperties: false,
}
const DRAFT = { $schema: 'https://json-schema.org/draft/2020-12/schema', ...COMMAND }

const codexText = (role: string, id: string, ...texts: string[]): Json => ({
  type: 'message',
  id: `msg_${id}`,
  role,
  content: texts.map((text) => ({ type: 'input_text', text })),
})
const doneItems = (stream: string): Json[] =>
  jsonFrames(stream)
    .filter(({ type }) => type === 'response.output_item.done')
    .map(({ item }) => item as Json)

/** Items as it keeps them: its reasoning loses its status and gains a null. */
const keptItems = (stream: string): Json[] =>
  doneItems(stream).map((item) =>
    item.type === 'reasoning'
      ? {
          type: 'reasoning',
          id: item.id,
          summary: item.summary,
          content: null,
          encrypted_content: item.encrypted_content,
        }
      : item,
  )

/** On a model that it does not know. */
export const codex: Agent = {
  name: 'codex',
  tool: 'exec_command',
  argument: 'cmd',
  path: () => '/v1/responses',
  headers: (key) => ({
    authorization: `Bearer ${key}`,
    accept: 'text/event-stream',
    'x-client-request-id': 'c1',
    'session-id': 's1',
    'thread-id': 's1',
    originator: 'codex_exec',
    'x-codex-beta-features': 'remote_compaction_v2',
  }),
  first: (model, prompt, system = 'You write code.') => ({
    model,
    stream: true,
    store: false,
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { summary: 'auto' },
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'session-1',
    client_metadata: { session_id: 's1', turn_id: 't1' },
    input: [
      codexText('developer', '1', system),
      codexText('developer', '2', 'Skills: none.', 'Permissions: all.'),
      codexText('user', '3', '<environment>cwd /tmp</environment>'),
      codexText('user', '4', prompt),
    ],
    tools: [
      { type: 'function', name: 'exec_command', description: 'Runs a command.', strict: false, parameters: COMMAND },
      {
        type: 'namespace',
        name: 'agents',
        description: 'Helpers.',
        tools: [{ type: 'function', name: 'spawn', description: 'Starts one.', strict: false, parameters: COMMAND }],
      },
      { type: 'web_search', external_web_access: true },
    ],
  }),
  read: (stream) => {
    const done = doneItems(stream)
    return {
      text: done
        .filter(({ type }) => type === 'message')
        .map(({ content }) => content.map(({ text }: Json) => text).join(''))
        .join(''),
      calls: done
        .filter(({ type }) => type === 'function_call' || type === 'custom_tool_call')
        .map((item) => ({
          id: item.call_id,
          name: item.name,
          input: item.type === 'function_call' ? JSON.parse(item.arguments) : { input: item.input },
          place: item,
        })),
    }
  },
  next: (body, stream, outputs) => {
    const results = codex.read(stream).calls.map(({ id, place }, i) => {
      const { text, image } = outputOf(outputs[i])
      const parts = [
        { type: 'input_text', text },
        ...(image === undefined ? [] : [{ type: 'input_image', image_url: dataUrl(image) }]),
      ]
      const custom = (place as Json).type === 'custom_tool_call'
      return {
        type: custom ? 'custom_tool_call_output' : 'function_call_output',
        id: `${custom ? 'ctco' : 'fco'}_${id}`,
        call_id: id,
        output: custom || image !== undefined ? parts : text,
      }
    })
    return { ...body, input: [...body.input, ...keptItems(stream), ...results] }
  },
  say: (body, prompt, stream = '') => ({
    ...body,
    input: [...body.input, ...keptItems(stream), codexText('user', `${body.input.length}_said`, prompt)],
  }),
}

/** How its agents speak to each other; what an OpenAI model says is encrypted there. */
export const agentMessage = (author: string, recipient: string, about: string, payload: string): Json => ({
  type: 'agent_message',
  id: `amsg_${author.length}${recipient.length}`,
  author,
  recipient,
  content: [
    { type: 'input_text', text: `Message Type: ${about}\nSender: ${author}\nPayload:\n` },
    { type: 'encrypted_content', encrypted_content: payload },
  ],
})

const GRAMMAR = 'start: pragma? SOURCE\npragma: /[ \\t]*\\/\\/ @exec:[^\\r\\n]*/ /\\r?\\n/\nSOURCE: /[\\s\\S]+/\n'

/**
 * On a model that it knows: its tools stand in an input item, each in a namespace, and what runs commands and patches
 * is one tool of free text.
 */
export const codexLite: Agent = {
  ...codex,
  name: 'codex with free text',
  tool: 'exec',
  argument: 'input',
  free: { namespace: 'functions' },
  headers: (key) => ({ ...codex.headers(key), 'x-openai-internal-codex-responses-lite': 'true' }),
  first: (model, prompt, system) => {
    const { tools: _tools, reasoning: _reasoning, ...body } = codex.first(model, prompt, system)
    const spawn = {
      type: 'object',
      properties: {
        message: { type: 'string', description: 'The task.', encrypted: true },
        task_name: { type: 'string' },
      },
      required: ['message'],
      additionalProperties: false,
    }
    const tools = [
      {
        type: 'namespace',
        name: 'functions',
        description: '',
        tools: [
          {
            type: 'custom',
            name: 'exec',
            description:
              'Runs JavaScript, in which tools.apply_patch(text) and tools.exec_command({cmd}) are to be had.',
            format: { type: 'grammar', syntax: 'lark', definition: GRAMMAR },
          },
          {
            type: 'function',
            name: 'wait',
            description: 'Waits.',
            strict: false,
            parameters: {
              type: 'object',
              properties: { cell_id: { type: 'string' } },
              required: ['cell_id'],
              additionalProperties: false,
            },
          },
        ],
      },
      {
        type: 'namespace',
        name: 'collaboration',
        description: 'Helpers.',
        tools: [
          { type: 'function', name: 'spawn_agent', description: 'Starts one.', strict: false, parameters: spawn },
        ],
      },
    ]
    return {
      ...body,
      parallel_tool_calls: false,
      reasoning: { effort: 'low', context: 'all_turns' },
      text: { verbosity: 'low' },
      input: [{ type: 'additional_tools', id: 'at_1', role: 'developer', tools }, ...body.input],
    }
  },
}

const gather = (stream: string): Json[] => {
  const blocks: Json[] = []
  for (const frame of jsonFrames(stream)) {
    if (frame.type === 'content_block_start')
      blocks[frame.index] = {
        ...frame.content_block,
        ...(frame.content_block.type === 'tool_use' ? { partial: '' } : {}),
      }
    const { type, text, thinking, signature, partial_json } = frame.delta ?? {}
    const block = blocks[frame.index] as Json
    if (type === 'text_delta') block.text += text
    if (type === 'thinking_delta') block.thinking += thinking
    if (type === 'signature_delta') block.signature = signature
    if (type === 'input_json_delta') block.partial += partial_json
  }
  return blocks.map(({ partial, ...block }) =>
    partial === undefined ? block : { ...block, input: partial === '' ? block.input : JSON.parse(partial) },
  )
}

export const claudeCode: Agent = {
  name: 'Claude Code',
  tool: 'Bash',
  argument: 'command',
  path: () => '/v1/messages?beta=true',
  headers: (key) => ({
    authorization: `Bearer ${key}`,
    accept: 'application/json',
    'anthropic-version': '2023-06-01',
    'x-claude-code-session-id': 's1',
    'anthropic-beta':
      'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24',
    'x-app': 'cli',
  }),
  first: (model, prompt, system = 'You write code.') => ({
    model,
    max_tokens: 32000,
    stream: true,
    thinking: { type: 'adaptive', display: 'omitted' },
    output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    metadata: {
      user_id: JSON.stringify({
        device_id: '0123456789abcdef'.repeat(4),
        account_uuid: '',
        session_id: '01234567-89ab-cdef-0123-456789abcdef',
      }),
    },
    system: [
      { type: 'text', text: 'x-billing: v1;' },
      { type: 'text', text: system, cache_control: { type: 'ephemeral' } },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: '<reminder>Sign your work.</reminder>' },
          { type: 'text', text: prompt },
        ],
      },
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
      calls: blocks
        .filter(({ type }) => type === 'tool_use')
        .map((block) => ({ id: block.id, name: block.name, input: block.input, place: block })),
    }
  },
  next: (body, stream, outputs) => {
    const results = claudeCode.read(stream).calls.map(({ id }, i, calls): Json => {
      const { text, image, failed } = outputOf(outputs[i])
      const content =
        image === undefined
          ? text
          : [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } }]
      return {
        tool_use_id: id,
        type: 'tool_result',
        content,
        ...(failed === true ? { is_error: true } : {}),
        ...(i === calls.length - 1 ? { cache_control: { type: 'ephemeral' } } : {}),
      }
    })
    return {
      ...body,
      messages: [...older(body), { role: 'assistant', content: gather(stream) }, { role: 'user', content: results }],
    }
  },
  say: (body, prompt, stream) => ({
    ...body,
    messages: [
      ...older(body),
      ...(stream === undefined ? [] : [{ role: 'assistant', content: gather(stream) }]),
      { role: 'user', content: [{ type: 'text', text: prompt, cache_control: { type: 'ephemeral' } }] },
    ],
  }),
  count: (model, { messages, tools }) => ({
    path: '/v1/messages/count_tokens?beta=true',
    body: { model, messages, tools },
  }),
}

/**
 * The history before the newest message: what it says as the system has become a string, and the mark for the cache has
 * moved on.
 */
const older = ({ messages: [user, system, ...rest] }: Json): Json[] => [
  user,
  { ...system, content: 'ENVIRONMENT: /tmp' },
  ...rest.map((message: Json) => ({
    ...message,
    content: Array.isArray(message.content)
      ? message.content.map(({ cache_control: _mark, ...block }: Json) => block)
      : message.content,
  })),
]

export const geminiCli: Agent = {
  name: 'gemini-cli',
  tool: 'run_shell_command',
  argument: 'command',
  path: (model) => `/v1/publishers/${model.replace('/', '/models/')}:streamGenerateContent?alt=sse`,
  headers: (key) => ({
    'x-goog-api-key': key,
    accept: '*/*',
    'x-goog-api-client': 'google-genai-sdk/1.30.0 gl-node/v22',
  }),
  first: (_model, prompt, system = 'You write code.') => ({
    contents: [{ role: 'user', parts: [{ text: '<context>Today is a day.</context>' }, { text: prompt }] }],
    systemInstruction: { role: 'user', parts: [{ text: system }] },
    tools: [
      {
        functionDeclarations: [
          { name: 'run_shell_command', description: 'Runs a command.', parametersJsonSchema: DRAFT },
        ],
      },
    ],
    generationConfig: { temperature: 1, topP: 0.95, topK: 64, thinkingConfig: { includeThoughts: true } },
  }),
  read: (stream) => {
    const parts = jsonFrames(stream).flatMap(({ candidates }) => (candidates?.[0]?.content?.parts ?? []) as Json[])
    return {
      text: parts
        .filter(({ thought }) => thought !== true)
        .map(({ text }) => text ?? '')
        .join(''),
      calls: parts
        .filter(({ functionCall }) => functionCall !== undefined)
        .map((part) => ({
          id: part.functionCall.id,
          name: part.functionCall.name,
          input: part.functionCall.args,
          place: part,
        })),
    }
  },
  // Thoughts are dropped, the signature of a call is kept, an image follows the results.
  next: (body, stream, outputs) => {
    const { calls } = geminiCli.read(stream)
    const images = outputs.flatMap((output) => outputOf(output).image ?? [])
    const answers = calls.map(({ id, name }, i) => ({
      functionResponse: {
        id,
        name,
        response: { [outputOf(outputs[i]).failed === true ? 'error' : 'output']: outputOf(outputs[i]).text },
      },
    }))
    return {
      ...body,
      contents: [
        ...body.contents,
        { role: 'model', parts: keptParts(stream) },
        {
          role: 'user',
          parts: [...answers, ...images.map((data) => ({ inlineData: { data, mimeType: 'image/png' } }))],
        },
      ],
    }
  },
  say: (body, prompt, stream) => ({
    ...body,
    contents: [
      ...body.contents,
      ...(stream === undefined ? [] : [{ role: 'model', parts: keptParts(stream) }]),
      { role: 'user', parts: [{ text: prompt }] },
    ],
  }),
  // Of the newest message alone.
  count: (model, { contents }) => ({
    path: geminiCli.path(model).replace('streamGenerateContent?alt=sse', 'countTokens'),
    body: { contents: contents.slice(-1) },
  }),
}

/** The texts of an answer joined to one, and its calls. */
function keptParts(stream: string): Json[] {
  const { text, calls } = geminiCli.read(stream)
  return [...(text === '' ? [] : [{ text }]), ...calls.map(({ place }) => place as Json)]
}

const chatTurn = (stream: string): Turn & { reasoning: string } => {
  const calls: { id: string; name: string; text: string }[] = []
  let text = ''
  let reasoning = ''
  for (const { choices } of jsonFrames(stream))
    for (const { delta } of choices as { delta: Json }[]) {
      text += delta.content ?? ''
      reasoning += delta.reasoning ?? ''
      for (const call of delta.tool_calls ?? []) {
        calls[call.index] ??= { id: call.id, name: call.function.name, text: '' }
        calls[call.index]!.text += call.function.arguments ?? ''
      }
    }
  return {
    text,
    reasoning,
    calls: calls.map((call) => ({
      id: call.id,
      name: call.name,
      input: JSON.parse(call.text),
      place: { id: call.id, type: 'function', function: { name: call.name, arguments: call.text } },
    })),
  }
}

const chatBody = (model: string, prompt: unknown, system = 'You write code.'): Json => ({
  model,
  max_tokens: 32000,
  stream: true,
  stream_options: { include_usage: true },
  messages: [
    { role: 'system', content: system },
    { role: 'user', content: prompt },
  ],
  tools: [{ type: 'function', function: { name: 'bash', description: 'Runs a command.', parameters: DRAFT } }],
})

export const opencode: Agent = {
  name: 'opencode',
  tool: 'bash',
  argument: 'command',
  path: () => '/v1/chat/completions',
  headers: (key) => ({
    authorization: `Bearer ${key}`,
    accept: '*/*',
    'x-session-affinity': 's1',
    'x-session-id': 's1',
  }),
  first: (model, prompt, system) => ({ ...chatBody(model, prompt, system), tool_choice: 'auto' }),
  read: chatTurn,
  // Images of results follow in a message of the user.
  next: (body, stream, outputs) => {
    const { calls } = chatTurn(stream)
    const images = outputs
      .flatMap((output) => outputOf(output).image ?? [])
      .map((image) => ({ type: 'image_url', image_url: { url: dataUrl(image) } }))
    const results = calls.map(({ id }, i) => ({ role: 'tool', tool_call_id: id, content: outputOf(outputs[i]).text }))
    return {
      ...body,
      messages: [
        ...body.messages,
        answered(stream),
        ...results,
        ...(images.length === 0 ? [] : [{ role: 'user', content: [{ type: 'text', text: 'Attached:' }, ...images] }]),
      ],
    }
  },
  say: (body, prompt, stream) => ({
    ...body,
    messages: [
      ...body.messages,
      ...(stream === undefined ? [] : [answered(stream)]),
      { role: 'user', content: prompt },
    ],
  }),
}

function answered(stream: string): Json {
  const { calls, text, reasoning } = chatTurn(stream)
  return {
    role: 'assistant',
    content: text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(({ place }) => place) }),
  }
}

export const qwen: Agent = {
  name: 'qwen-code',
  tool: 'bash',
  argument: 'command',
  path: () => '/v1/chat/completions',
  headers: (key) => ({ authorization: `Bearer ${key}`, accept: 'application/json', 'x-stainless-lang': 'js' }),
  first: (model, prompt, system) =>
    chatBody(
      model,
      [
        { type: 'text', text: '<reminder>Skills: none.</reminder>' },
        { type: 'text', text: prompt },
      ],
      system,
    ),
  read: chatTurn,
  next: (body, stream, outputs) => {
    const { calls } = chatTurn(stream)
    return {
      ...body,
      messages: [
        ...body.messages,
        { role: 'assistant', content: null, tool_calls: calls.map(({ place }) => place) },
        ...calls.map(({ id, name }, i) => ({
          role: 'tool',
          tool_call_id: id,
          name,
          content: [{ type: 'text', text: outputOf(outputs[i]).text }],
        })),
      ],
    }
  },
  say: opencode.say,
}

export const agents: readonly Agent[] = [codex, codexLite, claudeCode, geminiCli, opencode, qwen]

export const post = ({ url, key }: RawRequest, agent: Agent, model: string, body: Json): Promise<Response> =>
  fetch(url + agent.path(model), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...agent.headers(key) },
    body: JSON.stringify(body),
  })
