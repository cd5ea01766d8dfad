import { EFFORTS, type ConversationName, type Effort, type ProtocolName } from '../config/provider-terms.ts'
import type { Signature } from './signature.ts'

export type { ConversationName, ProtocolName }

/** A client's request, independent of its protocol. Absent members were not sent: the provider decides. */
export type GenerationRequest = {
  /** Model as the client named it. */
  model: string
  /** System and developer instructions at the beginning of the conversation. */
  system: Part[]
  turns: Turn[]
  tools: Tool[]
  toolChoice?: ToolChoice
  parallelTools?: boolean
  sampling: Sampling
  /** Limit of generated tokens including reasoning. */
  maxOutputTokens?: number
  /** Requested number of responses, if more than one; the tokens of each are billed. */
  candidates?: number
  reasoning?: Reasoning
  outputFormat?: OutputFormat
  /** Requested kinds of output. */
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
  /** A cache breakpoint at the end of the request, wherever that is. */
  cache?: { ttl?: '5m' | '1h' }
  /** OpenAI's lifetime of a cached prefix. */
  cacheRetention?: string
  stream: boolean
  /** responses only: the conversation is to be compacted, not continued. */
  compaction?: true
  /** chat completions only: the client requests a usage chunk in its stream. */
  includeUsage?: boolean
  /** The protocol the request was read from. */
  protocol: ProtocolName
  /**
   * Fields that only the client's own protocol knows, by path: they are passed to a provider of that protocol and
   * reported as lost elsewhere. A GatewayError is the refusal of a value that no other protocol can represent.
   */
  extras: Record<string, unknown>
}

/** A request without its conversation. */
export type RequestSettings = Omit<GenerationRequest, 'system' | 'turns' | 'tools' | 'extras'>

/** Provenance: the path at which the client wrote it, `messages[2].content[0]`; absent for what was added. */
export type Located = { path?: string | undefined }

export type Turn = Located & {
  role: 'user' | 'assistant' | 'tool' | 'system' | 'developer'
  /** `tool` turns hold only tool-result parts. */
  parts: Part[]
  name?: string
}

/** One piece of a turn or of a response. */
export type Part =
  | TextPart
  | ReasoningPart
  | (Located & { type: 'refusal'; text: string })
  | ToolCallPart
  | ToolResultPart
  | MediaPart
  | NativePart

/** `cache`: a cache breakpoint after this element, with its lifetime. */
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
  /** `summary`: written by the provider; `raw`: the model's own text. Absent if the provider does not say. */
  form?: 'raw' | 'summary'
  signature?: Signature
  /** Reasoning without visible text: only `signature` carries it. */
  redacted?: boolean
  /** The provider's id of the item (`rs_...`). */
  id?: string
}

export type ToolCallPart = Cacheable & {
  type: 'tool-call'
  id: string
  name: string
  /**
   * JSON text as received (key order, big integers); free text if `form` is `custom`. Incomplete if the response was
   * truncated.
   */
  arguments: string
  form: 'function' | 'custom'
  signature?: Signature
}

export type ToolResultPart = Cacheable & {
  type: 'tool-result'
  callId: string
  /** Name of the called tool, from the result or from its call. */
  name?: string
  content: (TextPart | MediaPart | NativePart)[]
  isError?: boolean
  form: 'function' | 'custom'
}

export type MediaPart = Cacheable & {
  type: 'image' | 'audio' | 'video' | 'file'
  source: MediaSource
  filename?: string
  /** The name by which the text of its tool result refers to it. */
  label?: string
  /** Requested resolution in lower case: OpenAI's `detail`, Google's `mediaResolution`. */
  detail?: string
  signature?: Signature
}

export type MediaSource =
  /** `data` is standard base64 without a prefix. */
  | { type: 'data'; mediaType: string; data: string }
  | { type: 'url'; url: string; mediaType?: string }
  | { type: 'file'; id: string; mediaType?: string }
  /** Plain text as a document (Anthropic's `text` source). */
  | { type: 'text'; text: string; mediaType: string }

/**
 * An element that only its own protocol knows: carried whole to a provider with that protocol, and otherwise refused
 * or, if it is `optional`, dropped with a loss. `path` is absent in responses.
 */
export type NativePart = {
  type: 'native'
  protocol: ProtocolName
  kind: string
  value: unknown
  path?: string
  optional?: boolean
  /** The steps of the provider's own tool, in no protocol's terms. */
  steps?: HostedStep[]
  /** Readable text in it, for providers of other protocols. */
  readable?: string
}

/** A step of a tool that the provider runs. A result has the id of its call. */
export type HostedStep = { id: string } & (
  | { type: 'code'; code: string }
  | { type: 'mcp-call'; server: string; name: string; arguments: string }
  | { type: 'code-result' | 'mcp-result'; output: string; failed: boolean }
)

/** A tool that providers of several protocols run, without what only one of them has. */
export type HostedTool =
  | { type: 'code' }
  /** A remote server of tools, which are called without asking the client. `allowed`: the only ones; absent: all. */
  | { type: 'mcp'; name: string; url: string; token?: string; allowed?: string[] }

export type Citation = {
  url?: string
  title?: string
  /** Quotation from the source. */
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
   * A tool that the provider runs itself, or of another kind that only its protocol has. `optional`: dropped with a
   * loss if the provider has no such tool. `hosted`: what it is for providers of other protocols.
   */
  | {
      type: 'native'
      protocol: ProtocolName
      kind: string
      value: unknown
      path?: string
      optional?: boolean
      hosted?: HostedTool[]
    }

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
  /** Log probabilities of the chosen tokens, each with `topLogprobs` alternatives. */
  logprobs?: boolean
  topLogprobs?: number
}

export { EFFORTS, type Effort }

export type Reasoning = {
  /** The canonical option. */
  effort?: Effort
  /** An exact budget in tokens; -1: the model decides. */
  budgetTokens?: number
  /** Reasoning with an effort that the model chooses (Anthropic's `adaptive`). */
  adaptive?: boolean
  /** The response includes the reasoning text; absent: the protocol's default. */
  visible?: boolean
  /** OpenAI's `reasoning.summary`. */
  summary?: string
}

export type OutputFormat =
  | { type: 'text' }
  | { type: 'json' }
  | { type: 'schema'; schema: unknown; name?: string; description?: string; strict?: boolean }
  /** One value of the schema's `enum` as plain text (Google's `text/x.enum`). */
  | { type: 'enum'; schema: unknown }

/** Requested images, with the options of OpenAI's images API and, for a ratio and a size class, of Google. */
export type ImageOutput = {
  /** Number of images. */
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
  /** The only domains that are searched, and domains that are not searched. */
  allowedDomains?: string[]
  blockedDomains?: string[]
  /** Maximum number of searches. */
  maxUses?: number
}
