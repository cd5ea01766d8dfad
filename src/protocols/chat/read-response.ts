import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { readServiceClass } from '../../generation/service-class.ts'
import type { Usage } from '../../generation/usage.ts'
import { present } from '../fields.ts'
import type { Frame } from '../../http/frames.ts'
import { isObject, objectOf, tryParse } from '../../json/parse.ts'
import type { Reader } from '../protocol.ts'
import { RepeatedFrame } from '../repeated-frame.ts'
import { truncatedStream, upstreamStreamError } from '../upstream-error.ts'
import { CHOICE, MESSAGE, RESPONSE } from './read-response-members.ts'
import { MessageReader } from './read-response-message.ts'
import { nonEmpty, readFinishReason, readUsage, type Json } from './shapes.ts'

/**
 * A `chat.completion` body as the same events as a stream's. Throws a GatewayError for an error body and for anything
 * else.
 */
export function readResponse(body: unknown): GenerationEvent[] {
  if (!isObject(body))
    throw new GatewayError('upstream_error', 'The response of the provider is not a chat completion.')
  if (!hasChoices(body) && failureIn(body) === undefined)
    throw new GatewayError('upstream_error', 'The response of the provider is a chat completion without choices.')
  const reader = new ChatResponseReader()
  const events = reader.whole(body)
  const failure = events.find((event) => event.type === 'error')
  if (failure !== undefined) throw failure.error
  return events
}

/** Some servers change more than the text in every chunk. */
const MOST_UNLIKE = 4

/** `chat.completion.chunk` frames as events, with the variations of compatible servers. */
export class ChatResponseReader implements Reader {
  readonly #out: GenerationEvent[] = []
  readonly #message: MessageReader
  #id = ''
  #model = ''
  #started = false
  /** The provider's reason for the end. The finish waits for the usage, which may follow in a chunk of its own. */
  #finishReason: string | undefined
  /** The last choice of a stream that has the message so far, which is read at the end if no delta had content. */
  #choiceSoFar: Json | undefined
  #metered = false
  /** The usage reported since the last output and before the reason for the end: the total, if nothing follows. */
  #interim: Partial<Usage> | undefined
  /** A chunk that was nothing but a text; how many more are looked at before another one is like it. */
  #textChunk: RepeatedFrame | undefined
  #lookedAt = MOST_UNLIKE
  #done = false
  #ended = false

  constructor() {
    this.#message = new MessageReader(this.#out)
  }

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended || this.#done) return []
    const { data } = frame
    const text = this.#textChunk?.textOf(data)
    if (text !== undefined) {
      this.#lookedAt = MOST_UNLIKE
      this.#message.addText(text)
      this.#interim = undefined
      return this.#take()
    }
    if (data.trim() === '[DONE]') {
      this.#onDone()
      return this.#take()
    }
    const chunk = tryParse(data)
    if (!isObject(chunk)) return []
    this.#chunk(chunk)
    if (this.#lookedAt > 0 && isOnlyText(chunk)) {
      this.#lookedAt--
      this.#textChunk = RepeatedFrame.of(data, 'content', contentOf)
    }
    return this.#take()
  }

  /** A `chat.completion` body: it is complete even where the server left the reason empty. */
  whole(body: Json): GenerationEvent[] {
    this.#chunk(body, true)
    if (!this.#ended) this.#finish(this.#finishReason ?? '')
    return this.#take()
  }

  #chunk(chunk: Json, whole = false): void {
    const choice = firstChoice(chunk.choices)
    const failure = failureIn(chunk, choice)
    if (failure !== undefined) return this.#fail(readFailure(failure))
    this.#onHead(chunk)
    this.#message.unread.add(chunk, RESPONSE)
    this.#message.addSources(chunk)
    if (choice !== undefined) this.#onChoice(choice, whole)
    if (this.#ended) return
    // Moonshot's streams have it in the last choice.
    const usage = readUsage(chunk.usage) ?? readUsage(objectOf(chunk.x_groq).usage) ?? readUsage(choice?.usage)
    if (usage === undefined) return
    this.#metered = true
    const isInterim = this.#finishReason === undefined
    this.#interim = isInterim ? usage : undefined
    const service = present('service', readServiceClass(chunk))
    this.#push({ type: 'usage', usage, ...service, ...(isInterim ? { interim: true } : {}) })
    const isUsageChunk = choice === undefined ? !hasChoices(chunk) : nonEmpty(choice.finish_reason) === undefined
    if (this.#finishReason !== undefined && isUsageChunk) this.#finish(this.#finishReason)
  }

  end(): GenerationEvent[] {
    if (!this.#ended) {
      if (this.#finishReason !== undefined) this.#finish(this.#finishReason)
      else this.#fail(truncatedStream())
    }
    return this.#take()
  }

  /**
   * `[DONE]` without a finish_reason: one recorded server (Snowflake's) ends complete responses so, after a usage
   * chunk, which a server sends only once it counted all of the response. Without usage the response is cut, as `end`
   * reports.
   */
  #onDone(): void {
    this.#done = true
    if (this.#finishReason !== undefined) this.#finish(this.#finishReason)
    else if (this.#metered && this.#started) this.#finish('')
  }

  /** Azure's first chunk has an empty id, so the first chunk with an id or a choice starts the response. */
  #onHead(chunk: Json): void {
    if (this.#started) return
    this.#id = nonEmpty(chunk.id) ?? this.#id
    this.#model = nonEmpty(chunk.model) ?? this.#model
    if (this.#id !== '' || hasChoices(chunk)) this.#start()
  }

  #start(): void {
    this.#started = true
    this.#out.push({ type: 'start', id: this.#id, model: this.#model })
  }

  #push(event: GenerationEvent): void {
    if (!this.#started) this.#start()
    this.#out.push(event)
  }

  /** Perplexity has both members: an empty delta in a whole body, the message so far in the chunks of a stream. */
  #onChoice(choice: Json, whole: boolean): void {
    const { delta, message, logprobs } = choice
    this.#message.unread.add(choice, CHOICE)
    if (whole && isObject(message)) this.#message.add(message, logprobs, true)
    else if (isObject(delta)) {
      this.#message.add(delta, logprobs, false)
      if (hasOutput(delta)) this.#interim = undefined
    }
    if (!whole && isObject(message)) {
      this.#message.unread.add(message, MESSAGE)
      this.#choiceSoFar = choice
    }
    const reason = nonEmpty(choice.finish_reason)
    if (reason === undefined) return
    if (reason === 'error' || reason === 'network_error')
      this.#fail(new GatewayError('upstream_error', 'The provider failed before its response was complete.'))
    // DeepSeek's reason for a response that it ended for lack of machines.
    else if (reason === 'insufficient_system_resource')
      this.#fail(
        upstreamStreamError('The provider ended its response for lack of capacity.', {
          type: 'overloaded',
          code: reason,
        }),
      )
    else this.#finishReason = reason
  }

  #finish(raw: string): void {
    const { message, logprobs } = this.#choiceSoFar ?? {}
    if (isObject(message) && this.#message.isEmpty) this.#message.add(message, logprobs, true)
    this.#message.close()
    if (this.#interim !== undefined) this.#push({ type: 'usage', usage: this.#interim })
    this.#ended = true
    const { called, refused } = this.#message
    const reason = raw === '' ? (called ? 'tool-calls' : 'stop') : readFinishReason(raw, called)
    this.#push({ type: 'finish', reason: reason === 'stop' && refused ? 'refusal' : reason, raw })
  }

  #fail(error: GatewayError): void {
    this.#ended = true
    this.#out.push({ type: 'error', error })
  }

  #take(): GenerationEvent[] {
    return this.#out.splice(0)
  }
}

