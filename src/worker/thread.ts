/** The questions that a thread answers, by name. */
type Answering = Record<string, (...args: never[]) => unknown>

type Question = { id: number; name: string; args: unknown[] }
type Answer = { id: number; value: unknown } | { id: number; error: string }
type Waiting = { resolve: (value: never) => void; reject: (error: Error) => void }

type ThreadOptions = {
  /** The address of the module, which calls `serveThread`: `threadModule` gives it. */
  module: string
  /** The thread ends when it was asked nothing for so long. */
  idleMs: number
  /** The error of a question that is not answered. */
  failed(reason: string): Error
  /** Asked first, whenever the thread begins. */
  first?: { name: string; args: unknown[] }
}

/** A thread that is asked questions: it begins with the first one. */
export class Thread<Answers extends Answering> {
  readonly #options: ThreadOptions
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | undefined
  #questions = 0
  #idle: Timer | undefined
  #isHeld = false

  constructor(options: ThreadOptions) {
    this.#options = options
  }

  /** Resolves with what the thread answers. Fails as `failed` says where it cannot. */
  ask<Name extends keyof Answers & string>(
    name: Name,
    ...args: Parameters<Answers[Name]>
  ): Promise<Awaited<ReturnType<Answers[Name]>>> {
    this.#worker ??= this.#begin()
    return this.#send(this.#worker, name, args)
  }

  /** Keeps the thread, which has something that must not be lost. */
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
    const { module, first } = this.#options
    // A small heap is collected more often, which keeps an export of a million rows flat.
    const worker = new Worker(module, { smol: true })
    // A thread without work must not keep the process alive.
    worker.unref()
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      const waiting = this.#waiting.get(data.id)
      this.#waiting.delete(data.id)
      if ('error' in data) waiting?.reject(this.#options.failed(data.error))
      else waiting?.resolve(data.value as never)
      this.#endLater()
    }
    worker.onerror = ({ message }) => {
      if (this.#worker === worker) this.#worker = undefined
      this.#fail(message)
    }
    if (first !== undefined) void this.#send(worker, first.name, first.args).catch(() => {})
    return worker
  }

  #send(worker: Worker, name: string, args: unknown[]): Promise<never> {
    const id = this.#questions++
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    this.#waiting.set(id, { resolve, reject })
    worker.postMessage({ id, name, args } satisfies Question)
    return promise
  }

  #fail(reason: string): void {
    for (const { reject } of this.#waiting.values()) reject(this.#options.failed(reason))
    this.#waiting.clear()
  }

  #endLater(): void {
    clearTimeout(this.#idle)
    if (this.#waiting.size === 0 && !this.#isHeld)
      this.#idle = setTimeout(() => this.end(), this.#options.idleMs).unref()
  }
}

declare const self: {
  onmessage: (event: MessageEvent<Question>) => void
  postMessage(answer: Answer): void
}

/** In the thread: answers what it is asked. */
export function serveThread(answers: Answering): void {
  self.onmessage = ({ data: { id, name, args } }) => {
    try {
      const value = (answers[name] as (...args: unknown[]) => unknown)(...args)
      self.postMessage({ id, value })
    } catch (error) {
      self.postMessage({ id, error: error instanceof Error ? error.message : String(error) })
    }
  }
}
