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

/** Adds what is not read of a finished item. */
export function addUnreadOfItem(unread: UnreadMembers, item: Json): void {
  const known = ITEMS.get(item.type)
  if (known === undefined) return
  unread.add(item, known)
  if (item.type !== 'message') return
  for (const part of objectsOf(item.content)) {
    const knownOfPart = CONTENT.get(part.type)
    if (knownOfPart !== undefined) unread.add(part, knownOfPart)
  }
}
