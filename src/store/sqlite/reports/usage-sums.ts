import type { Database } from 'bun:sqlite'
import { REFUSED_CHOICES, SPEED_CHOICES, USAGE_CHOICES, where } from '../../choices.ts'
import type { SpeedQuestion, SpeedRow, UsageGroup, UsageQuestion, UsageRow } from '../../reports.ts'
import { ID_SLACK_MS } from '../../request-page.ts'
import { usageSelected } from '../../usage-columns.ts'
import { HOUR_MS, mayBeRefused, type Piece, piecesOf } from '../../usage-pieces.ts'
import { type SpeedSum, speedRowsOf, type UsedSum, UsageTable } from '../../usage-table.ts'
import { choiceConditions } from './conditions.ts'
import type { NameCache } from './name-cache.ts'
import { firstIdAt, SPEEDS_IN_RANGE } from './recount.ts'

const COLUMNS: Record<UsageGroup, string> = {
  model: 'model',
  key: 'key',
  account: 'account',
  provider: 'provider',
  outcome: 'ending',
  code: '0',
}
const REFUSED_COLUMNS: Record<UsageGroup, string> = {
  model: '0',
  key: 'key',
  account: 'account',
  provider: '0',
  outcome: '-1',
  code: 'code',
}

type Summed = Record<'a' | 'b', number | null> & UsedSum

const SUMS = (isSubscription: string): string => `
  sum(CASE WHEN ending IN (:failed) THEN requests ELSE 0 END) AS failed, sum(requests) AS requests,
  ${usageSelected((column) => `sum(${column})`)},
  CAST(sum(${isSubscription}) AS TEXT) AS bill, CAST(sum(flows) AS TEXT) AS flows`

/** Sums of usage: whole hours from the roll-ups, cut ones from the records. */
export class UsageSums {
  readonly #database: Database
  readonly #names: NameCache

  constructor(database: Database, names: NameCache) {
    this.#database = database
    this.#names = names
  }

  rows(question: UsageQuestion): UsageRow[] {
    const table = new UsageTable((id: number) => this.#label(id))
    // A record without a provider has null, its roll-up 0.
    const groupOf = ({ a, b }: Summed): [number, number] => [a ?? 0, b ?? 0]
    const statements = this.#statements(question)
    const includesRefused = mayBeRefused(question)
    for (const piece of piecesOf(question.bounds)) {
      for (const row of statements.used(piece)) table.addUsed(piece.bucket, groupOf(row), row)
      if (includesRefused)
        for (const row of statements.refused(piece)) table.addRefused(piece.bucket, groupOf(row), row.requests)
    }
    return table.rows
  }

  #statements(question: UsageQuestion): Record<'used' | 'refused', (piece: Piece) => Summed[]> {
    const [first, second] = question.groups
    const failed = this.#names.ids(['failed', 'timed-out', 'shutdown', 'crashed']).join(', ')
    const subscription = this.#names.id('subscription')
    const group = (columns: Record<UsageGroup, string>): string =>
      [first, second]
        .map((one, at) => `${one === undefined ? '0' : columns[one]} AS ${at === 0 ? 'a' : 'b'}`)
        .join(', ')
    const conditions = where(choiceConditions(this.#names, question, USAGE_CHOICES))
    const sums = (bill: string): string => SUMS(bill).replace(':failed', failed)
    const whole = this.#database.query(
      `SELECT ${group(COLUMNS)}, ${sums('bill')} FROM usage_hours WHERE hour >= ? AND hour < ?${conditions}
       GROUP BY 1, 2`,
    )
    const cut = this.#database.query(
      `SELECT ${group(COLUMNS)}, ${sums(`CASE WHEN kind = ${subscription} THEN 0 ELSE bill END`)}
       FROM (SELECT *, 1 AS requests FROM generations WHERE id >= ? AND id < ? AND created_at >= ? AND created_at < ?)
       WHERE true${conditions} GROUP BY 1, 2`,
    )
    const refused = this.#refusedStatement(question, group(REFUSED_COLUMNS))
    return {
      used: ({ from, to, isWhole }) =>
        (isWhole ? whole.all(from / HOUR_MS, to / HOUR_MS) : cut.all(...rangeOf({ from, to }))) as Summed[],
      refused: (piece) => refused(piece),
    }
  }

  /**
   * Refusals beyond the number that is stored are only counted: in an hour that a bound cuts they belong to the piece
   * with its end, so that pieces add up to the hour.
   */
  #refusedStatement(question: UsageQuestion, group: string): (piece: Piece) => Summed[] {
    const conditions = where(choiceConditions(this.#names, question, REFUSED_CHOICES))
    const whole = `SELECT ${group}, sum(requests) AS requests FROM refusal_hours
      WHERE hour >= ? AND hour < ?${conditions} GROUP BY 1, 2`
    const stored = (sign: string): string => `SELECT ${group}, ${sign}count(*) AS requests FROM refusals
      WHERE id >= ? AND id < ? AND at >= ? AND at < ?${conditions} GROUP BY 1, 2`
    const rest = `SELECT a, b, sum(requests) AS requests FROM (${whole} UNION ALL ${stored('-')}) GROUP BY a, b`
    return ({ from, to, isWhole }) => {
      if (isWhole) return this.#database.query(whole).all(from / HOUR_MS, to / HOUR_MS) as Summed[]
      const hour = Math.floor(from / HOUR_MS)
      return (
        to % HOUR_MS === 0
          ? this.#database.query(rest).all(hour, hour + 1, ...rangeOf({ from: hour * HOUR_MS, to: from }))
          : this.#database.query(stored('')).all(...rangeOf({ from, to }))
      ) as Summed[]
    }
  }

  #label(id: number): string | null {
    return id === -1 ? 'refused' : this.#names.text(id)
  }

  /** Times to the first token and speeds, by provider and model, of each bucket. */
  speed({ bounds, choices }: SpeedQuestion): SpeedRow[] {
    const conditions = where(choiceConditions(this.#names, { choices }, SPEED_CHOICES))
    const sums = (from: string): string =>
      `SELECT provider, model, bucket, sum(requests) AS requests, sum(tokens) AS tokens, sum(duration) AS duration
       FROM ${from}${conditions} GROUP BY provider, model, bucket`
    const whole = this.#database.query(sums('speed_hours WHERE hour >= ? AND hour < ?'))
    const cut = this.#database.query(sums(`(${SPEEDS_IN_RANGE}) WHERE true`))
    const found = [...piecesOf(bounds)].flatMap((piece) => {
      const rows = piece.isWhole ? whole.all(piece.from / HOUR_MS, piece.to / HOUR_MS) : cut.all(...rangeOf(piece))
      return (rows as Omit<SpeedSum<number>, 'at'>[]).map((row) => ({ at: piece.bucket, ...row }))
    })
    return speedRowsOf(found, (id) => this.#names.text(id))
  }
}

/** The ids that the records of a range may have, and its instants. */
const rangeOf = ({ from, to }: Pick<Piece, 'from' | 'to'>): [Uint8Array, Uint8Array, number, number] => [
  firstIdAt(from - ID_SLACK_MS),
  firstIdAt(to + ID_SLACK_MS),
  from,
  to,
]
