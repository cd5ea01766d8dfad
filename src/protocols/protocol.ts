import type { Auth } from '../config/provider-settings.ts'
import type { Modality, RefusableField } from '../config/provider-terms.ts'
import type { GatewayError } from '../error.ts'
import type { Answer, GenerationEvent } from '../generation/event.ts'
import type { Effort, GenerationRequest, MediaPart, ProtocolName } from '../generation/request.ts'
import type { Issuer } from '../generation/signature.ts'
import type { ReplayState } from '../generation/replay.ts'
import type { Usage } from '../generation/usage.ts'
import type { Frame } from '../http/frames.ts'
import type { ElementField, RequestPaths, SettingName } from './request-paths.ts'
import type { Loss, LossReport, Translation } from './translation.ts'
import type { TransformFactory } from './transforms.ts'

/**
 * One wire language, both sides of it. `serve`: a client speaks it to us. `call`: we speak it to a provider.
 * `relabeler`: both sides speak it, so the provider's own frames travel with our id and model name put on them.
 */
export type Protocol = {
  name: ProtocolName
  /** Its short name on the command line. */
  alias: string
  serve: {
    /** Wire -> our words. Validates every field the specification names; throws a GatewayError that names the path. */
    readRequest(rawRequest: RawRequest): GenerationRequest
    /** Where clients of this protocol write settings and fields: paths of losses and refusals. */
    paths: RequestPaths
    /**
     * What the protocol refuses of the model that is asked, where it says so itself. `abilities`: of each endpoint that
     * may be tried.
     */
    checkModel?(request: GenerationRequest, capabilities: readonly Capabilities[]): void
    /**
     * What the body names instead of carrying it: files of the client's account, URLs, and what only a provider keeps.
     * Absent: the protocol has none. `inserted`: see RawRequest.
     */
    references?(body: Record<string, unknown>, inserted?: number): (MediaReference | ProviderReference)[]
    /** Our events -> the frames of a stream. */
    writer(context: TranslationContext): Writer
    /** A whole answer -> the JSON object of a non-streaming response. */
    writeAnswer(answer: Answer, context: TranslationContext): object
    /** An error before the first byte -> the body; the status is `error.status`. */
    writeError(error: GatewayError, requestId: string): object
    /**
     * The HTTP status under which this protocol's clients know an error, where it is not `error.status` (Anthropic's
     * SDKs know overload as 529).
     */
    statusOf?(error: GatewayError): number
    /**
     * What is written after a silence so that proxies and clients keep the connection; absent where clients break on
     * it.
     */
    keepAlive?: string
    /** Prefix of the ids this protocol's clients expect (`chatcmpl-`). */
    idPrefix: string
    /** Whether a path without a route is one of this protocol, whose error format is then used. */
    ownsPath?(path: string): boolean
    /** How likely a body without a path is a request of this protocol: 0 (not), 1 or 2 (fields that only it has). */
    recognize(body: Record<string, unknown>): 0 | 1 | 2
    /** Model and streaming are in the path, not in the body. */
    modelInPath?: true
    /** Its responses cite whole blocks of text: the text of a stream is cut at the cited passages where it can be. */
    cutsAtPassages?: true
  }
  call: {
    /** How a key is sent to providers of this protocol, unless their configuration says otherwise. */
    auth: Auth
    /** Whether only providers of this protocol open such a URL. */
    opensOnly?(url: string): boolean
    /** Path after the provider's base URL, query included. */
    path(target: Target, stream: boolean): string
    /**
     * Headers of this protocol other than credentials. `wire` is given when the client speaks it too: what it said of
     * versions and betas is passed on.
     */
    headers(rawRequest: RawRequest | undefined): Record<string, string>
    /** The provider's body. Losses, and transforms that undo changes on the response, are added to the translation. */
    writeRequest(translation: Translation): Record<string, unknown>
    /**
     * Same protocol on both sides: the client's own body text with the provider's model name, and usage asked for. What
     * had to be made up is added to `losses`.
     */
    forward(context: TranslationContext, target: Target, report: LossReport): string
    /** `inlineCitations`: citations are to come inside the text that they cite, for `cutAtPassages`. */
    reader(quirks: Quirks, inlineCitations?: boolean): Reader
    /** The reader can send citations inside the text that they cite, as the provider streams them. */
    inlineCitations?: true
    /**
     * The JSON of a non-streaming response -> the same events as a stream's. Throws a GatewayError on a body that is no
     * answer.
     */
    readAnswer(body: unknown, quirks: Quirks): GenerationEvent[]
    /**
     * The member that holds a call's arguments as an object, where the protocol does not write them as text: their
     * numbers are read as they were spelled.
     */
    argumentsIn?: string
    /**
     * A provider's error answer. 4xx about the request keep status and meaning; what is the provider's or our own fault
     * is 502, 503, 504 or 429.
     */
    readError(status: number, body: string): GatewayError
  }
  passthrough(context: TranslationContext): Passthrough
}

