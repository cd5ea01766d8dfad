import { conditionsOf, GENERATION_CHOICES, REFUSAL_CHOICES, where } from '../../choices.ts'
import type { RequestFilter, RequestRow } from '../../reports.ts'
import { matches } from '../../request-filter.ts'
import type { Found } from '../../request-page.ts'
import { TOKENS } from '../../usage-columns.ts'
import type { Questions } from '../client.ts'
import { idOfUuid } from '../generation-rows.ts'
import { Values } from './conditions.ts'
import { LINE_COLUMNS, lineOf, REFUSAL_COLUMNS, refusalLineOf, type LineRow, type RefusalRow } from './request-rows.ts'

/** Rows among which one statement searches. The first is short, because most pages are full at once. */
const FIRST_CHUNK = 1_000
const CHUNK = 20_000
/** Rows that one statement gives, so that reading them holds up nothing else. */
const READ_ROWS = 500

/** Ids from the first one on, before the end. */
export type Range = [from: string, end: string]

/** A table of requests, and the conditions under which its rows may match a filter. */
type Searched<Row> = {
  table: 'generations' | 'refusals'
  columns: string
  conditions: (values: Values, filter: RequestFilter) => string[]
  lineOf: (row: Row) => RequestRow
}

/** `giveUpAt`: the time of `performance` after which a page that is not full comes back short. */
type SearchTerms = { filter: RequestFilter; limit: number; giveUpAt: number }

/** The search of one page in one table, from the newest row to the oldest. */
export class RequestSearch<Row extends { id: string }> {
  readonly #questions: Questions
  readonly #searched: Searched<Row>
  readonly #terms: SearchTerms
  readonly #rows: RequestRow[] = []
  /** Without conditions all rows are accepted, or most of them. */
  readonly #isOpen: boolean
  #isFirst = true

  constructor(questions: Questions, searched: Searched<Row>, terms: SearchTerms) {
    this.#questions = questions
    this.#searched = searched
    this.#terms = terms
    this.#isOpen = searched.conditions(new Values(), terms.filter).length === 0
  }

  /** The rows of ranges, the newest first: as many as the page has, or those that were found in time. */
  async rowsIn(ranges: Iterable<Range> | AsyncIterable<Range>): Promise<Found> {
    for await (const range of ranges) {
      const searchedTo = await this.#searchRange(range)
      if (searchedTo !== undefined) return { rows: this.#rows, searchedTo }
    }
    return { rows: this.#rows, searchedTo: undefined }
  }

  /** Searches a range chunk by chunk. Where the search is over before its beginning, this gives the id it came to. */
  async #searchRange([from, end]: Range): Promise<string | undefined> {
    for (let left = end; left > from; ) {
      const start = this.#isOpen ? from : await this.#chunkStart(from, left)
      const searchedTo = await this.#searchChunk([start, left])
      if (searchedTo !== undefined) return searchedTo
      left = start
    }
    return undefined
  }

  /** The same for a chunk, which is read in parts. */
  async #searchChunk([start, end]: Range): Promise<string | undefined> {
    const { filter, limit, giveUpAt } = this.#terms
    for (let left = end; ; ) {
      if (!this.#isFirst && performance.now() > giveUpAt) return left
      const most = this.#isFirst ? limit : READ_ROWS
      this.#isFirst = false
      const read = await this.#read([start, left], most)
      for (const row of read) {
        const line = this.#searched.lineOf(row)
        if (matches(filter, line) && this.#rows.push(line) === limit) return line.id
      }
      if (read.length < most) return undefined
      left = idOfUuid(read.at(-1)!.id)
    }
  }

  #read([start, end]: Range, most: number): Promise<Row[]> {
    const { table, columns, conditions } = this.#searched
    const values = new Values()
    const [before, from] = [values.add(end), values.add(start)]
    const alias = table[0]!
    return this.#questions.ask<Row>(
      `SELECT ${columns} FROM ${table} AS ${alias} WHERE ${alias}.id < ${before}::uuid AND ${alias}.id >= ${from}::uuid
       ${where(conditions(values, this.#terms.filter))} ORDER BY ${alias}.id DESC LIMIT ${most}`,
      values.list,
    )
  }

  /** The id from which the last rows before `end` begin, as many as a chunk has, or `from`. */
  async #chunkStart(from: string, end: string): Promise<string> {
    const size = this.#isFirst ? FIRST_CHUNK : CHUNK
    const [row] = await this.#questions.ask<{ id: string }>(
      `SELECT id FROM ${this.#searched.table} WHERE id < $1::uuid AND id >= $2::uuid ORDER BY id DESC
       LIMIT 1 OFFSET ${size - 1}`,
      [end, from],
    )
    return row === undefined ? from : idOfUuid(row.id)
  }
}

function generationConditions(values: Values, filter: RequestFilter): string[] {
  const { flags, from, to, minCost, minFirstTokenMs, minTotalMs, minTokens, errorText, choices } = filter
  const conditions = conditionsOf(values.isIn, filter, GENERATION_CHOICES)
  const flag = (value: boolean | undefined, condition: string): void =>
    void (value !== undefined && conditions.push(value ? condition : `NOT (${condition})`))
  const least = (value: number | bigint | undefined, column: string): void =>
    void (value !== undefined && conditions.push(`${column} >= ${values.add(`${value}`)}::numeric`))
  flag(flags.streamed, 'streamed')
  flag(flags.retried, 'retries > 0')
  flag(flags.estimated, 'estimated')
  if (flags.lossy === true) conditions.push('translation IS NOT NULL')
  least(from, 'created_at')
  if (to !== undefined) conditions.push(`created_at < ${values.add(`${to}`)}::numeric`)
  least(minCost, 'bill')
  least(minFirstTokenMs, 'CASE WHEN streamed THEN latency END')
  least(minTotalMs, 'latency + duration')
  least(minTokens, TOKENS)
  if (errorText !== undefined || choices.code?.only !== undefined) conditions.push('attempts IS NOT NULL')
  if (errorText !== undefined && UNESCAPED.test(errorText))
    conditions.push(
      `(strpos(lower(attempts), ${values.add(errorText)}) > 0 OR octet_length(attempts) <> char_length(attempts))`,
    )
  return conditions
}

/** Texts that are the same in JSON. What small letters of others than these are differs with the locale. */
const UNESCAPED = /^[ !#-[\]-~]*$/

export const GENERATIONS: Searched<LineRow> = {
  table: 'generations',
  columns: LINE_COLUMNS,
  conditions: generationConditions,
  lineOf,
}

export const REFUSALS: Searched<RefusalRow> = {
  table: 'refusals',
  columns: REFUSAL_COLUMNS,
  conditions: (values, filter) => conditionsOf(values.isIn, filter, REFUSAL_CHOICES),
  lineOf: refusalLineOf,
}
