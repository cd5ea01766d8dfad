import type { Database } from 'bun:sqlite'
import { noUsage } from '../../../generation/usage.ts'
import type { Choice, SpeedQuestion, SpeedRow, UsageGroup, UsageQuestion, UsageRow } from '../../reports.ts'
import { USAGE_BUCKETS, USAGE_COLUMNS } from '../generation-rows.ts'
import { choiceConditions, where } from './conditions.ts'
import type { NameCache } from './name-cache.ts'
import { firstIdAt } from './recount.ts'
import { HOUR_MS } from './roll-ups.ts'

/** See RequestList. */
const SLACK_MS = 60_000

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

type Summed = Record<string, number | string | null> &
  Record<'a' | 'b', number | null> &
  Record<'failed' | 'requests', number> &
  Record<'bill' | 'flows', string>

const SUMS = (isSubscription: string): string => `
  sum(CASE WHEN ending IN (:failed) THEN requests ELSE 0 END) AS failed, sum(requests) AS requests,
  ${USAGE_COLUMNS.map((column, at) => `sum(${column}) AS ${USAGE_BUCKETS[at]}`).join(', ')},
  CAST(sum(${isSubscription}) AS TEXT) AS bill, CAST(sum(flows) AS TEXT) AS flows`

/** A part of a bucket: whole hours, or a piece of one hour that a bound cuts. */
type Piece = { bucket: number; from: number; to: number; isWhole: boolean }

/** Sums of usage: whole hours from the roll-ups, cut ones from the records. */
export class UsageSums {
  readonly #database: Database
  readonly #names: NameCache

  constructor(database: Database, names: NameCache) {
    this.#database = database
    this.#names = names
  }

  rows(question: UsageQuestion): UsageRow[] {
    const rows = new Map<string, UsageRow>()
    const statements = this.#statements(question)
    const includesRefused = mayBeRefused(question)
    for (const piece of piecesOf(question.bounds)) {
      for (const row of statements.used(piece)) this.#add(rows, piece.bucket, row)
      if (includesRefused) for (const row of statements.refused(piece)) this.#add(rows, piece.bucket, row, true)
    }
    return [...rows.values()]
  }

