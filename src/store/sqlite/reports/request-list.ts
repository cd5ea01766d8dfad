import type { Database, SQLQueryBindings } from 'bun:sqlite'
import { isInScope, matches } from '../../request-filter.ts'
import type { RequestDetail, RequestFilter, RequestPage, RequestRow, Scope } from '../../reports.ts'
import type { Transfer } from '../../ledger.ts'
import { generationIdBytes, USAGE_COLUMNS } from '../generation-rows.ts'
import { choiceConditions, where } from './conditions.ts'
import type { NameCache } from './name-cache.ts'
import { firstIdAt, instantOf } from './recount.ts'
import { LINE_COLUMNS, lineOf, REFUSAL_COLUMNS, refusalLineOf, type LineRow, type RefusalRow } from './request-rows.ts'
import { HOUR_MS } from './roll-ups.ts'

/** Rows that one statement reads. The first is short, because most pages are full at once. */
const FIRST_CHUNK = 1_000
const CHUNK = 20_000
/** A page that is not full after this time comes back short. */
const SEARCH_MS = 150
/** An id begins with the time of its request; records of earlier versions are this much later at most. */
const SLACK_MS = 60_000

const FIRST_ID = new Uint8Array(16)

/** A search from the newest id to the oldest. */
type Found = {
  rows: RequestRow[]
  /** All ids from this one on were searched; undefined where all were. */
  searchedTo: Uint8Array | undefined
}

