/** Several processes of Sluice over one PostgreSQL. */
import { startPostgres, type PostgresServer } from '../tests/postgres/server.ts'
import { startSandbox, Server } from './servers.ts'

/** The time without a report after which a process is declared dead here. */
export const DEAD_MS = 3_000

export type Several = {
  postgres: PostgresServer
  sandbox: { url: string }
  servers: Server[]
}

/**
 * Runs `run` with so many processes over a database of their own. `config`: given the URL of the sandbox, the text of
 * sluice.yaml without its store. `route`: gives the URL by which they reach the database.
 */
export async function withSeveral<T>(
  processes: number,
  config: (sandbox: string) => string,
  run: (several: Several) => Promise<T>,
  route: (url: string) => Promise<string> = async (url) => url,
): Promise<T> {
  // What is committed must survive the death of the server.
  const postgres = await startPostgres(['fsync=on'])
  const sandbox = await startSandbox()
  const url = await route(await postgres.createDatabase('proof'))
  const store = `store: { url: "${url}", deadAfter: ${DEAD_MS / 1000}s }\n`
  const servers = Array.from({ length: processes }, () => new Server(store + config(sandbox.url)))
  try {
    // The first one makes accounts and keys.
    for (const server of servers) await server.start()
    return await run({ postgres, sandbox, servers })
  } finally {
    for (const server of servers) await server.remove()
    await sandbox.stop()
    postgres.stop()
  }
}
