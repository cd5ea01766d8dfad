import { ANSWER_COLUMNS } from '../columns.ts'
import type { AnswerLimits, IdempotencyStore, StoredAnswer } from '../idempotency.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'

type Sized = { position: number; bytes: number }

/** The table of answers to requests with an `Idempotency-Key`. */
export class IdempotencyTable implements IdempotencyStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  save(answer: StoredAnswer, { accountBytes, totalBytes }: AnswerLimits): Promise<void> {
    const { accountId, key, digest, createdAt, expiresAt, status, headers, body } = answer
    return this.#connection.commitEnd(() => {
      this.#connection.run(
        `INSERT INTO idempotent_answers (account_id, key, digest, created_at, expires_at, status, headers, body, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (account_id, key) DO UPDATE SET digest = excluded.digest, created_at = excluded.created_at,
           expires_at = excluded.expires_at, status = excluded.status, headers = excluded.headers,
           body = excluded.body, bytes = excluded.bytes`,
        accountId,
        key,
        digest,
        createdAt,
        expiresAt,
        status,
        headers,
        body,
        body.length + headers.length,
      )
      this.#free(accountId, accountBytes)
      this.#free('', totalBytes)
    })
  }

  /**
   * Deletes the oldest rows of an account within a transaction, or of all accounts for an empty id, until the others
   * have at most so many bytes.
   */
  #free(accountId: string, mostBytes: number): void {
    const total = this.#connection.one<{ bytes: number }>(
      "SELECT bytes FROM kept WHERE account_id = ? AND kind = 'idempotent_answers'",
      accountId,
    )
    const [where, values] = accountId === '' ? ['', []] : ['WHERE account_id = ?', [accountId]]
    for (let excess = (total?.bytes ?? 0) - mostBytes; excess > 0; ) {
      const oldest = this.#connection.all<Sized>(
        `SELECT position, bytes FROM idempotent_answers ${where} ORDER BY created_at, position LIMIT ${BATCH_ROWS}`,
        ...values,
      )
      for (const { position, bytes } of oldest) {
        if (excess <= 0) return
        this.#connection.run('DELETE FROM idempotent_answers WHERE position = ?', position)
        excess -= bytes
      }
    }
  }

  async find(accountId: string, key: Uint8Array, now: number): Promise<StoredAnswer | undefined> {
    return this.#connection.one<StoredAnswer>(
      `SELECT ${ANSWER_COLUMNS}
       FROM idempotent_answers WHERE account_id = ? AND key = ? AND expires_at > ?`,
      accountId,
      key,
      now,
    )
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'idempotent_answers', now)
  }
}
