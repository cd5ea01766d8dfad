/** The literal lists that configuration, catalogue and protocols share. */

import type { Quirks } from '../protocols/quirks.ts'

/** The wire protocols of conversations. */
const CONVERSATION_NAMES = ['chat.completions', 'responses', 'messages', 'generateContent'] as const
export type ConversationName = (typeof CONVERSATION_NAMES)[number]

/** All wire protocols that Sluice serves and calls. */
const PROTOCOL_NAMES = [...CONVERSATION_NAMES, 'images'] as const
export type ProtocolName = (typeof PROTOCOL_NAMES)[number]

/** The APIs of providers: the wire protocols, and predictions, which are jobs instead of responses. */
export const API_NAMES = [...PROTOCOL_NAMES, 'predictions'] as const
export type Api = (typeof API_NAMES)[number]

/** Kinds of content that a model reads or generates. */
export const MODALITIES = ['text', 'image', 'audio', 'video', 'file'] as const
export type Modality = (typeof MODALITIES)[number]

/** Reasoning efforts in ascending order. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

/** Fields of chat completions that some servers refuse with a 4xx. */
const REFUSABLE_FIELDS = [
  'stream_options',
  'temperature',
  'top_p',
  'frequency_penalty',
  'presence_penalty',
  'seed',
  'logit_bias',
  'logprobs',
  'top_logprobs',
  'parallel_tool_calls',
  'reasoning_effort',
  'modalities',
  'image_config',
  'verbosity',
  'web_search_options',
  'user',
  'metadata',
  'service_tier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'messages[].name',
  'messages[].refusal',
] as const
export type RefusableField = (typeof REFUSABLE_FIELDS)[number]

/** A quirk has one of its values; `refuses` has a list of them. */
type ValueOf<T> = T extends readonly (infer One)[] ? One : T

/** Every quirk with its values, against which catalogue and configuration are checked. */
export const QUIRK_VALUES: { readonly [Name in keyof Quirks]-?: readonly ValueOf<NonNullable<Quirks[Name]>>[] } = {
  maxTokensField: ['max_tokens', 'max_completion_tokens'],
  refuses: REFUSABLE_FIELDS,
  seedField: ['seed', 'random_seed'],
  callIds: ['any', 'alphanumeric-9'],
  toolChoices: ['words', 'named', 'allowed'],
  strictRoles: [true, false],
  mediaParts: ['objects', 'strings'],
  resultUrls: [true, false],
  formatAlone: [true, false],
  systemRole: ['system', 'developer'],
  reasoningField: ['reasoning_content', 'reasoning', 'reasoning_details', 'none'],
  effortField: ['reasoning_effort', 'reasoning', 'thinking'],
  routesItself: [true, false],
  customTools: [true, false],
  replaysReasoning: [true, false],
  requiresReasoning: [true, false],
  stopsOnCancel: ['never', 'streams', 'always'],
}
