import { existsSync } from 'node:fs'
import { type ChangeEntry, ChangeLog, COMMAND_LINE } from '../accounts/change-log.ts'
import type { Accounts } from '../accounts/accounts.ts'
import type { Config } from '../config/load.ts'
import { accountsOf } from '../ledger/starting-credit.ts'
import { openStore } from '../store/open.ts'
import { resultOf } from '../store/refused.ts'
import { isCorrupt } from '../store/sqlite/errors.ts'
import { corruptError } from '../store/sqlite/store.ts'
import type { Store } from '../store/store.ts'
import { type Given } from './command.ts'
import { configOf } from './serve.ts'

/**
 * The resources of a command. `logged` makes a change and its line of the change log in one transaction: `write` has
 * handed all of it to the store when it returns. `line` writes the line alone, together with a change.
 */
export type Data = {
  config: Config
  store: Store
  accounts: Accounts
  line(entry: ChangeEntry): Promise<void>
  logged<T>(write: () => Promise<T>, entry: ChangeEntry): Promise<T>
}

/** Opens the data folder for a command. A server may run beside it; it sees changes within two seconds. */
export async function withData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const config = configOf(given)
  const store = await openStore(config, { exclusive: false })
  try {
    const changes = new ChangeLog(store.changes, store.time)
    const line = (entry: ChangeEntry): Promise<void> => changes.add(COMMAND_LINE, entry)
    await act({
      config,
      store,
      accounts: accountsOf(store, config),
      line,
      logged: (write, entry) => resultOf(store.together(() => [write(), line(entry)])),
    })
  } catch (error) {
    throw isCorrupt(error) ? corruptError(config.data, error as Error) : error
  } finally {
    await store.close()
  }
}

/** Like `withData`, but fails if the folder does not exist: a mistyped name would otherwise show an empty list. */
export function withExistingData(given: Given, act: (data: Data) => Promise<void>): Promise<void> {
  const { data, store } = configOf(given)
  if (store.postgres === undefined && !existsSync(data)) throw new Error(`the data folder ${data} does not exist`)
  return withData(given, act)
}

export const instant = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
