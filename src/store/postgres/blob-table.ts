import type { ChunkStore } from '../chunked-blobs.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'

/** Bytes of a row. */
export const CHUNK_BYTES = 2 ** 20
/** Rows that one statement removes. */
const REMOVED_CHUNKS = 16

/** Bytes of files in rows. They are not compressed: most of them are already. */
export const BLOBS = `
  CREATE TABLE blob_chunks (
    name text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    content bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (name, number)
  );
  -- Blobs that were written to lately. A file or an output may not have them yet, or never, where a process has ended.
  CREATE TABLE new_blobs (
    name text COLLATE "C" PRIMARY KEY,
    written_at timestamptz NOT NULL
  );
  CREATE INDEX new_blobs_by_time ON new_blobs (written_at);
`

/** The table of the bytes of files. */
export class ChunkTable implements ChunkStore {
  readonly chunkBytes = CHUNK_BYTES
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async read(name: string, number: number): Promise<Uint8Array | undefined> {
    const row = await this.#connection.one<{ content: Uint8Array }>(
      'SELECT content FROM blob_chunks WHERE name = $1 AND number = $2',
      name,
      number,
    )
    return row?.content
  }

  async write(name: string, number: number, content: Uint8Array): Promise<void> {
    await this.#connection.run(
      `WITH marked AS (${MARK}) INSERT INTO blob_chunks (name, number, content) VALUES ($1, $2, $3)
       ON CONFLICT (name, number) DO UPDATE SET content = excluded.content`,
      ...[name, number, content],
    )
  }

  async remove(name: string): Promise<void> {
    await this.#connection.run(MARK, name)
    let removed = REMOVED_CHUNKS
    while (removed === REMOVED_CHUNKS)
      ({ changes: removed } = await this.#connection.run(
        `DELETE FROM blob_chunks WHERE name = $1 AND number IN (
           SELECT number FROM blob_chunks WHERE name = $1 ORDER BY number LIMIT ${REMOVED_CHUNKS})`,
        name,
      ))
    await this.#connection.run('DELETE FROM new_blobs WHERE name = $1', name)
  }

  async *names(): AsyncGenerator<string[]> {
    for (let after = ''; ; ) {
      const rows = await this.#connection.all<{ name: string }>(
        `SELECT name FROM new_blobs WHERE written_at < clock_timestamp() - interval '1 hour' AND name > $1
         ORDER BY name LIMIT ${BATCH_ROWS}`,
        after,
      )
      const last = rows.at(-1)
      if (last === undefined) return
      yield rows.map(({ name }) => name)
      await this.#connection.run(
        `DELETE FROM new_blobs WHERE written_at < clock_timestamp() - interval '1 hour' AND name > $1 AND name <= $2`,
        after,
        last.name,
      )
      after = last.name
    }
  }
}

const MARK = `INSERT INTO new_blobs (name, written_at) VALUES ($1, clock_timestamp())
  ON CONFLICT (name) DO UPDATE SET written_at = excluded.written_at`
