import type { SetSetting, SetSettingStore } from '../settings-set.ts'
import type { Connection } from './connection.ts'

/** The table of settings that were made at run time. */
export class SetSettingTable implements SetSettingStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  list(...kinds: string[]): Promise<SetSetting[]> {
    return this.#connection.all<SetSetting>(
      `SELECT s.kind, name, s.value, version, at, by
       FROM jsonb_array_elements_text($1::text::jsonb) WITH ORDINALITY AS k (kind, number)
       JOIN settings_set AS s USING (kind) ORDER BY number, name`,
      JSON.stringify(kinds),
    )
  }

  async put({ kind, name, value, at, by }: Omit<SetSetting, 'version'>): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        `INSERT INTO settings_set AS old (kind, name, value, version, at, by) VALUES ($1, $2, $3, 1, $4, $5)
         ON CONFLICT (kind, name) DO UPDATE
           SET value = excluded.value, version = old.version + 1, at = excluded.at, by = excluded.by`,
        ...[kind, name, value, at, by],
      ),
    )
  }

  async remove(kind: string, name: string): Promise<void> {
    await this.#connection.commit((transaction) =>
      transaction.run('DELETE FROM settings_set WHERE kind = $1 AND name = $2', kind, name),
    )
  }
}
