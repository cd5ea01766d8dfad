import { existsSync } from 'node:fs'
import type { Accounts } from '../accounts/accounts.ts'
import type { Config } from '../config/load.ts'
import { accountsOf } from '../opening.ts'
import { SqliteStore } from '../store/sqlite/store.ts'
import type { Store } from '../store/store.ts'
import { type Given } from './command.ts'
import { configOf } from './serve.ts'

/** What a command works with. */
export type Data = { config: Config; store: Store; accounts: Accounts }

/** Opens the data folder for a command; a server may run beside it, and sees what changed within two seconds. */
export async function withData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const config = configOf(given)
  const store = new SqliteStore({ folder: config.data, exclusive: false })
  try {
    await act({ config, store, accounts: accountsOf(store, config) })
  } finally {
    await store.close()
  }
}

/** Looking into a folder must not make one: a mistyped name would show an empty list. */
export function withExistingData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const { data } = configOf(given)
  if (!existsSync(data)) throw new Error(`there is no data folder ${data}`)
  return withData(given, act)
}

export const instant = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
