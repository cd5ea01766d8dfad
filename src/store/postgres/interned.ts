import { within } from '../../deadlines.ts'
import type { Connection } from './connection.ts'
import { jsonOf } from './values.ts'

/** Ids kept in memory per table. */
const MAX_CACHED_IDS = 100_000

/** The id of a row, and its texts. */
type Row = { id: number; texts: string }

/**
 * A table of rows that are inserted once and then referred to by id, with a cache of the ids. Rows are never removed,
 * and inserted apart from the transactions that refer to them, so that an id stays right whatever becomes of those.
 */
export class InternedRows {
  readonly #connection: Connection
  readonly #sql: string
  readonly #ids = new Map<string, number>()

  /** `columns`: all of type text. `unique`: the condition under which rows `r` and `t` are equal. */
  constructor(connection: Connection, table: string, columns: readonly string[], unique: string) {
    this.#connection = connection
    const given = columns.map((_, at) => `row ->> ${at}`).join(', ')
    const texts = (alias: string): string => columns.map((column) => `${alias}.${column}`).join(` || '\n' || `)
    this.#sql = `
      WITH r (${columns.join(', ')}) AS MATERIALIZED (
        SELECT ${given} FROM jsonb_array_elements($1::text::jsonb) AS row
      ), added AS (
        INSERT INTO ${table} (${columns.join(', ')})
        SELECT ${columns.join(', ')} FROM r WHERE NOT EXISTS (SELECT FROM ${table} AS t WHERE ${unique})
        ORDER BY ${columns.join(', ')} ON CONFLICT DO NOTHING RETURNING *
      )
      SELECT t.id, ${texts('t')} AS texts FROM added AS t
      UNION ALL SELECT t.id, ${texts('t')} FROM r JOIN ${table} AS t ON ${unique}`
  }

  /** The id of a row that `add` was called for; undefined for one that is not known. */
  id(text: string): number | undefined {
    return this.#ids.get(text)
  }

  /** Forgets all ids where they are too many; they are found again. */
  trim(): void {
    if (this.#ids.size > MAX_CACHED_IDS) this.#ids.clear()
  }

  /** Makes known the ids of rows, which are inserted where they are new. `rows`: by their texts, joined by newlines. */
  async add(rows: ReadonlyMap<string, readonly string[]>): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const missing = [...rows].filter(([text]) => !this.#ids.has(text)).map(([, texts]) => texts)
      if (missing.length === 0) return
      const known = this.#connection.all<Row>(this.#sql, jsonOf(missing))
      for (const { id, texts } of await within(known, ANSWER_MS, unanswered)) this.#ids.set(texts, id)
    }
  }
}

/** A row that another process inserts at the same time is found by the second attempt. */
const ATTEMPTS = 3
/** The longest that all writes of this process wait for an answer, on a connection that may hang. */
const ANSWER_MS = 5_000

const unanswered = (): Promise<never> => Promise.reject(new Error('timeout of a read within a write'))
