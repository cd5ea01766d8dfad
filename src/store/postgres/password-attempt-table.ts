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
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name bytea NOT NULL CHECK (length(name) = 32),
    address bytea NOT NULL CHECK (length(address) = 32),
    at bigint NOT NULL
  );
  CREATE INDEX password_tries_of_name ON password_tries (name);
  CREATE INDEX password_tries_of_address ON password_tries (address);
  CREATE INDEX password_tries_by_time ON password_tries (at);

  CREATE TABLE known_places (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place bytea NOT NULL UNIQUE CHECK (length(place) = 32)
  );

  -- Counts a try under its name and its address, unless one of them has as many as may be.
  CREATE FUNCTION begin_try(of_name bytea, of_address bytea, most bigint, within_ms bigint, kept bigint,
    OUT of_position bigint, OUT wait_ms bigint) LANGUAGE plpgsql AS $$
  DECLARE
    at_ms bigint;
  BEGIN
    -- A crash of the server may lose those of the second before it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('password_tries', 19));
    at_ms := extract(epoch FROM clock_timestamp()) * 1000;
    -- Those far ahead were counted before the clock of the server was set back.
    DELETE FROM password_tries WHERE at <= at_ms - within_ms OR at > at_ms + within_ms
      OR position <= (SELECT max(position) FROM password_tries) - kept;
    SELECT max(begun_at) + within_ms - at_ms INTO wait_ms FROM (
      SELECT min(at) AS begun_at FROM password_tries WHERE name = of_name HAVING count(*) >= most
      UNION ALL SELECT min(at) FROM password_tries WHERE address = of_address HAVING count(*) >= most
    ) AS full_ones;
    IF wait_ms IS NULL THEN
      INSERT INTO password_tries (name, address, at) VALUES (of_name, of_address, at_ms)
        RETURNING position INTO of_position;
    END IF;
  END $$;
`

export class PasswordAttemptTable implements PasswordAttemptStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async begin(
    { name, address }: PasswordAttempt,
    { most, withinMs }: AttemptLimit,
  ): Promise<{ position: number } | { waitMs: number }> {
    const row = await this.#connection.one<{ position: number | null; waitMs: number }>(
      'SELECT of_position AS position, wait_ms AS "waitMs" FROM begin_try($1, $2, $3, $4, $5)',
      ...[name, address, most, withinMs, ATTEMPTS_KEPT],
    )
    const { position, waitMs } = row!
    return position === null ? { waitMs } : { position }
  }

  async withdraw(position: number, origin?: Uint8Array): Promise<void> {
    await this.#connection.commit(async (transaction) => {
      await transaction.run('DELETE FROM password_tries WHERE position = $1', position)
      if (origin === undefined) return
      await transaction.run(
        `INSERT INTO known_places (place) VALUES ($1)
         ON CONFLICT (place) DO UPDATE SET position = DEFAULT`,
        origin,
      )
      await transaction.run(
        'DELETE FROM known_places WHERE position <= (SELECT max(position) FROM known_places) - $1::bigint',
        ORIGINS_KEPT,
      )
    })
  }

  async isKnownOrigin(origin: Uint8Array): Promise<boolean> {
    return (await this.#connection.one('SELECT 1 FROM known_places WHERE place = $1', origin)) !== undefined
  }
}
