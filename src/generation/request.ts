import { EFFORTS, type Effort } from '../config/provider-terms.ts'
import type { Signature } from './signature.ts'

/** The names of the wire protocols in which a conversation is held. */
export type ConversationName = 'chat.completions' | 'responses' | 'messages' | 'generateContent'

/** The names of all wire protocols, as `api` in a generation record says them. */
export type ProtocolName = ConversationName | 'images'

/** What a client asks for, in our words. Absent means: the client said nothing, the provider decides. */
export type GenerationRequest = {
  /** Model as the client named it. */
  model: string
  /** System and developer text that leads the conversation. */
  system: Part[]
  turns: Turn[]
  tools: Tool[]
  toolChoice?: ToolChoice
  parallelTools?: boolean
  sampling: Sampling
  /** Limit of generated tokens including reasoning. */
  maxOutputTokens?: number
  /** Answers wanted at once, where more than one; the tokens of each are billed. */
  candidates?: number
  reasoning?: Reasoning
  outputFormat?: OutputFormat
  /** Kinds of output wanted besides text. */
  outputModalities?: ('text' | 'image' | 'audio')[]
  imageOutput?: ImageOutput
  verbosity?: 'low' | 'medium' | 'high'
  webSearch?: WebSearch
  /** The end user's id, as the client's application knows it. */
  user?: string
  metadata?: Record<string, unknown>
  serviceTier?: string
  /** Routes requests with the same prefix to the same cache. */
  cacheKey?: string
  /** All of the request is a prefix to be cached: a mark on its end, wherever that is. */
  cache?: { ttl?: '5m' | '1h' }
  /** OpenAI's wish how long a cached prefix is kept. */
  cacheRetention?: string
  stream: boolean
  /** chat completions only: the client wants a usage chunk in its stream. */
  includeUsage?: boolean
  /** The protocol the request was read from. */
  protocol: ProtocolName
  /**
   * Fields that only the client's own protocol knows, by path: they travel to a provider that speaks it and are
   * reported as lost elsewhere.
   */
  extras: Record<string, unknown>
}

/** Provenance: the path at which the client wrote it, `messages[2].content[0]`; absent for what was added. */
export type Located = { path?: string | undefined }

export type Turn = Located & {
  role: 'user' | 'assistant' | 'tool' | 'system' | 'developer'
  /** `tool` turns hold only tool-result parts. */
  parts: Part[]
  name?: string
}

/** One piece of a turn or of an answer. */
export type Part =
  | TextPart
  | ReasoningPart
  | (Located & { type: 'refusal'; text: string })
  | ToolCallPart
  | ToolResultPart
  | MediaPart
  | NativePart

/** `cache` marks the end of a prefix the provider should cache, with its lifetime. */
type Cacheable = Located & { cache?: { ttl?: '5m' | '1h' } }

export type TextPart = Cacheable & {
  type: 'text'
  text: string
  citations?: Citation[]
  logprobs?: TokenLogprob[]
  signature?: Signature
}

export type ReasoningPart = Located & {
  type: 'reasoning'
  text: string
  /**
   * `summary`: a digest made by the provider; `raw`: the model's own thoughts. Absent where the provider does not say.
   */
  form?: 'raw' | 'summary'
  signature?: Signature
  /** Reasoning whose text the provider hides: only `signature` carries it. */
  redacted?: boolean
  /** The provider's id of the item (`rs_...`). */
  id?: string
}

export type ToolCallPart = Cacheable & {
  type: 'tool-call'
  id: string
  name: string
  /**
   * JSON text exactly as it came (key order, big integers); free text when `form` is `custom`. May be cut when the
   * answer was truncated.
   */
  arguments: string
  form: 'function' | 'custom'
  signature?: Signature
}

export type ToolResultPart = Cacheable & {
  type: 'tool-result'
  callId: string
  /** Name of the called tool, where the protocol says it or the conversation shows it. */
  name?: string
  content: (TextPart | MediaPart | NativePart)[]
  isError?: boolean
  form: 'function' | 'custom'
}

