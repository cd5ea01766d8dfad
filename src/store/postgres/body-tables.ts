import type { BodyPart, BodyStore, StoredBodies } from '../bodies.ts'
import { BODIES_COLUMNS } from '../columns.ts'
import { unlessRefused } from '../refused.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'

export const BODIES = `
  CREATE TABLE bodies (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    segment text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL,
    length bigint NOT NULL,
    expires_at bigint NOT NULL,
    parts jsonb NOT NULL
  );
  CREATE INDEX bodies_by_expiry ON bodies (expires_at);
  CREATE INDEX bodies_of_account ON bodies (account_id);
  CREATE INDEX bodies_of_segment ON bodies (segment);

  CREATE TABLE body_keys (
    account_id text COLLATE "C" PRIMARY KEY,
    encrypted bytea NOT NULL
  );
`

/** The tables of captured bodies, which themselves are in the data folder. */
export class BodyTables implements BodyStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async keyOf(accountId: string, fresh?: Uint8Array): Promise<Uint8Array | undefined> {
    if (fresh !== undefined)
      await this.#connection.commit((transaction) =>
        transaction.run(
          'INSERT INTO body_keys (account_id, encrypted) VALUES ($1, $2) ON CONFLICT DO NOTHING',
          ...[accountId, fresh],
        ),
      )
    const row = await this.#connection.one<{ encrypted: Uint8Array }>(
      'SELECT encrypted FROM body_keys WHERE account_id = $1',
      accountId,
    )
    return row?.encrypted
  }

  async add({ id, accountId, keyId, segment, offset, length, expiresAt, parts }: StoredBodies): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        `INSERT INTO bodies (id, account_id, key_id, segment, "offset", length, expires_at, parts)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
        ...[id, accountId, keyId, segment, offset, length, expiresAt, JSON.stringify(parts)],
      ),
    )
  }

  async find(id: string, now: number): Promise<StoredBodies | undefined> {
    const row = await this.#connection.one<Omit<StoredBodies, 'parts'> & { parts: string }>(
      `SELECT ${BODIES_COLUMNS}
       FROM bodies WHERE id = $1 AND expires_at > $2`,
      ...[id, now],
    )
    return row && { ...row, parts: JSON.parse(row.parts) as BodyPart[] }
  }

  async among(ids: readonly string[], now: number): Promise<Set<string>> {
    const rows = await this.#connection.all<{ id: string }>(
      'SELECT id FROM bodies WHERE id IN (SELECT jsonb_array_elements_text($1::jsonb)) AND expires_at > $2',
      ...[JSON.stringify(ids), now],
    )
    return new Set(rows.map(({ id }) => id))
  }

  remove(id: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        if ((await transaction.run('DELETE FROM bodies WHERE id = $1', id)).changes === 0) throw refusal
      }),
    )
  }

  removeAccount(accountId: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        const keys = await transaction.run('DELETE FROM body_keys WHERE account_id = $1', accountId)
        const bodies = await transaction.run('DELETE FROM bodies WHERE account_id = $1', accountId)
        if (keys.changes + bodies.changes === 0) throw refusal
      }),
    )
  }

  async removeSegment(segment: string): Promise<void> {
    await this.#connection.commit((transaction) => transaction.run('DELETE FROM bodies WHERE segment = $1', segment))
  }

  async purge(now: number): Promise<void> {
    await this.#connection.inBatches((transaction) =>
      transaction.all(
        'DELETE FROM bodies WHERE id IN (SELECT id FROM bodies WHERE expires_at <= $1 LIMIT $2) RETURNING id',
        ...[now, BATCH_ROWS],
      ),
    )
  }
}
