import type { ResponseContext } from '../protocol.ts'
import { isObject, arrayOf, objectOf } from '../../json/parse.ts'
import type { Json } from './shapes.ts'

/**
 * The response object before anything was generated: every member that OpenAI documents, with the client's values or
 * else OpenAI's defaults. Translated responses are never made in the background; the tier is what the provider reports.
 */
export function responseObject({ rawRequest: { body }, responseIdentity }: ResponseContext): Json {
  const reasoning = objectOf(body.reasoning),
    text = objectOf(body.text)
  const isTranslated = responseIdentity.issuer !== undefined
  return {
    id: responseIdentity.id,
    object: 'response',
    created_at: responseIdentity.createdAt,
    completed_at: null,
    status: 'in_progress',
    background: !isTranslated && body.background === true,
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
    service_tier: 'default',
    store: body.store ?? true,
    temperature: body.temperature ?? 1,
    text: { format: isObject(text.format) ? text.format : { type: 'text' }, verbosity: text.verbosity ?? 'medium' },
    tool_choice: body.tool_choice ?? 'auto',
    tools: arrayOf(body.tools).map(echoedTool),
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

/** A tool with the members that clients require of a function in a response. */
function echoedTool(tool: unknown): unknown {
  if (!isObject(tool)) return tool
  if (tool.type === 'namespace') return { ...tool, tools: arrayOf(tool.tools).map(echoedTool) }
  if (tool.type !== 'function') return tool
  return { ...tool, parameters: tool.parameters ?? null, strict: tool.strict ?? false }
}
