import {
  ORIGINS_KEPT,
  ATTEMPTS_KEPT,
  type PasswordAttempt,
  type AttemptLimit,
  type PasswordAttemptStore,
} from '../password-attempts.ts'
import type { Connection } from './connection.ts'

export const PASSWORD_ATTEMPTS = `
  CREATE TABLE password_tries (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL CHECK (length(name) = 32),
    address BLOB NOT NULL CHECK (length(address) = 32),
    at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX password_tries_of_name ON password_tries (name);
  CREATE INDEX password_tries_of_address ON password_tries (address);
  CREATE INDEX password_tries_by_time ON password_tries (at);

  CREATE TABLE known_places (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    place BLOB NOT NULL UNIQUE CHECK (length(place) = 32)
  ) STRICT;
`

export class PasswordAttemptTable implements PasswordAttemptStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async begin(
    one: PasswordAttempt,
    limit: AttemptLimit,
    now: number,
  ): Promise<{ position: number } | { waitMs: number }> {
    let begun: { position: number } | { waitMs: number } | undefined
    await this.#connection.commitUnflushed(() => (begun = this.#count(one, limit, now)))
    return begun!
  }

  #count(
    { name, address }: PasswordAttempt,
    { most, withinMs }: AttemptLimit,
    now: number,
  ): { position: number } | { waitMs: number } {
    // Those far ahead were counted before the clock was set back.
    this.#connection.run(
      `DELETE FROM password_tries WHERE at <= ?1 - ?2 OR at > ?1 + ?2
         OR position <= (SELECT max(position) FROM password_tries) - ?3`,
      ...[now, withinMs, ATTEMPTS_KEPT],
    )
    const full = this.#connection.one<{ begunAt: number | null }>(
      `SELECT max(begun_at) AS begunAt FROM (
         SELECT min(at) AS begun_at FROM password_tries WHERE name = ?1 HAVING count(*) >= ?3
         UNION ALL SELECT min(at) FROM password_tries WHERE address = ?2 HAVING count(*) >= ?3)`,
      ...[name, address, most],
    )!
    if (full.begunAt !== null) return { waitMs: full.begunAt + withinMs - now }
    return this.#connection.one<{ position: number }>(
      'INSERT INTO password_tries (name, address, at) VALUES (?, ?, ?) RETURNING position',
      ...[name, address, now],
    )!
  }

  async withdraw(position: number, origin?: Uint8Array): Promise<void> {
    await this.#connection.commitUnflushed(() => {
      this.#connection.run('DELETE FROM password_tries WHERE position = ?', position)
      if (origin === undefined) return
      this.#connection.run('DELETE FROM known_places WHERE place = ?', origin)
      this.#connection.run('INSERT INTO known_places (place) VALUES (?)', origin)
      this.#connection.run(
        'DELETE FROM known_places WHERE position <= (SELECT max(position) FROM known_places) - ?',
        ORIGINS_KEPT,
      )
    })
  }

  async isKnownOrigin(origin: Uint8Array): Promise<boolean> {
    return this.#connection.one('SELECT 1 FROM known_places WHERE place = ?', origin) !== undefined
  }
}
