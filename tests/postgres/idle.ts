/** Ends what is idle on a database. */
const ends: ((url: string) => Promise<void>)[] = []

/**
 * Stores or clients that tests open on databases beside the gateways and use again, the idle one of each database: to
 * open a connection costs as much CPU as ten statements.
 */
export class Idle<T> {
  readonly #open: (url: string) => Promise<T>
  readonly #close: (one: T) => Promise<void>
  readonly #idle = new Map<string, T>()

  constructor(open: (url: string) => Promise<T>, close: (one: T) => Promise<void>) {
    this.#open = open
    this.#close = close
    ends.push((url) => this.#end(url))
  }

  /** The idle one, or another one while that is in use. */
  async take(url: string): Promise<T> {
    const found = this.#idle.get(url)
    if (found === undefined) return this.#open(url)
    this.#idle.delete(url)
    return found
  }

  async giveBack(url: string, one: T): Promise<void> {
    if (!this.#idle.has(url)) this.#idle.set(url, one)
    else if (this.#idle.get(url) !== one) await this.#close(one)
  }

  async #end(url: string): Promise<void> {
    const found = this.#idle.get(url)
    this.#idle.delete(url)
    if (found !== undefined) await this.#close(found)
  }
}

/** Closes what is idle on a database that is about to be removed. */
export const endIdle = async (url: string): Promise<void> => void (await Promise.all(ends.map((end) => end(url))))
