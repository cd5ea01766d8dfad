import { GatewayError } from '../../error.ts'
import { type Address, type Binding, PostgresClient, type Queries } from './client.ts'
import { asStoreError } from './errors.ts'

/** Callers that may wait for a connection. */
const MAX_WAITING = 2_000
/** A connection that takes longer to open holds up no other. */
const SLOW_MS = 100
/** A network that forgot a connection on which no answer came for so long may have forgotten all that were idle. */
const SILENT_MS = 2_000
/** Interval of attempts to connect again. */
const RETRY_MS = 250

/**
 * A bounded number of connections, which are opened when they are needed and again after they broke. One is opened at a
 * time, unless it takes long: it costs as much as ten short reads, which those that are open make meanwhile.
 */
export class Pool implements Queries {
  readonly #address: Address
  readonly #max: number
  readonly #silentMs: number
  /** Connections that are not lent, and when they were given back. */
  readonly #idle = new Map<PostgresClient, number>()
  /** Connections that are lent, and since when. */
  readonly #lent = new Map<PostgresClient, number>()
  readonly #all = new Set<PostgresClient>()
  #opening = 0
  /** When the last connection began to open. */
  #openingSince = 0
  #waiting: { resolve: (client: PostgresClient) => void; reject: (error: unknown) => void }[] = []
  #isClosed = false
  /** Statements that were sent. */
  statements = 0

  constructor(address: Address, max: number, silentMs = SILENT_MS) {
    this.#address = address
    this.#max = max
    this.#silentMs = silentMs
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
      this.#lent.set(client, performance.now())
      this.statements += 1
      try {
        return await run(client)
      } finally {
        this.#lent.delete(client)
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
    this.#closeForgotten()
    const client = [...this.#idle.keys()].at(-1)
    if (client !== undefined) {
      this.#idle.delete(client)
      return client
    }
    if (this.#canOpen) return this.#open()
    if (this.#waiting.length >= MAX_WAITING)
      throw new GatewayError('store_unavailable', 'Too many requests wait for PostgreSQL; try again.', {
        retryAfterSeconds: 1,
        shouldRetry: true,
      })
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  /** Closes the connections that were idle when one began to be silent: each would keep its caller waiting as long. */
  #closeForgotten(): void {
    const silentSince = performance.now() - this.#silentMs
    const since = Math.max(...this.#lent.values().filter((lentAt) => lentAt < silentSince))
    for (const [client, idleSince] of this.#idle) if (idleSince < since) client.destroy()
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
      opened = await PostgresClient.open(this.#address, () => opened && this.#forget(opened))
      if (opened.isOpen) this.#all.add(opened)
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

  #forget(client: PostgresClient): void {
    this.#all.delete(client)
    this.#idle.delete(client)
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
    if (next === undefined) this.#idle.set(client, performance.now())
    else next.resolve(client)
  }
}

/** Waits between two attempts to reach the server. */
export const pause = (): Promise<void> => Bun.sleep(RETRY_MS)
