import { ANSWER_COLUMNS } from '../columns.ts'
import type { AnswerLimits, IdempotencyStore, StoredAnswer } from '../idempotency.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { IdempotencyClaimTable } from './idempotency-claims.ts'
import { removeExpired } from './remove-in-steps.ts'

/** The table of answers to requests with an `Idempotency-Key`. */
export class IdempotencyTable implements IdempotencyStore {
  readonly claims: IdempotencyClaimTable
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
    this.claims = new IdempotencyClaimTable(connection)
  }

  save(answer: StoredAnswer, { accountBytes, totalBytes }: AnswerLimits): Promise<void> {
    const { accountId, key, digest, createdAt, expiresAt, status, headers, body } = answer
    return this.#connection.commit(async (transaction) => {
      await transaction.run(
        `INSERT INTO idempotent_answers (account_id, key, digest, created_at, expires_at, status, headers, body, bytes)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (account_id, key) DO UPDATE SET digest = excluded.digest, created_at = excluded.created_at,
           expires_at = excluded.expires_at, status = excluded.status, headers = excluded.headers,
           body = excluded.body, bytes = excluded.bytes`,
        ...[accountId, key, digest, createdAt, expiresAt, status, headers, body, body.length + headers.length],
      )
      await free(transaction, accountId, accountBytes)
      await free(transaction, '', totalBytes)
    })
  }

  find(accountId: string, key: Uint8Array, now: number): Promise<StoredAnswer | undefined> {
    return this.#connection.one<StoredAnswer>(
      `SELECT ${ANSWER_COLUMNS}
       FROM idempotent_answers WHERE account_id = $1 AND key = $2 AND expires_at > $3`,
      ...[accountId, key, now],
    )
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'idempotent_answers', now)
  }
}

/**
 * Deletes the oldest rows of an account, or of all accounts for an empty id, until the others have at most so many
 * bytes.
 */
async function free(transaction: Queries, accountId: string, mostBytes: number): Promise<void> {
  const total = await transaction.one<{ bytes: number | null }>(
    "SELECT sum(bytes)::bigint AS bytes FROM kept WHERE account_id = $1 AND kind = 'idempotent_answers'",
    accountId,
  )
  const excess = (total?.bytes ?? 0) - mostBytes
  if (excess <= 0) return
  await transaction.run(
    `DELETE FROM idempotent_answers WHERE position IN (
       SELECT position FROM (
         SELECT position, sum(bytes) OVER (ORDER BY created_at, position) - bytes AS before FROM idempotent_answers
         WHERE $1 IN ('', account_id)) AS oldest WHERE before < $2)`,
    ...[accountId, excess],
  )
}
