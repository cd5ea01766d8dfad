import type { Connection } from './connection.ts'

/** Ids kept in memory per table. Clients choose some of the texts, so their number is unbounded. */
const MAX_CACHED_IDS = 20_000

/** A table of rows that are inserted once and then referred to by id, with a cache of the ids. */
export class InternedRows {
  readonly #connection: Connection
  readonly #insert: string
  readonly #select: string
  readonly #ids = new Map<string, number>()

  constructor(connection: Connection, insert: string, select: string) {
    this.#connection = connection
    this.#insert = insert
    this.#select = select
  }

  /** The id of a row, inserted if it is new, within a transaction. `text`: the cache key for the values. */
  id(text: string, ...values: string[]): number {
    const known = this.#ids.get(text)
    if (known !== undefined) return known
    this.#connection.run(this.#insert, ...values)
    const { id } = this.#connection.one<{ id: number }>(this.#select, ...values)!
    if (this.#ids.size >= MAX_CACHED_IDS) this.#ids.clear()
    this.#ids.set(text, id)
    return id
  }

  /** Called after a rollback, which removes the rows that the transaction inserted. */
  clearCache(): void {
    this.#ids.clear()
  }
}
