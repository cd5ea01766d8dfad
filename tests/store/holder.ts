import { SqliteStore } from '../../src/store/sqlite/store.ts'

/** Opens a folder as a server does, says so, and keeps it open. */
new SqliteStore({ folder: process.argv[2]!, exclusive: true })
console.log('open')
setInterval(() => {}, 1_000)
