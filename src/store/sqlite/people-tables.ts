import { LINK_COLUMNS, SESSION_COLUMNS, USER_COLUMNS } from '../columns.ts'
import type { PeopleStore, Session, SignInLink, StoredRole, User, WhichSessions } from '../people.ts'
import { type Refused, unlessRefused } from '../refused.ts'
import type { Connection } from './connection.ts'

type SessionRow = Omit<Session, 'isStale'> & { isStale: number }

const sessionOf = (row: SessionRow): Session => ({ ...row, isStale: row.isStale === 1 })

const OWNERS = "SELECT 1 FROM user_roles WHERE scope = 'installation' AND role = 'owner'"

const END_SESSIONS = 'DELETE FROM sessions WHERE user_id = ?1 AND id = coalesce(?2, id) AND id IS NOT ?3'

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
    return this.#attempt((refusal) => {
      if (isFirst && this.#connection.one('SELECT 1 FROM users') !== undefined) throw refusal
      const { changes } = this.#connection.run(
        `INSERT INTO users (id, name, email, password, created_at, joined_at) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (email) DO NOTHING`,
        ...[user.id, user.name, user.email, user.password, user.createdAt, user.joinedAt],
      )
      if (changes === 0) throw refusal
      this.#addRoles(user.id, roles)
    })
  }

  changeUser({ id, name, email, password, joinedAt }: User): Promise<boolean> {
    return this.#attempt((refusal) => {
      const { changes } = this.#connection.run(
        `UPDATE users SET name = ?2, email = ?3, password = ?4, joined_at = ?5
         WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM users WHERE email = ?3 AND id <> ?1)`,
        ...[id, name, email, password, joinedAt],
      )
      if (changes === 0) throw refusal
    })
  }

  setRoles(userId: string, roles: readonly StoredRole[]): Promise<boolean> {
    return this.#attempt((refusal) => {
      const wasOwner = this.#isOwner(userId)
      this.#connection.run('DELETE FROM user_roles WHERE user_id = ?', userId)
      this.#addRoles(userId, roles)
      this.#connection.run('UPDATE sessions SET is_stale = 1 WHERE user_id = ?', userId)
      this.#connection.run('DELETE FROM sign_in_links WHERE user_id = ?', userId)
      if (wasOwner) this.#requireOwner(refusal)
    })
  }

  removeUser(userId: string): Promise<boolean> {
    return this.#attempt((refusal) => {
      const wasOwner = this.#isOwner(userId)
      if (this.#connection.run('DELETE FROM users WHERE id = ?', userId).changes === 0) throw refusal
      if (wasOwner) this.#requireOwner(refusal)
    })
  }

  #addRoles(userId: string, roles: readonly StoredRole[]): void {
    for (const { scope, role } of roles)
      this.#connection.run('INSERT INTO user_roles (user_id, scope, role) VALUES (?, ?, ?)', userId, scope, role)
  }

  #isOwner(userId: string): boolean {
    return this.#connection.one(`${OWNERS} AND user_id = ?`, userId) !== undefined
  }

  #requireOwner(refusal: Refused): void {
    if (this.#connection.one(OWNERS) === undefined) throw refusal
  }

  #attempt(write: (refusal: Refused) => void): Promise<boolean> {
    return unlessRefused((refusal) => this.#connection.commit(() => write(refusal)))
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

  async endSessions(userId: string, { only, but }: WhichSessions = {}): Promise<number> {
    let ended = 0
    await this.#connection.commit(() => {
      ended = this.#connection.run(END_SESSIONS, userId, only ?? null, but ?? null).changes
    })
    return ended
  }

  endAnySessions(userId: string, { only, but }: WhichSessions = {}): Promise<boolean> {
    return this.#attempt((refusal) => {
      if (this.#connection.run(END_SESSIONS, userId, only ?? null, but ?? null).changes === 0) throw refusal
    })
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
      `SELECT ${LINK_COLUMNS} FROM sign_in_links
       WHERE hash = ?`,
      hash,
    )
  }

  useLink(hash: Uint8Array): Promise<boolean> {
    return this.#attempt((refusal) => {
      const link = this.#connection.one<{ userId: string | null }>(
        'SELECT user_id AS userId FROM sign_in_links WHERE hash = ?',
        hash,
      )
      if (link === undefined) throw refusal
      this.#connection.run('DELETE FROM sign_in_links WHERE hash = ?1 OR user_id = ?2', hash, link.userId)
    })
  }

  async purge(now: number): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run('DELETE FROM sign_in_links WHERE expires_at <= ?', now)
      this.#connection.run('DELETE FROM sessions WHERE ends_at <= ?1 OR seen_at + idle_ms <= ?1', now)
    })
  }
}
