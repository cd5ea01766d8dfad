import type { PeopleStore, Session, SignInLink, StoredRole, User } from '../people.ts'
import type { Connection } from './connection.ts'

const USER_COLUMNS = 'id, name, email, password, created_at AS createdAt, joined_at AS joinedAt'

const SESSION_COLUMNS = `id, user_id AS userId, hash, is_stale AS isStale, created_at AS createdAt, seen_at AS seenAt,
  idle_ms AS idleMs, ends_at AS endsAt, address, client`

type SessionRow = Omit<Session, 'isStale'> & { isStale: number }

const sessionOf = (row: SessionRow): Session => ({ ...row, isStale: row.isStale === 1 })

const OWNERS = "SELECT 1 FROM user_roles WHERE scope = 'installation' AND role = 'owner'"

/** Undoes the write in which it is thrown. */
class NotAllowed extends Error {}

/** The tables of people, their roles, sessions and links. */
export class PeopleTables implements PeopleStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async count(): Promise<number> {
    return this.#connection.one<{ count: number }>('SELECT count(*) AS count FROM users')!.count
  }

  async users(): Promise<User[]> {
    return this.#connection.all<User>(`SELECT ${USER_COLUMNS} FROM users ORDER BY created_at, id`)
  }

  async user(id: string): Promise<User | undefined> {
    return this.#connection.one<User>(`SELECT ${USER_COLUMNS} FROM users WHERE id = ?`, id)
  }

  async userWithEmail(email: string): Promise<User | undefined> {
    return this.#connection.one<User>(`SELECT ${USER_COLUMNS} FROM users WHERE email = ?`, email)
  }

  async roles(userId: string): Promise<StoredRole[]> {
    return this.#connection.all<StoredRole>('SELECT scope, role FROM user_roles WHERE user_id = ?', userId)
  }

  async allRoles(): Promise<(StoredRole & { userId: string })[]> {
    return this.#connection.all('SELECT user_id AS userId, scope, role FROM user_roles')
  }

  addUser(user: User, roles: readonly StoredRole[], isFirst = false): Promise<boolean> {
    return this.#attempt(() => {
      if (isFirst && this.#connection.one('SELECT 1 FROM users') !== undefined) throw new NotAllowed()
      const { changes } = this.#connection.run(
        `INSERT INTO users (id, name, email, password, created_at, joined_at) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (email) DO NOTHING`,
        ...[user.id, user.name, user.email, user.password, user.createdAt, user.joinedAt],
      )
      if (changes === 0) throw new NotAllowed()
      this.#addRoles(user.id, roles)
    })
  }

  changeUser({ id, name, email, password, joinedAt }: User): Promise<boolean> {
    return this.#attempt(() => {
      const { changes } = this.#connection.run(
        `UPDATE users SET name = ?2, email = ?3, password = ?4, joined_at = ?5
         WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM users WHERE email = ?3 AND id <> ?1)`,
        ...[id, name, email, password, joinedAt],
      )
      if (changes === 0) throw new NotAllowed()
    })
  }

  setRoles(userId: string, roles: readonly StoredRole[]): Promise<boolean> {
    return this.#attempt(() => {
      this.#connection.run('DELETE FROM user_roles WHERE user_id = ?', userId)
      this.#addRoles(userId, roles)
      this.#connection.run('UPDATE sessions SET is_stale = 1 WHERE user_id = ?', userId)
      this.#requireOwner()
    })
  }

  removeUser(userId: string): Promise<boolean> {
    return this.#attempt(() => {
      this.#connection.run('DELETE FROM users WHERE id = ?', userId)
      this.#requireOwner()
    })
  }

  #addRoles(userId: string, roles: readonly StoredRole[]): void {
    for (const { scope, role } of roles)
      this.#connection.run('INSERT INTO user_roles (user_id, scope, role) VALUES (?, ?, ?)', userId, scope, role)
  }

  #requireOwner(): void {
    if (this.#connection.one(OWNERS) === undefined) throw new NotAllowed()
  }

  /** False where the write throws NotAllowed, of which nothing remains then. */
  async #attempt(write: () => void): Promise<boolean> {
    try {
      await this.#connection.commit(write)
      return true
    } catch (error) {
      if (error instanceof NotAllowed) return false
      throw error
    }
  }

  async addSession(session: Session): Promise<void> {
    const { id, userId, hash, createdAt, seenAt, idleMs, endsAt, address, client } = session
    await this.#connection.commit(() =>
      this.#connection.run(
        `INSERT INTO sessions (id, user_id, hash, created_at, seen_at, idle_ms, ends_at, address, client)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[id, userId, hash, createdAt, seenAt, idleMs, endsAt, address, client],
      ),
    )
  }

  async sessionWithHash(hash: Uint8Array, now: number): Promise<Session | undefined> {
    const row = this.#connection.one<SessionRow>(
      `SELECT ${SESSION_COLUMNS} FROM sessions
       WHERE (hash = ?1 OR (old_hash = ?1 AND old_until > ?2)) AND ends_at > ?2 AND seen_at + idle_ms > ?2`,
      ...[hash, now],
    )
    return row === undefined ? undefined : sessionOf(row)
  }

  async sessions(userId: string, now: number): Promise<Session[]> {
    return this.#connection
      .all<SessionRow>(
        `SELECT ${SESSION_COLUMNS} FROM sessions
         WHERE user_id = ?1 AND ends_at > ?2 AND seen_at + idle_ms > ?2 ORDER BY seen_at DESC, id`,
        ...[userId, now],
      )
      .map(sessionOf)
  }

  async seeSession(id: string, at: number): Promise<void> {
    await this.#connection.commitUnflushed(() =>
      this.#connection.run('UPDATE sessions SET seen_at = ?2 WHERE id = ?1 AND seen_at < ?2', id, at),
    )
  }

  async endSessions(userId: string, id?: string): Promise<number> {
    let ended = 0
    await this.#connection.commit(() => {
      ended = this.#connection.run(
        'DELETE FROM sessions WHERE user_id = ?1 AND id = coalesce(?2, id)',
        ...[userId, id ?? null],
      ).changes
    })
    return ended
  }

  async replaceText({ id, hash: old }: Session, hash: Uint8Array, oldUntil: number): Promise<boolean> {
    let changes = 0
    await this.#connection.commit(() => {
      ;({ changes } = this.#connection.run(
        `UPDATE sessions SET hash = ?3, old_hash = hash, old_until = ?4, is_stale = 0
         WHERE id = ?1 AND hash = ?2 AND is_stale = 1`,
        ...[id, old, hash, oldUntil],
      ))
    })
    return changes > 0
  }

  async addLink({ hash, userId, createdAt, expiresAt }: SignInLink): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run(
        'INSERT INTO sign_in_links (hash, user_id, created_at, expires_at) VALUES (?, ?, ?, ?)',
        ...[hash, userId, createdAt, expiresAt],
      ),
    )
  }

  async link(hash: Uint8Array): Promise<SignInLink | undefined> {
    return this.#connection.one<SignInLink>(
      `SELECT hash, user_id AS userId, created_at AS createdAt, expires_at AS expiresAt FROM sign_in_links
       WHERE hash = ?`,
      hash,
    )
  }

  async useLink(hash: Uint8Array): Promise<boolean> {
    let changes = 0
    await this.#connection.commit(() => {
      const link = this.#connection.one<{ userId: string | null }>(
        'SELECT user_id AS userId FROM sign_in_links WHERE hash = ?',
        hash,
      )
      if (link === undefined) return
      ;({ changes } = this.#connection.run(
        'DELETE FROM sign_in_links WHERE hash = ?1 OR user_id = ?2',
        hash,
        link.userId,
      ))
    })
    return changes > 0
  }

  async purge(now: number): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run('DELETE FROM sign_in_links WHERE expires_at <= ?', now)
      this.#connection.run('DELETE FROM sessions WHERE ends_at <= ?1 OR seen_at + idle_ms <= ?1', now)
    })
  }
}
