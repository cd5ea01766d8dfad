import { isUnavailable } from '../../error.ts'
import { Histogram, SHORT_BOUNDS } from '../../telemetry/histogram.ts'
import { type Address, type Binding, PostgresClient, type Queries, type Questions } from './client.ts'
import { asStoreError, Fenced, isDisconnected, isOfTable, isRepeatable, Unacknowledged, unavailable } from './errors.ts'
import { pause, Pool } from './pool.ts'

/** Writes that one transaction takes. */
const MAX_GROUP = 500
/** Attempts at a transaction that others got in the way of. */
const MAX_REPEATS = 5
/** Rows read or deleted by one statement, so that none takes long. */
export const BATCH_ROWS = 200

/**
 * While writes arrive fast, transactions begin at least so far apart: each costs a round trip and a flush of the
 * server, and takes all writes that arrived meanwhile.
 */
const GROUP_DELAY_MS = 2
/** Writes in the transaction before, for waiting to be worth it. */
const GROUP_WRITES = 3

/**
 * Makes writes of one kind by one statement for all that are in a transaction. Gives an error, or undefined, for each
 * item, and makes either all changes of an item or none. Outside a transaction, its statement must check by
 * itself that this process is not fenced. `isRepeated`: the items may have been written before.
 */
export type Merger<Item> = (
  queries: Queries,
  items: readonly Item[],
  isRepeated: boolean,
) => Promise<(Error | undefined)[]>

type Write<T> = (transaction: Queries) => Promise<T>

type Work = { merger: Merger<unknown>; item: unknown } | { write: Write<unknown> }

/** `since`: when it was handed over, because more writes may wait than one transaction takes. */
type Pending = Work & { since: number; resolve: (value: never) => void; reject: (error: unknown) => void }

export type ConnectionOptions = {
  url: string
  /** The most connections of this process; one of them is for writes. */
  connections: number
  /** The time for which writes wait for a server that is away. */
  patienceMs: number
}

const CONNECT_MS = 5_000
const STATEMENT_MS = 30_000
const LEAST_STATEMENT_MS = 5_000

/**
 * The connections of one process to PostgreSQL. Reads take any of them. Writes are committed in the order of the calls
 * by one of them, and those that arrive while a transaction is under way are the next one.
 */
export class Connection implements Queries {
  readonly address: Address
  readonly timings = { transactions: new Histogram(SHORT_BOUNDS), flushes: new Histogram(SHORT_BOUNDS) }
  /** The most connections that reads take. */
  readonly readers: number
  readonly #pool: Pool
  /** The time for which writes wait for a server that is away: none while the store closes. */
  patienceMs: number
  #writer: PostgresClient | undefined
  #pending: Pending[] = []
  /** The writes that are made all or none, while they are handed over. */
  #unit: Pending[] | undefined
  #isWriting = false
  #lastGroup = { writes: 0, at: 0 }
  /** The client of a snapshot that is being read. */
  #snapshot: PostgresClient | undefined
  #written = 0
  /** The row of `processes` without which nothing is written; undefined for the command line. */
  process: number | undefined
  /** Called once, when a write found this process fenced. */
  onFenced: (() => void) | undefined
  #isClosed = false
  #lastWrite = 0

  constructor({ url, connections, patienceMs }: ConnectionOptions) {
    this.address = { url, connectMs: CONNECT_MS, statementMs: STATEMENT_MS }
    this.readers = Math.max(1, connections - 2)
    this.#pool = new Pool(this.address, this.readers)
    this.patienceMs = patienceMs
  }

  /** Statements that were sent, for measurements. */
  get statements(): number {
    return this.#pool.statements + this.#written
  }

  run(sql: string, ...values: Binding[]): Promise<{ changes: number }> {
    return this.#readable.run(sql, ...values)
  }

  all<Row>(sql: string, ...values: Binding[]): Promise<Row[]> {
    return this.#readable.all<Row>(sql, ...values)
  }

  one<Row>(sql: string, ...values: Binding[]): Promise<Row | undefined> {
    return this.#readable.one<Row>(sql, ...values)
  }

