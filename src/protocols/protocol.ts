import type { Auth } from '../config/provider-settings.ts'
import type { Modality } from '../config/provider-terms.ts'
import type { GatewayError } from '../error.ts'
import type { GenerationResponse, GenerationEvent } from '../generation/event.ts'
import type { Effort, GenerationRequest, MediaPart, ProtocolName, RequestSettings } from '../generation/request.ts'
import type { Issuer } from '../generation/signature.ts'
import type { ReplayState } from '../generation/replay.ts'
import type { Usage } from '../generation/usage.ts'
import type { Frame } from '../http/frames.ts'
import type { BodyScan } from '../json/body-scan.ts'
import type { Quirks } from './quirks.ts'
import type { RequestPaths } from './request-paths.ts'
import type { LossReport, Translation } from './translation.ts'
import type { UnreadRules } from './unread-request.ts'

/**
 * One wire protocol. `serve`: clients call Sluice with it. `call`: Sluice calls a provider with it. `passthrough`:
 * client and provider both use it, so the provider's own frames are passed on with the id and model name of Sluice.
 */
export type Protocol = {
  name: ProtocolName
  /** Its short name on the command line. */
  alias: string
  serve: {
    /** Reads a request. Throws a GatewayError with the path of an invalid field that Sluice needs itself. */
    readRequest(rawRequest: RawRequest): GenerationRequest
    /** Bodies may have members about the choice of the endpoint: `routing-members.ts`. */
    routed?: true
    /** Absent: the conversation of every request is read. */
    unread?: UnreadRules
    /** The paths of settings and fields in requests, for losses and refusals. */
    paths: RequestPaths
    /** Throws if the protocol cannot be used with the model. `capabilities`: of each endpoint that may be called. */
    checkModel?(request: RequestSettings, capabilities: readonly Capabilities[]): void
    /**
     * References in the body: to files of the client's account, to URLs, and to objects that a provider stores. Absent:
     * the protocol has none. `inserted`: see RawRequest.
     */
    references?(body: Record<string, unknown>, inserted?: number): References
    /** Writes events as the frames of a stream. */
    writer(context: ResponseContext): Writer
    /** The members of a request's body on which its response depends. Absent: there are none. */
    repeatedMembers?(body: Record<string, unknown>): Record<string, unknown>
    /** The JSON body of a response that is not streamed. */
    writeResponse(answer: GenerationResponse, context: ResponseContext): object
    /** The body of an error before the first byte; its status is `error.status`. */
    writeError(error: GatewayError, requestId: string): object
    /** The HTTP status that this protocol's clients expect, if not `error.status` (529 for overload in messages). */
    statusOf?(error: GatewayError): number
    /** Written during a pause so that proxies and clients keep the connection; absent if clients fail on it. */
    keepAlive?: string
    /** Prefix of response ids in this protocol (`chatcmpl-`). */
    idPrefix: string
    /** Report whether headers are those of this protocol's clients, and a path without a route is one of its own. */
    ownsHeaders?(headers: Headers): boolean
    ownsPath?(path: string): boolean
    /** Rates a body without a path as a request of this protocol: 0 (it is none), 1, or 2 (fields that only it has). */
    recognize(body: Record<string, unknown>): 0 | 1 | 2
    /** Model and streaming are in the path, not in the body. */
    modelInPath?: true
    /** Its streams begin with the tokens of the prompt, which other providers report at the end. */
    usageAtStart?: true
    /** Its responses cite whole blocks of text: the text of a stream is cut at the cited passages where it can be. */
    cutsAtPassages?: true
  }
  call: {
    /** The authentication of providers of this protocol, unless their configuration says otherwise. */
    auth: Auth
    /** Whose rights providers of this protocol open a URL with that no others open; undefined for any other URL. */
    opensOnly?(url: string): 'anyone' | 'operator' | undefined
    /** Path and query after the provider's base URL. */
    path(target: Target, request: Pick<RequestSettings, 'stream' | 'compaction'>): string
    /**
     * Headers of this protocol other than credentials. `rawRequest`: given if the client uses it too; its versions and
     * beta flags are passed on.
     */
    headers(rawRequest: RawRequest | undefined): Record<string, string>
    /** The provider's body. Losses, and transforms that undo changes on the response, are added to the translation. */
    writeRequest(translation: Translation): Record<string, unknown>
    /**
     * Same protocol on both sides: the text of the client's body with the provider's model name and a request for
     * usage. Values that had to be added are reported.
     */
    forward(context: ForwardContext, target: Target, report: LossReport): string
    /**
     * The same for a request whose conversation was not read: JSON texts of members that are set, and undefined for
     * those that are removed. `settings`: the request without its conversation. Absent without `serve.unread`.
     */
    memberChanges?(settings: RawRequest, target: Target): Record<string, string | undefined>
    /** The ids of objects that the provider stores, in a response of it or in a frame of one. */
    issuedIds?(data: Record<string, unknown>): string[]
    /** `inlineCitations`: citations are to come inside the text that they cite, for `cutAtPassages`. */
    reader(quirks: Quirks, inlineCitations?: boolean): Reader
    /** OpenRouter's name of the form of this protocol's reasoning. */
    reasoningFormat?: string
    /** The reader can send citations inside the text that they cite, as the provider streams them. */
    inlineCitations?: true
    /** A response that is not streamed as events. Throws a GatewayError for a body that is not a response. */
    readResponse(body: unknown, quirks: Quirks): GenerationEvent[]
    /**
     * Reports whether a whole response says itself that it failed: a client of the protocol gets it as it is. Absent:
     * every failure is an error.
     */
    hasFailed?(body: unknown): boolean
    /**
     * Member with the arguments of a tool call, if the protocol has them as an object instead of text: their numbers
     * keep their spelling.
     */
    argumentsIn?: string
    /**
     * The error for a provider's error response. A 4xx about the request keeps its status and meaning; a failure of the
     * provider or of Sluice is 429, 502, 503 or 504.
     */
    readError(status: number, body: string): GatewayError
    /**
     * The error in place of that of a provider which has no route for the request: another one may have it. Absent: all
     * have the same routes.
     */
    missingRoute?(request: RequestSettings, status: number, error: GatewayError): GatewayError | undefined
  }
  passthrough(context: ResponseContext): Passthrough
}

