import { tryParse } from '../../json/parse.ts'
import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import type { Frame } from '../../http/frames.ts'
import type { GenerationRequest } from '../../generation/request.ts'
import type { Quirks, Reader } from '../protocol.ts'
import { cutStream, upstreamStreamError } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { MessageReader } from './read-response-message.ts'
import { readFinishReason, readUsage, words, type Json } from './shapes.ts'

/**
 * `chat.completion.chunk` frames -> events. Takes whatever compatible servers send; what it does not know it passes
 * over.
 */
export class ChunkReader implements Reader {
  readonly #out: GenerationEvent[] = []
  readonly #message: MessageReader
  #id = ''
  #model = ''
  #started = false
  /**
   * The provider's word for why it stopped; the finish waits for the usage, which comes in a chunk of its own after it.
   */
  #raw: string | undefined
  #metered = false
  #done = false
  #ended = false

  constructor(quirks: Quirks, request: GenerationRequest | undefined) {
    this.#message = new MessageReader(this.#out, quirks, request)
  }

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended || this.#done) return []
    if (frame.data.trim() === '[DONE]') {
      this.#onDone()
      return this.#take()
    }
    const chunk = parse(frame.data)
    if (chunk !== undefined) this.chunk(chunk)
    return this.#take()
  }

  /** One parsed chunk, or a whole `chat.completion` body. */
  chunk(chunk: Json): void {
    const failure = chunk.error ?? errorIn(chunk.choices)
    if (failure !== undefined && failure !== null) return this.#fail(readFailure(failure))
    this.#onHead(chunk)
    this.#message.sources(chunk)
    const choice = firstChoice(chunk.choices)
    if (choice !== undefined) this.#onChoice(choice)
    if (this.#ended) return
    const usage = readUsage(chunk.usage) ?? readUsage(isObject(chunk.x_groq) ? chunk.x_groq.usage : undefined)
    if (usage === undefined) return
    this.#metered = true
    this.#push({ type: 'usage', usage })
    const own = choice === undefined || words(choice.finish_reason) === undefined
    if (this.#raw !== undefined && own) this.#finish(this.#raw)
  }

  end(): GenerationEvent[] {
    if (!this.#ended) {
      if (this.#raw !== undefined) this.#finish(this.#raw)
      else this.#fail(cutStream())
    }
    return this.#take()
  }

  /** The end of a body that came in one piece: it is whole even where the server left the reason empty. */
  endOfBody(): GenerationEvent[] {
    if (!this.#ended) this.#finish(this.#raw ?? '')
    return this.#take()
  }

  /**
   * `[DONE]` without a finish_reason: one recorded server (Snowflake's) ends whole answers so, after a usage chunk,
   * which only a server that
   * counted the whole answer sends. Without usage the answer is cut; `end` says so.
   */
  #onDone(): void {
    this.#done = true
    if (this.#raw !== undefined) this.#finish(this.#raw)
    else if (this.#metered && this.#started) this.#finish('')
  }

  /** Azure's first chunk has an empty id, so the first one with an id or a choice names the answer. */
  #onHead(chunk: Json): void {
    if (this.#started) return
    this.#id = words(chunk.id) ?? this.#id
    this.#model = words(chunk.model) ?? this.#model
    if (this.#id !== '' || (Array.isArray(chunk.choices) && chunk.choices.length > 0)) this.#start()
  }

  #start(): void {
    this.#started = true
    this.#out.push({ type: 'start', id: this.#id, model: this.#model })
  }

  #push(event: GenerationEvent): void {
    if (!this.#started) this.#start()
    this.#out.push(event)
  }

  #onChoice(choice: Json): void {
    const said = isObject(choice.delta) ? choice.delta : isObject(choice.message) ? choice.message : undefined
    if (said !== undefined) this.#message.add(said, choice.logprobs, said !== choice.delta)
    const raw = words(choice.finish_reason)
    if (raw === undefined) return
    if (raw === 'error' || raw === 'network_error')
      this.#fail(new GatewayError('upstream_error', 'The provider failed in the middle of its answer.'))
    // DeepSeek's word for an answer that it broke off for want of machines.
    else if (raw === 'insufficient_system_resource')
      this.#fail(
        upstreamStreamError('The provider broke off its answer for lack of capacity.', {
          type: 'overloaded',
          code: raw,
        }),
      )
    else this.#raw = raw
  }

  #finish(raw: string): void {
    this.#message.close()
    this.#ended = true
    const said =
      raw === '' ? (this.#message.called ? 'tool-calls' : 'stop') : readFinishReason(raw, this.#message.called)
    this.#push({ type: 'finish', reason: said === 'stop' && this.#message.refused ? 'refusal' : said, raw })
  }

  #fail(error: GatewayError): void {
    this.#ended = true
    this.#out.push({ type: 'error', error })
  }

  #take(): GenerationEvent[] {
    return this.#out.splice(0)
  }
}

function parse(data: string): Json | undefined {
  const value = tryParse(data)
  return isObject(value) ? value : undefined
}

/** Only the first answer is ours: n is 1. */
function firstChoice(choices: unknown): Json | undefined {
  if (!Array.isArray(choices)) return undefined
  return choices.find(
    (choice): choice is Json =>
      isObject(choice) && (choice.index === undefined || choice.index === null || choice.index === 0),
  )
}

const errorIn = (choices: unknown): unknown => firstChoice(choices)?.error

/** An error object inside a stream or a 200 body, or a bare string. */
export function readFailure(failure: unknown): GatewayError {
  if (!isObject(failure))
    return upstreamStreamError(typeof failure === 'string' ? failure : 'The provider failed without saying why.')
  const { message, type, code, param, status_code: status } = failure
  return upstreamStreamError(words(message) ?? '', {
    ...(words(type) === undefined ? {} : { type: type as string }),
    ...(typeof code === 'string' || typeof code === 'number'
      ? { code }
      : typeof status === 'number'
        ? { code: status }
        : {}),
    ...(words(param) === undefined ? {} : { param: param as string }),
  })
}
