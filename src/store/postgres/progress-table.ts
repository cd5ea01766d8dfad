import { log } from '../../log/log.ts'
import type { ProgressStore } from '../ledger.ts'
import type { Connection } from './connection.ts'

/** The progress that each process has of its open generations. It survives the process, not PostgreSQL's crash. */
export const PROGRESS = `
  CREATE UNLOGGED TABLE open_progress (
    process bigint PRIMARY KEY,
    text text NOT NULL
  );
`

/** The progress of this process, which the one that takes over from it reads (`Inheritance`). */
export class ProgressTable implements ProgressStore {
  readonly #connection: Connection
  #text: string | undefined
  #isWriting = false
  #hasFailed = false
  #isClosed = false

  constructor(connection: Connection) {
    this.#connection = connection
  }

  write(text: string): void {
    this.#text = text
    if (!this.#isWriting && !this.#isClosed) void this.#writeLatest()
  }

  /** A process begins without any. */
  read(): undefined {}

  close(): void {
    this.#isClosed = true
  }

  /** Writes what is newest until nothing is newer, one statement at a time. */
  async #writeLatest(): Promise<void> {
    this.#isWriting = true
    for (let text = this.#text; text !== undefined; text = this.#text) {
      this.#text = undefined
      await this.#write(text)
    }
    this.#isWriting = false
  }

  async #write(text: string): Promise<void> {
    try {
      await this.#connection.run(
        `INSERT INTO open_progress (process, text) SELECT id, $2 FROM processes WHERE id = $1 AND ended_at IS NULL
         ON CONFLICT (process) DO UPDATE SET text = excluded.text`,
        this.#connection.process ?? null,
        text,
      )
      this.#hasFailed = false
    } catch (error) {
      if (!this.#hasFailed && !this.#isClosed)
        log.error(`Cannot write the progress of streams, which a crash would lose: ${(error as Error).message}`)
      this.#hasFailed = true
    }
  }
}
