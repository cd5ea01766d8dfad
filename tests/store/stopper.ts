import { rmSync, writeFileSync } from 'node:fs'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { closing } from './records.ts'
import { accountOf } from './account.ts'

/**
 * Closes a generation with durability `process` and then the store. Arguments: folder, a file that exists meanwhile.
 * SQLite itself flushes when the last connection closes, so another one stays open.
 */
const [folder = '', meanwhile = ''] = process.argv.slice(2)
const store = new SqliteStore({ folder, exclusive: true, durability: 'process' })
await store.accounts.add(accountOf('a'))
const other = new SqliteStore({ folder, exclusive: false })
writeFileSync(meanwhile, '')
await store.ledger.closeGeneration(closing(1, 1n))
await store.close()
rmSync(meanwhile)
console.log((await other.ledger.generations(undefined, 10)).length)
await other.close()
