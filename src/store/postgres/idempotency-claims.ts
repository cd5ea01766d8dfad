import type { IdempotencyClaims } from '../idempotency.ts'
import type { Connection } from './connection.ts'

/** Keys of requests that are being answered. That of a process which has ended is free. */
export const CLAIMS = `
  CREATE TABLE idempotency_claims (
    account_id text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    digest bytea NOT NULL,
    process bigint,
    PRIMARY KEY (account_id, key)
  );
`

/** The table of the claims of all processes. */
export class IdempotencyClaimTable implements IdempotencyClaims {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async claim(accountId: string, key: Uint8Array, digest: Uint8Array): Promise<Uint8Array | undefined> {
    for (;;) {
      const { changes } = await this.#connection.run(
        `INSERT INTO idempotency_claims AS c (account_id, key, digest, process) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account_id, key) DO UPDATE SET digest = excluded.digest, process = excluded.process
         WHERE c.process = excluded.process
           OR NOT EXISTS (SELECT FROM processes WHERE id = c.process AND ended_at IS NULL)`,
        ...[accountId, key, digest, this.#connection.process ?? null],
      )
      if (changes > 0) return undefined
      const other = await this.#connection.one<{ digest: Uint8Array }>(
        'SELECT digest FROM idempotency_claims WHERE account_id = $1 AND key = $2',
        accountId,
        key,
      )
      if (other !== undefined) return other.digest
    }
  }

  async release(accountId: string, key: Uint8Array): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        'DELETE FROM idempotency_claims WHERE account_id = $1 AND key = $2 AND process IS NOT DISTINCT FROM $3',
        ...[accountId, key, this.#connection.process ?? null],
      ),
    )
  }
}
