import type { SettingStore } from '../store.ts'
import type { Connection } from './connection.ts'

export class SettingTable implements SettingStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async get(name: string): Promise<string | undefined> {
    return this.#connection.one<{ value: string }>('SELECT value FROM settings WHERE name = ?', name)?.value
  }

  async setOnce(name: string, value: string): Promise<string> {
    await this.#connection.commit(() =>
      this.#connection.run('INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING', name, value),
    )
    return (await this.get(name)) ?? value
  }

  async set(name: string, value: string | undefined): Promise<void> {
    await this.#connection.commit(() =>
      value === undefined
        ? this.#connection.run('DELETE FROM settings WHERE name = ?', name)
        : this.#connection.run(
            'INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value',
            name,
            value,
          ),
    )
  }
}
