import { CONTENT_USAGE, FILE_COLUMNS, OUTPUT_COLUMNS } from '../columns.ts'
import {
  type FileQuery,
  type FileStore,
  type FileUsage,
  REMOVAL_AFTER_MS,
  REMOVAL_AT_MOST_MS,
  REMOVALS_TAKEN,
  type StoredContent,
  type StoredFile,
  type StoredOutput,
} from '../files.ts'
import { unlessRefused } from '../refused.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'
import { jsonOf } from './values.ts'

/** The tables of files and outputs. */
export class FileTables implements FileStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(file: StoredFile, max: FileUsage): Promise<boolean> {
    return this.#connection.commit(async (transaction) => {
      // Only one of two uploads that end together, also in two processes, can use the last of the quota.
      await transaction.run('SELECT pg_advisory_xact_lock(hashtextextended($1, 23))', file.accountId)
      const { changes } = await transaction.run(
        `INSERT INTO files (id, account_id, blob, filename, purpose, bytes, media_type, sha256, metadata, created_at,
           expires_at)
         SELECT $1, $2, $3, $4, $5, $6::bigint, $7, $8, $9, $10, $11
         FROM (SELECT coalesce(sum(bytes), 0) AS bytes, coalesce(sum(things), 0) AS things FROM kept
           WHERE account_id = $2 AND kind = 'files') AS used
         WHERE used.bytes + $6::bigint <= $12 AND used.things < $13`,
        ...[file.id, file.accountId, file.blob, file.filename, file.purpose, file.bytes, file.mediaType],
        ...[file.sha256, file.metadata, file.createdAt, file.expiresAt],
        ...[limitOf(max.bytes), limitOf(max.files)],
      )
      return changes > 0
    })
  }

  find(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    return this.#connection.one<StoredFile>(
      `SELECT ${FILE_COLUMNS} FROM files WHERE account_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3)`,
      ...[accountId, id, now],
    )
  }

  list(accountId: string, { purpose, after, limit, order, now }: FileQuery): Promise<StoredFile[]> {
    const isBeyond = order === 'asc' ? '>' : '<'
    return this.#connection.all<StoredFile>(
      `SELECT ${FILE_COLUMNS} FROM files WHERE account_id = $1 AND (expires_at IS NULL OR expires_at > $2)
         AND ($3::bigint IS NULL OR (created_at, id) ${isBeyond} ($3::bigint, $4::text))
         AND ($5::text IS NULL OR purpose = $5::text)
       ORDER BY created_at ${order}, id ${order} LIMIT $6`,
      ...[accountId, now, after?.createdAt ?? null, after?.id ?? null, purpose ?? null, limit],
    )
  }

  async usage(accountId: string): Promise<FileUsage> {
    const row = await this.#connection.one<FileUsage>(
      `SELECT coalesce(sum(things), 0)::bigint AS files, coalesce(sum(bytes), 0)::bigint AS bytes FROM kept
       WHERE account_id = $1 AND kind = 'files'`,
      accountId,
    )
    return row!
  }

  async delete(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    let deleted: StoredFile | undefined
    const sql = `WITH files AS (
        DELETE FROM files WHERE account_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) RETURNING *),
      noted AS (${noted('files', `$3::bigint + ${REMOVAL_AFTER_MS}`)})
      SELECT ${FILE_COLUMNS} FROM files`
    await unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        deleted = await transaction.one<StoredFile>(sql, accountId, id, now)
        if (deleted === undefined) throw refusal
      }),
    )
    return deleted
  }

  async addOutput({ token, accountId, blob, mediaType, bytes, expiresAt }: StoredOutput): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        `INSERT INTO outputs (token, account_id, blob, media_type, bytes, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)`,
        ...[token, accountId, blob, mediaType, bytes, expiresAt],
      ),
    )
  }

  findOutput(token: string, now: number): Promise<StoredOutput | undefined> {
    return this.#connection.one<StoredOutput>(
      `SELECT ${OUTPUT_COLUMNS} FROM outputs WHERE token = $1 AND expires_at > $2`,
      ...[token, now],
    )
  }

  async purge(now: number): Promise<void> {
    await this.#purge('files', 'id', now)
    await this.#purge('outputs', 'token', now)
  }

  async #purge(table: 'files' | 'outputs', key: 'id' | 'token', now: number): Promise<void> {
    await this.#connection.inBatches((transaction) =>
      transaction.all<{ blob: string }>(
        `WITH purged AS (
           DELETE FROM ${table} WHERE ${key} IN (
             SELECT ${key} FROM ${table} WHERE expires_at <= $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED)
           RETURNING blob),
         noted AS (${noted('purged', '$1::bigint')})
         SELECT blob FROM purged`,
        ...[now, BATCH_ROWS],
      ),
    )
  }

  async takeRemovals(now: number): Promise<string[]> {
    const taken = await this.#connection.all<{ name: string }>(
      `UPDATE removed_blobs
       SET tries = tries + 1, due_at = $1::bigint + least($2::bigint, $3::bigint << least(tries, 20))
       WHERE name IN (
         SELECT name FROM removed_blobs WHERE due_at <= $1::bigint ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED)
       RETURNING name`,
      ...[now, REMOVAL_AT_MOST_MS, REMOVAL_AFTER_MS, REMOVALS_TAKEN],
    )
    return taken.map(({ name }) => name)
  }

  async endRemovals(blobs: readonly string[]): Promise<void> {
    await this.#connection.run(
      'DELETE FROM removed_blobs WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb))',
      jsonOf(blobs),
    )
  }

  async knownBlobs(blobs: readonly string[]): Promise<Set<string>> {
    const known = new Set<string>()
    for (let from = 0; from < blobs.length; from += BATCH_ROWS) {
      const rows = await this.#connection.all<{ blob: string }>(
        `WITH asked AS (SELECT jsonb_array_elements_text($1::text::jsonb) AS blob)
         SELECT blob FROM files WHERE blob IN (SELECT blob FROM asked)
         UNION ALL SELECT blob FROM outputs WHERE blob IN (SELECT blob FROM asked)`,
        jsonOf(blobs.slice(from, from + BATCH_ROWS)),
      )
      for (const { blob } of rows) known.add(blob)
    }
    return known
  }

  contents(after: string): Promise<StoredContent[]> {
    return this.#connection.all<StoredContent>(
      `SELECT blob, bytes, sha256 FROM files WHERE blob > $1
       UNION ALL SELECT blob, bytes, NULL FROM outputs WHERE blob > $1 ORDER BY blob LIMIT $2`,
      after,
      BATCH_ROWS,
    )
  }

  async contentUsage(): Promise<FileUsage> {
    return (await this.#connection.one<FileUsage>(CONTENT_USAGE))!
  }
}

/** Notes the blobs of a table of deleted rows. */
const noted = (rows: string, dueAt: string): string =>
  `INSERT INTO removed_blobs (name, tries, due_at) SELECT blob, 0, ${dueAt} FROM ${rows} ON CONFLICT DO NOTHING`

/** An infinite quota is the largest number. */
const limitOf = (most: number): number => Math.min(most, Number.MAX_SAFE_INTEGER)
