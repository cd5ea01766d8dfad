import { log } from '../../../log/log.ts'
import type { Refusal, ReportStore, WrongRollUp } from '../../reports.ts'
import { firstRecordedHour, HOUR_MS } from '../../usage-pieces.ts'
import { carriedBefore } from '../carried-tables.ts'
import type { Connection } from '../connection.ts'
import { jobPage } from './jobs.ts'
import { balanceRows, fileRows, transferPage } from './other-lists.ts'
import { providerHealth } from './provider-health.ts'
import { Reader } from './reader.ts'
import { WRONG_ROLL_UPS } from './recount.ts'
import { Refusals } from './refusals.ts'
import { requestDetail } from './request-detail.ts'
import { requestPage } from './request-list.ts'
import { speedRows, usageRows } from './usage-sums.ts'

/** The longest that all records are compared with their roll-ups. */
const COMPARE_MS = 3_600_000

/** Questions about many records: PostgreSQL answers them, and this process reads bounded pieces of the answers. */
export class Reports implements ReportStore {
  readonly #connection: Connection
  readonly #reader: Reader
  readonly #refusals: Refusals

  constructor(connection: Connection) {
    this.#connection = connection
    this.#reader = new Reader(connection)
    this.#refusals = new Refusals(connection)
  }

  /** Roll-ups are written with their generations: nothing is left out. */
  async begin(): Promise<void> {}

  async countedFrom(): Promise<number> {
    return 0
  }

  addRefusal(refusal: Refusal, isKept: boolean): void {
    this.#refusals.add(refusal, isKept)
  }

  purgeRefusals(before: number, most: number): Promise<void> {
    return this.#refusals.purge(before, most)
  }

  requests: ReportStore['requests'] = async (...question) => {
    await this.#refusals.write()
    return this.#reader.read((questions) => requestPage(questions, ...question))
  }

  request: ReportStore['request'] = async (...question) => {
    await this.#refusals.write()
    return this.#reader.read((questions) => requestDetail(questions, ...question))
  }

  usage: ReportStore['usage'] = async (question) => {
    await this.#refusals.write()
    return this.#reader.read((questions) => usageRows(questions, question))
  }

  speed: ReportStore['speed'] = (question) => this.#reader.read((questions) => speedRows(questions, question))

  balances: ReportStore['balances'] = (...question) =>
    this.#reader.read((questions) => balanceRows(questions, ...question))

  transfers: ReportStore['transfers'] = (...question) =>
    this.#reader.read((questions) => transferPage(questions, ...question))

  jobs: ReportStore['jobs'] = (...question) => this.#reader.read((questions) => jobPage(questions, ...question))

  files: ReportStore['files'] = (...question) => this.#reader.read((questions) => fileRows(questions, ...question))

  health: ReportStore['health'] = (...question) =>
    this.#reader.read((questions) => providerHealth(questions, ...question))

  wrongRollUps(): Promise<WrongRollUp[]> {
    return this.#connection.readLong(COMPARE_MS, async (queries) => {
      const wrong: WrongRollUp[] = []
      for (const [name, sql] of Object.entries(WRONG_ROLL_UPS))
        for (const { hour, lacks } of await queries.all<{ hour: number; lacks: number }>(sql))
          wrong.push({ row: `the ${name} of ${new Date(hour * HOUR_MS).toISOString()}`, hour, lacks })
      // Records that were removed are in the sums.
      const before = await carriedBefore(queries)
      return wrong.filter(({ hour }) => hour >= firstRecordedHour(before))
    })
  }

  /** Writes what came; called before the connection is closed. */
  async close(): Promise<void> {
    await this.#refusals
      .close()
      .catch((error: unknown) => log.warn(`The last refused requests were not written: ${String(error)}`))
  }
}
