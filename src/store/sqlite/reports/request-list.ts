import type { Database, SQLQueryBindings } from 'bun:sqlite'
import { GENERATION_CHOICES, REFUSAL_CHOICES, USAGE_CHOICES, where } from '../../choices.ts'
import { firstIdAt, instantOf } from '../../generation-ids.ts'
import type { Transfer } from '../../ledger.ts'
import type { RequestDetail, RequestFilter, RequestPage, RequestRow, Scope } from '../../reports.ts'
import { isInScope, matches } from '../../request-filter.ts'
import {
  type Found,
  ID_SLACK_MS,
  idRange,
  lessOf,
  mayBeGeneration,
  mayBeRefusal,
  mergedPage,
  moreOf,
  NOTHING,
} from '../../request-page.ts'
import { detailOfGeneration, detailOfRefusal, type ReadDetail } from '../../request-row.ts'
import { type ReadTransfer, transferOf } from '../../transfer-rows.ts'
import { TOKENS } from '../../usage-columns.ts'
import { HOUR_MS } from '../../usage-pieces.ts'
import { choiceConditions } from './conditions.ts'
import type { NameCache } from './name-cache.ts'
import { LINE_COLUMNS, lineOf, REFUSAL_COLUMNS, refusalLineOf, type LineRow, type RefusalRow } from './request-rows.ts'

/** Rows that one statement reads. The first is short, because most pages are full at once. */
const FIRST_CHUNK = 1_000
const CHUNK = 20_000
/** A page that is not full after this time comes back short. */
const SEARCH_MS = 150

const bytes = (id: string): Uint8Array => Uint8Array.fromHex(id)

/** The list of requests, newest first: generations and refusals. */
export class RequestList {
  readonly #database: Database
  readonly #names: NameCache

  constructor(database: Database, names: NameCache) {
    this.#database = database
    this.#names = names
  }

  page(filter: RequestFilter, before: string | undefined, limit: number): RequestPage {
    const [low, high] = idRange(filter, before)
    const giveUpAt = performance.now() + SEARCH_MS
    const generations = mayBeGeneration(filter) ? this.#generations(filter, low, high, limit, giveUpAt) : NOTHING
    const refusals = mayBeRefusal(filter) ? this.#refusals(filter, low, high, limit, giveUpAt) : NOTHING
    return mergedPage([generations, refusals], limit)
  }

  #generations(filter: RequestFilter, low: string, high: string, limit: number, giveUpAt: number): Found {
    const rows: RequestRow[] = []
    const conditions = where(generationConditions(this.#names, filter))
    const sql = `SELECT ${LINE_COLUMNS} FROM generations AS g
      WHERE g.id < ? AND g.id >= ?${conditions} ORDER BY g.id DESC`
    let size = FIRST_CHUNK
    for (const [from, to] of this.#ranges(filter, low, high)) {
      for (let end = to; end > from; ) {
        if (performance.now() > giveUpAt && size === CHUNK) return { rows, searchedTo: end }
        const start = this.#chunkStart('generations', from, end, size)
        for (const row of this.#rows<LineRow>(sql, bytes(end), bytes(start))) {
          const line = lineOf(this.#names, row)
          if (matches(filter, line) && rows.push(line) === limit) return { rows, searchedTo: line.id }
        }
        end = start
        size = CHUNK
      }
    }
    return { rows, searchedTo: undefined }
  }

  #refusals(filter: RequestFilter, low: string, high: string, limit: number, giveUpAt: number): Found {
    const rows: RequestRow[] = []
    const conditions = where(choiceConditions(this.#names, filter, REFUSAL_CHOICES))
    const sql = `SELECT ${REFUSAL_COLUMNS} FROM refusals AS r
      WHERE r.id < ? AND r.id >= ?${conditions} ORDER BY r.id DESC`
    for (let end = high, size = FIRST_CHUNK; end > low; size = CHUNK) {
      if (performance.now() > giveUpAt && size === CHUNK) return { rows, searchedTo: end }
      const start = this.#chunkStart('refusals', low, end, size)
      for (const row of this.#rows<RefusalRow>(sql, bytes(end), bytes(start))) {
        const line = refusalLineOf(this.#names, row)
        if (matches(filter, line) && rows.push(line) === limit) return { rows, searchedTo: line.id }
      }
      end = start
    }
    return { rows, searchedTo: undefined }
  }

  *#rows<Row>(sql: string, ...values: SQLQueryBindings[]): Generator<Row> {
    yield* this.#database.query(sql).iterate(...values) as IterableIterator<Row>
  }

  /** The id from which the last `size` rows before `end` begin, or `from`. */
  #chunkStart(table: 'generations' | 'refusals', from: string, end: string, size: number): string {
    const sql = `SELECT id FROM ${table} WHERE id < ? AND id >= ? ORDER BY id DESC LIMIT 1 OFFSET ?`
    const row = this.#database.query(sql).get(bytes(end), bytes(from), size - 1) as { id: Uint8Array } | null
    return row?.id.toHex() ?? from
  }

  /** The ranges of ids to search, the newest first: hours of which a roll-up says that they may have such rows. */
  *#ranges(filter: RequestFilter, low: string, high: string): Generator<[from: string, to: string]> {
    const conditions = hourConditions(this.#names, filter)
    if (conditions.length === 0) return yield [low, high]
    const { countedFrom } = this.#database.query('SELECT counted_from AS countedFrom FROM roll_ups').get() as {
      countedFrom: number
    }
    const next = this.#database.query(
      `SELECT hour FROM usage_hours WHERE hour < ?${where(conditions)} ORDER BY hour DESC LIMIT 1`,
    )
    let end = high
    for (let hour = Math.floor((instantOf(high) + ID_SLACK_MS) / HOUR_MS) + 1; end > low; ) {
      const found = next.get(hour) as { hour: number } | null
      // Hours that are not counted yet may have anything.
      if (found === null || found.hour < countedFrom) {
        if (countedFrom > 0) yield [low, lessOf(end, firstIdAt(countedFrom * HOUR_MS + ID_SLACK_MS))]
        return
      }
      hour = found.hour
      const from = moreOf(low, firstIdAt(hour * HOUR_MS - ID_SLACK_MS))
      const to = lessOf(end, firstIdAt((hour + 1) * HOUR_MS + ID_SLACK_MS))
      if (from < to) yield [from, to]
      end = lessOf(end, from)
    }
  }

