import { log } from '../../log/log.ts'
import { CHANGES_CHANNEL } from './account-changes.ts'
import { type Address, PostgresClient, type Queries } from './client.ts'
import { unavailable } from './errors.ts'
import { pause } from './pool.ts'
import { PREDICTIONS_CHANNEL } from './prediction-functions.ts'

/**
 * Interval of reading the position of the last change. Notifications arrive earlier, but can be lost: with a
 * connection that broke, or in a proxy between this process and PostgreSQL.
 */
const POLL_MS = 500
/** The longest that the server may take for an answer before another connection is opened. */
const ANSWER_MS = 2_000
/** The interval of looks for a change that is being processed. */
const REACH_MS = 5
/** Time without the server after which it is reported once. */
const LONG_MS = 5_000

const POSITION = `SELECT greatest(
  (SELECT max(position) FROM account_changes), (SELECT max(position) FROM table_changes), 0) AS position`

/** Calls listeners after changes by any process, on a connection of its own, so that no load delays them. */
export class ChangeWatch {
  readonly #address: Address
  readonly #pollMs: number
  readonly #listeners: (() => Promise<void>)[] = []
  /** The channel of messages between the processes, which come on the same connection. */
  readonly messageChannel = 'sluice_messages'
  onMessage: ((payload: string) => void) | undefined
  onPrediction: ((payload: string) => void) | undefined
  #client: PostgresClient | undefined
  /** The position that every listener has processed. */
  #processed: number
  #wake: (() => void) | undefined
  #isNotified = false
  #running: Promise<void> | undefined
  #isClosed = false
  /** Set while the server is away. */
  #lost: { since: number; isReported: boolean } | undefined

  /** `position`: of the last change that is known to those who will listen. */
  constructor(address: Address, position: number, pollMs: number = POLL_MS) {
    this.#address = { ...address, connectMs: ANSWER_MS, statementMs: ANSWER_MS }
    this.#processed = position
    this.#pollMs = pollMs
  }

  add(listener: () => Promise<void>): void {
    this.#listeners.push(listener)
    this.#running ??= this.#run()
  }

  /** Resolves when every listener has processed a change. Throws store_unavailable where that takes too long. */
  async reach(position: number): Promise<void> {
    const giveUpAt = performance.now() + LONG_MS
    while (this.#processed < position) {
      if (performance.now() > giveUpAt) throw unavailable(new Error('changes by other processes are not read'))
      await Bun.sleep(REACH_MS)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#wake?.()
    await this.#running
    await this.#client?.close()
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#look()
        await this.#sleep()
      } catch (error) {
        this.#report(error)
        this.#client?.destroy()
        this.#client = undefined
        await pause()
      }
    }
  }

  /** Reads the position, and calls every listener where it is a new one. If one fails, all are called again. */
  async #look(): Promise<void> {
    if (this.#client?.isOpen !== true) this.#client = await this.#listen()
    this.#isNotified = false
    const position = await changePosition(this.#client)
    this.#lost = undefined
    if (position === this.#processed) return
    const results = await Promise.allSettled(this.#listeners.map((listener) => listener()))
    if (results.every(({ status }) => status === 'fulfilled')) this.#processed = position
  }

  /** A new connection has missed notifications, so that the position is read after it listens. */
  async #listen(): Promise<PostgresClient> {
    const client = await PostgresClient.open(this.#address, () => this.#wake?.())
    try {
      await client.listen(CHANGES_CHANNEL, () => {
        this.#isNotified = true
        this.#wake?.()
      })
      await client.listen(this.messageChannel, (payload) => this.onMessage?.(payload))
      await client.listen(PREDICTIONS_CHANNEL, (payload) => this.onPrediction?.(payload))
      return client
    } catch (error) {
      client.destroy()
      throw error
    }
  }

  /** Until the next poll, a notification, or the end of the connection, which may have come before the call. */
  async #sleep(): Promise<void> {
    if (this.#isNotified || this.#isClosed || this.#client?.isOpen !== true) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#pollMs)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = undefined
  }

  #report(error: unknown): void {
    this.#lost ??= { since: performance.now(), isReported: false }
    if (this.#lost.isReported || performance.now() - this.#lost.since < LONG_MS) return
    this.#lost.isReported = true
    log.warn(`Changes by other processes are not read: ${(error as Error).message}`)
  }
}

/** The position of the last change. */
export async function changePosition(queries: Pick<Queries, 'one'>): Promise<number> {
  return (await queries.one<{ position: number }>(POSITION))!.position
}