  get #readable(): Queries {
    return this.#snapshot ?? this.#pool
  }

  /**
   * Group commit: resolves when the transaction with this write is on the disk of PostgreSQL. Writes of one turn of the
   * event loop share it. `write` may run again, in another transaction, and must not change anything else.
   */
  commit<T>(write: Write<T>): Promise<T> {
    return this.#enqueue<T>({ write })
  }

  /** A read that has every write which was handed over before it, and none after it. */
  readInOrder<T>(read: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#snapshot === undefined ? this.commit(read) : read(this.#snapshot)
  }

  /** The same for a write that is merged with others of its kind. */
  commitMerged<Item>(merger: Merger<Item>, item: Item): Promise<void> {
    return this.#enqueue<void>({ merger: merger as Merger<unknown>, item })
  }

  /** The writes that `begin` hands over before it returns are made all or none. */
  together<T>(begin: () => T): T {
    if (this.#unit !== undefined) return begin()
    const unit: Pending[] = (this.#unit = [])
    try {
      return begin()
    } finally {
      this.#unit = undefined
      if (unit.length > 0)
        this.commit((transaction) => writeAll(transaction, unit)).then(
          (outcomes) => settle(unit, outcomes),
          (error: unknown) => unit.forEach(({ reject }) => reject(error)),
        )
    }
  }

  #enqueue<T>(work: Work): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const pending = { ...work, since: performance.now(), resolve: resolve as (value: never) => void, reject }
      if (this.#unit !== undefined) return void this.#unit.push(pending)
      this.#pending.push(pending)
      if (this.#isWriting) return
      this.#isWriting = true
      setImmediate(() => void this.#writeAll())
    })
  }

  /** A transaction of its own beside the queue, for what is large or need not keep an order. */
  transaction<T>(run: Write<T>): Promise<T> {
    return this.#pool.use((client) => this.#inTransaction(client, run))
  }

  /** Runs `write` in one transaction after another until it returns fewer than BATCH_ROWS rows. Returns all rows. */
  async inBatches<Row>(write: Write<Row[]>): Promise<Row[]> {
    const rows: Row[] = []
    for (;;) {
      const batch = await this.transaction(write)
      rows.push(...batch)
      if (batch.length < BATCH_ROWS) return rows
    }
  }

  /** Reads of one state, whatever is written meanwhile: all reads of this connection are in it until it resolves. */
  snapshot<T>(read: () => Promise<T>): Promise<T> {
    return this.#pool.use(async (client) => {
      // The state is that after the lock: a partition that is dropped is gone from all states.
      await client.script('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE carried IN ACCESS SHARE MODE')
      this.#snapshot = client
      try {
        return await read()
      } finally {
        this.#snapshot = undefined
        await client.script('COMMIT')
      }
    })
  }

  /** Reads by statements that may take up to `limitMs`, each of the state at its beginning. */
  readLong<T>(limitMs: number, read: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#pool.use((client) => client.within(limitMs, () => read(client)))
  }

  /** Reads of one state by statements that the server ends after `limitMs`. */
  readWithin<T>(limitMs: number, read: (questions: Questions) => Promise<T>): Promise<T> {
    if (this.#snapshot !== undefined) return read(this.#snapshot)
    return this.#pool.use(async (client) => {
      // Compiling a statement takes longer than most of them.
      await client.script(
        `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
         SET LOCAL statement_timeout = ${limitMs}; SET LOCAL jit = off`,
      )
      try {
        const result = await read(client)
        await client.script('COMMIT')
        return result
      } catch (error) {
        if (client.isOpen) await client.script('ROLLBACK').catch(() => client.destroy())
        throw error
      }
    })
  }

  /** Closes all connections once what is pending is written, or cannot be. */
  async close(): Promise<void> {
    if (this.#isWriting) await this.commit(async () => {}).catch(() => {})
    this.#isClosed = true
    await Promise.all([this.#pool.close(), this.#writer?.close()])
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.length > 0) {
      await this.#gather()
      const group = this.#pending.splice(0, MAX_GROUP)
      const startedAt = performance.now()
      await this.#writeGroup(group)
      this.#lastGroup = { writes: group.length, at: startedAt }
      this.timings.transactions.observe((performance.now() - startedAt) / 1000)
    }
    this.#isWriting = false
  }

  async #gather(): Promise<void> {
    const { writes, at } = this.#lastGroup
    const waitMs = at + GROUP_DELAY_MS - performance.now()
    if (writes >= GROUP_WRITES && waitMs > 0) await Bun.sleep(waitMs)
  }

  async #writeGroup(group: readonly Pending[]): Promise<void> {
    try {
      settle(group, await this.#persist(group))
    } catch (error) {
      if (error instanceof Fenced) this.#fence()
      const failed = asStoreError(error)
      // One bad write must not fail the others: each is tried alone. Where the server is away, all would wait again.
      if (group.length > 1 && (!isUnavailable(failed) || isOfTable(error)))
        for (const one of group) await this.#writeGroup([one])
      else for (const { reject } of group) reject(failed)
    }
  }

  #fence(): void {
    const { onFenced } = this
    this.onFenced = undefined
    onFenced?.()
  }

  /** Tries a transaction until it is written, refused, or the server is away for too long. */
  async #persist(group: readonly Pending[]): Promise<Outcome[]> {
    const giveUpAt = group.at(-1)!.since + this.patienceMs
    let unconfirmed: Attempt | undefined
    for (let repeats = 0; ; ) {
      const attempt: Attempt = {}
      const wasOpen = this.#writer?.isOpen === true
      try {
        const writer = await this.#openWriter()
        if (unconfirmed?.outcomes !== undefined && (await this.#isCommitted(writer, unconfirmed.number)))
          return unconfirmed.outcomes
        return await this.#attempt(writer, group, unconfirmed !== undefined, attempt)
      } catch (error) {
        if (isRepeatable(error) && repeats++ < MAX_REPEATS) continue
        if (!isDisconnected(error) || this.#isClosed) throw error
        this.#writer?.destroy()
        this.#writer = undefined
        if (attempt.outcomes !== undefined || attempt.isMerged === true) unconfirmed = attempt
        // A connection that broke, or was not read while this machine slept, does not say that the server is away.
        if (!wasOpen && performance.now() > giveUpAt)
          throw unavailable(unconfirmed === undefined ? error : new Unacknowledged(error))
        await pause()
      }
    }
  }

  async #openWriter(): Promise<PostgresClient> {
    // A server that does not answer is given up after the time for which writes wait.
    const statementMs = Math.max(LEAST_STATEMENT_MS, this.patienceMs)
    if (this.#writer?.isOpen !== true) this.#writer = await PostgresClient.open({ ...this.address, statementMs })
    return this.#writer
  }

  /**
   * The acknowledgement of a commit was lost: looks for what the transaction wrote, and waits for its end before. Ids
   * of transactions say nothing after a crash of the server, which gives some of them again.
   */
  async #isCommitted(writer: PostgresClient, number: number | undefined): Promise<boolean> {
    if (number === undefined) throw unavailable(new Unacknowledged())
    const row = await writer.one<{ number: number }>(
      'SELECT last_write AS number FROM processes WHERE id = $1 FOR NO KEY UPDATE',
      this.process!,
    )
    return row?.number === number
  }

  async #attempt(
    writer: PostgresClient,
    group: readonly Pending[],
    isRepeated: boolean,
    attempt: Attempt,
  ): Promise<Outcome[]> {
    const [first] = group
    if (
      first !== undefined &&
      'merger' in first &&
      group.every((one) => 'merger' in one && one.merger === first.merger)
    ) {
      attempt.isMerged = true
      this.#written += 1
      return (await first.merger(writer, group.map(itemOf), isRepeated)).map((error) => ({ error }))
    }
    return this.#inTransaction(writer, (transaction) => writeInOrder(transaction, group, isRepeated), attempt)
  }

  async #inTransaction<T>(
    client: PostgresClient,
    run: Write<T>,
    attempt?: { number?: number | undefined; outcomes?: T },
  ): Promise<T> {
    this.#written += 3
    await client.script('BEGIN')
    try {
      const number = await this.#enter(client, attempt !== undefined)
      const result = await run(client)
      if (attempt !== undefined) Object.assign(attempt, { number, outcomes: result })
      await client.script('COMMIT')
      return result
    } catch (error) {
      if (client.isOpen) await client.script('ROLLBACK').catch(() => client.destroy())
      throw error
    }
  }

  /**
   * Has another process that declares this one dead wait for the end of the transaction; throws Fenced where one has.
   * Gives the number of a transaction of the writer.
   */
  async #enter(client: PostgresClient, isWriter: boolean): Promise<number | undefined> {
    if (this.process === undefined) return undefined
    if (!isWriter) {
      if ((await client.one(SHARED_FENCE, this.process)) === undefined) throw new Fenced()
      return undefined
    }
    const number = ++this.#lastWrite
    if ((await client.run(FENCE, this.process, number)).changes === 0) throw new Fenced()
    return number
  }
}

