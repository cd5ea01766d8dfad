import { conditionsOf, GENERATION_CHOICES, REFUSAL_CHOICES, USAGE_CHOICES, where } from '../../choices.ts'
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
import type { Questions } from '../client.ts'
import { idOfUuid } from '../generation-rows.ts'
import { Values } from './conditions.ts'
import { LINE_COLUMNS, lineOf, REFUSAL_COLUMNS, refusalLineOf, type LineRow, type RefusalRow } from './request-rows.ts'

/** Rows among which one statement searches. The first is short, because most pages are full at once. */
const FIRST_CHUNK = 1_000
const CHUNK = 20_000
/** Rows that one statement gives, so that reading them holds up nothing else. */
const READ_ROWS = 500
/** A page that is not full after this time comes back short. */
const SEARCH_MS = 150
/** Hours that are looked up together: few at first. */
const FIRST_HOURS = 24
const HOURS = 1_000

/** A table of requests, and the search in it. */
type Searched<Row> = {
  table: 'generations' | 'refusals'
  columns: string
  conditions: (values: Values, filter: RequestFilter) => string[]
  lineOf: (row: Row) => RequestRow
}

type Search = { filter: RequestFilter; limit: number; giveUpAt: number }

/** A page of requests, newest first: generations and refusals. */
export async function requestPage(
  questions: Questions,
  filter: RequestFilter,
  before: string | undefined,
  limit: number,
): Promise<RequestPage> {
  const [low, high] = idRange(filter, before)
  const search = { filter, limit, giveUpAt: performance.now() + SEARCH_MS }
  const generations = mayBeGeneration(filter)
    ? await rowsIn(questions, GENERATIONS, search, rangesOf(questions, filter, low, high))
    : NOTHING
  const refusals = mayBeRefusal(filter) ? await rowsIn(questions, REFUSALS, search, [[low, high]]) : NOTHING
  return mergedPage([generations, refusals], limit)
}

/** The rows of ranges of ids, the newest first: so many, or those that were found in time. */
async function rowsIn<Row extends { id: string }>(
  questions: Questions,
  searched: Searched<Row>,
  { filter, limit, giveUpAt }: Search,
  ranges: Iterable<Range> | AsyncIterable<Range>,
): Promise<Found> {
  const rows: RequestRow[] = []
  // Without conditions all rows are accepted, or most of them.
  const isOpen = searched.conditions(new Values(), filter).length === 0
  let isFirst = true
  for await (const [from, to] of ranges)
    for (let end = to; end > from; ) {
      const size = isFirst ? FIRST_CHUNK : CHUNK
      const start = isOpen ? from : await chunkStart(questions, searched.table, from, end, size)
      for (let isLast = false; !isLast; isFirst = false) {
        if (!isFirst && performance.now() > giveUpAt) return { rows, searchedTo: end }
        const most = isFirst ? limit : READ_ROWS
        const read = await rowsOfChunk(questions, searched, filter, start, end, most)
        for (const row of read) {
          const line = searched.lineOf(row)
          if (matches(filter, line) && rows.push(line) === limit) return { rows, searchedTo: line.id }
        }
        isLast = read.length < most
        end = isLast ? start : idOfUuid(read.at(-1)!.id)
      }
    }
  return { rows, searchedTo: undefined }
}

function rowsOfChunk<Row>(
  questions: Questions,
  { table, columns, conditions }: Searched<Row>,
  filter: RequestFilter,
  start: string,
  end: string,
  most: number,
): Promise<Row[]> {
  const values = new Values()
  const [to, from] = [values.add(end), values.add(start)]
  const alias = table[0]!
  return questions.ask<Row>(
    `SELECT ${columns} FROM ${table} AS ${alias} WHERE ${alias}.id < ${to}::uuid AND ${alias}.id >= ${from}::uuid
     ${where(conditions(values, filter))} ORDER BY ${alias}.id DESC LIMIT ${most}`,
    values.list,
  )
}

/** The id from which the last `size` rows before `end` begin, or `from`. */
async function chunkStart(
  questions: Questions,
  table: 'generations' | 'refusals',
  from: string,
  end: string,
  size: number,
): Promise<string> {
  const [row] = await questions.ask<{ id: string }>(
    `SELECT id FROM ${table} WHERE id < $1::uuid AND id >= $2::uuid ORDER BY id DESC LIMIT 1 OFFSET ${size - 1}`,
    [end, from],
  )
  return row === undefined ? from : idOfUuid(row.id)
}

