const WRITE_EVERY_MS = 1_000

/** Writes what was gathered once a second while anything comes, one write at a time. A write that fails is repeated. */
export class PeriodicWriter {
  readonly #write: () => Promise<void> | undefined
  #writing: Promise<void> | undefined
  #timer: Timer | undefined

  /** `write`: writes all that was gathered; undefined where there is nothing. One that fails takes it back. */
  constructor(write: () => Promise<void> | undefined) {
    this.#write = write
  }

  /** To be called when something was gathered. */
  soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.now().catch(() => this.soon())
    }, WRITE_EVERY_MS).unref()
  }

  /** Writes what was gathered until now. */
  async now(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing.catch(() => {})
    this.#writing = this.#write()?.finally(() => {
      this.#writing = undefined
    })
    await this.#writing
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.now()
    clearTimeout(this.#timer)
  }
}