const hex = (id: Uint8Array): string => id.toHex()
const lessOf = (a: Uint8Array, b: Uint8Array): Uint8Array => (Buffer.compare(a, b) < 0 ? a : b)
const moreOf = (a: Uint8Array, b: Uint8Array): Uint8Array => (Buffer.compare(a, b) < 0 ? b : a)

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
    return mergedPage([generations, refusals], latestOf(generations.searchedTo, refusals.searchedTo), limit)
  }

  #generations(filter: RequestFilter, low: Uint8Array, high: Uint8Array, limit: number, giveUpAt: number): Found {
    const rows: RequestRow[] = []
    const conditions = where(generationConditions(this.#names, filter))
    const sql = `SELECT ${LINE_COLUMNS} FROM generations AS g
      WHERE g.id < ? AND g.id >= ?${conditions} ORDER BY g.id DESC`
    let size = FIRST_CHUNK
    for (const [from, to] of this.#ranges(filter, low, high)) {
      for (let end = to; Buffer.compare(end, from) > 0; ) {
        if (performance.now() > giveUpAt && size === CHUNK) return { rows, searchedTo: end }
        const start = this.#chunkStart('generations', from, end, size)
        for (const row of this.#rows<LineRow>(sql, end, start)) {
          const line = lineOf(this.#names, row)
          if (matches(filter, line) && rows.push(line) === limit)
            return { rows, searchedTo: generationIdBytes(line.id) }
        }
        end = start
        size = CHUNK
      }
    }
    return { rows, searchedTo: undefined }
  }

  #refusals(filter: RequestFilter, low: Uint8Array, high: Uint8Array, limit: number, giveUpAt: number): Found {
    const rows: RequestRow[] = []
    const columns = { account: 'account', key: 'key', model: 'model', api: 'route', code: 'code', client: 'client' }
    const conditions = where(choiceConditions(this.#names, filter, columns))
    const sql = `SELECT ${REFUSAL_COLUMNS} FROM refusals AS r
      WHERE r.id < ? AND r.id >= ?${conditions} ORDER BY r.id DESC`
    for (let end = high, size = FIRST_CHUNK; Buffer.compare(end, low) > 0; size = CHUNK) {
      if (performance.now() > giveUpAt && size === CHUNK) return { rows, searchedTo: end }
      const start = this.#chunkStart('refusals', low, end, size)
      for (const row of this.#rows<RefusalRow>(sql, end, start)) {
        const line = refusalLineOf(this.#names, row)
        if (matches(filter, line) && rows.push(line) === limit) return { rows, searchedTo: generationIdBytes(line.id) }
      }
      end = start
    }
    return { rows, searchedTo: undefined }
  }

  *#rows<Row>(sql: string, ...values: SQLQueryBindings[]): Generator<Row> {
    yield* this.#database.query(sql).iterate(...values) as IterableIterator<Row>
  }

  /** The id from which the last `size` rows before `end` begin, or `from`. */
  #chunkStart(table: 'generations' | 'refusals', from: Uint8Array, end: Uint8Array, size: number): Uint8Array {
    const sql = `SELECT id FROM ${table} WHERE id < ? AND id >= ? ORDER BY id DESC LIMIT 1 OFFSET ?`
    const row = this.#database.query(sql).get(end, from, size - 1) as { id: Uint8Array } | null
    return row?.id ?? from
  }

  /** The ranges of ids to search, the newest first: hours of which a roll-up says that they may have such rows. */
  *#ranges(filter: RequestFilter, low: Uint8Array, high: Uint8Array): Generator<[from: Uint8Array, to: Uint8Array]> {
    const conditions = hourConditions(this.#names, filter)
    if (conditions.length === 0) return yield [low, high]
    const { countedFrom } = this.#database.query('SELECT counted_from AS countedFrom FROM roll_ups').get() as {
      countedFrom: number
    }
    const next = this.#database.query(
      `SELECT hour FROM usage_hours WHERE hour < ?${where(conditions)} ORDER BY hour DESC LIMIT 1`,
    )
    let end = high
    for (let hour = Math.floor((instantOf(hex(high)) + SLACK_MS) / HOUR_MS) + 1; Buffer.compare(end, low) > 0; ) {
      const found = next.get(hour) as { hour: number } | null
      // Hours that are not counted yet may have anything.
      if (found === null || found.hour < countedFrom) {
        if (countedFrom > 0) yield [low, lessOf(end, firstIdAt(countedFrom * HOUR_MS + SLACK_MS))]
        return
      }
      hour = found.hour
      const from = moreOf(low, firstIdAt(hour * HOUR_MS - SLACK_MS))
      const to = lessOf(end, firstIdAt((hour + 1) * HOUR_MS + SLACK_MS))
      if (Buffer.compare(from, to) < 0) yield [from, to]
      end = lessOf(end, from)
    }
  }

  /** One request with all that its record has. */
  detail(id: string, scope: Scope): RequestDetail | undefined {
    const key = generationIdBytes(id)
    const row = this.#database
      .query(
        `SELECT ${LINE_COLUMNS}, g.translation, g.discount, CAST(g.held AS TEXT) AS held, p.version, p.rates,
           p.model AS priceModel
         FROM generations AS g LEFT JOIN prices AS p ON p.id = g.price WHERE g.id = ?`,
      )
      .get(key) as DetailRow | null
    if (row === null) return this.#refusal(key, scope)
    const line = lineOf(this.#names, row)
    if (!isInScope(scope, line)) return undefined
    return {
      row: line,
      attempts: row.attempts,
      translation: row.translation,
      price: row.version === null ? null : { version: row.version, model: row.priceModel, rates: row.rates },
      discount: row.discount,
      held: BigInt(row.held),
      transfers: this.#transfers(key),
      status: null,
      param: null,
    }
  }

  #refusal(key: Uint8Array, scope: Scope): RequestDetail | undefined {
    const sql = `SELECT ${REFUSAL_COLUMNS} FROM refusals AS r WHERE r.id = ?`
    const row = this.#database.query(sql).get(key) as RefusalRow | null
    const line = row === null ? undefined : refusalLineOf(this.#names, row)
    if (row === null || line === undefined || !isInScope(scope, line)) return undefined
    const { status, param } = row
    const none = { attempts: null, translation: null, price: null, discount: 0, held: 0n, transfers: [] }
    return { row: line, ...none, status, param }
  }

  #transfers(reference: Uint8Array): Transfer[] {
    const rows = this.#database
      .query(
        `SELECT t.kind, CAST(t.amount AS TEXT) AS amount, d.kind AS debitKind, d.owner AS debitOwner,
           c.kind AS creditKind, c.owner AS creditOwner
         FROM transfers AS t JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit
         WHERE t.reference = ? ORDER BY t.kind`,
      )
      .all(reference) as (Record<'debitOwner' | 'creditOwner' | 'kind' | 'amount', string> &
      Record<'debitKind' | 'creditKind', Transfer['debit']['kind']>)[]
    return rows.map(({ kind, amount, debitKind, debitOwner, creditKind, creditOwner }) => ({
      kind,
      amount: BigInt(amount),
      debit: { kind: debitKind, owner: debitOwner },
      credit: { kind: creditKind, owner: creditOwner },
    }))
  }
}

