import type { ResponseContext } from '../protocol.ts'
import { isObject } from '../../json/parse.ts'
import { objectOf, type Json } from './shapes.ts'

/**
 * The response object before anything was generated: every member that OpenAI documents, with the client's values or
 * else OpenAI's defaults.
 */
export function responseObject({ rawRequest: { body }, responseIdentity }: ResponseContext): Json {
  const reasoning = objectOf(body.reasoning),
    text = objectOf(body.text)
  return {
    id: responseIdentity.id,
    object: 'response',
    created_at: responseIdentity.createdAt,
    completed_at: null,
    status: 'in_progress',
    background: body.background ?? false,
    content_filters: [],
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    model: responseIdentity.model,
    output: [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: body.prompt_cache_retention ?? null,
    reasoning: { effort: reasoning.effort ?? 'medium', summary: reasoning.summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: body.service_tier ?? 'default',
    store: body.store ?? true,
    temperature: body.temperature ?? 1,
    text: { format: isObject(text.format) ? text.format : { type: 'text' }, verbosity: text.verbosity ?? 'medium' },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    truncation: body.truncation ?? 'disabled',
    usage: null,
    user: body.user ?? null,
    metadata: body.metadata ?? {},
  }
}
