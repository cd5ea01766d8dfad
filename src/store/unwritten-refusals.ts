import type { Refusal } from './reports.ts'
import { HOUR_MS } from './usage-pieces.ts'

/** Refusals that wait to be written; more are only counted. */
const ROWS_MAX = 2_000

/** The refusals of one hour. `account`, `key`: empty for none. */
type RefusalHour = { hour: number; account: string; key: string; code: string; requests: number }

/** Refusals that are not written yet: their numbers by the hour, and rows. */
export class UnwrittenRefusals {
  readonly #hours = new Map<string, RefusalHour>()
  #rows: Refusal[] = []

  get hours(): RefusalHour[] {
    return [...this.#hours.values()]
  }

  get rows(): readonly Refusal[] {
    return this.#rows
  }

  get isEmpty(): boolean {
    return this.#hours.size === 0
  }

  /** `isKept`: its row is stored, too. */
  add(refusal: Refusal, isKept: boolean): void {
    const { at, code, accountId, keyId } = refusal
    const hour = Math.floor(at / HOUR_MS)
    this.#count({ hour, account: accountId ?? '', key: keyId ?? '', code, requests: 1 })
    if (isKept && this.#rows.length < ROWS_MAX) this.#rows.push(refusal)
  }

  /** Takes back what came before, and could not be written. */
  takeBack(older: UnwrittenRefusals): void {
    for (const row of older.hours) this.#count(row)
    this.#rows = [...older.rows, ...this.#rows].slice(0, ROWS_MAX)
  }

  #count(row: RefusalHour): void {
    const id = `${row.hour} ${row.key} ${row.account} ${row.code}`
    const known = this.#hours.get(id)
    if (known === undefined) this.#hours.set(id, row)
    else known.requests += row.requests
  }
}