type Outcome = { value?: unknown; error?: Error | undefined }

/** The number of a transaction whose end is not known, and the results that it has if it was committed. */
type Attempt = { number?: number | undefined; outcomes?: Outcome[]; isMerged?: boolean }

const FENCE = 'UPDATE processes SET last_write = $2 WHERE id = $1 AND ended_at IS NULL'
const SHARED_FENCE = 'SELECT 1 FROM processes WHERE id = $1 AND ended_at IS NULL FOR KEY SHARE'

const itemOf = (one: Pending): unknown => ('merger' in one ? one.item : undefined)

function settle(group: readonly Pending[], outcomes: readonly Outcome[]): void {
  for (const [index, { resolve, reject }] of group.entries()) {
    const { value, error } = outcomes[index]!
    if (error === undefined) resolve(value as never)
    else reject(error)
  }
}

/** Runs writes of which none is made if one fails. */
async function writeAll(transaction: Queries, unit: readonly Pending[]): Promise<Outcome[]> {
  const outcomes = await writeInOrder(transaction, unit, false)
  for (const { error } of outcomes) if (error !== undefined) throw error
  return outcomes
}

/** Runs the writes of a transaction; neighbours with the same merger are one. */
async function writeInOrder(transaction: Queries, group: readonly Pending[], isRepeated: boolean): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (let index = 0; index < group.length; ) {
    const one = group[index]!
    if ('write' in one) {
      outcomes.push({ value: await one.write(transaction) })
      index += 1
      continue
    }
    const end = group.findIndex((other, at) => at > index && !('merger' in other && other.merger === one.merger))
    const items = group.slice(index, end < 0 ? group.length : end).map(itemOf)
    outcomes.push(...(await one.merger(transaction, items, isRepeated)).map((error) => ({ error })))
    index += items.length
  }
  return outcomes
}