/** Reports whether a delta has more than a role and empty members. */
const hasOutput = (delta: Json): boolean =>
  Object.entries(delta).some(([name, value]) => name !== 'role' && !isEmpty(value))

const isEmpty = (value: unknown): boolean =>
  value === null || ((typeof value === 'string' || Array.isArray(value)) && value.length === 0)

const hasChoices = ({ choices }: Json): boolean => Array.isArray(choices) && choices.length > 0

/** Members of a chunk that say nothing once the response has started, and those that are null, which never do. */
const HEAD_MEMBERS = new Set(['id', 'object', 'created', 'model', 'service_tier', 'system_fingerprint', 'provider'])

const isNullBut = (value: Json, isKnown: (name: string) => boolean): boolean =>
  Object.keys(value).every((name) => value[name] === null || isKnown(name))

/** Reports whether nothing of a chunk is read but the text of its first choice. */
function isOnlyText(chunk: Json): boolean {
  const { choices } = chunk
  if (!Array.isArray(choices) || !isObject(choices[0])) return false
  const { delta, index } = choices[0]
  return (
    index === 0 &&
    isObject(delta) &&
    typeof delta.content === 'string' &&
    isNullBut(chunk, (name) => name === 'choices' || HEAD_MEMBERS.has(name)) &&
    isNullBut(choices[0], (name) => name === 'index' || name === 'delta') &&
    isNullBut(delta, (name) => name === 'content' || name === 'role')
  )
}

const contentOf = ({ choices }: Json): unknown => ((choices as Json[])[0]!.delta as Json).content

/** The choice with index 0: only a client of this protocol can request more, and gets them as they come. */
function firstChoice(choices: unknown): Json | undefined {
  if (!Array.isArray(choices)) return undefined
  return choices.find(
    (choice): choice is Json =>
      isObject(choice) && (choice.index === undefined || choice.index === null || choice.index === 0),
  )
}

/** The error of a body or chunk: vLLM has reported it without a member `error`, as an object of the kind `error`. */
const failureIn = (body: Json, choice?: Json): unknown =>
  body.error ?? choice?.error ?? (body.object === 'error' ? body : undefined)

/** The error of an error object in a stream or in a 200 body, or of a plain string. */
function readFailure(failure: unknown): GatewayError {
  if (!isObject(failure))
    return upstreamStreamError(typeof failure === 'string' ? failure : 'The provider failed without a message.')
  const { message, type, code, param, status_code: status } = failure
  return upstreamStreamError(nonEmpty(message) ?? '', {
    ...(nonEmpty(type) === undefined ? {} : { type: type as string }),
    ...(typeof code === 'string' || typeof code === 'number'
      ? { code }
      : typeof status === 'number'
        ? { code: status }
        : {}),
    ...(nonEmpty(param) === undefined ? {} : { param: param as string }),
  })
}
