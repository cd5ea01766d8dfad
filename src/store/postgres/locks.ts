import { type Address, PostgresClient, type Queries } from './client.ts'
import { asStoreError } from './errors.ts'

/** Advisory locks of the database, any constants. Each is held until the end of its transaction. */
const LOCKS = { changeLog: 7_158_420_335, people: 7_158_420_336, firstKeys: 7_158_420_337 } as const

/** Makes transactions of all processes that lock the same be made one after another. */
export async function lock(transaction: Queries, name: keyof typeof LOCKS): Promise<void> {
  await transaction.run('SELECT pg_advisory_xact_lock($1)', LOCKS[name])
}

/** Any constant. It is held by a connection, for several transactions. */
const TURN = 7_158_420_338
/** A turn takes less, so that one that lasts longer is of a process that sleeps, or cannot be reached any more. */
const TURN_MS = 20_000

/**
 * Resolves when no process has the turn but this one, with the function that ends it. It has a connection of its own:
 * those that the turn needs could all wait for one.
 */
export async function takeTurn(
  address: Address,
  begin: (queries: Queries) => Promise<void>,
  mostMs = TURN_MS,
): Promise<() => Promise<void>> {
  let client: PostgresClient | undefined
  try {
    client = await PostgresClient.open(address)
    await client.script(`SET idle_session_timeout = ${mostMs}`)
    await client.run('SELECT pg_advisory_lock($1)', TURN)
    await begin(client)
  } catch (error) {
    client?.destroy()
    throw asStoreError(error)
  }
  return () => client.close()
}
