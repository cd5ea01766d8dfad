import type { Account, AccountStatus, AccountStore, KeyFilter, MemberRequests, StoredKey } from '../accounts.ts'
import { ACCOUNT_COLUMNS, KEY_COLUMNS } from '../columns.ts'
import { keyOf, modelsText, type ReadKey } from '../key-row.ts'
import type { Operation, Subscription } from '../ledger.ts'
import { unlessRefused } from '../refused.ts'
import { int64, type Connection } from './connection.ts'
import type { LedgerTables } from './ledger-tables.ts'

type KeyRow = Omit<ReadKey, 'idempotency'> & { idempotency: number }

const storedKeyOf = (row: KeyRow): StoredKey => keyOf({ ...row, idempotency: row.idempotency === 1 })

/** The binding of a list of ids, for `json_each`. */
const listOf = (ids: readonly string[] | undefined): string[] => (ids === undefined ? [] : [JSON.stringify(ids)])

/** The tables of accounts and API keys. */
export class AccountTables implements AccountStore {
  readonly #connection: Connection
  readonly #ledger: LedgerTables

  constructor(connection: Connection, ledger: LedgerTables) {
    this.#connection = connection
    this.#ledger = ledger
  }

  async list(ids?: readonly string[]): Promise<Account[]> {
    const some = ids === undefined ? '' : 'WHERE id IN (SELECT value FROM json_each(?))'
    return this.#connection.all<Account>(
      `SELECT ${ACCOUNT_COLUMNS} FROM accounts ${some} ORDER BY created_at, id`,
      ...listOf(ids),
    )
  }

  async find(idOrName: string): Promise<Account | undefined> {
    return this.#connection.one<Account>(`SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE id = ?1 OR name = ?1`, idOrName)
  }

  async page(after: string, limit: number): Promise<string[]> {
    return this.#connection
      .all<{ id: string }>('SELECT id FROM accounts WHERE id > ? ORDER BY id LIMIT ?', after, limit)
      .map(({ id }) => id)
  }

  async lastChange(): Promise<number> {
    const { position } = this.#connection.one<{ position: number | null }>(
      'SELECT max(position) AS position FROM account_changes',
    )!
    return position ?? 0
  }

  async changes(after: number, limit: number): Promise<{ position: number; accountIds: string[] }> {
    const rows = this.#connection.all<{ position: number; accountId: string }>(
      'SELECT position, account_id AS accountId FROM account_changes WHERE position > ? ORDER BY position LIMIT ?',
      after,
      limit,
    )
    return { position: rows.at(-1)?.position ?? after, accountIds: rows.map(({ accountId }) => accountId) }
  }

  add(account: Account, subscription?: Subscription, operations: readonly Operation[] = []): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        const { changes } = this.#connection.run(
          `INSERT INTO accounts (id, name, status, created_at, discount, member_requests) VALUES (?, ?, ?, ?, ?, ?)
           ON CONFLICT (name) DO NOTHING`,
          account.id,
          account.name,
          account.status,
          account.createdAt,
          account.discount,
          account.memberRequests,
        )
        if (changes === 0) throw refusal
        this.#ledger.beginAccount(subscription, operations)
      }),
    )
  }

  async setStatus(id: string, status: AccountStatus, before?: AccountStatus): Promise<boolean> {
    let changed = false
    await this.#connection.commit(() => {
      const { changes } = this.#connection.run(
        'UPDATE accounts SET status = ? WHERE id = ? AND status = coalesce(?, status)',
        status,
        id,
        before ?? null,
      )
      changed = changes > 0
    })
    return changed
  }

  async setDiscount(id: string, discount: number): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run('UPDATE accounts SET discount = ? WHERE id = ?', discount, id),
    )
  }

  async setMemberRequests(id: string, seen: MemberRequests): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run('UPDATE accounts SET member_requests = ? WHERE id = ?', seen, id),
    )
  }

  async keys(accountIds?: readonly string[]): Promise<StoredKey[]> {
    const some = accountIds === undefined ? '' : 'WHERE account_id IN (SELECT value FROM json_each(?))'
    return this.#connection
      .all<KeyRow>(`SELECT ${KEY_COLUMNS} FROM keys ${some} ORDER BY created_at, id`, ...listOf(accountIds))
      .map(storedKeyOf)
  }

  async keyWithHash(hash: Uint8Array): Promise<StoredKey | undefined> {
    const row = this.#connection.one<KeyRow>(`SELECT ${KEY_COLUMNS} FROM keys WHERE hash = ?`, hash)
    return row === undefined ? undefined : storedKeyOf(row)
  }

  async keyWithId(id: string): Promise<StoredKey | undefined> {
    const row = this.#connection.one<KeyRow>(`SELECT ${KEY_COLUMNS} FROM keys WHERE id = ?`, id)
    return row === undefined ? undefined : storedKeyOf(row)
  }

  async keysBy(creator: string): Promise<StoredKey[]> {
    return this.#connection
      .all<KeyRow>(`SELECT ${KEY_COLUMNS} FROM keys WHERE created_by = ?`, creator)
      .map(storedKeyOf)
  }

  async keyPage({ accountIds, own, creator, withEnded, now, after, limit }: KeyFilter): Promise<StoredKey[]> {
    return this.#connection
      .all<KeyRow>(
        `SELECT ${KEY_COLUMNS} FROM keys
         WHERE (?1 IS NULL OR account_id IN (SELECT value FROM json_each(?1))
             OR (account_id IN (SELECT value FROM json_each(?2)) AND (created_by = ?3 OR id = ?3)))
           AND (?4 OR (revoked_at IS NULL AND (source IS NOT 'playground' OR expires_at > ?8)))
           AND (created_at, id) < (?5, ?6)
         ORDER BY created_at DESC, id DESC LIMIT ?7`,
        accountIds === undefined ? null : JSON.stringify(accountIds),
        JSON.stringify(own),
        creator,
        withEnded ? 1 : 0,
        ...[after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? '', limit, now],
      )
      .map(storedKeyOf)
  }

  async changeKey({
    id,
    name,
    expiresAt,
    requestsPerMinute,
    models,
    limit,
    limitPeriod,
    limitSince,
    role,
    scope,
  }: StoredKey): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run(
        `UPDATE keys SET name = ?, expires_at = ?, requests_per_minute = ?, models = ?, spend_limit = ?,
           limit_period = ?, limit_since = ?, role = ?, scope = ? WHERE id = ?`,
        ...[name, expiresAt, requestsPerMinute, modelsText({ models })],
        ...[limit === null ? null : int64(limit), limitPeriod, limitSince, role, scope, id],
      ),
    )
  }

  async keyUses(ids: readonly string[]): Promise<Map<string, number>> {
    const rows = this.#connection.all<{ id: string; at: number }>(
      'SELECT key_id AS id, at FROM key_uses WHERE key_id IN (SELECT value FROM json_each(?))',
      JSON.stringify(ids),
    )
    return new Map(rows.map(({ id, at }) => [id, at]))
  }

  async useKeys(uses: readonly { id: string; at: number }[]): Promise<void> {
    await this.#connection.commitUnflushed(() => {
      for (const { id, at } of uses)
        this.#connection.run(
          'INSERT INTO key_uses (key_id, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)',
          ...[id, at],
        )
    })
  }

  async addKey(key: StoredKey): Promise<void> {
    await this.#connection.commit(() => this.#insertKey(key))
  }

  async addFirstKeys(keys: readonly StoredKey[]): Promise<boolean> {
    let isFirst = false
    await this.#connection.commit(() => {
      isFirst = this.#connection.one('SELECT 1 FROM keys') === undefined
      if (isFirst) for (const key of keys) this.#insertKey(key)
    })
    return isFirst
  }

  #insertKey(key: StoredKey): void {
    this.#connection.run(
      `INSERT INTO keys (id, account_id, kind, hash, prefix, last4, name, created_at, expires_at, revoked_at,
         requests_per_minute, models, spend_limit, limit_period, limit_since, idempotency, role, scope, created_by,
         source)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      key.id,
      key.accountId,
      key.kind,
      key.hash,
      key.prefix,
      key.last4,
      key.name,
      key.createdAt,
      key.expiresAt,
      key.revokedAt,
      key.requestsPerMinute,
      modelsText(key),
      key.limit === null ? null : int64(key.limit),
      key.limitPeriod,
      key.limitSince,
      key.idempotency ? 1 : 0,
      ...[key.role, key.scope, key.createdBy, key.source],
    )
  }

  revokeKey(id: string, at: number): Promise<boolean> {
    const sql = 'UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL'
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        if (this.#connection.run(sql, at, id).changes === 0) throw refusal
      }),
    )
  }

  expireKey(id: string, at: number, was: number | null): Promise<boolean> {
    const sql = 'UPDATE keys SET expires_at = ? WHERE id = ? AND revoked_at IS NULL AND expires_at IS ?'
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        if (this.#connection.run(sql, at, id, was).changes === 0) throw refusal
      }),
    )
  }
}