/** A request as received. */
export type RawRequest = {
  body: Record<string, unknown>
  /** The text `body` was parsed from. */
  text: string
  /** Model and streaming from the URL path, if the protocol has them there. */
  model?: string
  stream?: boolean
  /** responses: the URL path asks for a compaction of the conversation. */
  compaction?: true
  /** responses: how many items of `previous_response_id` were put in front of the client's own in `body.input`. */
  inserted?: number
  headers: Headers
  /** The bytes of the body, unless body and text were replaced. */
  scanned?: ScannedBody | undefined
  /** Frees the headers, and what can be read from the bytes again. */
  free?(): void
}

/** The bytes of a JSON object, and what the scan found in them. */
export type ScannedBody = { bytes: Buffer; scan: BodyScan }

/** A medium to which a request refers by id or URL. */
export type MediaReference = {
  /** Path of the value that `inline` replaces: member names and indexes from the body. */
  path: readonly (string | number)[]
  /** Path of the id or URL for error messages: `messages[0].content[1].file.file_id`. */
  param: string
  source: { type: 'file'; id: string } | { type: 'url'; url: string }
  /** The kind of media in this position; absent: any kind. */
  kind?: MediaPart['type']
  /** The protocol's value with the medium itself. Throws invalid_request if the protocol has none for its type. */
  inline(medium: MediaData): unknown
}

/**
 * A reference to an object stored at the provider under a key that many accounts share. `what`: for error messages, `a
 * vector store`. `ids`: each must have been issued to the account; none: its owner cannot be known. `optional`: a
 * translation drops it.
 */
export type ProviderReference = {
  param: string
  source: { type: 'provider'; what: string; ids: readonly unknown[] }
  optional?: boolean
}

export type References = (MediaReference | ProviderReference)[]

/** Names of members and indexes from the body. */
export type MemberPath = (string | number)[]

/** `data`: standard base64. */
export type MediaData = { mediaType: string; data: string; filename: string }

/** The identity of a response towards the client. */
export type ResponseIdentity = {
  /** Generation id with the protocol's prefix. */
  id: string
  /** The model name in the client's request. */
  model: string
  /** Unix seconds. */
  createdAt: number
  /** Milliseconds by which the time of responses is ahead of this machine's clock. */
  aheadMs?: number
  /**
   * Issuer of the response's signatures, for their envelopes; only if the provider has another protocol than the
   * client.
   */
  issuer?: Issuer
  /** OpenRouter's name of the form in which this issuer writes reasoning. */
  reasoningFormat?: string
}

/** One request and the identity of its response: what writing the response needs. */
export type ResponseContext = {
  rawRequest: RawRequest
  request: RequestSettings
  responseIdentity: ResponseIdentity
  /**
   * Reasoning of earlier turns that the client left out and its issuer requires: restored in the turns of `request`,
   * but not in `rawRequest`.
   */
  restoredReasoning?: readonly ReplayState[]
  /** URLs of the response's images in their order; absent: images are sent in base64. */
  imageUrls?: string[]
  /** Tokens of the prompt, estimated for a stream of a protocol with `usageAtStart`. They are not charged. */
  promptEstimate?: number
  /** Losses of the request; the response writer adds its own (`lose` in losses.ts). Absent without a translation. */
  losses?: LossReport
  /** The client requests the losses in the body, too. */
  report?: boolean
  /** Responses only: called once with the full final response object, before its last frame is returned. */
  keep?: ((response: Record<string, unknown>) => void) | undefined
  /** Background responses only: called with each state, as received from the provider and as sent to the client. */
  follow?: (theirs: Record<string, unknown>, ours: Record<string, unknown>) => void
}

