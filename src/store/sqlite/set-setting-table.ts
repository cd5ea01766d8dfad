import type { SetSetting, SetSettingStore } from '../settings-set.ts'
import type { Connection } from './connection.ts'

export const SETTINGS_SET = `
  -- What was set at run time. \`value\` is the kind's own text, with secrets encrypted.
  CREATE TABLE settings_set (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    PRIMARY KEY (kind, name)
  ) STRICT, WITHOUT ROWID;
`

/** The table of settings that were made at run time. */
export class SetSettingTable implements SetSettingStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async list(...kinds: string[]): Promise<SetSetting[]> {
    return this.#connection.all<SetSetting>(
      `SELECT kind, name, s.value, version, at, by
       FROM json_each(?) AS k JOIN settings_set AS s ON s.kind = k.value ORDER BY k.key, name`,
      JSON.stringify(kinds),
    )
  }

  async put({ kind, name, value, at, by }: Omit<SetSetting, 'version'>): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run(
        `INSERT INTO settings_set (kind, name, value, version, at, by) VALUES (?, ?, ?, 1, ?, ?)
         ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, at = excluded.at, by = excluded.by`,
        ...[kind, name, value, at, by],
      ),
    )
  }

  async remove(kind: string, name: string): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run('DELETE FROM settings_set WHERE kind = ? AND name = ?', kind, name),
    )
  }
}
