import { PostgresStore } from '../../src/store/postgres/store.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { databaseFor } from '../postgres/databases.ts'

/** The stores whose reports must be equal. */
export const STORES = ['SQLite', 'PostgreSQL'] as const
export type StoreName = (typeof STORES)[number]

let databases = 0

/** Opens a store for the reports of a test, which is not used any more once `isUsed` says so. */
export async function openStoreOf(name: StoreName, folder: string, isUsed: () => boolean = () => true): Promise<Store> {
  if (name === 'SQLite') return new SqliteStore({ folder, exclusive: true, durability: 'process' })
  const url = await databaseFor(`reports_${databases++}`, isUsed)
  return (await PostgresStore.open({ url, connections: 6, patienceMs: 10_000 })) as unknown as Store
}
