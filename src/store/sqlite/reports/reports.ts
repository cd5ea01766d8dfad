import { log } from '../../../log/log.ts'
import type {
  Refusal,
  ReportStore,
  RequestDetail,
  RequestFilter,
  RequestPage,
  Scope,
  SpeedQuestion,
  SpeedRow,
  UsageQuestion,
  UsageRow,
  WrongRollUp,
} from '../../reports.ts'
import { firstRecordedHour, HOUR_MS } from '../../usage-pieces.ts'
import { carriedBefore } from '../carried-tables.ts'
import { BATCH_ROWS } from '../batch-rows.ts'
import type { Connection } from '../connection.ts'
import { ALL_SPEED_LACKING, ALL_USAGE_LACKING, firstIdAt } from './recount.ts'
import { readingThread, type ReadingThread } from './reading-thread.ts'
import { ADD_SPEED, ADD_USAGE, hourOf, type RollUps } from './roll-ups.ts'

/** Hours that a killed process may have left incomplete: a generation may be recorded a day after its request. */
const LEFT_OUT_HOURS = 26
/** Hours that are counted again by one question to the thread. */
const COUNTED_HOURS = 24

/** Questions about many records, answered by the reading thread, and the roll-ups that make them cheap. */
export class Reports implements ReportStore {
  readonly #connection: Connection
  readonly #rollUps: RollUps
  readonly #thread: ReadingThread
  #counting: Promise<void> | undefined
  #isClosing = false
  /** A server begins: it closes what it has opened. */
  #isOpen = false
  /** All that a killed process left out is counted. */
  #isCounted = true

  constructor(connection: Connection, rollUps: RollUps, file: string) {
    this.#connection = connection
    this.#rollUps = rollUps
    this.#thread = readingThread(file)
  }

