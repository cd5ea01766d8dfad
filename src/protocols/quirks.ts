import type { RefusableField } from '../config/provider-terms.ts'
import type { ElementField, SettingName } from './request-paths.ts'

/** Differences of a provider from its protocol's documentation, one flag each. Data in `catalog/providers.json`. */
export type Quirks = {
  /**
   * chat: the field for the output limit. OpenAI's reasoning models refuse `max_tokens`; most compatible servers have
   * only that. Default `max_tokens`.
   */
  maxTokensField?: 'max_tokens' | 'max_completion_tokens'
  /**
   * chat: fields that the provider refuses with a 4xx. They are dropped from translated requests and reported, except
   * `stream_options`, which Sluice itself adds: the provider then sends usage always or never. generateContent:
   * `service_tier`, for a server without `serviceTier`.
   */
  refuses?: Refusable[]
  /** chat: the field of the seed. Default `seed`. */
  seedField?: 'seed' | 'random_seed'
  /** chat: ids of tool calls: up to 64 characters (default), or exactly nine letters and digits. */
  callIds?: 'any' | 'alphanumeric-9'
  /**
   * chat: accepted values of `tool_choice`: `none`, `auto` and `required` only (`words`), also a named function
   * (default), or also OpenAI's `allowed_tools`. For any other choice only the chosen tools are sent.
   */
  toolChoices?: 'words' | 'named' | 'allowed'
  /**
   * chat: Mistral's order of roles: an assistant message follows tool results, no instructions follow an assistant
   * message or results, and the beginning of a response is marked with `prefix: true`, or refused.
   */
  strictRoles?: boolean
  /** chat: files and audio as OpenAI's objects (default), or as strings, `document_url` and `input_audio` (Mistral). */
  mediaParts?: 'objects' | 'strings'
  /** generateContent: a medium in the result of a function may have a URL (Vertex); otherwise it follows the result. */
  resultUrls?: boolean
  /** chat: a response format is refused together with tools and in streams. */
  formatAlone?: boolean
  /** chat: the role of leading instructions. Default `system`. */
  systemRole?: 'system' | 'developer'
  /** chat: the field for earlier reasoning. Default `reasoning_content`. */
  reasoningField?: 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'none'
  /** Unsigned reasoning beside tool calls is remembered, and sent back for clients that drop it. */
  replaysReasoning?: boolean
  /**
   * chat, messages: a request with tools is refused unless each assistant message has reasoning, which may be empty
   * and unsigned.
   */
  requiresReasoning?: boolean
  /**
   * chat: the reasoning effort in OpenAI's field (default), in OpenRouter's object, or in OpenAI's field with
   * Anthropic's `thinking: {type: disabled}` for none.
   */
  effortField?: 'reasoning_effort' | 'reasoning' | 'thinking'
  /** chat, responses: the members about routing are read by the provider itself, and passed on. */
  routesItself?: boolean
  /** chat: the server has `custom` tools (OpenAI); otherwise they become functions with one string, `input`. */
  customTools?: boolean
  /**
   * The responses whose generation, and charge, ends when their connection closes: `never` (default), `streams`, or
   * `always`. Any other is read on for a while when its client leaves.
   */
  stopsOnCancel?: 'never' | 'streams' | 'always'
}

/** Fields of chat completions that servers may refuse, with their setting or element field; null: no loss. */
export const REFUSABLE = {
  stream_options: null,
  temperature: 'temperature',
  top_p: 'topP',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  seed: 'seed',
  logit_bias: 'logitBias',
  logprobs: 'logprobs',
  top_logprobs: 'topLogprobs',
  parallel_tool_calls: 'parallelTools',
  reasoning_effort: 'reasoning',
  modalities: 'outputModalities',
  image_config: 'imageOutput',
  verbosity: 'verbosity',
  web_search_options: 'webSearch',
  user: 'user',
  metadata: 'metadata',
  service_tier: 'serviceTier',
  prompt_cache_key: 'cacheKey',
  prompt_cache_retention: 'cacheRetention',
  'messages[].name': 'name',
  'messages[].refusal': 'content',
} as const satisfies Record<RefusableField, SettingName | ElementField | null>
type Refusable = keyof typeof REFUSABLE
