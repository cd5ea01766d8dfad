import { GatewayError } from '../../../error.ts'
import { threadModule } from '../../../worker/modules.ts'
import type { Answer, Answers, Question } from './reading-worker.ts'

/** The thread ends when it was asked nothing for so long. */
const IDLE_MS = 300_000

type Waiting = { resolve: (value: never) => void; reject: (error: Error) => void }

/** Asks the reading thread, which begins with the first question. */
export class ReadingThread {
  readonly #file: string
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | undefined
  #questions = 0
  #idle: Timer | undefined
  #isHeld = false

  constructor(file: string) {
    this.#file = file
  }

  /** Resolves with what the thread answers. Fails with store_unavailable where it cannot. */
  ask<Name extends keyof Answers>(
    name: Name,
    ...args: Parameters<Answers[Name]>
  ): Promise<Awaited<ReturnType<Answers[Name]>>> {
    this.#worker ??= this.#begin()
    return this.#send(this.#worker, name, args)
  }

  /** Keeps the thread, which has a view that must not be lost. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
  }

  /** Ends the thread. */
  end(): void {
    clearTimeout(this.#idle)
    this.#worker?.terminate()
    this.#worker = undefined
    this.#fail('the server is stopping')
  }

  #begin(): Worker {
    // A small heap is collected more often, which keeps an export of a million rows flat.
    const worker = new Worker(threadModule('store/sqlite/reports/reading-worker.ts'), { smol: true })
    // A thread without work must not keep the process alive.
    worker.unref()
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      const waiting = this.#waiting.get(data.id)
      this.#waiting.delete(data.id)
      if ('error' in data) waiting?.reject(unavailable(data.error))
      else waiting?.resolve(data.value as never)
      this.#endLater()
    }
    worker.onerror = ({ message }) => {
      if (this.#worker === worker) this.#worker = undefined
      this.#fail(message)
    }
    void this.#send(worker, 'begin', [this.#file]).catch(() => {})
    return worker
  }

  #send<Name extends keyof Answers>(worker: Worker, name: Name, args: unknown[]): Promise<never> {
    const id = this.#questions++
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    this.#waiting.set(id, { resolve, reject })
    worker.postMessage({ id, name, args } satisfies Question)
    return promise
  }

  #fail(reason: string): void {
    for (const { reject } of this.#waiting.values()) reject(unavailable(reason))
    this.#waiting.clear()
  }

  #endLater(): void {
    clearTimeout(this.#idle)
    if (this.#waiting.size === 0 && !this.#isHeld) this.#idle = setTimeout(() => this.end(), IDLE_MS).unref()
  }
}

const unavailable = (reason: string): GatewayError =>
  new GatewayError('store_unavailable', `The records cannot be read: ${reason}; try again.`, {
    retryAfterSeconds: 5,
    shouldRetry: true,
  })
