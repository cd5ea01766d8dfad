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

export type SeveralOptions = {
  /** Gives the URL by which the processes reach the database. */
  route?: (url: string) => Promise<string>
  /** True where the server of the database is killed: what is committed must survive that. */
  isKilled?: boolean
}

let shared: Promise<PostgresServer> | undefined
let databases = 0

/** A database with the tables, of which those of the shared server are copies. */
const TEMPLATE = 'proof_tables'

async function startShared(): Promise<PostgresServer> {
  const postgres = await startPostgres()
  const server = new Server(`store: ${await postgres.createDatabase(TEMPLATE)}\n`)
  await server.sluice('keys', 'list')
  await server.remove()
  return postgres
}

/**
 * Runs `run` with so many processes over a database of their own. `config`: given the URL of the sandbox, the text of
 * sluice.yaml without its store.
 */
export async function withSeveral<T>(
  processes: number,
  config: (sandbox: string) => string,
  run: (several: Several) => Promise<T>,
  { route = async (url) => url, isKilled = false }: SeveralOptions = {},
): Promise<T> {
  const postgres = await (isKilled ? startPostgres(['fsync=on']) : (shared ??= startShared()))
  const sandbox = await startSandbox()
  const name = `proof_${databases++}`
  const url = await route(await postgres.createDatabase(name, isKilled ? undefined : TEMPLATE))
  const store = `store: { url: "${url}", deadAfter: ${DEAD_MS / 1000}s }\n`
  const servers = Array.from({ length: processes }, () => new Server(store + config(sandbox.url)))
  try {
    // The first one makes accounts and keys.
    for (const server of servers) await server.start()
    return await run({ postgres, sandbox, servers })
  } finally {
    for (const server of servers) await server.remove()
    await sandbox.stop()
    if (isKilled) postgres.stop()
    else await postgres.dropDatabase(name)
  }
}
