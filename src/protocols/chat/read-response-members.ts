import { isObject } from '../../json/parse.ts'
import type { UnreadMembers } from '../unread-members.ts'
import type { Json } from './shapes.ts'

/** The members of a response and its objects that are read, or say nothing beyond its bookkeeping. */

export const RESPONSE = new Set([
  ...['id', 'object', 'created', 'model', 'service_tier', 'system_fingerprint', 'provider', 'obfuscation', 'p'],
  ...['choices', 'usage', 'citations', 'search_results', 'error', 'x_groq', 'prompt_filter_results'],
  ...['request_id', 'user_id', 'usage_breakdown'],
  // Speeds of Cerebras and llama.cpp, and ratings of MiniMax.
  ...['time_info', 'timings', 'base_resp', 'input_sensitive_type', 'output_sensitive_type', 'output_sensitive_int'],
])
export const CHOICE = new Set([
  ...['index', 'delta', 'message', 'logprobs', 'error', 'usage', 'seed'],
  ...['content_filter_results', 'content_filter_result', 'content_filter_offsets'],
  ...['finish_reason', 'native_finish_reason'],
])
export const MESSAGE = new Set([
  ...['role', 'content', 'refusal', 'annotations', 'images', 'audio', 'tool_calls', 'function_call'],
  ...['reasoning', 'reasoning_content', 'reasoning_text', 'reasoning_details'],
  ...['index', 'id', 'name', 'channel', 'prefix'],
])
export const DETAIL = new Set(['type', 'text', 'summary', 'data', 'signature', 'format', 'index', 'id'])
const ANNOTATION = new Set(['type', 'url_citation', 'start_index', 'end_index'])
const URL_CITATION = new Set(['url', 'title', 'content', 'start_index', 'end_index'])

export function addUnreadOfAnnotation(unread: UnreadMembers, annotation: unknown): void {
  if (!isObject(annotation)) return
  unread.add(annotation, ANNOTATION, 'annotations.')
  if (isObject(annotation.url_citation)) unread.add(annotation.url_citation, URL_CITATION, 'annotations.')
}

const CALL = new Set(['id', 'index', 'type', 'function', 'custom', 'extra_content'])
const FUNCTION = new Set(['name', 'arguments', 'input'])

export function addUnreadOfCall(unread: UnreadMembers, call: Json): void {
  unread.add(call, CALL, 'tool_calls.')
  if (isObject(call.function)) unread.add(call.function, FUNCTION, 'tool_calls.')
  if (isObject(call.custom)) unread.add(call.custom, FUNCTION, 'tool_calls.')
}
