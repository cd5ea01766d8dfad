import { GatewayError } from '../../error.ts'
import { type Address, type Binding, PostgresClient, type Queries } from './client.ts'
import { asStoreError, isDisconnected } from './errors.ts'

/** Callers that may wait for a connection. */
const MAX_WAITING = 2_000
/** A connection that takes longer to open holds up no other. */
const SLOW_MS = 100
/** Interval of attempts to connect again. */
const RETRY_MS = 250

/**
 * A bounded number of connections, which are opened when they are needed and again after they broke. One is opened at a
 * time, unless it takes long: it costs as much as ten short reads, which those that are open make meanwhile.
 */
export class Pool implements Queries {
  readonly #address: Address
  readonly #max: number
  readonly #idle: PostgresClient[] = []
  readonly #all = new Set<PostgresClient>()
  #opening = 0
  /** When the last connection began to open. */
  #openingSince = 0
  #waiting: { resolve: (client: PostgresClient) => void; reject: (error: unknown) => void }[] = []
  #isClosed = false
  /** Statements that were sent. */
  statements = 0

  constructor(address: Address, max: number) {
    this.#address = address
    this.#max = max
  }

  run(sql: string, ...values: Binding[]): Promise<{ changes: number }> {
    return this.use((client) => client.run(sql, ...values))
  }

  all<Row>(sql: string, ...values: Binding[]): Promise<Row[]> {
    return this.use((client) => client.all<Row>(sql, ...values))
  }

  one<Row>(sql: string, ...values: Binding[]): Promise<Row | undefined> {
    return this.use((client) => client.one<Row>(sql, ...values))
  }

  /** Lends a connection. One that broke meanwhile is not lent again. */
  async use<T>(run: (client: PostgresClient) => Promise<T>): Promise<T> {
    try {
      const client = await this.#take()
      this.statements += 1
      try {
        return await run(client)
      } catch (error) {
        if (isDisconnected(error)) client.destroy()
        throw error
      } finally {
        this.#giveBack(client)
      }
    } catch (error) {
      throw asStoreError(error)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { reject } of this.#waiting.splice(0)) reject(new Error('the store is closed'))
    await Promise.all([...this.#all].map((client) => client.close()))
  }

  async #take(): Promise<PostgresClient> {
    if (this.#isClosed) throw new Error('the store is closed')
    for (let client = this.#idle.pop(); client !== undefined; client = this.#idle.pop())
      if (client.isOpen) return client
    if (this.#canOpen) return this.#open()
    if (this.#waiting.length >= MAX_WAITING)
      throw new GatewayError('store_unavailable', 'Too many requests wait for PostgreSQL; try again.', {
        retryAfterSeconds: 1,
        shouldRetry: true,
      })
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  get #canOpen(): boolean {
    const isOne = this.#opening > 0 && performance.now() - this.#openingSince < SLOW_MS
    return !isOne && this.#all.size + this.#opening < this.#max
  }

  async #open(): Promise<PostgresClient> {
    this.#opening += 1
    this.#openingSince = performance.now()
    let opened: PostgresClient | undefined
    try {
      opened = await PostgresClient.open(this.#address, () => opened && this.#all.delete(opened))
      this.#all.add(opened)
      return opened
    } catch (error) {
      // Those who wait would wait for a connection that is not opened.
      if (this.#all.size === 0) for (const { reject } of this.#waiting.splice(0)) reject(error)
      throw error
    } finally {
      this.#opening -= 1
      if (opened !== undefined) this.#openForWaiting()
    }
  }

  /** Opens another connection while there are callers that wait for one. */
  #openForWaiting(): void {
    if (this.#waiting.length > 0 && this.#canOpen && !this.#isClosed)
      void this.#open().then(
        (client) => this.#giveBack(client),
        () => {},
      )
  }

  #giveBack(client: PostgresClient): void {
    if (this.#isClosed) return void client.close()
    if (!client.isOpen) return this.#openForWaiting()
    const next = this.#waiting.shift()
    if (next === undefined) this.#idle.push(client)
    else next.resolve(client)
  }
}

/** Waits between two attempts to reach the server. */
export const pause = (): Promise<void> => Bun.sleep(RETRY_MS)
