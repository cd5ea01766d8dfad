/** Several processes of Sluice over one PostgreSQL. */
import { PostgresClient } from '../src/store/postgres/client.ts'
import { PostgresStore } from '../src/store/postgres/store.ts'
import { startPostgres, type PostgresServer } from '../tests/postgres/server.ts'
import { startSandbox, Server } from './servers.ts'

/** The time without a report after which a process is declared dead where some are killed. */
export const DEAD_MS = 3_000
/** That where none may be declared dead, also on a machine that is busy for some seconds. */
export const ALIVE_MS = 10_000

export type Several = {
  postgres: PostgresServer
  sandbox: { url: string }
  servers: Server[]
  /** Resolves when all processes report, all others were taken over from, and nothing is open. */
  settled(): Promise<void>
}

export type SeveralOptions = {
  /** Gives the URL by which the processes reach the database. */
  route?: (url: string) => Promise<string>
  /** True where the server of the database is killed: what is committed must survive that. */
  isKilled?: boolean
  /** The time without a report after which a process is declared dead. */
  deadMs?: number
}

let shared: Promise<PostgresServer> | undefined
let databases = 0

/** A database with the tables, of which those of the shared server are copies. */
const TEMPLATE = 'proof_tables'

async function startShared(): Promise<PostgresServer> {
  const postgres = await startPostgres()
  const url = await postgres.createDatabase(TEMPLATE)
  await (await PostgresStore.open({ url, connections: 3, patienceMs: 1_000 })).close()
  return postgres
}

let sandboxes = { users: 0, started: undefined as ReturnType<typeof startSandbox> | undefined }

/** One sandbox for all that run at the same time: a process takes more CPU to start than to answer. */
async function withSandbox<T>(run: (sandbox: { url: string }) => Promise<T>): Promise<T> {
  const used = sandboxes
  used.users += 1
  try {
    return await run(await (used.started ??= startSandbox()))
  } finally {
    used.users -= 1
    if (used.users === 0) {
      sandboxes = { users: 0, started: undefined }
      await (await used.started)?.stop()
    }
  }
}

/** The longest that takeovers last on a busy machine. */
const SETTLED_MS = 60_000

async function settled(url: string, processes: number): Promise<void> {
  const client = await PostgresClient.open({ url, connectMs: 30_000, statementMs: 30_000 })
  try {
    for (const end = performance.now() + SETTLED_MS; performance.now() < end; await Bun.sleep(100))
      if ((await client.one<{ isSo: boolean }>(SETTLED, processes))?.isSo === true) return
    throw new Error(`processes were not taken over from within ${SETTLED_MS / 1000} s`)
  } finally {
    await client.close()
  }
}

/** A process that was not declared dead yet has no report of the last two seconds. */
const SETTLED = `SELECT NOT EXISTS (SELECT FROM open_generations)
  AND count(*) = $1 AND count(*) = count(*) FILTER (WHERE ended_at IS NULL AND heartbeat_at > now() - interval '2 s')
  AS "isSo" FROM processes WHERE heir IS NULL`

/**
 * Runs `run` with so many processes over a database of their own. `config`: given the URL of the sandbox, the text of
 * sluice.yaml without its store.
 */
export function withSeveral<T>(
  processes: number,
  config: (sandbox: string) => string,
  run: (several: Several) => Promise<T>,
  { route = async (url) => url, isKilled = false, deadMs = DEAD_MS }: SeveralOptions = {},
): Promise<T> {
  return withSandbox(async (sandbox) => {
    const postgres = await (isKilled ? startPostgres(['fsync=on']) : (shared ??= startShared()))
    const name = `proof_${databases++}`
    const database = await postgres.createDatabase(name, isKilled ? undefined : TEMPLATE)
    const store = `store: { url: "${await route(database)}", deadAfter: ${deadMs / 1000}s }\n`
    const servers = Array.from({ length: processes }, () => new Server(store + config(sandbox.url)))
    try {
      // The first one makes accounts and keys.
      for (const server of servers) await server.start()
      return await run({ postgres, sandbox, servers, settled: () => settled(database, processes) })
    } finally {
      for (const server of servers) await server.remove()
      if (isKilled) postgres.stop()
      else await postgres.dropDatabase(name)
    }
  })
}