/** The same with the whole request, as sending it needs it. */
export type TranslationContext = ResponseContext & { request: GenerationRequest; settings?: undefined }
export type ForwardContext = Pick<TranslationContext, 'rawRequest'> & Partial<TranslationContext>

/** The same for a request whose conversation was not read. `settings`: the request without its conversation. */
export type UnreadContext = ResponseContext & { settings: RawRequest }

export type RequestContext = TranslationContext | UnreadContext

/** The provider's model to which a request is sent. */
export type Target = {
  provider: string
  /** The provider's name of the model. */
  model: string
  quirks: Quirks
  capabilities: Capabilities
}

/** Reads the provider's frames of one response as events. */
export interface Reader {
  read(frame: Frame): GenerationEvent[]
  /** At the end of the stream; without its terminal event the last event is `error` (upstream_error). */
  end(): GenerationEvent[]
  /**
   * True after a frame that may be the last with content, or that should have had usage: it is held back until the next
   * frame or the end.
   */
  readonly finishing?: boolean
  /** The error that the provider has reported, while it waits for its details. */
  readonly failure?: GatewayError | undefined
}

/** Writes the events of one response as the client's frames. An `error` event becomes the protocol's stream error. */
export interface Writer {
  write(event: GenerationEvent): Frame[]
}

/** The end of a response that Sluice ends early. `report`: members of its last frame that say why. */
export type EarlyEnd = { usage: Usage; report: Record<string, unknown> }

/** Passes the provider's frames of one response on to a client of the same protocol. */
export interface Passthrough {
  /** Undefined: not for this client (usage that it did not request). */
  frame(frame: Frame): Frame | undefined
  /** The error of a frame that was passed on, again for clients that read it only in another form. */
  again?(passed: Frame, error: GatewayError): Frame[]
  /** The frames of an error in the middle of the stream, consistent with the frames before. */
  fail(error: GatewayError): Frame[]
  /** The frames that end the response as one that reached its output limit, consistent with the frames before. */
  endEarly?(end: EarlyEnd): Frame[]
  /** The text of a delta that is passed on next, where it may be needed for `endEarly`. */
  append?(text: string): void
  /** One of the last frames, as received or as sent, with counted usage in the field of this protocol. */
  counted?(frame: Frame, usage: Usage): Frame
  /**
   * The frames after the terminal event (`[DONE]`), which `frame` then does not pass on. `counted`: usage that the
   * provider did not report.
   */
  end?(counted?: Usage): Frame[]
  /** The JSON text of a response that is not streamed. `counted`: usage that the provider did not report. */
  answer(text: string, counted?: Usage): string
}

/** The capabilities of a model. Data in `catalog/models.json`; absent: not known, the provider decides. */
export type Capabilities = {
  /** The model's API, if it has no conversations. */
  api?: 'images' | 'predictions'
  input?: Modality[]
  output?: Modality[]
  /** It calls tools. */
  tools?: boolean
  /** Its responses follow a schema. */
  structuredOutput?: boolean
  maxOutputTokens?: number
  /** images: responses are always in base64; `response_format` is refused. */
  base64Only?: boolean
  /** The kind of reasoning option; `none`: the model does not reason. */
  reasoning?: 'effort' | 'budget' | 'adaptive' | 'level' | 'none'
  /**
   * Accepted reasoning efforts in ascending order, unless `reasoning` is `budget`. With `none`, reasoning can be
   * switched off. Empty: the model decides.
   */
  efforts?: Effort[]
  /** Limits of the budget in tokens, if `reasoning` is `budget`; `off`: 0 is accepted and switches reasoning off. */
  budget?: { min: number; max: number; off?: boolean }
  /**
   * Sampling parameters are accepted; `idle`: only while the model does not reason; `either`: temperature or top_p, not
   * both.
   */
  sampling?: boolean | 'idle' | 'either'
  /** false: presence and frequency penalties are refused. */
  penalties?: boolean
  /** Maximum number of stop sequences, if lower than the protocol's. */
  stops?: number
  /** A tool call can be forced; `idle`: only while the model does not reason. */
  forcedTools?: boolean | 'idle'
  /** chat: false: `parallel_tool_calls` is refused. */
  parallelTools?: boolean
  /** chat: accepted response formats, if not both; the others are requested in the prompt. */
  formats?: ('json_object' | 'json_schema')[]
  /** false: instructions are refused in every position. */
  system?: boolean
  /** messages: `role: system` is accepted in the middle of a conversation. */
  systemTurns?: boolean
  /** messages: false: the beginning of a response, for the model to continue, is refused. */
  prefill?: boolean
  /** The kind of cache breakpoints, if it does not follow from the protocol. */
  cacheBreakpoints?: 'cache_control' | 'prompt_cache_breakpoint'
}
