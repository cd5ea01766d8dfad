import {
  citationsOf,
  piecesOf,
  type Json,
  type ProviderResponse,
  range,
  type Reply,
  type ReplyPart,
  textOf,
  TOOL,
} from './reply.ts'

/** The response of a provider of responses. */
export function responsesResponse(reply: Reply): ProviderResponse {
  const { usage } = reply
  const incomplete = reply.finish === 'length' ? { reason: 'max_output_tokens' } : null
  const items = reply.parts.flatMap((part, index): Json[] => {
    const status = incomplete !== null && index === reply.parts.length - 1 ? 'incomplete' : 'completed'
    return itemsOf(part, index, status, reply)
  })
  const response = (status: string, more: object = {}): object => ({
    id: 'resp_up',
    object: 'response',
    created_at: 1_700_000_000,
    model: 'up',
    status,
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
    ...more,
  })
  const whole = response(incomplete === null ? 'completed' : 'incomplete', {
    output: items,
    incomplete_details: incomplete,
    usage: {
      input_tokens: usage.prompt,
      input_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.written },
      output_tokens: usage.completion,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.prompt + usage.completion,
    },
  })
  const events: Json[] = [
    { type: 'response.created', response: response('in_progress') },
    ...items.flatMap(itemEvents),
    { type: `response.${incomplete === null ? 'completed' : 'incomplete'}`, response: whole },
  ]
  return { whole, frames: events.map((event, sequence_number) => ({ ...event, sequence_number })) }
}

/** The output items of a part; all texts are one item. */
function itemsOf(part: ReplyPart, index: number, status: string, reply: Reply): Json[] {
  switch (part.type) {
    case 'reasoning':
      return [
        {
          id: `rs_${index}`,
          type: 'reasoning',
          summary: [{ type: 'summary_text', text: part.text }],
          encrypted_content: part.signature,
        },
      ]
    case 'call':
      return part.free === true
        ? [
            {
              id: `ctc_${index}`,
              type: 'custom_tool_call',
              status,
              call_id: part.id,
              name: part.name ?? TOOL,
              ...namespaceOf(part),
              input: part.args,
            },
          ]
        : [
            {
              id: `fc_${index}`,
              type: 'function_call',
              status,
              call_id: part.id,
              name: part.name ?? TOOL,
              ...namespaceOf(part),
              arguments: part.args,
            },
          ]
    case 'refusal':
      return [
        {
          id: `msg_${index}`,
          type: 'message',
          role: 'assistant',
          status,
          content: [{ type: 'refusal', refusal: part.text }],
        },
      ]
    case 'text': {
      // All text parts are one text.
      if (part !== reply.parts.find((one) => one.type === 'text')) return []
      const text = textOf(reply)
      const annotations = citationsOf(reply).map(({ url, title, ...at }) => ({
        type: 'url_citation',
        url,
        title,
        ...range(text, at),
      }))
      return [
        {
          id: `msg_${index}`,
          type: 'message',
          role: 'assistant',
          status,
          content: [{ type: 'output_text', text, annotations, logprobs: [] }],
        },
      ]
    }
  }
}

const namespaceOf = ({ namespace }: { namespace?: string }): object => (namespace === undefined ? {} : { namespace })

function itemEvents(item: Json, output_index: number): Json[] {
  const at = { output_index, item_id: item.id }
  const added = {
    type: 'response.output_item.added',
    output_index,
    item: {
      ...item,
      ...(item.type === 'reasoning' ? { summary: [] } : { status: 'in_progress' }),
      ...(item.type === 'message' ? { content: [] } : {}),
      ...(item.type === 'function_call' ? { arguments: '' } : {}),
      ...(item.type === 'custom_tool_call' ? { input: '' } : {}),
    },
  }
  const done = { type: 'response.output_item.done', output_index, item }
  if (item.type === 'function_call') {
    return [
      added,
      ...piecesOf(item.arguments as string).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        ...at,
        delta,
      })),
      { type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments },
      done,
    ]
  }
  if (item.type === 'custom_tool_call')
    return [
      added,
      ...piecesOf(item.input as string).map((delta) => ({
        type: 'response.custom_tool_call_input.delta',
        ...at,
        delta,
      })),
      { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
      done,
    ]
  if (item.type === 'reasoning') {
    const [part] = item.summary as { text: string }[]
    const here = { ...at, summary_index: 0 }
    return [
      added,
      { type: 'response.reasoning_summary_part.added', ...here, part: { type: 'summary_text', text: '' } },
      ...piecesOf(part!.text).map((delta) => ({ type: 'response.reasoning_summary_text.delta', ...here, delta })),
      { type: 'response.reasoning_summary_text.done', ...here, text: part!.text },
      { type: 'response.reasoning_summary_part.done', ...here, part },
      done,
    ]
  }
  return [added, ...contentEvents(item, at), done]
}

/** The events of a message's only content part. */
function contentEvents(item: Json, at: object): Json[] {
  const [part] = item.content as { type: string; text: string; refusal: string; annotations: object[] }[]
  const here = { ...at, content_index: 0 }
  const name = part!.type === 'refusal' ? 'refusal' : 'output_text'
  const text = part!.type === 'refusal' ? part!.refusal : part!.text
  return [
    {
      type: 'response.content_part.added',
      ...here,
      part: part!.type === 'refusal' ? { type: 'refusal', refusal: '' } : { ...part, text: '', annotations: [] },
    },
    ...piecesOf(text).map((delta) => ({ type: `response.${name}.delta`, ...here, delta })),
    ...(part!.annotations ?? []).map((annotation, annotation_index) => ({
      type: 'response.output_text.annotation.added',
      ...here,
      annotation_index,
      annotation,
    })),
    { type: `response.${name}.done`, ...here, [part!.type === 'refusal' ? 'refusal' : 'text']: text },
    { type: 'response.content_part.done', ...here, part },
  ]
}
