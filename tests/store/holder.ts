import { SqliteStore } from '../../src/store/sqlite/store.ts'

/** Opens a folder as a server does, says so, and keeps it open. */
const store = new SqliteStore({ folder: process.argv[2]!, exclusive: true })
console.log('open')
// A store that nothing refers to is collected, and closed.
setInterval(() => store.settings, 1_000)