  /** One request with all that its record has. */
  detail(id: string, scope: Scope): RequestDetail | undefined {
    const key = bytes(id)
    const row = this.#database
      .query(
        `SELECT ${LINE_COLUMNS}, g.translation, g.discount, CAST(g.held AS TEXT) AS held, p.version AS priceVersion,
           p.rates AS priceRates, p.model AS priceModel
         FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price WHERE g.id = ?`,
      )
      .get(key) as (LineRow & ReadDetail) | null
    if (row === null) return this.#refusal(key, scope)
    const line = lineOf(this.#names, row)
    if (!isInScope(scope, line)) return undefined
    return detailOfGeneration(line, row, this.#transfers(key))
  }

  #refusal(key: Uint8Array, scope: Scope): RequestDetail | undefined {
    const sql = `SELECT ${REFUSAL_COLUMNS} FROM refusals AS r WHERE r.id = ?`
    const row = this.#database.query(sql).get(key) as RefusalRow | null
    const line = row === null ? undefined : refusalLineOf(this.#names, row)
    if (row === null || line === undefined || !isInScope(scope, line)) return undefined
    return detailOfRefusal(line, row)
  }

  #transfers(reference: Uint8Array): Transfer[] {
    const rows = this.#database
      .query(
        `SELECT t.kind, CAST(t.amount AS TEXT) AS amount, d.kind AS debitKind, d.owner AS debitOwner,
           c.kind AS creditKind, c.owner AS creditOwner
         FROM transfers AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit
         WHERE t.reference = ? ORDER BY t.kind`,
      )
      .all(reference) as ReadTransfer[]
    return rows.map(transferOf)
  }
}

const hourConditions = (names: NameCache, filter: RequestFilter): string[] =>
  choiceConditions(names, filter, USAGE_CHOICES)

function generationConditions(names: NameCache, filter: RequestFilter): string[] {
  const { flags, from, to, minCost, minFirstTokenMs, minTotalMs, minTokens, errorText, choices } = filter
  const conditions = choiceConditions(names, filter, GENERATION_CHOICES)
  const add = (isSet: boolean, condition: string): void => void (isSet && conditions.push(condition))
  const flag = (value: boolean | undefined, condition: string): void =>
    add(value !== undefined, value === true ? condition : `NOT (${condition})`)
  flag(flags.streamed, 'streamed = 1')
  flag(flags.retried, 'retries > 0')
  flag(flags.estimated, 'estimated = 1')
  add(flags.lossy === true, 'translation IS NOT NULL')
  add(from !== undefined, `created_at >= ${from}`)
  add(to !== undefined, `created_at < ${to}`)
  add(minCost !== undefined, `bill >= ${minCost}`)
  add(minFirstTokenMs !== undefined, `streamed = 1 AND latency >= ${minFirstTokenMs}`)
  add(minTotalMs !== undefined, `latency + duration >= ${minTotalMs}`)
  add(minTokens !== undefined, `${TOKENS} >= ${minTokens}`)
  add(errorText !== undefined || choices.code?.only !== undefined, 'attempts IS NOT NULL')
  return conditions
}