export type MediaPart = Cacheable & {
  type: 'image' | 'audio' | 'video' | 'file'
  source: MediaSource
  filename?: string
  /** Resolution wished for: OpenAI's `detail`, Google's `mediaResolution`, lower case. */
  detail?: string
  signature?: Signature
}

export type MediaSource =
  /** `data` is standard base64 without a prefix. */
  | { type: 'data'; mediaType: string; data: string }
  | { type: 'url'; url: string; mediaType?: string }
  | { type: 'file'; id: string; mediaType?: string }
  /** Plain text given as a document (Anthropic's `text` source). */
  | { type: 'text'; text: string; mediaType: string }

/**
 * Something only its own protocol understands: it travels whole there, and elsewhere is refused or, where it is
 * `optional`, left out with a loss. `path`: where the client says it; absent in answers.
 */
export type NativePart = {
  type: 'native'
  protocol: ProtocolName
  kind: string
  value: unknown
  path?: string
  optional?: boolean
}

export type Citation = {
  url?: string
  title?: string
  /** Words of the source. */
  citedText?: string
  /** Range in the text part's own text, UTF-16 code units, end exclusive. */
  start?: number
  end?: number
  /** The provider's own object, for its own protocol. */
  native?: unknown
}

export type TokenLogprob = {
  token: string
  logprob: number
  bytes?: number[] | null
  top?: { token: string; logprob: number; bytes?: number[] | null }[]
}

export type Tool =
  | (Located & {
      type: 'function'
      name: string
      description?: string
      parameters?: unknown
      strict?: boolean
      cache?: { ttl?: '5m' | '1h' }
    })
  /** A tool whose input is free text (chat and responses `custom`); `format` is the protocol's own grammar object. */
  | (Located & { type: 'custom'; name: string; description?: string; format?: unknown })
  /**
   * A tool the provider runs itself, or any other kind its protocol knows. `optional`: it may be left out, with a loss,
   * where the provider has no such tool. `path`: where the client says it.
   */
  | { type: 'native'; protocol: ProtocolName; kind: string; value: unknown; path?: string; optional?: boolean }

export type ToolChoice =
  | { type: 'auto' | 'none' | 'required' }
  | { type: 'tool'; name: string; form?: 'function' | 'custom' }
  /** Only these tools may be called; `required`: one of them must be. */
  | { type: 'allowed'; names: string[]; required: boolean }

export type Sampling = {
  temperature?: number
  topP?: number
  topK?: number
  frequencyPenalty?: number
  presencePenalty?: number
  seed?: number
  stop?: string[]
  logitBias?: Record<string, number>
  /** Log probabilities of the chosen tokens wanted, with this many alternatives. */
  logprobs?: boolean
  topLogprobs?: number
}

export { EFFORTS, type Effort }

export type Reasoning = {
  /** The canonical wish. */
  effort?: Effort
  /** An exact budget, where the client gave one; -1: the model decides. */
  budgetTokens?: number
  /** Reasoning on, depth left to the model (Anthropic's `adaptive`). */
  adaptive?: boolean
  /** Whether visible thoughts are wanted; absent: the protocol's default. */
  visible?: boolean
  /** OpenAI's `reasoning.summary`. */
  summary?: string
}

export type OutputFormat =
  | { type: 'text' }
  | { type: 'json' }
  | { type: 'schema'; schema: unknown; name?: string; description?: string; strict?: boolean }
  /** One of the values of the schema's `enum`, as bare text (Google's `text/x.enum`). */
  | { type: 'enum'; schema: unknown }

/**
 * What images that are asked for should be like, in the words of the images API and, where a client speaks in ratios,
 * of Google.
 */
export type ImageOutput = {
  /** Images wanted. */
  count?: number
  /** Pixels. */
  size?: { width: number; height: number }
  /** `16:9`. */
  aspectRatio?: string
  /** `1K`, `2K`, `4K`. */
  imageSize?: string
  quality?: string
  background?: string
  format?: 'png' | 'jpeg' | 'webp'
  /** Percent. */
  compression?: number
}

export type WebSearch = Located & {
  contextSize?: string
  userLocation?: unknown
  /** The only domains that are searched; domains that are not. */
  allowedDomains?: string[]
  blockedDomains?: string[]
  /** Most searches. */
  maxUses?: number
}
