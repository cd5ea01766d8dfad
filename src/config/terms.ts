/** The literal lists that configuration, store, accounts and ledger share. */

export const KEY_KINDS = ['pay-as-you-go', 'subscription', 'management'] as const
export type KeyKind = (typeof KEY_KINDS)[number]

export const KEY_PREFIXES: Record<KeyKind, string> = {
  'pay-as-you-go': 'sk-ai-v1-',
  subscription: 'sk-ss-v1-',
  management: 'sk-mg-v1-',
}

/** The kind given by a key's prefix; undefined where it has none of ours. */
export const kindOfText = (text: string): KeyKind | undefined =>
  KEY_KINDS.find((kind) => text.startsWith(KEY_PREFIXES[kind]))

/** Periods after which a key's spending limit resets; they begin with the day, the Monday and the month in UTC. */
export const LIMIT_PERIODS = ['day', 'week', 'month'] as const
export type LimitPeriod = (typeof LIMIT_PERIODS)[number]

/** The course of a response for which no more can be held: it ends as at its output limit, or goes on. */
export const WHEN_EXHAUSTED = ['cut', 'finish'] as const
export type WhenExhausted = (typeof WHEN_EXHAUSTED)[number]

/** The failures that generations survive once they are answered: of the power, or of the process alone. */
export const DURABILITIES = ['power', 'process'] as const
export type Durability = (typeof DURABILITIES)[number]

/** The stores of the bytes of files beside a bucket: the data folder, or the database. */
export const FILE_STORES = ['folder', 'postgres'] as const
export type FileStoreName = (typeof FILE_STORES)[number]

export const LOG_FORMATS = ['text', 'json'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** Severities of the log's lines, the worst first. */
export const LOG_LEVELS = ['error', 'warn', 'info'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** The requests that have a line in the log. */
export const LOG_REQUESTS = ['all', 'errors', 'none'] as const
export type LogRequests = (typeof LOG_REQUESTS)[number]

/** The requests whose bodies are captured, the fewest first. */
export const CAPTURE_MODES = ['off', 'errors', 'all'] as const
export type CaptureMode = (typeof CAPTURE_MODES)[number]

/** Kinds of texts that can be blanked in captured bodies. */
export const REDACTED_TEXTS = ['emails', 'phones', 'cards'] as const
export type RedactedText = (typeof REDACTED_TEXTS)[number]

/** The orders in which the endpoints of a model are tried. */
export const STRATEGIES = ['order', 'weights', 'price', 'latency', 'throughput', 'least-busy'] as const
export type Strategy = (typeof STRATEGIES)[number]

/** Precisions of weights that providers name. */
export const QUANTIZATIONS = ['int4', 'int8', 'fp4', 'fp6', 'fp8', 'fp16', 'bf16', 'fp32', 'unknown'] as const
export type Quantization = (typeof QUANTIZATIONS)[number]

/** The quota windows of a subscription. */
export const WINDOW_NAMES = ['5_hour', '7_day', 'monthly'] as const
export type QuotaWindowName = (typeof WINDOW_NAMES)[number]

/** The prices of the image model that a provider's tool draws with. */
export const IMAGE_TOOL_ITEMS = [
  'image_tool_prompt',
  'image_tool_input_image',
  'image_tool_completion',
  'image_tool_output_image',
] as const
const TOKEN_ITEMS = [
  'prompt',
  'input_cache_read',
  'input_cache_read_audio',
  'input_cache_write_5_min',
  'input_cache_write_1_h',
  'input_audio',
  'input_image',
  'completion',
  'reasoning',
  'output_audio',
  'output_image',
  'output_video',
  ...IMAGE_TOOL_ITEMS,
] as const
const COUNT_ITEMS = ['web_search', 'search_request', 'image', 'request'] as const

/** The fee items, in the order of a bill: first those priced per token, then those priced per unit. */
export const FEE_ITEMS = [...TOKEN_ITEMS, ...COUNT_ITEMS] as const
export type FeeItem = (typeof FEE_ITEMS)[number]

/** True for items whose rates depend on the class of service: the tokens of the requested model. */
export const isOfClass = (item: FeeItem): boolean =>
  !isCounted(item) && !(IMAGE_TOOL_ITEMS as readonly FeeItem[]).includes(item)

/** True for items priced per unit instead of per million tokens. */
export const isCounted = (item: FeeItem): boolean => (COUNT_ITEMS as readonly FeeItem[]).includes(item)
