import type { BodyPart, BodyStore, StoredBodies } from '../bodies.ts'
import { BODIES_COLUMNS } from '../columns.ts'
import { unlessRefused } from '../refused.ts'
import type { Connection } from './connection.ts'
import { removeExpired } from './remove-in-steps.ts'

export const BODIES = `
  -- Where the bodies of requests are in the segments of the data folder.
  CREATE TABLE bodies (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    segment TEXT NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    parts TEXT NOT NULL
  ) STRICT;
  CREATE INDEX bodies_by_expiry ON bodies (expires_at);
  CREATE INDEX bodies_of_account ON bodies (account_id);
  CREATE INDEX bodies_of_segment ON bodies (segment);

  -- The key of each account for its bodies, encrypted.
  CREATE TABLE body_keys (
    account_id TEXT PRIMARY KEY,
    encrypted BLOB NOT NULL
  ) STRICT, WITHOUT ROWID;
`

type Row = Omit<StoredBodies, 'parts'> & { parts: string }

/** The tables of captured bodies. */
export class BodyTables implements BodyStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async keyOf(accountId: string, fresh?: Uint8Array): Promise<Uint8Array | undefined> {
    const read = (): Uint8Array | undefined =>
      this.#connection.one<{ encrypted: Uint8Array }>('SELECT encrypted FROM body_keys WHERE account_id = ?', accountId)
        ?.encrypted
    const stored = read()
    if (stored !== undefined || fresh === undefined) return stored
    await this.#connection.commit(() =>
      this.#connection.run(
        'INSERT INTO body_keys (account_id, encrypted) VALUES (?, ?) ON CONFLICT DO NOTHING',
        accountId,
        fresh,
      ),
    )
    return read()
  }

  async add({ id, accountId, keyId, segment, offset, length, expiresAt, parts }: StoredBodies): Promise<void> {
    await this.#connection.commitUnflushed(() =>
      this.#connection.run(
        `INSERT INTO bodies (id, account_id, key_id, segment, offset, length, expires_at, parts)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
        ...[id, accountId, keyId, segment, offset, length, expiresAt, JSON.stringify(parts)],
      ),
    )
  }

  async find(id: string, now: number): Promise<StoredBodies | undefined> {
    const row = this.#connection.one<Row>(
      `SELECT ${BODIES_COLUMNS}
       FROM bodies WHERE id = ? AND expires_at > ?`,
      ...[id, now],
    )
    return row && { ...row, parts: JSON.parse(row.parts) as BodyPart[] }
  }

  async among(ids: readonly string[], now: number): Promise<Set<string>> {
    const rows = this.#connection.all<{ id: string }>(
      'SELECT id FROM bodies WHERE id IN (SELECT value FROM json_each(?)) AND expires_at > ?',
      ...[JSON.stringify(ids), now],
    )
    return new Set(rows.map(({ id }) => id))
  }

  remove(id: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        if (this.#connection.run('DELETE FROM bodies WHERE id = ?', id).changes === 0) throw refusal
      }),
    )
  }

  removeAccount(accountId: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        const keys = this.#connection.run('DELETE FROM body_keys WHERE account_id = ?', accountId)
        const bodies = this.#connection.run('DELETE FROM bodies WHERE account_id = ?', accountId)
        if (keys.changes + bodies.changes === 0) throw refusal
      }),
    )
  }

  async removeSegment(segment: string): Promise<void> {
    await this.#connection.commit(() => this.#connection.run('DELETE FROM bodies WHERE segment = ?', segment))
  }

  async purge(now: number): Promise<void> {
    await removeExpired(this.#connection, 'bodies', now, '1')
  }
}
