/** The members of a response and its blocks that are read, or say nothing beyond its bookkeeping. */

export const MESSAGE = new Set([
  ...['id', 'type', 'role', 'model', 'container', 'content', 'usage'],
  ...['stop_reason', 'stop_sequence', 'stop_details'],
])
export const MESSAGE_DELTA = new Set(['type', 'delta', 'usage'])
/** By type; blocks of other types are native as a whole. */
export const BLOCKS = new Map<string, ReadonlySet<string>>([
  ['text', new Set(['type', 'text', 'citations'])],
  ['thinking', new Set(['type', 'thinking', 'signature'])],
  ['redacted_thinking', new Set(['type', 'data'])],
  ['tool_use', new Set(['type', 'id', 'name', 'input'])],
])
