import { hostname } from 'node:os'
import { within } from '../../deadlines.ts'
import { log } from '../../log/log.ts'
import type { Inheritance, LeaseStore } from '../leases.ts'
import { PostgresClient, type Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { LeaseTable } from './lease-table.ts'
import { pause } from './pool.ts'
import { SERVER_TIME, StoreTime } from './store-time.ts'

/** `heartbeatMs`: between two reports of a process; without one for `deadMs`, others take over from it. */
export type ProcessOptions = { heartbeatMs: number; deadMs: number; version: string }

/** The longest that requests wait for the confirmation that this process is alive. */
const CONFIRM_MS = 1_000
/** A clock of this machine that differs by more from that of PostgreSQL is reported. */
const WRONG_MS = 10_000

/** The channel on which processes are asked for leases: the process that asks, or 0, and an owner. */
export const RECLAIM = 'sluice_reclaim'

/** A process that has ended, and the things that it left. */
type Takeover = { id: number; name: string; inheritance: Inheritance }

/** This process among those that share the database, and its leases. */
export class Processes extends LeaseTable implements LeaseStore {
  readonly id: number
  readonly #connection: Connection
  readonly #time: StoreTime
  readonly #options: ProcessOptions
  readonly #timer: Timer
  #confirmedAt = performance.now()
  #listener: PostgresClient | undefined
  readonly #reclaimed: ((owner: string) => void)[] = []
  #fenced: () => void = () => {}
  /**
   * After a time without the server, or a jump of its clock, others must be able to report first; also after a start,
   * before which there may have been such a time.
   */
  #clearAt: number
  #isFenced = false
  #isClosed = false
  #isWrong = false
  /** A takeover of which it is not known whether it was made. */
  #lost: Takeover | undefined
  #beating: { sentAt: number; ended: Promise<void> } | undefined

  private constructor(connection: Connection, id: number, time: StoreTime, options: ProcessOptions) {
    super(connection, id)
    this.id = id
    this.#connection = connection
    this.#time = time
    this.#options = options
    this.#clearAt = performance.now() + this.#unclearMs
    connection.onFenced = () => this.#fence()
    this.#timer = setInterval(() => void this.#beat(), options.heartbeatMs).unref()
  }

  /** Makes this process one of those that share the database. */
  static async begin(connection: Connection, time: StoreTime, options: ProcessOptions): Promise<Processes> {
    const row = await connection.one<{ id: number }>(
      'INSERT INTO processes (name, address, version) VALUES ($1, $2, $3) RETURNING id',
      ...[`${hostname()}:${process.pid}`, hostname(), options.version],
    )
    connection.process = row!.id
    const processes = new Processes(connection, row!.id, time, options)
    processes.#compareClocks()
    void processes.#listen()
    return processes
  }

  /** Half of the time after which others may declare it dead, so that what has begun can be written. */
  get isAlive(): boolean {
    return !this.#isFenced && performance.now() - this.#confirmedAt < this.#unclearMs
  }

  get #unclearMs(): number {
    return this.#options.deadMs / 2
  }

  /** The longest wait for a connection or an answer, of which a report needs two at most. */
  get #answerMs(): number {
    return this.#unclearMs / 3
  }

  onFenced(listener: () => void): void {
    this.#fenced = listener
  }

  onReclaim(listener: (owner: string) => void): void {
    this.#reclaimed.push(listener)
  }

  async reclaim(owner: string): Promise<void> {
    await this.#connection.run('SELECT pg_notify($1, $2)', RECLAIM, `${this.id} ${owner}`)
  }

  /**
   * Declares processes dead that have not reported for too long, though they could, and takes over from one that has
   * ended. A process that is in the middle of a transaction is alive. What the other one holds comes to this one, in
   * one transaction; where its acknowledgement is lost, the next call looks for it.
   */
  async inherit(): Promise<Inheritance | undefined> {
    await this.#beat()
    const taken = (await this.#unacknowledged()) ?? (await this.#takeOver())
    if (taken === undefined) return undefined
    const { id, name, inheritance } = taken
    const { length } = inheritance.generations
    log.warn(`took over from process ${id} (${name}), with ${length} generations that it had open`)
    return inheritance
  }

  /** The takeover whose acknowledgement was lost, if it was made. The question waits for the end of its transaction. */
  async #unacknowledged(): Promise<Takeover | undefined> {
    const taken = this.#lost
    if (taken === undefined) return undefined
    const row = await this.#connection.transaction((transaction) =>
      transaction.one<{ heir: number | null }>('SELECT heir FROM processes WHERE id = $1 FOR NO KEY UPDATE', taken.id),
    )
    this.#lost = undefined
    return row?.heir === this.id ? taken : undefined
  }

  async #takeOver(): Promise<Takeover | undefined> {
    const isClear = this.isAlive && performance.now() >= this.#clearAt
    let taken: Takeover | undefined
    try {
      await this.#connection.transaction(async (transaction) => {
        if (isClear) await transaction.run(DECLARE_DEAD, this.id, this.#options.deadMs / 1000)
        const dead = await transaction.one<{ id: number; name: string }>(
          `SELECT id, name FROM processes WHERE ended_at IS NOT NULL AND heir IS NULL
           ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`,
        )
        if (dead === undefined) return
        await transaction.run('UPDATE processes SET heir = $1 WHERE id = $2', this.id, dead.id)
        taken = { ...dead, inheritance: await takeFrom(transaction, dead.id, this.id) }
      })
    } catch (error) {
      this.#lost = taken
      throw error
    }
    return taken
  }

  /** Ends this process: what it has leased goes back. Generations that stay open are left to another. */
  async end(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#listener?.close()
    if (this.#isFenced) return
    await this.#connection.commit(async (transaction) => {
      // Waits for leases under way, which would come after all has gone back.
      await transaction.run('SELECT FROM processes WHERE id = $1 FOR UPDATE', this.id)
      const open = await transaction.one(LEFT_OPEN, this.id)
      if (open === undefined) await takeFrom(transaction, this.id, 0)
      await transaction.run(
        'UPDATE processes SET ended_at = clock_timestamp(), heir = $2 WHERE id = $1',
        ...[this.id, open === undefined ? this.id : null],
      )
    })
  }

  /** A report that has gone without an answer for longer is not waited for. */
  async confirm(): Promise<boolean> {
    const under = this.#beating
    if (under === undefined || performance.now() - under.sentAt < CONFIRM_MS)
      await within(this.#beat(), CONFIRM_MS, () => undefined)
    return this.isAlive
  }

  /** Reports that this process is alive; one report is under way at a time. */
  #beat(): Promise<void> {
    if (this.#isFenced) return Promise.resolve()
    const sentAt = performance.now()
    this.#beating ??= { sentAt, ended: this.#report(sentAt) }
    return this.#beating.ended
  }

  async #report(sentAt: number): Promise<void> {
    try {
      const row = await this.#askToReport()
      if (row === undefined) return this.#fence()
      const [changedMs, now] = [this.#time.correct(row.time, sentAt), performance.now()]
      const unclearMs = this.#unclearMs
      if (now - this.#confirmedAt > unclearMs || Math.abs(changedMs) > unclearMs) this.#clearAt = now + unclearMs
      this.#confirmedAt = sentAt
      this.#compareClocks()
    } catch {
      // The next beat tries again; meanwhile `isAlive` turns false.
    } finally {
      this.#beating = undefined
    }
  }

  /**
   * Reads wait for a connection, and for a server that does not answer on it. A report does neither: it has to arrive
   * while others still give it time.
   */
  async #askToReport(): Promise<{ time: number } | undefined> {
    const listener = this.#listener?.isOpen === true ? this.#listener : undefined
    const report = (listener ?? this.#connection).one<{ time: number }>(REPORT, this.id)
    try {
      return await within(report, this.#answerMs, () => Promise.reject(new Error('PostgreSQL does not answer')))
    } catch (error) {
      // It is opened again.
      listener?.destroy()
      throw error
    }
  }

  /** Reports a clock of this machine that is wrong, once. */
  #compareClocks(): void {
    const { aheadMs } = this.#time
    if (this.#isWrong || Math.abs(aheadMs) <= WRONG_MS) return
    this.#isWrong = true
    const seconds = Math.round(Math.abs(aheadMs) / 1000)
    log.warn(
      `the clock of this machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of PostgreSQL, ` +
        'which all processes go by: set it',
    )
  }

  #fence(): void {
    if (this.#isFenced || this.#isClosed) return
    this.#isFenced = true
    clearInterval(this.#timer)
    this.#fenced()
  }

  /** Listens for other processes, on a connection of its own that is opened again after it broke. */
  async #listen(): Promise<void> {
    const address = { ...this.#connection.address, connectMs: this.#answerMs }
    while (!this.#isClosed) {
      const broken = Promise.withResolvers<void>()
      let opened: PostgresClient | undefined
      try {
        opened = await PostgresClient.open(address, broken.resolve)
        await opened.listen(RECLAIM, (payload) => {
          const end = payload.indexOf(' ')
          if (Number(payload.slice(0, end)) === this.id) return
          for (const listener of this.#reclaimed) listener(payload.slice(end + 1))
        })
        if (this.#isClosed) return
        this.#listener = opened
        await broken.promise
      } catch {
        // The server is away: it is asked again below.
      } finally {
        opened?.destroy()
      }
      await pause()
    }
  }
}

const REPORT = `UPDATE processes SET heartbeat_at = clock_timestamp() WHERE id = $1 AND ended_at IS NULL
  RETURNING ${SERVER_TIME} AS time`

/** A report of a time that is not yet was made before the clock of the server was set back. */
const DECLARE_DEAD = `UPDATE processes SET ended_at = clock_timestamp() WHERE id IN (
  SELECT id FROM processes
  WHERE ended_at IS NULL AND id <> $1 AND (heartbeat_at < clock_timestamp() - make_interval(secs => $2)
    OR heartbeat_at > clock_timestamp() + make_interval(secs => $2))
  ORDER BY id FOR UPDATE SKIP LOCKED)`

const LEFT_OPEN = `SELECT FROM open_generations WHERE process = $1
  UNION ALL SELECT FROM predictions WHERE process = $1 AND completed_at IS NULL LIMIT 1`

type Amounts = { amount: string }

/**
 * Moves the leases and open generations of a process to another one, or to what all share. All other shards of it go to
 * what all share, those among them by which it spent more than it had leased.
 */
async function takeFrom(transaction: Queries, from: number, to: number): Promise<Inheritance> {
  const balances = await transaction.all<Amounts & { id: number; kind: string; owner: string }>(
    `WITH gone AS (DELETE FROM book_balances WHERE shard = $1 RETURNING account, balance)
     SELECT a.id, a.kind, a.owner, gone.balance::text AS amount FROM gone JOIN book_accounts AS a ON a.id = gone.account
     ORDER BY a.id`,
    from,
  )
  const isLeased = (kind: string): boolean => kind === 'credit' || kind === 'bonus'
  for (const { id, kind, amount } of balances)
    await transaction.run(
      `INSERT INTO book_balances AS b (account, shard, balance) VALUES ($1, $2, $3)
       ON CONFLICT (account, shard) DO UPDATE SET balance = b.balance + excluded.balance`,
      ...[id, isLeased(kind) && BigInt(amount) > 0n ? to : 0, BigInt(amount)],
    )
  const windows = await transaction.all<Amounts & Omit<Inheritance['windows'][number], 'flows'>>(
    `WITH gone AS (DELETE FROM quota_windows WHERE shard = $1 RETURNING account_id, name, started_at, ends_at, used)
     SELECT account_id AS "accountId", name AS window, started_at AS "startedAt", ends_at AS "endsAt",
       (-used)::text AS amount FROM gone ORDER BY account_id, name`,
    from,
  )
  for (const { accountId, window, startedAt, endsAt, amount } of windows)
    await transaction.run(
      `INSERT INTO quota_windows AS w (account_id, name, shard, started_at, ends_at, used)
       VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (account_id, name, shard) DO UPDATE SET
         used = CASE WHEN w.started_at = excluded.started_at THEN w.used + excluded.used ELSE excluded.used END,
         started_at = excluded.started_at, ends_at = excluded.ends_at
       WHERE w.started_at <= excluded.started_at`,
      ...[accountId, window, BigInt(amount) > 0n ? to : 0, startedAt, endsAt, -BigInt(amount)],
    )
  const budgets = await transaction.all<Amounts & { keyId: string; since: number }>(
    `WITH gone AS (DELETE FROM key_spends WHERE shard = $1 RETURNING key_id, since, spent)
     SELECT key_id AS "keyId", since, (-spent)::text AS amount FROM gone ORDER BY key_id`,
    from,
  )
  for (const { keyId, since, amount } of budgets)
    await transaction.run(
      `INSERT INTO key_spends AS s (key_id, shard, since, spent) VALUES ($1, $2, $3, $4)
       ON CONFLICT (key_id, shard) DO UPDATE SET
         spent = CASE WHEN s.since = excluded.since THEN s.spent + excluded.spent ELSE excluded.spent END,
         since = excluded.since
       WHERE s.since <= excluded.since`,
      ...[keyId, BigInt(amount) > 0n ? to : 0, since, -BigInt(amount)],
    )
  const generations = await transaction.all<Inheritance['generations'][number]>(
    `UPDATE open_generations SET process = $2 WHERE process = $1
     RETURNING replace(id::text, '-', '') AS id, account_id AS "accountId", state`,
    ...[from, to],
  )
  await transaction.run('UPDATE predictions SET process = $2 WHERE process = $1 AND completed_at IS NULL', from, to)
  await transaction.run('DELETE FROM places WHERE process = $1', from)
  await transaction.run('DELETE FROM idempotency_claims WHERE process = $1', from)
  await transaction.run('UPDATE webhook_deliveries SET claimed_until = NULL WHERE claimed_by = $1', from)
  const written = await transaction.one<{ progress: string }>(
    'DELETE FROM open_progress WHERE process = $1 RETURNING text AS progress',
    from,
  )
  const isLease = ({ amount }: Amounts): boolean => BigInt(amount) > 0n
  return {
    funds: fundsOf(balances.filter(isLease)),
    windows: windows.filter(isLease).map(leaseOf),
    budgets: budgets.filter(isLease).map(budgetOf),
    generations,
    progress: written?.progress,
  }
}

function fundsOf(balances: readonly (Amounts & { kind: string; owner: string })[]): Inheritance['funds'] {
  const funds = new Map<string, Inheritance['funds'][number]>()
  for (const { kind, owner, amount } of balances) {
    if (kind !== 'credit' && kind !== 'bonus') continue
    const one = funds.get(owner) ?? { accountId: owner, credit: 0n, bonus: 0n }
    funds.set(owner, { ...one, [kind]: one[kind] + BigInt(amount) })
  }
  return [...funds.values()]
}

const leaseOf = ({
  amount,
  ...row
}: Amounts & Omit<Inheritance['windows'][number], 'flows'>): Inheritance['windows'][number] => ({
  ...row,
  flows: BigInt(amount),
})

const budgetOf = ({ amount, ...row }: Amounts & { keyId: string; since: number }): Inheritance['budgets'][number] => ({
  ...row,
  amount: BigInt(amount),
})
