import { DRAFT, jsonFrames, outputOf, type Agent, type Json } from './agents.ts'

/** The content blocks of a streamed message. */
const blocksOf = (stream: string): Json[] => {
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

/** The content as Claude Code sends it back: it moves the calls to the end. */
const sentBack = (stream: string): Json[] => {
  const blocks = blocksOf(stream)
  const isCall = ({ type }: Json): boolean => type === 'tool_use'
  return [...blocks.filter((block) => !isCall(block)), ...blocks.filter(isCall)]
}

const BETAS = [
  'claude-code-20250219',
  'interleaved-thinking-2025-05-14',
  'context-management-2025-06-27',
  'mid-conversation-tool-changes-2026-07-01',
  'thinking-token-count-2026-05-13',
  'advanced-tool-use-2025-11-20',
  'effort-2025-11-24',
]

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
    'anthropic-beta': BETAS.join(','),
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
    const blocks = blocksOf(stream)
    return {
      // Claude Code prints the text of the last block.
      text: blocks.at(-1)?.text ?? '',
      calls: blocks
        .filter(({ type }) => type === 'tool_use')
        .map((block) => ({ id: block.id, name: block.name, input: block.input, item: block })),
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
      messages: [
        ...history(body),
        { role: 'assistant', content: sentBack(stream) },
        { role: 'user', content: results },
      ],
    }
  },
  prompt: (body, prompt, stream) => ({
    ...body,
    messages: [
      ...history(body),
      ...(stream === undefined ? [] : [{ role: 'assistant', content: sentBack(stream) }]),
      { role: 'user', content: [{ type: 'text', text: prompt, cache_control: { type: 'ephemeral' } }] },
    ],
  }),
  count: (model, { messages, tools }) => ({
    path: '/v1/messages/count_tokens?beta=true',
    body: { model, messages, tools },
  }),
}

/**
 * The history before the newest message: its system message has become a string, and its cache breakpoints are removed,
 * since only the newest message has one.
 */
const history = ({ messages: [user, system, ...rest] }: Json): Json[] => [
  user,
  { ...system, content: 'ENVIRONMENT: /tmp' },
  ...rest.map((message: Json) => ({
    ...message,
    content: Array.isArray(message.content)
      ? message.content.map(({ cache_control: _breakpoint, ...block }: Json) => block)
      : message.content,
  })),
]
