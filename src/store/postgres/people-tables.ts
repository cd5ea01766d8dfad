import { LINK_COLUMNS, SESSION_COLUMNS, USER_COLUMNS } from '../columns.ts'
import type { PeopleStore, Session, SignInLink, StoredRole, User, WhichSessions } from '../people.ts'
import { unlessRefused } from '../refused.ts'
import type { Binding, Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { lock } from './locks.ts'

/** The tables of people, their roles, sessions and links. */
export class PeopleTables implements PeopleStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async count(): Promise<number> {
    return (await this.#connection.one<{ count: number }>('SELECT count(*) AS count FROM users'))!.count
  }

  users(): Promise<User[]> {
    return this.#connection.all<User>(`SELECT ${USER_COLUMNS} FROM users ORDER BY created_at, id`)
  }

  user(id: string): Promise<User | undefined> {
    return this.#connection.one<User>(`SELECT ${USER_COLUMNS} FROM users WHERE id = $1`, id)
  }

  userWithEmail(email: string): Promise<User | undefined> {
    return this.#connection.one<User>(`SELECT ${USER_COLUMNS} FROM users WHERE email = $1`, email)
  }

  roles(userId: string): Promise<StoredRole[]> {
    return this.#connection.all<StoredRole>(
      'SELECT scope, role FROM user_roles WHERE user_id = $1 ORDER BY scope',
      userId,
    )
  }

  allRoles(): Promise<(StoredRole & { userId: string })[]> {
    return this.#connection.all('SELECT user_id AS "userId", scope, role FROM user_roles ORDER BY user_id, scope')
  }

  addUser(user: User, roles: readonly StoredRole[], isFirst = false): Promise<boolean> {
    return this.#inTurn(async (transaction) => {
      if (isFirst && (await transaction.one('SELECT 1 FROM users LIMIT 1')) !== undefined) return false
      const { changes } = await transaction.run(
        `INSERT INTO users (id, name, email, password, created_at, joined_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (email) DO NOTHING`,
        ...[user.id, user.name, user.email, user.password, user.createdAt, user.joinedAt],
      )
      if (changes > 0) await addRoles(transaction, user.id, roles)
      return changes > 0
    })
  }

  changeUser({ id, name, email, password, joinedAt }: User): Promise<boolean> {
    return this.#inTurn(async (transaction) => {
      const { changes } = await transaction.run(
        `UPDATE users SET name = $2, email = $3, password = $4, joined_at = $5
         WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM users WHERE email = $3 AND id <> $1)`,
        ...[id, name, email, password, joinedAt],
      )
      return changes > 0
    })
  }

  setRoles(userId: string, roles: readonly StoredRole[]): Promise<boolean> {
    return this.#inTurn(async (transaction) => {
      if (!roles.some(isOwner) && (await isLastOwner(transaction, userId))) return false
      await transaction.run('DELETE FROM user_roles WHERE user_id = $1', userId)
      await addRoles(transaction, userId, roles)
      await transaction.run('UPDATE sessions SET is_stale = true WHERE user_id = $1', userId)
      await transaction.run('DELETE FROM sign_in_links WHERE user_id = $1', userId)
      return true
    })
  }

  removeUser(userId: string): Promise<boolean> {
    return this.#inTurn(async (transaction) => {
      if (await isLastOwner(transaction, userId)) return false
      return (await transaction.run('DELETE FROM users WHERE id = $1', userId)).changes > 0
    })
  }

  /** Other processes write users and roles, too: what the write reads of them is true until its end. */
  #inTurn(write: (transaction: Queries) => Promise<boolean>): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        await lock(transaction, 'people')
        if (!(await write(transaction))) throw refusal
      }),
    )
  }

  async addSession(session: Session): Promise<void> {
    const { id, userId, hash, createdAt, seenAt, idleMs, endsAt, address, client } = session
    await this.#write(
      `INSERT INTO sessions (id, user_id, hash, created_at, seen_at, idle_ms, ends_at, address, client)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      ...[id, userId, hash, createdAt, seenAt, idleMs, endsAt, address, client],
    )
  }

  sessionWithHash(hash: Uint8Array, now: number): Promise<Session | undefined> {
    return this.#connection.one<Session>(
      `SELECT ${SESSION_COLUMNS} FROM sessions
       WHERE (hash = $1 OR (old_hash = $1 AND old_until > $2)) AND ends_at > $2 AND seen_at + idle_ms > $2`,
      ...[hash, now],
    )
  }

  sessions(userId: string, now: number): Promise<Session[]> {
    return this.#connection.all<Session>(
      `SELECT ${SESSION_COLUMNS} FROM sessions
       WHERE user_id = $1 AND ends_at > $2 AND seen_at + idle_ms > $2 ORDER BY seen_at DESC, id`,
      ...[userId, now],
    )
  }

  async seeSession(id: string, at: number): Promise<void> {
    await this.#connection.run('UPDATE sessions SET seen_at = $2 WHERE id = $1 AND seen_at < $2', id, at)
  }

  endSessions(userId: string, { only, but }: WhichSessions = {}): Promise<number> {
    return this.#write(END_SESSIONS, userId, only ?? null, but ?? null)
  }

  endAnySessions(userId: string, { only, but }: WhichSessions = {}): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        const { changes } = await transaction.run(END_SESSIONS, userId, only ?? null, but ?? null)
        if (changes === 0) throw refusal
      }),
    )
  }

  async replaceText({ id, hash: old }: Session, hash: Uint8Array, oldUntil: number): Promise<boolean> {
    const changes = await this.#write(
      `UPDATE sessions SET hash = $3, old_hash = hash, old_until = $4, is_stale = false
       WHERE id = $1 AND hash = $2 AND is_stale`,
      ...[id, old, hash, oldUntil],
    )
    return changes > 0
  }

  async addLink({ hash, userId, createdAt, expiresAt }: SignInLink): Promise<void> {
    await this.#write(
      'INSERT INTO sign_in_links (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)',
      ...[hash, userId, createdAt, expiresAt],
    )
  }

  link(hash: Uint8Array): Promise<SignInLink | undefined> {
    return this.#connection.one<SignInLink>(`SELECT ${LINK_COLUMNS} FROM sign_in_links WHERE hash = $1`, hash)
  }

  useLink(hash: Uint8Array): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        const removed = await transaction.all<{ isUsed: boolean }>(
          `DELETE FROM sign_in_links
           WHERE hash = $1 OR user_id = (SELECT user_id FROM sign_in_links WHERE hash = $1)
           RETURNING hash = $1 AS "isUsed"`,
          hash,
        )
        if (!removed.some(({ isUsed }) => isUsed)) throw refusal
      }),
    )
  }

  async purge(now: number): Promise<void> {
    await this.#connection.commit(async (transaction) => {
      await transaction.run('DELETE FROM sign_in_links WHERE expires_at <= $1', now)
      await transaction.run('DELETE FROM sessions WHERE ends_at <= $1 OR seen_at + idle_ms <= $1', now)
    })
  }

  #write(sql: string, ...values: Binding[]): Promise<number> {
    return this.#connection.commit(async (transaction) => (await transaction.run(sql, ...values)).changes)
  }
}

const END_SESSIONS = 'DELETE FROM sessions WHERE user_id = $1 AND id = coalesce($2, id) AND id IS DISTINCT FROM $3'

async function addRoles(transaction: Queries, userId: string, roles: readonly StoredRole[]): Promise<void> {
  for (const { scope, role } of roles)
    await transaction.run('INSERT INTO user_roles (user_id, scope, role) VALUES ($1, $2, $3)', userId, scope, role)
}

const isOwner = ({ scope, role }: StoredRole): boolean => scope === 'installation' && role === 'owner'

/** An installation without any person who is an owner has a management key that is. */
async function isLastOwner(transaction: Queries, userId: string): Promise<boolean> {
  const owners = await transaction.all<{ userId: string }>(
    `SELECT user_id AS "userId" FROM user_roles WHERE scope = 'installation' AND role = 'owner' LIMIT 2`,
  )
  return owners.length === 1 && owners[0]!.userId === userId
}
