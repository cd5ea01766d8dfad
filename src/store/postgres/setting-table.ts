import type { SettingStore } from '../store.ts'
import type { Connection } from './connection.ts'

export class SettingTable implements SettingStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async get(name: string): Promise<string | undefined> {
    return (await this.#connection.one<{ value: string }>('SELECT value FROM settings WHERE name = $1', name))?.value
  }

  async setOnce(name: string, value: string): Promise<string> {
    await this.#connection.commit((transaction) =>
      transaction.run(
        'INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING',
        ...[name, value],
      ),
    )
    return (await this.get(name)) ?? value
  }

  async set(name: string, value: string | undefined): Promise<void> {
    await this.#connection.commit((transaction) =>
      value === undefined
        ? transaction.run('DELETE FROM settings WHERE name = $1', name)
        : transaction.run(
            `INSERT INTO settings (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
            ...[name, value],
          ),
    )
  }
}
