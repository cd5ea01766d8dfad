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
/** Deltas by type; those of other types complete native blocks. */
export const DELTAS = new Map<unknown, ReadonlySet<string>>([
  ['text_delta', new Set(['type', 'text'])],
  ['thinking_delta', new Set(['type', 'thinking', 'estimated_tokens'])],
  ['signature_delta', new Set(['type', 'signature'])],
  ['citations_delta', new Set(['type', 'citation'])],
  ['input_json_delta', new Set(['type', 'partial_json'])],
])