  #statements(question: UsageQuestion): Record<'used' | 'refused', (piece: Piece) => Summed[]> {
    const [first, second] = question.groups
    const failed = this.#names.ids(['failed', 'timed-out', 'shutdown', 'crashed']).join(', ')
    const subscription = this.#names.id('subscription')
    const group = (columns: Record<UsageGroup, string>): string =>
      [first, second]
        .map((one, at) => `${one === undefined ? '0' : columns[one]} AS ${at === 0 ? 'a' : 'b'}`)
        .join(', ')
    const conditions = where(
      choiceConditions(this.#names, question, {
        account: 'account',
        key: 'key',
        model: 'model',
        provider: 'provider',
        outcome: 'ending',
      }),
    )
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
        (isWhole
          ? whole.all(from / HOUR_MS, to / HOUR_MS)
          : cut.all(firstIdAt(from - SLACK_MS), firstIdAt(to + SLACK_MS), from, to)) as Summed[],
      refused: (piece) => refused(piece),
    }
  }

  /**
   * Refusals beyond the number that is stored are only counted: in an hour that a bound cuts they belong to the piece
   * with its end, so that pieces add up to the hour.
   */
  #refusedStatement(question: UsageQuestion, group: string): (piece: Piece) => Summed[] {
    const { account, key, code } = question.choices
    const choices = { ...(account && { account }), ...(key && { key }), ...(code && { code }) }
    const columns = { account: 'account', key: 'key', code: 'code' }
    const conditions = where(choiceConditions(this.#names, { ...question, choices }, columns))
    const whole = `SELECT ${group}, sum(requests) AS requests FROM refusal_hours
      WHERE hour >= ? AND hour < ?${conditions} GROUP BY 1, 2`
    const stored = (sign: string): string => `SELECT ${group}, ${sign}count(*) AS requests FROM refusals
      WHERE id >= ? AND id < ? AND at >= ? AND at < ?${conditions} GROUP BY 1, 2`
    const rest = `SELECT a, b, sum(requests) AS requests FROM (${whole} UNION ALL ${stored('-')}) GROUP BY a, b`
    return ({ from, to, isWhole }) => {
      if (isWhole) return this.#database.query(whole).all(from / HOUR_MS, to / HOUR_MS) as Summed[]
      const hour = Math.floor(from / HOUR_MS)
      const range = (start: number, end: number): (number | Uint8Array)[] => [
        firstIdAt(start - SLACK_MS),
        firstIdAt(end + SLACK_MS),
        start,
        end,
      ]
      return (
        to % HOUR_MS === 0
          ? this.#database.query(rest).all(hour, hour + 1, ...range(hour * HOUR_MS, from))
          : this.#database.query(stored('')).all(...range(from, to))
      ) as Summed[]
    }
  }

  #add(rows: Map<string, UsageRow>, bucket: number, row: Summed, isRefused = false): void {
    // A record without a provider has null, its roll-up 0.
    const [a, b, requests] = [row.a ?? 0, row.b ?? 0, row.requests]
    if (requests === 0) return
    const id = `${bucket} ${a} ${b}`
    let known = rows.get(id)
    if (known === undefined) {
      const group = [this.#label(a), this.#label(b)]
      known = { bucket, group, requests: 0, failed: 0, refused: 0, bill: 0n, flows: 0n, usage: noUsage() }
      rows.set(id, known)
    }
    if (isRefused) known.refused += requests
    else {
      known.requests += requests
      known.failed += row.failed
      known.bill += BigInt(row.bill)
      known.flows += BigInt(row.flows)
      for (const name of USAGE_BUCKETS) known.usage[name] += row[name] as number
    }
  }

  #label(id: number): string | null {
    return id === -1 ? 'refused' : this.#names.text(id)
  }

  /** Times to the first token and speeds, by provider and model, of each bucket of hours. */
  speed({ bounds, choices }: SpeedQuestion): SpeedRow[] {
    const columns = { model: 'model', provider: 'provider' }
    const conditions = where(choiceConditions(this.#names, { choices }, columns))
    const query = this.#database.query(
      `SELECT provider, model, bucket, sum(requests) AS requests, sum(tokens) AS tokens, sum(duration) AS duration
       FROM speed_hours WHERE hour >= ? AND hour < ?${conditions} GROUP BY provider, model, bucket`,
    )
    return bounds.slice(0, -1).flatMap((from, at) => {
      const found = query.all(from, bounds[at + 1]!) as (Record<'provider' | 'model' | 'bucket', number> &
        Record<'requests' | 'tokens' | 'duration', number>)[]
      return [...Map.groupBy(found, ({ provider, model }) => `${provider} ${model}`).values()].map((counted) => ({
        bucket: at,
        provider: this.#names.text(counted[0]!.provider),
        model: this.#names.text(counted[0]!.model)!,
        counts: counted.map(({ bucket, requests }) => [bucket, requests] as const),
        tokens: counted.reduce((sum, { tokens }) => sum + tokens, 0),
        durationMs: counted.reduce((sum, { duration }) => sum + duration, 0),
      }))
    })
  }
}

/** Refusals have no model and no provider: where these are chosen, none is meant. */
function mayBeRefused({ choices: { model, provider, outcome } }: UsageQuestion): boolean {
  const excludes = ({ only, not }: Choice = {}): boolean =>
    (only !== undefined && !only.includes('refused')) || not?.includes('refused') === true
  return model?.only === undefined && provider?.only === undefined && !excludes(outcome)
}

/** The pieces of all buckets, in order: whole hours together, and each hour that a bound cuts. */
function* piecesOf(bounds: readonly number[]): Generator<Piece> {
  for (let bucket = 0; bucket + 1 < bounds.length; bucket++) {
    const [from, to] = [bounds[bucket]!, bounds[bucket + 1]!]
    const [firstWhole, endWhole] = [Math.ceil(from / HOUR_MS) * HOUR_MS, Math.floor(to / HOUR_MS) * HOUR_MS]
    if (firstWhole >= endWhole) {
      // The range may have a bound of an hour within it and no whole one.
      const middle = firstWhole === endWhole ? firstWhole : to
      if (from < middle) yield { bucket, from, to: Math.min(middle, to), isWhole: false }
      if (middle < to) yield { bucket, from: middle, to, isWhole: false }
      continue
    }
    if (from < firstWhole) yield { bucket, from, to: firstWhole, isWhole: false }
    yield { bucket, from: firstWhole, to: endWhole, isWhole: true }
    if (endWhole < to) yield { bucket, from: endWhole, to, isWhole: false }
  }
}
