import type { ReasoningStore, ReasoningUsage, StoredReasoning } from '../reasoning.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'

/** The table of reasoning that providers require back after tool calls. */
export class ReasoningTable implements ReasoningStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  save({ accountId, key, provider, model, expiresAt, sealed }: StoredReasoning, toFree: number): Promise<void> {
    return this.#connection.commitEnd(() => {
      if (toFree > 0) this.#free(accountId, toFree)
      this.#connection.run(
        `INSERT INTO reasoning (account_id, key, provider, model, expires_at, bytes, sealed)
         VALUES (?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (account_id, key) DO UPDATE SET provider = excluded.provider, model = excluded.model,
           expires_at = excluded.expires_at, bytes = excluded.bytes, sealed = excluded.sealed`,
        accountId,
        key,
        provider,
        model,
        expiresAt,
        sealed.length,
        sealed,
      )
    })
  }

  /** Deletes rows within a transaction, those that expire first before others. */
  #free(accountId: string, bytes: number): void {
    for (let left = bytes; left > 0; ) {
      const oldest = this.#connection.all<{ position: number; bytes: number }>(
        'SELECT position, bytes FROM reasoning WHERE account_id = ? ORDER BY expires_at LIMIT ?',
        accountId,
        BATCH_ROWS,
      )
      if (oldest.length === 0) return
      for (const row of oldest) {
        if (left <= 0) return
        this.#connection.run('DELETE FROM reasoning WHERE account_id = ? AND position = ?', accountId, row.position)
        left -= row.bytes
      }
    }
  }

  async find(
    accountId: string,
    keys: readonly string[],
    maxBytes: number,
    now: number,
  ): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>()
    let left = maxBytes
    for (const key of keys) {
      const row = this.#connection.one<{ sealed: Uint8Array }>(
        'SELECT sealed FROM reasoning WHERE account_id = ? AND key = ? AND expires_at > ?',
        accountId,
        key,
        now,
      )
      if (row === undefined) continue
      left -= row.sealed.length
      if (left < 0) break
      found.set(key, row.sealed)
    }
    return found
  }

  async usage(): Promise<ReasoningUsage[]> {
    return this.#connection.all<ReasoningUsage>(
      `SELECT account_id AS accountId, provider, model, sum(bytes) AS bytes FROM reasoning
       GROUP BY account_id, provider, model`,
    )
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'reasoning', now)
  }
}
