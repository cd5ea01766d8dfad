import { isObject } from '../../json/parse.ts'

type Item = Record<string, unknown>

/** Their status is set wherever items are listed. */
const WITH_STATUS: ReadonlySet<unknown> = new Set(['message', 'function_call', 'function_call_output'])

/**
 * An input item as OpenAI lists it. Clients may leave out the type of a message, its status, and the parts of its
 * content; those that read a list expect them. What is stored stays as the client sent it, since it is sent again.
 */
export function listedItem(item: Item): Item {
  const type = item.type ?? 'message'
  return {
    ...item,
    type,
    ...(WITH_STATUS.has(type) ? { status: item.status ?? 'completed' } : {}),
    ...(type === 'message' ? { content: listedContent(item) } : {}),
  }
}

function listedContent({ role, content }: Item): unknown {
  if (typeof content !== 'string') return Array.isArray(content) ? content.map(listedPart) : content
  return [listedPart({ type: role === 'assistant' ? 'output_text' : 'input_text', text: content })]
}

function listedPart(part: unknown): unknown {
  if (!isObject(part)) return part
  if (part.type === 'output_text') return { annotations: [], logprobs: [], ...part }
  return part.type === 'input_image' ? { detail: 'auto', ...part } : part
}