type Range = [from: string, to: string]

/** The ranges of ids to search, the newest first: hours of which a roll-up says that they may have such rows. */
async function* rangesOf(
  questions: Questions,
  filter: RequestFilter,
  low: string,
  high: string,
): AsyncGenerator<Range> {
  const values = new Values()
  const before = values.add(0)
  const conditions = conditionsOf(values.isIn, filter, USAGE_CHOICES)
  if (conditions.length === 0) return yield [low, high]
  const first = hourOf(instantOf(low) - ID_SLACK_MS)
  let beforeHour = hourOf(instantOf(high) + ID_SLACK_MS) + 1
  let end = high
  for (let most = FIRST_HOURS; end > low; most = HOURS) {
    values.list[0] = beforeHour
    const hours = await questions.ask<{ hour: number }>(
      `SELECT DISTINCT hour FROM usage_hours WHERE hour < ${before}::bigint AND hour >= ${first}${where(conditions)}
       ORDER BY hour DESC LIMIT ${most}`,
      values.list,
    )
    for (const [oldest, newest] of runsOf(hours.map(({ hour }) => hour))) {
      const from = moreOf(low, firstIdAt(oldest * HOUR_MS - ID_SLACK_MS))
      const to = lessOf(end, firstIdAt((newest + 1) * HOUR_MS + ID_SLACK_MS))
      if (from < to) yield [from, to]
      end = lessOf(end, from)
    }
    if (hours.length < most) return
    beforeHour = hours.at(-1)!.hour
  }
}

const hourOf = (at: number): number => Math.floor(at / HOUR_MS)

/** Hours without gaps between them, as ranges. The newest come first. */
function runsOf(hours: readonly number[]): [oldest: number, newest: number][] {
  const runs: [number, number][] = []
  for (const hour of hours) {
    const last = runs.at(-1)
    if (last !== undefined && last[0] === hour + 1) last[0] = hour
    else runs.push([hour, hour])
  }
  return runs
}

/** One request with all that its record has. */
export async function requestDetail(
  questions: Questions,
  id: string,
  scope: Scope,
): Promise<RequestDetail | undefined> {
  const [row] = await questions.ask<LineRow & ReadDetail>(
    `SELECT ${LINE_COLUMNS}, g.translation, g.discount, g.held::text AS held, p.version AS "priceVersion",
       p.rates AS "priceRates", p.model AS "priceModel"
     FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price WHERE g.id = $1::uuid`,
    [id],
  )
  if (row === undefined) return refusalDetail(questions, id, scope)
  const line = lineOf(row)
  if (!isInScope(scope, line)) return undefined
  return detailOfGeneration(line, row, await transfersOf(questions, id))
}

async function refusalDetail(questions: Questions, id: string, scope: Scope): Promise<RequestDetail | undefined> {
  const [row] = await questions.ask<RefusalRow>(`SELECT ${REFUSAL_COLUMNS} FROM refusals AS r WHERE r.id = $1::uuid`, [
    id,
  ])
  const line = row === undefined ? undefined : refusalLineOf(row)
  if (row === undefined || line === undefined || !isInScope(scope, line)) return undefined
  return detailOfRefusal(line, row)
}

async function transfersOf(questions: Questions, id: string): Promise<Transfer[]> {
  const rows = await questions.ask<ReadTransfer>(
    `SELECT t.kind, t.amount::text AS amount, d.kind AS "debitKind", d.owner AS "debitOwner", c.kind AS "creditKind",
       c.owner AS "creditOwner"
     FROM transfers AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit
     WHERE t.id = $1::uuid ORDER BY t.kind`,
    [id],
  )
  return rows.map(transferOf)
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

const GENERATIONS: Searched<LineRow> = {
  table: 'generations',
  columns: LINE_COLUMNS,
  conditions: generationConditions,
  lineOf,
}

const REFUSALS: Searched<RefusalRow> = {
  table: 'refusals',
  columns: REFUSAL_COLUMNS,
  conditions: (values, filter) => conditionsOf(values.isIn, filter, REFUSAL_CHOICES),
  lineOf: refusalLineOf,
}