  /**
   * Resolves once the view is taken that has nothing of this process; the counting goes on beside the server. Where
   * nothing is left out, no thread begins.
   */
  async begin(): Promise<void> {
    const { isOpen, countedFrom } = this.#state()
    if (isOpen === 1 || countedFrom > 0) {
      this.#thread.hold(true)
      const ends = await this.#thread.ask('view')
      if (ends !== undefined) {
        this.#isCounted = isOpen === 0
        this.#counting = this.#count(isOpen === 1, countedFrom, ends).catch((error: unknown) => {
          if (!this.#isClosing) log.error('Generations could not be counted again', error)
        })
      } else await this.#endCounting()
    }
    this.#isOpen = true
    void this.#connection.commitUnflushed(() => this.#connection.run('UPDATE roll_ups SET is_open = 1')).catch(() => {})
  }

  #state(): { isOpen: number; countedFrom: number } {
    return this.#connection.one('SELECT is_open AS isOpen, counted_from AS countedFrom FROM roll_ups')!
  }

  async #count(
    wasKilled: boolean,
    countedFrom: number,
    { first, last }: { first: number; last: number },
  ): Promise<void> {
    const newest = hourOf(Math.max(last, Date.now())) + 1
    // The sums of removed records are not taken away from the roll-ups.
    const oldest = Math.max(hourOf(first), firstRecordedHour(carriedBefore(this.#connection)))
    if (wasKilled) {
      await this.#countHours(Math.max(oldest, hourOf(last) - LEFT_OUT_HOURS), newest)
      this.#isCounted = true
    }
    for (let end = countedFrom; end > oldest && !this.#isClosing; end -= COUNTED_HOURS) {
      await this.#countHours(end - COUNTED_HOURS, end)
      await this.#connection.commitUnflushed(() =>
        this.#connection.run('UPDATE roll_ups SET counted_from = ?', end - COUNTED_HOURS),
      )
    }
    if (!this.#isClosing) await this.#endCounting()
  }

  async #endCounting(): Promise<void> {
    await this.#connection.commitUnflushed(() => this.#connection.run('UPDATE roll_ups SET counted_from = 0'))
    await this.#thread.ask('endView')
    this.#thread.hold(false)
  }

  /** Adds what the roll-ups of these hours lack. */
  async #countHours(from: number, to: number): Promise<void> {
    const { usage, speeds } = await this.#thread.ask('lacking', from * HOUR_MS, to * HOUR_MS)
    const rows = [...usage.map((row) => [ADD_USAGE, row] as const), ...speeds.map((row) => [ADD_SPEED, row] as const)]
    for (let at = 0; at < rows.length; at += BATCH_ROWS)
      await this.#connection.commitUnflushed(() => {
        for (const [sql, row] of rows.slice(at, at + BATCH_ROWS)) this.#connection.run(sql, ...Object.values(row))
      })
  }

  addRefusal(refusal: Refusal, isKept: boolean): void {
    this.#rollUps.addRefusal(refusal, isKept)
  }

  async purgeRefusals(before: number, most: number): Promise<void> {
    const hasBefore = (id: Uint8Array): boolean =>
      this.#connection.one('SELECT 1 FROM refusals WHERE id < ? LIMIT 1', id) !== undefined
    if (!hasBefore(new Uint8Array(16).fill(255))) return
    await this.#rollUps.write()
    const last = await this.#thread.ask('refusalAt', most - 1)
    const end = last === undefined ? firstIdAt(before) : maxOf(last, firstIdAt(before))
    if (!hasBefore(end)) return
    await this.#connection.inBatches(() =>
      this.#connection.all<object>(
        'DELETE FROM refusals WHERE id IN (SELECT id FROM refusals WHERE id < ? LIMIT ?) RETURNING at',
        end,
        BATCH_ROWS,
      ),
    )
  }

  async requests(filter: RequestFilter, before: string | undefined, limit: number): Promise<RequestPage> {
    await this.#rollUps.write()
    return this.#thread.ask('requests', filter, before, limit)
  }

  async request(id: string, scope: Scope): Promise<RequestDetail | undefined> {
    await this.#rollUps.write()
    return this.#thread.ask('request', id, scope)
  }

  async usage(question: UsageQuestion): Promise<UsageRow[]> {
    await this.#rollUps.write()
    return this.#thread.ask('usage', question)
  }

  async speed(question: SpeedQuestion): Promise<SpeedRow[]> {
    await this.#rollUps.write()
    return this.#thread.ask('speed', question)
  }

  balances: ReportStore['balances'] = (...args) => this.#thread.ask('balances', ...args)
  transfers: ReportStore['transfers'] = (...args) => this.#thread.ask('transfers', ...args)
  jobs: ReportStore['jobs'] = (...args) => this.#thread.ask('jobs', ...args)
  files: ReportStore['files'] = (...args) => this.#thread.ask('files', ...args)
  health: ReportStore['health'] = (...args) => this.#thread.ask('health', ...args)

  async countedFrom(): Promise<number> {
    return this.#state().countedFrom * HOUR_MS
  }

  /**
   * Differences that are no faults are left out: of hours that are not counted yet, and of the last seconds of a server
   * that runs or was killed.
   */
  async wrongRollUps(): Promise<WrongRollUp[]> {
    await this.#rollUps.write()
    const { isOpen, countedFrom } = this.#state()
    const newest = this.#connection.one<{ at: number }>(
      'SELECT created_at AS at FROM generations ORDER BY id DESC LIMIT 1',
    )
    const openFrom = isOpen === 1 ? hourOf(newest?.at ?? 0) - LEFT_OUT_HOURS : Infinity
    const recordedFrom = firstRecordedHour(carriedBefore(this.#connection))
    return [...this.#lacking('usage', ALL_USAGE_LACKING), ...this.#lacking('speed', ALL_SPEED_LACKING)].filter(
      ({ hour, lacks }) => hour >= recordedFrom && (lacks < 0 || (hour >= countedFrom && hour < openFrom)),
    )
  }

  #lacking(name: string, sql: string): WrongRollUp[] {
    return this.#connection.all<{ hour: number; requests: number }>(sql).map(({ hour, requests }) => ({
      row: `the ${name} of ${new Date(hour * HOUR_MS).toISOString()}`,
      hour,
      lacks: requests,
    }))
  }

  /** Writes what is counted; called before the connection is closed. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#thread.end()
    await this.#counting
    try {
      await this.#rollUps.close()
      if (this.#isOpen && this.#isCounted)
        await this.#connection.commitUnflushed(() => this.#connection.run('UPDATE roll_ups SET is_open = 0'))
    } catch {
      // The next start counts what could not be written.
    }
  }
}

const maxOf = (a: Uint8Array, b: Uint8Array): Uint8Array => (Buffer.compare(a, b) < 0 ? b : a)