/** What a provider may be spoken to in: a protocol, or predictions, which are jobs and no answers. */
export type Api = ProtocolName | 'predictions'

/** A request as it came over the wire. */
export type RawRequest = {
  body: Record<string, unknown>
  /** The text `body` was parsed from. */
  text: string
  /** Model and streaming from the path, where the protocol puts them there. */
  model?: string
  stream?: boolean
  /** responses: how many items of `previous_response_id` were put in front of the client's own in `body.input`. */
  inserted?: number
  headers: Headers
}

/** A medium that a request names instead of carrying it. */
export type MediaReference = {
  /** Where the value stands that `inline` replaces: names of members and indexes, from the body down. */
  path: readonly (string | number)[]
  /** The same for error texts, down to the name or address itself: `messages[0].content[1].file.file_id`. */
  param: string
  source: { type: 'file'; id: string } | { type: 'url'; url: string }
  /** What the protocol takes in this place; absent: media of every kind. */
  kind?: MediaPart['type']
  /**
   * The value that carries the medium itself, in the protocol's own words. Throws an invalid_request where it has none
   * for this type.
   */
  inline(medium: MediaData): unknown
}

/**
 * What a provider keeps under its credentials, which many accounts share: whose it is cannot be told. `what`: for error
 * texts, `a vector store`.
 */
export type ProviderReference = { param: string; source: { type: 'provider'; what: string } }

/** `data`: standard base64. */
export type MediaData = { mediaType: string; data: string; filename: string }

/** What is said about one generation in its answer. */
export type ResponseIdentity = {
  /** Generation id with the protocol's prefix. */
  id: string
  /** The model name that the client asked for. */
  model: string
  /** Unix seconds. */
  createdAt: number
  /** Whose signatures these are, when the provider speaks another protocol than the client: they are sealed with it. */
  issuer?: Issuer
}

/** One request and what its answer is labelled with. */
export type TranslationContext = {
  rawRequest: RawRequest
  request: GenerationRequest
  responseIdentity: ResponseIdentity
  /**
   * What the client left out of earlier turns and its maker wants back: it stands in the turns of `request`, but not in
   * `wire`.
   */
  restoredReasoning?: readonly ReplayState[]
  /** Where the images of the answer are to be found, in their order; absent: they are told in base64. */
  imageUrls?: string[]
  /**
   * What was lost on the way there, to which the writer of the answer adds (`lose` in losses.ts); absent where nothing
   * is translated.
   */
  losses?: LossReport
  /** The client wants them in the body, too. */
  report?: boolean
  /** Responses only: called once with the full final response object, before its last frame is returned. */
  keep?: ((response: Record<string, unknown>) => void) | undefined
  /**
   * Responses in the background only: called with each state of the response, as its provider says it and as its client
   * knows it.
   */
  follow?: (theirs: Record<string, unknown>, ours: Record<string, unknown>) => void
}

/** Where a request goes: a provider's model, and what is known of both. */
export type Target = {
  provider: string
  /** The provider's own name of the model. */
  model: string
  quirks: Quirks
  capabilities: Capabilities
}

/** The provider's JSON body, its losses, and what undoes its changes on each response. */
export type WrittenRequest = {
  body: Record<string, unknown>
  losses: LossReport
  transforms: readonly TransformFactory[]
}

/** Provider's frames -> events. Lives as long as one answer. */
export interface Reader {
  read(frame: Frame): GenerationEvent[]
  /**
   * The bytes ended: a stream without its terminal event yields an `error` event (upstream_error, "ended before...").
   */
  end(): GenerationEvent[]
  /**
   * The frame just read may be the last that says anything: only what follows tells. Also of one in which usage is
   * missing, which then waits for the end to be told.
   */
  readonly finishing?: boolean
}

/**
 * Events -> client's frames. Lives as long as one answer. `error` events become the protocol's own mid-stream error,
 * whatever came before.
 */
export interface Writer {
  write(event: GenerationEvent): Frame[]
}

/** Provider's frame -> the client's. Lives as long as one answer. */
export interface Passthrough {
  /** `undefined`: not for this client (usage it did not ask for). */
  frame(frame: Frame): Frame | undefined
  /** The stream broke: the frames with which this protocol says so, fitting what was already sent. */
  fail(error: GatewayError): Frame[]
  /**
   * One of the frames that end the answer, as it came or as it leaves: with counted usage in the place where this
   * protocol says it.
   */
  counted?(frame: Frame, usage: Usage): Frame
  /**
   * What closes a stream after its terminal event (`[DONE]`); the provider's own closing frame is then not passed on by
   * `frame`. `counted`: usage that the provider did not tell.
   */
  end?(counted?: Usage): Frame[]
  /** The JSON text of a non-streaming response. `counted`: usage that the provider did not tell. */
  answer(text: string, counted?: Usage): string
}

