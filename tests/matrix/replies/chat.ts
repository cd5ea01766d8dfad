import {
  citationsOf,
  piecesOf,
  type ProviderResponse,
  range,
  type Reply,
  textOf,
  TOOL,
  type TokenCounts,
} from './reply.ts'

/** The response of a provider of chat completions. */
export function chatResponse(reply: Reply): ProviderResponse {
  const finish = {
    stop: 'stop',
    'stop-sequence': 'stop',
    length: 'length',
    'tool-calls': 'tool_calls',
    refusal: 'stop',
  }[reply.finish]
  const usage = usageOf(reply.usage)
  const text = textOf(reply)
  const refusal = reply.parts.map((part) => (part.type === 'refusal' ? part.text : '')).join('')
  const details = detailsOf(reply)
  const calls = reply.parts.flatMap((part) =>
    part.type === 'call'
      ? [{ id: part.id, type: 'function', function: { name: part.name ?? TOOL, arguments: part.args } }]
      : [],
  )
  const annotations = citationsOf(reply).map(({ url, title, ...at }) => ({
    type: 'url_citation',
    url_citation: { url, title, ...range(text, at) },
  }))
  const message = {
    role: 'assistant',
    content: text === '' ? null : text,
    refusal: refusal === '' ? null : refusal,
    ...(details.length > 0 ? { reasoning: details[0]!.text, reasoning_details: details } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(annotations.length > 0 ? { annotations } : {}),
  }
  const head = { id: 'chatcmpl-up', created: 1_700_000_000, model: 'up' }
  const chunk = (delta: object, finish_reason: string | null = null): object => ({
    ...head,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  return {
    whole: {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
      usage,
    },
    frames: [
      chunk({ role: 'assistant', content: '' }),
      ...details.flatMap(({ text: reasoning, signature, ...rest }) => [
        ...piecesOf(reasoning).map((piece) =>
          chunk({ reasoning: piece, reasoning_details: [{ ...rest, text: piece }] }),
        ),
        chunk({ reasoning_details: [{ ...rest, signature }] }),
      ]),
      ...piecesOf(text).map((piece) => chunk({ content: piece })),
      ...piecesOf(refusal).map((piece) => chunk({ refusal: piece })),
      ...annotations.map((annotation) => chunk({ annotations: [annotation] })),
      ...calls.flatMap((call, index) => [
        chunk({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] }),
        ...piecesOf(call.function.arguments).map((piece) =>
          chunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
        ),
      ]),
      chunk({}, finish),
      { ...head, object: 'chat.completion.chunk', choices: [], usage },
      '[DONE]',
    ],
  }
}

const usageOf = (usage: TokenCounts): object => ({
  prompt_tokens: usage.prompt,
  completion_tokens: usage.completion,
  total_tokens: usage.prompt + usage.completion,
  prompt_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.written },
  completion_tokens_details: { reasoning_tokens: usage.reasoning },
})

/** Reasoning with its signature, in the form of OpenRouter. */
const detailsOf = (reply: Reply) =>
  reply.parts.flatMap((part) =>
    part.type === 'reasoning'
      ? [
          {
            type: 'reasoning.text',
            text: part.text,
            signature: part.signature,
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ]
      : [],
  )
