import type { IssuedIdStore } from '../issued-ids.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'
import { jsonOf } from './values.ts'

/** The table of the ids of objects that providers store for accounts. */
export class IssuedIdTable implements IssuedIdStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(accountId: string, provider: string, ids: readonly string[], expiresAt: number, most: number): Promise<void> {
    return this.#connection.commit(async (transaction) => {
      await transaction.run(
        `INSERT INTO issued_ids (account_id, id, provider, expires_at)
         SELECT $1, id, $2, $3 FROM jsonb_array_elements_text($4::text::jsonb) WITH ORDINALITY AS i (id, position)
         GROUP BY id ORDER BY min(position)
         ON CONFLICT (account_id, id) DO UPDATE SET provider = excluded.provider, expires_at = excluded.expires_at`,
        ...[accountId, provider, expiresAt, jsonOf(ids)],
      )
      await transaction.run(
        `DELETE FROM issued_ids WHERE position IN (SELECT position FROM issued_ids WHERE account_id = $1
         ORDER BY expires_at DESC, position DESC OFFSET $2)`,
        ...[accountId, most],
      )
    })
  }

  async providersOf(accountId: string, ids: readonly string[], now: number): Promise<Map<string, string>> {
    const rows = await this.#connection.all<{ id: string; provider: string }>(
      `SELECT id, provider FROM issued_ids
       WHERE account_id = $1 AND id IN (SELECT jsonb_array_elements_text($2::text::jsonb)) AND expires_at > $3`,
      ...[accountId, jsonOf(ids), now],
    )
    const providers = new Map(rows.map(({ id, provider }) => [id, provider]))
    return new Map(ids.flatMap((id) => (providers.has(id) ? [[id, providers.get(id)!]] : [])))
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'issued_ids', now, 'length(id)')
  }
}
