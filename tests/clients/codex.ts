import { COMMAND, dataUrl, jsonFrames, outputOf, type Agent, type Json } from './agents.ts'

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

/** Items as Codex keeps them: reasoning without its status and with `content: null`. */
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

/** Codex with a model that it does not know. */
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
          item: item,
        })),
    }
  },
  next: (body, stream, outputs) => {
    const results = codex.read(stream).calls.map(({ id, item }, i) => {
      const { text, image } = outputOf(outputs[i])
      const parts = [
        { type: 'input_text', text },
        ...(image === undefined ? [] : [{ type: 'input_image', image_url: dataUrl(image) }]),
      ]
      const custom = (item as Json).type === 'custom_tool_call'
      return {
        type: custom ? 'custom_tool_call_output' : 'function_call_output',
        id: `${custom ? 'ctco' : 'fco'}_${id}`,
        call_id: id,
        output: custom || image !== undefined ? parts : text,
      }
    })
    return { ...body, input: [...body.input, ...keptItems(stream), ...results] }
  },
  prompt: (body, prompt, stream = '') => ({
    ...body,
    input: [...body.input, ...keptItems(stream), codexText('user', `${body.input.length}_said`, prompt)],
  }),
}

/** A message between agents of Codex. Messages of an OpenAI model have an encrypted payload. */
export const agentMessage = (author: string, recipient: string, type: string, payload: string): Json => ({
  type: 'agent_message',
  id: `amsg_${author.length}${recipient.length}`,
  author,
  recipient,
  content: [
    { type: 'input_text', text: `Message Type: ${type}\nSender: ${author}\nPayload:\n` },
    { type: 'encrypted_content', encrypted_content: payload },
  ],
})

const GRAMMAR = 'start: pragma? SOURCE\npragma: /[ \\t]*\\/\\/ @exec:[^\\r\\n]*/ /\\r?\\n/\nSOURCE: /[\\s\\S]+/\n'

/**
 * Codex with a model that it knows: its tools are in an input item, each in a namespace, and one free-text tool runs
 * commands and patches.
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
    const wait = {
      type: 'object',
      properties: { cell_id: { type: 'string' } },
      required: ['cell_id'],
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
            description: 'Runs JavaScript that may call tools.apply_patch(text) and tools.exec_command({cmd}).',
            format: { type: 'grammar', syntax: 'lark', definition: GRAMMAR },
          },
          { type: 'function', name: 'wait', description: 'Waits.', strict: false, parameters: wait },
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
