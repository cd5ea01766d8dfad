import { piecesOf, type Json, type ProviderResponse, type Reply, TOOL } from './reply.ts'

/** The response of a provider of messages. */
export function messagesResponse(reply: Reply): ProviderResponse {
  const { usage } = reply
  const stop_reason = {
    stop: 'end_turn',
    'stop-sequence': 'stop_sequence',
    length: 'max_tokens',
    'tool-calls': 'tool_use',
    refusal: 'refusal',
  }[reply.finish]
  const counted = {
    input_tokens: usage.prompt - usage.cached - usage.written,
    cache_read_input_tokens: usage.cached,
    cache_creation_input_tokens: usage.written,
    cache_creation: { ephemeral_5m_input_tokens: usage.written, ephemeral_1h_input_tokens: 0 },
    output_tokens: usage.completion,
    ...(usage.reasoning > 0 ? { output_tokens_details: { thinking_tokens: usage.reasoning } } : {}),
  }
  const blocks = reply.parts.map((part): Json & { json?: string } => {
    switch (part.type) {
      case 'reasoning':
        return { type: 'thinking', thinking: part.text, signature: part.signature }
      // A whole response cannot have truncated arguments: only the stream shows how far they came.
      case 'call':
        return { type: 'tool_use', id: part.id, name: part.name ?? TOOL, input: objectOf(part.args), json: part.args }
      case 'refusal':
        return { type: 'text', text: part.text }
      case 'text':
        return {
          type: 'text',
          text: part.text,
          ...(part.cite === undefined
            ? {}
            : {
                citations: [
                  {
                    type: 'web_search_result_location',
                    url: part.cite.url,
                    title: part.cite.title,
                    cited_text: 'the text of the source',
                    encrypted_index: 'EqgB',
                  },
                ],
              }),
        }
    }
  })
  const head = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up' }
  const stop = { stop_reason, stop_sequence: reply.stopSequence ?? null }
  return {
    whole: { ...head, content: blocks.map(({ json: _, ...block }) => block), ...stop, usage: counted },
    frames: [
      {
        type: 'message_start',
        message: {
          ...head,
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...counted, output_tokens: 1 },
        },
      },
      { type: 'ping' },
      ...blocks.flatMap((block, index) => [...blockFrames(block, index), { type: 'content_block_stop', index }]),
      { type: 'message_delta', delta: stop, usage: counted },
      { type: 'message_stop' },
    ],
  }
}

function blockFrames(block: Json & { json?: string }, index: number): object[] {
  const start = (content_block: object): object => ({ type: 'content_block_start', index, content_block })
  const delta = (one: object): object => ({ type: 'content_block_delta', index, delta: one })
  switch (block.type) {
    case 'thinking':
      return [
        start({ type: 'thinking', thinking: '', signature: '' }),
        ...piecesOf(block.thinking as string).map((thinking) => delta({ type: 'thinking_delta', thinking })),
        delta({ type: 'signature_delta', signature: block.signature }),
      ]
    case 'tool_use':
      return [
        start({ type: 'tool_use', id: block.id, name: block.name, input: {} }),
        ...piecesOf(block.json ?? '').map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
      ]
    default:
      return [
        start({ type: 'text', text: '' }),
        ...piecesOf(block.text as string).map((text) => delta({ type: 'text_delta', text })),
        ...((block.citations ?? []) as object[]).map((citation) => delta({ type: 'citations_delta', citation })),
      ]
  }
}

const objectOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
