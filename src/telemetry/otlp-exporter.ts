import { readAll, send } from '../http/call.ts'
import { log } from '../log/log.ts'
import type { OtlpTarget } from './otlp-settings.ts'
import { endMessage, writerOf } from './otlp.ts'
import type { OtlpProtocol, OtlpWriter } from './otlp-writer.ts'

/** Answers of a collector after which the same may be sent again. */
const RETRYABLE = new Set([429, 502, 503, 504])
const TRIES = 5
const FIRST_WAIT_MS = 1_000
const ANSWER_BYTES = 64 * 1024
const CONTENT_TYPES: Record<OtlpProtocol, string> = {
  'http/protobuf': 'application/x-protobuf',
  'http/json': 'application/json',
}
const NEVER = new AbortController().signal

/** Sends one message. False where it may be sent again. Throws nothing. */
export async function post({ url, protocol, headers, timeoutMs }: OtlpTarget, message: Uint8Array): Promise<boolean> {
  try {
    const { status, body: answer } = await send({
      url,
      method: 'POST',
      headers: { 'content-type': CONTENT_TYPES[protocol], ...headers },
      body: [message],
      timeouts: { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs, totalMs: timeoutMs },
      signal: NEVER,
    })
    await readAll(answer, ANSWER_BYTES)
    report(url, status < 300 ? undefined : `answered ${status}`)
    return !RETRYABLE.has(status)
  } catch (error) {
    report(url, (error as Error).message)
    return false
  }
}

/** Addresses that fail: only changes are worth a line. */
const failing = new Set<string>()

function report(url: string, failure: string | undefined): void {
  if (failure === undefined) {
    if (failing.delete(url)) log.info(`The collector at ${url} takes telemetry again.`)
  } else if (!failing.has(url)) {
    failing.add(url)
    log.warn(`The collector at ${url} does not take telemetry (${failure}): what does not fit in the queue is dropped.`)
  }
}

type BatchOptions = OtlpTarget & {
  /** Spans that wait at most, and that leave together at least. */
  queue: number
  batch: number
  delayMs: number
}

/** Begins a message, and writes the spans of one item into it. */
type BatchFormat<T> = { begin(out: OtlpWriter): void; write(out: OtlpWriter, item: T): void }

/**
 * Items are written so many in a row. For one alone the code is no longer in the processor's caches; of many more the
 * items are not.
 */
const WRITTEN_TOGETHER = 8

/**
 * Items with spans on their way to a collector. One message is under way at a time; what does not fit in the queue
 * meanwhile is dropped and counted, so that a collector that is slow or gone costs nothing else.
 */
export class BatchExporter<T> {
  readonly #options: BatchOptions
  readonly #format: BatchFormat<T>
  readonly #unwritten: T[] = []
  /** The message that spans are added to, and the memory of the one that is under way. */
  #waiting: OtlpWriter
  #leaving: OtlpWriter
  #isBegun = false
  /** The number of spans that wait, written or not. */
  #spans = 0
  #timer: Timer | undefined
  #sending: Promise<void> | undefined
  #isStopped = false
  sent = 0
  dropped = 0

  constructor(options: BatchOptions, format: BatchFormat<T>) {
    this.#options = options
    this.#format = format
    this.#waiting = writerOf(options.protocol)
    this.#leaving = writerOf(options.protocol)
  }

  /** `spans`: how many the item has. */
  add(item: T, spans: number): void {
    const { queue, batch, delayMs } = this.#options
    if (this.#spans + spans > queue) {
      this.dropped += spans
      return
    }
    this.#spans += spans
    this.#unwritten.push(item)
    if (this.#unwritten.length === WRITTEN_TOGETHER) this.#write()
    if (this.#sending !== undefined) return
    if (this.#spans >= batch) this.#send()
    else this.#timer ??= setTimeout(this.#send, delayMs).unref()
  }

  #write(): void {
    if (!this.#isBegun) {
      this.#isBegun = true
      this.#format.begin(this.#waiting)
    }
    for (const item of this.#unwritten) this.#format.write(this.#waiting, item)
    this.#unwritten.length = 0
  }

  readonly #send = (): void => {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sending ??= this.#sendWaiting().finally(() => {
      this.#sending = undefined
    })
  }

  /** Sends until less than a batch is left; that waits for more. */
  async #sendWaiting(): Promise<void> {
    const { batch, delayMs } = this.#options
    do {
      const spans = this.#spans
      const isTaken = await this.#deliver(this.#takeMessage())
      if (isTaken) this.sent += spans
      else this.dropped += spans
    } while (this.#spans >= batch || (this.#isStopped && this.#spans > 0))
    if (this.#spans > 0) this.#timer ??= setTimeout(this.#send, delayMs).unref()
  }

  #takeMessage(): Uint8Array {
    this.#write()
    this.#isBegun = false
    const message = this.#waiting
    this.#waiting = this.#leaving
    this.#leaving = message
    this.#spans = 0
    return endMessage(message)
  }

  async #deliver(message: Uint8Array): Promise<boolean> {
    for (let tries = 1, wait = FIRST_WAIT_MS; ; tries++, wait *= 2) {
      if (await post(this.#options, message)) return true
      if (tries === TRIES || this.#isStopped) return false
      await Bun.sleep(wait)
    }
  }

  /** Sends what waits, for at most this time. */
  async stop(atMostMs: number): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    if (this.#spans > 0) this.#send()
    await Promise.race([this.#sending, Bun.sleep(atMostMs)])
  }
}
