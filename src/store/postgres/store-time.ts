import type { Queries } from './client.ts'

/** The clock of PostgreSQL, in Unix milliseconds with fractions: a column of an answer. */
export const SERVER_TIME = 'extract(epoch FROM clock_timestamp())::double precision * 1000'

/**
 * The time of PostgreSQL as this process knows it, so that processes whose clocks differ agree. It begins as that of
 * the machine, passes at its own pace, and is corrected by as little as each answer requires.
 */
export class StoreTime {
  readonly #system: () => number
  readonly #elapsed: () => number
  /** The time at which nothing had elapsed. */
  #origin: number

  constructor(system: () => number = Date.now, elapsed: () => number = () => performance.now()) {
    this.#system = system
    this.#elapsed = elapsed
    this.#origin = system() - elapsed()
  }

  static async read(queries: Pick<Queries, 'one'>): Promise<StoreTime> {
    const [time, sentAt] = [new StoreTime(), performance.now()]
    const row = await queries.one<{ time: number }>(`SELECT ${SERVER_TIME} AS time`)
    time.correct(row!.time, sentAt)
    return time
  }

  /** Unix milliseconds. */
  readonly now = (): number => Math.floor(this.#origin + this.#elapsed())

  /** The milliseconds by which the clock of this machine is ahead. */
  get aheadMs(): number {
    return this.#system() - this.now()
  }

  /**
   * Takes a reading of the server, which it made between the sending of a statement and its answer, which is now.
   * Gives the milliseconds by which the time is changed.
   */
  correct(serverTime: number, sentAt: number): number {
    const [before, least, most] = [this.#origin, serverTime - this.#elapsed(), serverTime - sentAt]
    this.#origin = Math.min(Math.max(before, least), most)
    return this.#origin - before
  }
}
