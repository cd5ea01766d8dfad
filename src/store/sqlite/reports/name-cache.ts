import type { Database } from 'bun:sqlite'

/** Texts that are kept; clients choose some of them. */
const TEXTS_MAX = 50_000

/** The table names, as the reading thread knows it: rows are only ever added. */
export class NameCache {
  readonly #database: Database
  readonly #texts = new Map<number, string>()

  constructor(database: Database) {
    this.#database = database
  }

  /** The text of an id; null for none. */
  text(id: number | null): string | null {
    if (id === null || id === 0) return null
    const known = this.#texts.get(id)
    if (known !== undefined) return known
    const { text } = this.#database.query('SELECT text FROM names WHERE id = ?').get(id) as { text: string }
    if (this.#texts.size >= TEXTS_MAX) this.#texts.clear()
    this.#texts.set(id, text)
    return text
  }

  /** The ids of texts, without those that no record has. */
  ids(texts: readonly string[]): number[] {
    const sql = 'SELECT id FROM names WHERE text IN (SELECT value FROM json_each(?))'
    return (this.#database.query(sql).all(JSON.stringify(texts)) as { id: number }[]).map(({ id }) => id)
  }

  /** The id of one text, or one that no record has. */
  id(text: string): number {
    return this.ids([text])[0] ?? -1
  }
}