/** How a provider differs from its protocol's document. Data in `catalog/providers.json`, one flag a difference. */
export type Quirks = {
  /**
   * chat: the field for the output limit. OpenAI's reasoning models refuse `max_tokens`; most compatible servers know
   * nothing else. Default `max_tokens`.
   */
  maxTokensField?: 'max_tokens' | 'max_completion_tokens'
  /**
   * chat: fields that are a 4xx there. They are left out of translated requests and told, but for `stream_options`,
   * which Sluice itself adds: usage then comes unasked or never.
   */
  refuses?: Refusable[]
  /** chat: the field of the seed. Default `seed`. */
  seedField?: 'seed' | 'random_seed'
  /** chat: which ids calls may have: up to 64 characters (default), or exactly nine letters and digits. */
  callIds?: 'any' | 'alphanumeric-9'
  /**
   * chat: which choices of tools are known: `none`, `auto` and `required` alone, a named function too (default), or
   * OpenAI's `allowed_tools` too. Elsewhere only the chosen tools are sent.
   */
  toolChoices?: 'words' | 'named' | 'allowed'
  /**
   * chat: roles follow one another as Mistral's models were trained: after results the assistant speaks before anyone
   * else does, instructions do not follow the assistant's
   * words or results, and an answer that was begun is marked with `prefix: true`, or refused.
   */
  strictRoles?: boolean
  /**
   * chat: how files and sound are written: as OpenAI's objects (default), or in one string each, `document_url` and
   * `input_audio` (Mistral).
   */
  mediaParts?: 'objects' | 'strings'
  /** chat: a format of the answer is refused beside tools and in streams. */
  formatAlone?: boolean
  /** chat: the role leading instructions are sent with. Default `system`. */
  systemRole?: 'system' | 'developer'
  /** chat: the field in which earlier reasoning is sent back. Default `reasoning_content`. */
  reasoningField?: 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'none'
  /** Unsigned reasoning beside tool calls is remembered, and sent back for clients that drop it. */
  replaysReasoning?: boolean
  /**
   * chat, messages: a request with tools is refused unless each assistant message has reasoning, which may be empty
   * and unsigned.
   */
  requiresReasoning?: boolean
  /**
   * chat: how an effort is said: by OpenAI's field (default), OpenRouter's object, or OpenAI's field with Anthropic's
   * switch beside it (`thinking: {type: disabled}`).
   */
  effortField?: 'reasoning_effort' | 'reasoning' | 'thinking'
  /** chat: `provider` and `models` are this provider's own routing fields and are passed on. */
  routesItself?: boolean
  /** chat: the server knows `custom` tools (OpenAI); any other gets a function with one string, `input`. */
  customTools?: boolean
}

/** Fields of chat completions that servers refuse, with our words for them; null: nobody misses it. */
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
export type Refusable = keyof typeof REFUSABLE

/** What a model can do. Data in `catalog/models.json`; absent: not known, the provider decides. */
export type Capabilities = {
  /** What else than a conversation the model is asked by: an images API, or predictions. */
  api?: 'images' | 'predictions'
  input?: Modality[]
  output?: Modality[]
  /** Whether it calls tools; whether it keeps to a schema. */
  tools?: boolean
  structuredOutput?: boolean
  maxOutputTokens?: number
  /** images: answers in base64 alone and refuses `response_format`. */
  base64Only?: boolean
  /** How depth of reasoning is asked for; `none`: the model does not reason. */
  reasoning?: 'effort' | 'budget' | 'adaptive' | 'level' | 'none'
  /**
   * Depths that can be asked for, where it is not by a budget, from shallow to deep; `none` among them: reasoning can
   * be switched off. Empty: the model decides.
   */
  efforts?: Effort[]
  /**
   * Smallest and largest budget, tokens, where `reasoning` is `budget`; `off`: 0 switches reasoning off, though it lies
   * below `min`.
   */
  budget?: { min: number; max: number; off?: boolean }
  /**
   * Whether temperature, top_p and the like are taken; `idle`: only while the model does not reason; `either`: a
   * temperature or top_p, not both.
   */
  sampling?: boolean | 'idle' | 'either'
  /** false: presence and frequency penalties are refused. */
  penalties?: boolean
  /** Most stop sequences, where that is less than the protocol's. */
  stops?: number
  /** Whether a call can be forced; `idle`: only while the model does not reason. */
  forcedTools?: boolean | 'idle'
  /** chat: false: `parallel_tool_calls` is refused. */
  parallelTools?: boolean
  /** chat: formats in which an answer can be asked for, where that is not both; else it is asked for in words. */
  formats?: ('json_object' | 'json_schema')[]
  /** false: instructions are refused, wherever they stand. */
  system?: boolean
  /** messages: `role: system` is taken in the middle of a conversation. */
  systemTurns?: boolean
  /** messages: false: the beginning of an answer, which the model is to continue, is refused. */
  prefill?: boolean
  /** How the end of a prefix to be cached is marked, where the protocol does not say it itself. */
  cacheBreakpoints?: 'cache_control' | 'prompt_cache_breakpoint'
}
