import { version } from '../../package.json'
import { mkdirSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import { shownUrl } from '../config/store-settings.ts'
import { hideSecret } from '../log/secrets.ts'
import { SqliteStore } from './sqlite/store.ts'
import type { Store } from './store.ts'

/** The part of the configuration that says where everything is stored. It can be sent to a thread. */
export type StoreConfig = Pick<Config, 'data' | 'store'>

/** `exclusive`: for a server; the command line works beside it. */
type OpenOptions = { exclusive: boolean; now?: () => number }

/** Reports of a process in the time after which it is declared dead without one. */
const REPORTS = 7

/** Opens the store of a configuration. Fails with an Error for the operator if it cannot be used. */
export async function openStore({ data, store }: StoreConfig, options: OpenOptions): Promise<Store> {
  if (store.postgres === undefined)
    return new SqliteStore({ folder: data, ...(options.exclusive ? store : {}), ...options })
  const { url, connections, patienceMs, deadAfterMs } = store.postgres
  hideSecret(decodeURIComponent(new URL(url).password))
  mkdirSync(data, { recursive: true, mode: 0o700 })
  const { PostgresStore } = await import('./postgres/store.ts')
  try {
    return await PostgresStore.open({
      url,
      connections,
      patienceMs,
      folder: data,
      now: options.now,
      serves: options.exclusive ? { heartbeatMs: deadAfterMs / REPORTS, deadMs: deadAfterMs, version } : undefined,
    })
  } catch (error) {
    throw new Error(`cannot use the database ${shownUrl(url)} (${(error as Error).message})`, { cause: error })
  }
}
