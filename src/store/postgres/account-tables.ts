import type { Account, AccountStatus, AccountStore, KeyFilter, MemberRequests, StoredKey } from '../accounts.ts'
import { ACCOUNT_COLUMNS, KEY_COLUMNS } from '../columns.ts'
import { keyOf, modelsText, type ReadKey } from '../key-row.ts'
import type { Operation, Subscription } from '../ledger.ts'
import { unlessRefused } from '../refused.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'
import type { LedgerTables } from './ledger-tables.ts'
import { lock } from './locks.ts'
import { jsonOf } from './values.ts'

/** The condition for a column that is in a list, which is all of them where it is null. */
const isIn = (column: string, list: string): string =>
  `(${list}::text IS NULL OR ${column} IN (SELECT jsonb_array_elements_text(${list}::text::jsonb)))`

const listOf = (ids: readonly string[] | undefined): string | null => (ids === undefined ? null : jsonOf(ids))

/** The tables of accounts and API keys. */
export class AccountTables implements AccountStore {
  readonly #connection: Connection
  readonly #ledger: LedgerTables

  constructor(connection: Connection, ledger: LedgerTables) {
    this.#connection = connection
    this.#ledger = ledger
  }

  list(ids?: readonly string[]): Promise<Account[]> {
    return this.#connection.all<Account>(
      `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE ${isIn('id', '$1')} ORDER BY created_at, id`,
      listOf(ids),
    )
  }

  find(idOrName: string): Promise<Account | undefined> {
    return this.#connection.one<Account>(`SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE id = $1 OR name = $1`, idOrName)
  }

  async page(after: string, limit: number): Promise<string[]> {
    const rows = await this.#connection.all<{ id: string }>(
      'SELECT id FROM accounts WHERE id > $1 ORDER BY id LIMIT $2',
      ...[after, limit],
    )
    return rows.map(({ id }) => id)
  }

  async lastChange(): Promise<number> {
    const row = await this.#connection.one<{ position: number | null }>(
      'SELECT max(position) AS position FROM account_changes',
    )
    return row?.position ?? 0
  }

  async changes(after: number, limit: number): Promise<{ position: number; accountIds: string[] }> {
    const rows = await this.#connection.all<{ position: number; accountId: string }>(
      'SELECT position, account_id AS "accountId" FROM account_changes WHERE position > $1 ORDER BY position LIMIT $2',
      ...[after, limit],
    )
    return { position: rows.at(-1)?.position ?? after, accountIds: rows.map(({ accountId }) => accountId) }
  }

  add(account: Account, subscription?: Subscription, operations: readonly Operation[] = []): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        const { changes } = await transaction.run(
          `INSERT INTO accounts (id, name, status, created_at, discount, member_requests)
           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO NOTHING`,
          ...[account.id, account.name, account.status, account.createdAt, account.discount, account.memberRequests],
        )
        if (changes === 0) throw refusal
        await this.#ledger.beginAccount(transaction, subscription, operations)
      }),
    )
  }

  async setStatus(id: string, status: AccountStatus, before?: AccountStatus): Promise<boolean> {
    const changes = await this.#write(
      'UPDATE accounts SET status = $1 WHERE id = $2 AND status = coalesce($3, status)',
      ...[status, id, before ?? null],
    )
    return changes > 0
  }

  async setDiscount(id: string, discount: number): Promise<void> {
    await this.#write('UPDATE accounts SET discount = $1 WHERE id = $2', discount, id)
  }

  async setMemberRequests(id: string, seen: MemberRequests): Promise<void> {
    await this.#write('UPDATE accounts SET member_requests = $1 WHERE id = $2', seen, id)
  }

  async keys(accountIds?: readonly string[]): Promise<StoredKey[]> {
    const rows = await this.#connection.all<ReadKey>(
      `SELECT ${KEY_COLUMNS} FROM keys WHERE ${isIn('account_id', '$1')} ORDER BY created_at, id`,
      listOf(accountIds),
    )
    return rows.map(keyOf)
  }

  async keyWithHash(hash: Uint8Array): Promise<StoredKey | undefined> {
    const row = await this.#connection.one<ReadKey>(`SELECT ${KEY_COLUMNS} FROM keys WHERE hash = $1`, hash)
    return row === undefined ? undefined : keyOf(row)
  }

  async keyWithId(id: string): Promise<StoredKey | undefined> {
    const row = await this.#connection.one<ReadKey>(`SELECT ${KEY_COLUMNS} FROM keys WHERE id = $1`, id)
    return row === undefined ? undefined : keyOf(row)
  }

  async keysBy(creator: string): Promise<StoredKey[]> {
    const rows = await this.#connection.all<ReadKey>(
      `SELECT ${KEY_COLUMNS} FROM keys WHERE created_by = $1 ORDER BY id`,
      creator,
    )
    return rows.map(keyOf)
  }

  async keyPage({ accountIds, own, creator, withEnded, now, after, limit }: KeyFilter): Promise<StoredKey[]> {
    const rows = await this.#connection.all<ReadKey>(
      `SELECT ${KEY_COLUMNS} FROM keys
       WHERE (${isIn('account_id', '$1')} OR (${isIn('account_id', '$2')} AND (created_by = $3 OR id = $3)))
         AND ($4 OR (revoked_at IS NULL AND (source IS DISTINCT FROM 'playground' OR expires_at > $8)))
         AND (created_at, id) < ($5, $6)
       ORDER BY created_at DESC, id DESC LIMIT $7`,
      ...[listOf(accountIds), jsonOf(own), creator, withEnded],
      ...[after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? '', limit, now],
    )
    return rows.map(keyOf)
  }

  async changeKey(key: StoredKey): Promise<void> {
    await this.#write(
      `UPDATE keys SET name = $1, expires_at = $2, requests_per_minute = $3, models = $4, spend_limit = $5,
         limit_period = $6, limit_since = $7, role = $8, scope = $9 WHERE id = $10`,
      ...[key.name, key.expiresAt, key.requestsPerMinute, modelsText(key)],
      ...[key.limit, key.limitPeriod, key.limitSince, key.role, key.scope, key.id],
    )
  }

  async keyUses(ids: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.#connection.all<{ id: string; at: number }>(
      `SELECT key_id AS id, at FROM key_uses WHERE ${isIn('key_id', '$1')}`,
      jsonOf(ids),
    )
    return new Map(rows.map(({ id, at }) => [id, at]))
  }

  async useKeys(uses: readonly { id: string; at: number }[]): Promise<void> {
    // The rows are taken in one order, so that processes do not wait for each other in a circle.
    await this.#connection.run(
      `INSERT INTO key_uses (key_id, at)
         SELECT id, max(at) FROM unnest(
           ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb)),
           ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb)::bigint)) AS uses (id, at)
         GROUP BY id ORDER BY id COLLATE "C"
       ON CONFLICT (key_id) DO UPDATE SET at = excluded.at WHERE key_uses.at < excluded.at`,
      ...[jsonOf(uses.map(({ id }) => id)), jsonOf(uses.map(({ at }) => at))],
    )
  }

  async addKey(key: StoredKey): Promise<void> {
    await this.#connection.commit((transaction) => insertKey(transaction, key))
  }

  addFirstKeys(keys: readonly StoredKey[]): Promise<boolean> {
    return this.#connection.commit(async (transaction) => {
      // Processes that start for the first time do it together.
      await lock(transaction, 'firstKeys')
      if ((await transaction.one('SELECT 1 FROM keys LIMIT 1')) !== undefined) return false
      for (const key of keys) await insertKey(transaction, key)
      return true
    })
  }

  revokeKey(id: string, at: number): Promise<boolean> {
    return unlessRefused(async (refusal) => {
      const sql = 'UPDATE keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL'
      await this.#connection.commit(async (transaction) => {
        if ((await transaction.run(sql, at, id)).changes === 0) throw refusal
      })
    })
  }

  expireKey(id: string, at: number, was: number | null): Promise<boolean> {
    return unlessRefused(async (refusal) => {
      const sql = `UPDATE keys SET expires_at = $1
        WHERE id = $2 AND revoked_at IS NULL AND expires_at IS NOT DISTINCT FROM $3::bigint`
      await this.#connection.commit(async (transaction) => {
        if ((await transaction.run(sql, at, id, was)).changes === 0) throw refusal
      })
    })
  }

  #write(sql: string, ...values: Parameters<Queries['run']>[1][]): Promise<number> {
    return this.#connection.commit(async (transaction) => (await transaction.run(sql, ...values)).changes)
  }
}

async function insertKey(transaction: Queries, key: StoredKey): Promise<void> {
  await transaction.run(
    `INSERT INTO keys (id, account_id, kind, hash, prefix, last4, name, created_at, expires_at, revoked_at,
       requests_per_minute, models, spend_limit, limit_period, limit_since, idempotency, role, scope, created_by,
       source)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
    ...[key.id, key.accountId, key.kind, key.hash, key.prefix, key.last4, key.name, key.createdAt, key.expiresAt],
    ...[key.revokedAt, key.requestsPerMinute, modelsText(key), key.limit, key.limitPeriod, key.limitSince],
    ...[key.idempotency, key.role, key.scope, key.createdBy, key.source],
  )
}
