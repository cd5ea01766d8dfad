import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { type Address, PostgresClient, type Queries } from '../postgres/client.ts'
import { Connection } from '../postgres/connection.ts'
import { migrate } from '../postgres/migrations.ts'
import { makePartitions } from '../postgres/partitions.ts'
import { lockFolder } from '../sqlite/lock.ts'
import { MIGRATIONS } from '../sqlite/migrations.ts'
import { DATABASE } from '../sqlite/store.ts'
import { copy, differenceOf } from './copy.ts'
import { copyFiles, type MovedFiles } from './files.ts'
import { type Moved, movedTables, MOVING } from './tables.ts'

/** The longest that one statement may take: the sums of a table, for example. */
const STATEMENT_MS = 3_600_000

/** `done` and `all`: rows of the table. */
export type Progress = { table: string; done: number; all: number; isEnd: boolean }

/** `withFiles`: the contents of files, too, which otherwise stay in the folder. */
type MoveOptions = {
  folder: string
  url: string
  withFiles: boolean
  onProgress: (progress: Progress) => void
}

/** `rows`: of each table, in their order. */
export type MovedStore = MovedFiles & { rows: Map<string, number> }

/**
 * Copies the embedded store of a folder into an empty database, or goes on where an attempt before was broken off. The
 * folder is locked meanwhile, and stays as it is. Resolves once the counts and the sums of all columns of integers
 * agree. Fails with an Error for the operator.
 */
export async function moveStore({ folder, url, withFiles, onProgress }: MoveOptions): Promise<MovedStore> {
  const address: Address = { url, connectMs: 10_000, statementMs: STATEMENT_MS }
  const lock = lockFolder(folder)
  const database = new Database(join(folder, DATABASE), { readonly: true, safeIntegers: true })
  let target: PostgresClient | undefined
  try {
    // Other programs may write to the folder, which this does not see.
    database.run('BEGIN')
    checkSource(database, folder)
    await migrate(address)
    await partition(url, database)
    target = await PostgresClient.open(address)
    const tables = movedTables(database)
    await begin(target, tables)
    const rows = await copyAll(database, target, tables, onProgress)
    const files = withFiles ? await moveFiles(database, target, folder, onProgress) : NO_FILES
    await setSequences(target)
    await target.script(`DELETE FROM settings WHERE name = '${MOVING}'; ANALYZE`)
    return { rows, ...files }
  } finally {
    await target?.close()
    database.close()
    lock.release()
  }
}

function checkSource(database: Database, folder: string): void {
  const numberOf = (sql: string): number => Number(Object.values(database.query(sql).get() as object)[0])
  const version = numberOf('PRAGMA user_version')
  if (version !== MIGRATIONS.length)
    throw new Error(
      `the database of ${folder} has schema ${version}, not ${MIGRATIONS.length}: start and stop this version of ` +
        'Sluice on it first',
    )
  const open = numberOf('SELECT count(*) FROM open_generations')
  if (open > 0 || numberOf('SELECT count(*) FROM roll_ups WHERE is_open <> 0 OR counted_from > 0') > 0)
    throw new Error(
      `the server of ${folder} did not end as it should (${open} generations are unsettled): start and stop it first`,
    )
}

/** Makes the partitions of all months with generations, which would otherwise share the one for all others. */
async function partition(url: string, database: Database): Promise<void> {
  const first = database.query('SELECT 1 FROM generations WHERE id >= ? AND id < ? LIMIT 1')
  const isUsed = (from: string, to: string): boolean =>
    first.get(Uint8Array.fromHex(from), Uint8Array.fromHex(to)) !== null
  const connection = new Connection({ url, connections: 3, patienceMs: 0 })
  await makePartitions(connection, isUsed).finally(() => connection.close())
}

/** Claims the database for this move. What an attempt before has left, and may have changed since, is removed. */
async function begin(target: PostgresClient, tables: readonly Moved[]): Promise<void> {
  const { servers, rows, isMarked } = (await target.one<{ servers: number; rows: number; isMarked: boolean }>(
    `SELECT (SELECT count(*) FROM processes WHERE ended_at IS NULL
               AND heartbeat_at > clock_timestamp() - interval '15 seconds') AS servers,
       (SELECT count(*) FROM accounts) + (SELECT count(*) FROM settings) + (SELECT count(*) FROM users) AS rows,
       EXISTS (SELECT 1 FROM settings WHERE name = $1) AS "isMarked"`,
    MOVING,
  ))!
  if (servers > 0) throw new Error(`servers run on the database (${servers}): stop them first`)
  if (rows > 0 && !isMarked) throw new Error('the database is in use already: name one that is empty')
  await target.run("INSERT INTO settings (name, value) VALUES ($1, 'unfinished') ON CONFLICT DO NOTHING", MOVING)
  if (!isMarked) return
  for (const { into, isAppended, except = 'false' } of tables.toReversed())
    if (isAppended !== true && (await exists(target, into)))
      await target.run(`DELETE FROM ${into} WHERE NOT (${except})`)
}

const exists = async (target: Queries, table: string): Promise<boolean> =>
  (await target.one('SELECT 1 WHERE to_regclass($1) IS NOT NULL', table)) !== undefined

async function copyAll(
  database: Database,
  target: PostgresClient,
  tables: readonly Moved[],
  onProgress: (progress: Progress) => void,
): Promise<Map<string, number>> {
  const rows = new Map<string, number>()
  for (const moved of tables) {
    const { all } = database.query(`SELECT count(*) AS "all" FROM ${moved.from}`).get() as { all: bigint }
    const report = (done: number, isEnd: boolean): void =>
      onProgress({ table: moved.into, done, all: Number(all), isEnd })
    const sums = await copy(database, target, moved, report)
    const difference = sums.rows === 0n ? undefined : await differenceOf(target, moved, sums)
    if (difference !== undefined) throw new Error(`the copy is not right: ${difference}. Begin with an empty database`)
    rows.set(moved.into, Number(sums.rows))
  }
  return rows
}

const NO_FILES: MovedFiles = { files: 0, missing: 0 }

function moveFiles(
  database: Database,
  target: PostgresClient,
  folder: string,
  onProgress: (progress: Progress) => void,
): Promise<MovedFiles> {
  const { all } = database
    .query('SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM outputs) AS "all"')
    .get() as {
    all: bigint
  }
  return copyFiles(database, target, folder, (done, isEnd) =>
    onProgress({ table: 'contents of files', done, all: Number(all), isEnd }),
  )
}

/** Ids that PostgreSQL gives begin after those that were moved. */
async function setSequences(target: PostgresClient): Promise<void> {
  const identities = await target.all<{ table: string; column: string }>(
    `SELECT attrelid::regclass::text AS "table", attname AS "column" FROM pg_attribute
     JOIN pg_class ON pg_class.oid = attrelid
     WHERE attidentity <> '' AND relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace`,
  )
  for (const { table, column } of identities)
    await target.all(
      `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), greatest(
         (SELECT coalesce(max("${column}"), 0) + 1 FROM ${table}),
         nextval(pg_get_serial_sequence('${table}', '${column}'))), false)`,
    )
}
