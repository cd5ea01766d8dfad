import { objectsOf } from '../../json/parse.ts'
import type { UnreadMembers } from '../unread-members.ts'
import type { Json } from './shapes.ts'

/** The members of items that are read, or say nothing beyond their bookkeeping, by type; other items are native. */
const ITEM = ['type', 'id', 'object', 'status', 'item_id', 'output_index', 'created_by']
const CALL = [...ITEM, 'call_id', 'name', 'namespace']
const ITEMS = new Map<unknown, ReadonlySet<string>>([
  ['message', new Set([...ITEM, 'role', 'content', 'phase'])],
  ['reasoning', new Set([...ITEM, 'summary', 'content', 'encrypted_content', 'format'])],
  ['function_call', new Set([...CALL, 'arguments'])],
  ['custom_tool_call', new Set([...CALL, 'input'])],
])
const CONTENT = new Map<unknown, ReadonlySet<string>>([
  ['output_text', new Set(['type', 'text', 'annotations', 'logprobs'])],
  ['refusal', new Set(['type', 'refusal'])],
])

const ANNOTATION = new Set([
  ...['type', 'url', 'title', 'start_index', 'end_index'],
  ...['file_id', 'filename', 'container_id', 'index'],
])
const PARAGRAPH = new Set(['type', 'text'])

/** Members of the response: its state, the settings of its request, ratings and charges. */
export const RESPONSE = new Set([
  ...['id', 'object', 'created_at', 'completed_at', 'status', 'error', 'incomplete_details', 'background'],
  ...['model', 'output', 'output_text', 'usage', 'tool_usage', 'billing', 'moderation', 'content_filters'],
  ...['input', 'instructions', 'conversation', 'previous_response_id', 'store', 'prompt', 'metadata', 'user'],
  ...['max_output_tokens', 'max_tool_calls', 'parallel_tool_calls', 'tool_choice', 'tools', 'truncation', 'text'],
  ...['temperature', 'top_p', 'top_logprobs', 'frequency_penalty', 'presence_penalty', 'reasoning', 'service_tier'],
  ...['safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options'],
  'system_fingerprint',
])

/** Adds what is not read of a finished item. */
export function addUnreadOfItem(unread: UnreadMembers, item: Json): void {
  const known = ITEMS.get(item.type)
  if (known === undefined) return
  unread.add(item, known)
  if (item.type === 'reasoning')
    for (const name of ['summary', 'content'])
      for (const part of objectsOf(item[name])) unread.add(part, PARAGRAPH, `${name}.`)
  if (item.type !== 'message') return
  for (const part of objectsOf(item.content)) {
    const knownOfPart = CONTENT.get(part.type)
    if (knownOfPart !== undefined) unread.add(part, knownOfPart)
    for (const annotation of objectsOf(part.annotations)) unread.add(annotation, ANNOTATION, 'annotations.')
  }
}
