import type { ReasoningStore, ReasoningUsage, StoredReasoning } from '../reasoning.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'
import { jsonOf } from './values.ts'

/** The table of reasoning that providers require back after tool calls. */
export class ReasoningTable implements ReasoningStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  save({ accountId, key, provider, model, expiresAt, sealed }: StoredReasoning, toFree: number): Promise<void> {
    return this.#connection.commit(async (transaction) => {
      if (toFree > 0)
        await transaction.run(
          `DELETE FROM reasoning WHERE position IN (
             SELECT position FROM (
               SELECT position, sum(bytes) OVER (ORDER BY expires_at, position) - bytes AS before FROM reasoning
               WHERE account_id = $1) AS oldest WHERE before < $2)`,
          ...[accountId, toFree],
        )
      await transaction.run(
        `INSERT INTO reasoning (account_id, key, provider, model, expires_at, bytes, sealed)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (account_id, key) DO UPDATE SET provider = excluded.provider, model = excluded.model,
           expires_at = excluded.expires_at, bytes = excluded.bytes, sealed = excluded.sealed`,
        ...[accountId, key, provider, model, expiresAt, sealed.length, sealed],
      )
    })
  }

  async find(
    accountId: string,
    keys: readonly string[],
    maxBytes: number,
    now: number,
  ): Promise<Map<string, Uint8Array>> {
    const rows = await this.#connection.all<{ key: string; sealed: Uint8Array }>(
      `SELECT key, sealed FROM (
         SELECT r.key, r.sealed, k.position, sum(r.bytes) OVER (ORDER BY k.position) AS bytes
         FROM jsonb_array_elements_text($2::text::jsonb) WITH ORDINALITY AS k (key, position)
           JOIN reasoning AS r ON r.account_id = $1 AND r.key = k.key AND r.expires_at > $4
       ) AS found WHERE bytes <= $3 ORDER BY position`,
      ...[accountId, jsonOf(keys), maxBytes, now],
    )
    return new Map(rows.map(({ key, sealed }) => [key, sealed]))
  }

  usage(): Promise<ReasoningUsage[]> {
    return this.#connection.all<ReasoningUsage>(
      `SELECT account_id AS "accountId", provider, model, sum(bytes)::bigint AS bytes FROM reasoning
       GROUP BY account_id, provider, model`,
    )
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'reasoning', now)
  }
}
