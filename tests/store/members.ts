import { Connection } from '../../src/store/postgres/connection.ts'
import { LedgerTables } from '../../src/store/postgres/ledger-tables.ts'
import { Processes, type ProcessOptions } from '../../src/store/postgres/processes.ts'
import { StoreTime } from '../../src/store/postgres/store-time.ts'
import type { Inheritance } from '../../src/store/leases.ts'
import { databaseFor } from '../postgres/databases.ts'

/** One process of several over a database. */
export type Member = { connection: Connection; processes: Processes; ledger: LedgerTables }

const OPTIONS: ProcessOptions = { heartbeatMs: 60_000, deadMs: 60_000, version: 'test' }

let databases = 0

/** A process declares others dead no earlier than half of this time after its start. */
export const DIES_SOON: Partial<ProcessOptions> = { deadMs: 2_000 }

/** Takes over from a process that seems not to have reported for long. */
export async function inherited(heir: Member, { processes }: Member): Promise<Inheritance> {
  await heir.connection.run(`UPDATE processes SET heartbeat_at = '-infinity' WHERE id = $1`, processes.id)
  for (;;) {
    const inheritance = await heir.processes.inherit()
    if (inheritance !== undefined) return inheritance
    await Bun.sleep(50)
  }
}

/** Runs `run` with processes over a database of their own. */
export async function withProcesses(
  count: number,
  run: (members: Member[]) => Promise<void>,
  options: Partial<ProcessOptions> = {},
): Promise<void> {
  let isUsed = true
  const url = await databaseFor(`members_${++databases}`, () => isUsed)
  const members: Member[] = []
  try {
    for (let index = 0; index < count; index++) {
      const connection = new Connection({ url, connections: 6, patienceMs: 1_000 })
      const processes = await Processes.begin(connection, new StoreTime(), { ...OPTIONS, ...options })
      members.push({ connection, processes, ledger: new LedgerTables(connection) })
    }
    await run(members)
  } finally {
    for (const { processes, connection } of members) {
      await processes.end().catch(() => {})
      await connection.close()
    }
    isUsed = false
  }
}