type DetailRow = LineRow & {
  translation: string | null
  discount: number
  held: string
  version: string | null
  rates: string
  priceModel: string
}

const NOTHING: Found = { rows: [], searchedTo: undefined }

function mergedPage(found: readonly Found[], searchedTo: Uint8Array | undefined, limit: number): RequestPage {
  const bound = searchedTo === undefined ? '' : hex(searchedTo)
  const all = found.flatMap(({ rows }) => rows).filter(({ id }) => id >= bound)
  const rows = all.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit)
  const last = rows.length === limit ? rows.at(-1)!.id : undefined
  const next = last ?? (searchedTo === undefined ? null : bound)
  return { rows, next, scannedTo: next === null ? null : instantOf(next) }
}

/** The later of two ends of a search; undefined where both reached the beginning. */
const latestOf = (a: Uint8Array | undefined, b: Uint8Array | undefined): Uint8Array | undefined =>
  a === undefined || b === undefined ? (a ?? b) : moreOf(a, b)

/** The ids that a filter allows: [first, end). */
function idRange({ from, to, idPrefix }: RequestFilter, before: string | undefined): [Uint8Array, Uint8Array] {
  let low = from === undefined ? FIRST_ID : firstIdAt(from - SLACK_MS)
  let high = before === undefined ? new Uint8Array(16).fill(255) : generationIdBytes(before)
  if (to !== undefined) high = lessOf(high, firstIdAt(to + SLACK_MS))
  if (idPrefix !== undefined) {
    low = moreOf(low, Uint8Array.fromHex(idPrefix.padEnd(32, '0')))
    // An id that ends in many f is not excluded by this end.
    const last = Uint8Array.fromHex(idPrefix.padEnd(32, 'f'))
    high = lessOf(high, last.every((byte) => byte === 255) ? high : following(last))
  }
  return [low, high]
}

/** The id after this one. */
function following(id: Uint8Array): Uint8Array {
  const next = id.slice()
  for (let at = next.length - 1; at >= 0; at--) {
    next[at] = (next[at]! + 1) & 255
    if (next[at] !== 0) break
  }
  return next
}

const mayBeGeneration = ({ choices: { outcome } }: RequestFilter): boolean =>
  outcome?.only === undefined || outcome.only.some((one) => one !== 'refused' && one !== 'open')

/** A refusal has neither provider nor answer. */
function mayBeRefusal({ choices, flags, ...filter }: RequestFilter): boolean {
  const { outcome, provider } = choices
  return (
    (outcome?.only === undefined || outcome.only.includes('refused')) &&
    outcome?.not?.includes('refused') !== true &&
    provider?.only === undefined &&
    !Object.values(flags).includes(true) &&
    filter.minFirstTokenMs === undefined &&
    filter.minTotalMs === undefined &&
    (filter.minCost ?? 0n) === 0n &&
    (filter.minTokens ?? 0) === 0
  )
}

const ROLLED = { account: 'account', key: 'key', model: 'model', provider: 'provider', outcome: 'ending' }

const hourConditions = (names: NameCache, filter: RequestFilter): string[] => choiceConditions(names, filter, ROLLED)

function generationConditions(names: NameCache, filter: RequestFilter): string[] {
  const { flags, from, to, minCost, minFirstTokenMs, minTotalMs, minTokens, errorText, choices } = filter
  const columns = { ...ROLLED, api: 'api', client: 'client' }
  const conditions = choiceConditions(names, filter, columns)
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

const TOKENS = USAGE_COLUMNS.filter((column) => column.endsWith('_tokens')).join(' + ')
