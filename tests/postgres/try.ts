import { startPostgres } from './server.ts'

/** Fails where PostgreSQL does not start. */
const server = await startPostgres()
server.stop()
process.exit(0)
