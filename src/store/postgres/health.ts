import { within } from '../../deadlines.ts'
import type { Queries } from './client.ts'
import { reasonOf } from './errors.ts'

/** The longest time for which an answer counts. */
const KNOWN_MS = 1_000
/** A server that takes longer keeps requests waiting. */
const ANSWER_MS = 2_000

/** Fails as a write does, so that a connection to a server that is read-only is not kept. */
const ASSERT_WRITABLE = `DO $$ BEGIN
  IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
    RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction';
  END IF;
END $$`

/** The state of the server, asked for at most once a second. */
export class Health {
  readonly #queries: Queries
  #asked: Promise<string | undefined> | undefined
  #askedAt = -Infinity

  constructor(queries: Queries) {
    this.#queries = queries
  }

  /** The reason why the database cannot be written; undefined where it can. */
  outage(): Promise<string | undefined> {
    const now = performance.now()
    if (this.#asked === undefined || now - this.#askedAt > KNOWN_MS) {
      this.#askedAt = now
      this.#asked = within(this.#ask(), ANSWER_MS, () => 'PostgreSQL does not answer')
    }
    return this.#asked
  }

  async #ask(): Promise<string | undefined> {
    try {
      await this.#queries.run(ASSERT_WRITABLE)
      return undefined
    } catch (error) {
      const { cause = error } = error as { cause?: unknown }
      return reasonOf(cause) ?? 'PostgreSQL cannot be used'
    }
  }
}
