import type { IssuedIdStore } from '../issued-ids.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'

/** The table of the ids of objects that providers store for accounts. */
export class IssuedIdTable implements IssuedIdStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(accountId: string, provider: string, ids: readonly string[], expiresAt: number, most: number): Promise<void> {
    return this.#connection.commitEnd(() => {
      for (const id of ids)
        this.#connection.run(
          `INSERT INTO issued_ids (account_id, id, provider, expires_at) VALUES (?, ?, ?, ?)
           ON CONFLICT (account_id, id) DO UPDATE SET provider = excluded.provider, expires_at = excluded.expires_at`,
          accountId,
          id,
          provider,
          expiresAt,
        )
      this.#connection.run(
        `DELETE FROM issued_ids WHERE position IN (SELECT position FROM issued_ids WHERE account_id = ?
         ORDER BY expires_at DESC, position DESC LIMIT -1 OFFSET ?)`,
        accountId,
        most,
      )
    })
  }

  async providersOf(accountId: string, ids: readonly string[], now: number): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    for (const id of ids) {
      const row = this.#connection.one<{ provider: string }>(
        'SELECT provider FROM issued_ids WHERE account_id = ? AND id = ? AND expires_at > ?',
        accountId,
        id,
        now,
      )
      if (row !== undefined) found.set(id, row.provider)
    }
    return found
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'issued_ids', now, 'length(id)')
  }
}
