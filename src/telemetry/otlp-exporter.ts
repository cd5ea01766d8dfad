import { readAll, send } from '../http/call.ts'
import type { RequestBody } from '../http/encode-request.ts'
import { log } from '../log/log.ts'
import type { OtlpTarget } from './otlp-settings.ts'

/** Answers of a collector after which the same may be sent again. */
const RETRYABLE = new Set([429, 502, 503, 504])
const TRIES = 5
const FIRST_WAIT_MS = 1_000
const ANSWER_BYTES = 64 * 1024
const NEVER = new AbortController().signal

/** Sends one message. False where it may be sent again. Throws nothing. */
export async function post({ url, headers, timeoutMs }: OtlpTarget, body: RequestBody): Promise<boolean> {
  try {
    const { status, body: answer } = await send({
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
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

export type BatchOptions<Item> = OtlpTarget & {
  /** Spans that wait at most, and that leave together at least. */
  queue: number
  batch: number
  delayMs: number
  /** The message with these items, valid until the next one is written. */
  write(items: readonly Item[]): Uint8Array
}

/**
 * Spans on their way to a collector, in items of those that end together. One message is under way at a time; what does
 * not fit in the queue meanwhile is dropped and counted, so that a collector that is slow or gone costs nothing else.
 */
export class BatchExporter<Item extends { spans: number }> {
  readonly #options: BatchOptions<Item>
  #waiting: Item[] = []
  /** The number of spans in the items that wait. */
  #spans = 0
  #timer: Timer | undefined
  #sending: Promise<void> | undefined
  #isStopped = false
  sent = 0
  dropped = 0

  constructor(options: BatchOptions<Item>) {
    this.#options = options
  }

  add(item: Item): void {
    const { queue, batch, delayMs } = this.#options
    if (this.#spans + item.spans > queue) {
      this.dropped += item.spans
      return
    }
    this.#waiting.push(item)
    this.#spans += item.spans
    if (this.#sending !== undefined) return
    if (this.#spans >= batch) this.#begin()
    else this.#timer ??= setTimeout(this.#begin, delayMs).unref()
  }

  readonly #begin = (): void => {
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
    } while (this.#spans >= batch || (this.#isStopped && this.#waiting.length > 0))
    if (this.#waiting.length > 0) this.#timer ??= setTimeout(this.#begin, delayMs).unref()
  }

  #takeMessage(): Uint8Array {
    const items = this.#waiting
    this.#waiting = []
    this.#spans = 0
    return this.#options.write(items)
  }

  async #deliver(message: Uint8Array): Promise<boolean> {
    for (let tries = 1, wait = FIRST_WAIT_MS; ; tries++, wait *= 2) {
      if (await post(this.#options, [message])) return true
      if (tries === TRIES || this.#isStopped) return false
      await Bun.sleep(wait)
    }
  }

  /** Sends what waits, for at most this time. */
  async stop(atMostMs: number): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    if (this.#waiting.length > 0) this.#begin()
    await Promise.race([this.#sending, Bun.sleep(atMostMs)])
  }
}
