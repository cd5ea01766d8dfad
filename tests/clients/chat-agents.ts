import { dataUrl, DRAFT, jsonFrames, outputOf, type Agent, type AgentTurn, type Json } from './agents.ts'

/** Agents that use Chat Completions. */

const readChat = (stream: string): AgentTurn & { reasoning: string } => {
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
      item: { id: call.id, type: 'function', function: { name: call.name, arguments: call.text } },
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
  read: readChat,
  // Images of results follow in a user message.
  next: (body, stream, outputs) => {
    const { calls } = readChat(stream)
    const images = outputs
      .flatMap((output) => outputOf(output).image ?? [])
      .map((image) => ({ type: 'image_url', image_url: { url: dataUrl(image) } }))
    const results = calls.map(({ id }, i) => ({ role: 'tool', tool_call_id: id, content: outputOf(outputs[i]).text }))
    return {
      ...body,
      messages: [
        ...body.messages,
        assistantMessage(stream),
        ...results,
        ...(images.length === 0 ? [] : [{ role: 'user', content: [{ type: 'text', text: 'Attached:' }, ...images] }]),
      ],
    }
  },
  prompt: (body, prompt, stream) => ({
    ...body,
    messages: [
      ...body.messages,
      ...(stream === undefined ? [] : [assistantMessage(stream)]),
      { role: 'user', content: prompt },
    ],
  }),
}

function assistantMessage(stream: string): Json {
  const { calls, text, reasoning } = readChat(stream)
  return {
    role: 'assistant',
    content: text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(({ item }) => item) }),
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
  read: readChat,
  next: (body, stream, outputs) => {
    const { calls } = readChat(stream)
    return {
      ...body,
      messages: [
        ...body.messages,
        { role: 'assistant', content: null, tool_calls: calls.map(({ item }) => item) },
        ...calls.map(({ id, name }, i) => ({
          role: 'tool',
          tool_call_id: id,
          name,
          content: [{ type: 'text', text: outputOf(outputs[i]).text }],
        })),
      ],
    }
  },
  prompt: opencode.prompt,
}
