import { existsSync } from 'node:fs'
import type { Accounts } from '../accounts/accounts.ts'
import type { Config } from '../config/load.ts'
import { accountsOf } from '../ledger/starting-credit.ts'
import { SqliteStore } from '../store/sqlite/store.ts'
import type { Store } from '../store/store.ts'
import { type Given } from './command.ts'
import { configOf } from './serve.ts'

/** The resources of a command. */
export type Data = { config: Config; store: Store; accounts: Accounts }

/** Opens the data folder for a command. A server may run beside it; it sees changes within two seconds. */
export async function withData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const config = configOf(given)
  const store = new SqliteStore({ folder: config.data, exclusive: false })
  try {
    await act({ config, store, accounts: accountsOf(store, config) })
  } finally {
    await store.close()
  }
}

/** Like `withData`, but fails if the folder does not exist: a mistyped name would otherwise show an empty list. */
export function withExistingData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const { data } = configOf(given)
  if (!existsSync(data)) throw new Error(`the data folder ${data} does not exist`)
  return withData(given, act)
}

export const instant = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
