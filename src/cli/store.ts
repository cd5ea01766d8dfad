import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Config } from '../config/load.ts'
import { shownUrl, urlProblem } from '../config/store-settings.ts'
import { hideSecret } from '../log/secrets.ts'
import { type MovedStore, moveStore, type Progress } from '../store/moving/move.ts'
import { openStore } from '../store/open.ts'
import { backUp } from '../store/sqlite/backup.ts'
import { restore } from '../store/sqlite/restore.ts'
import { DATABASE, SqliteStore } from '../store/sqlite/store.ts'
import { type Given, UsageError } from './command.ts'
import { checkBook } from './ledger.ts'
import { configOf } from './serve.ts'

export async function backUpStore(given: Given, target: string): Promise<void> {
  const { data } = embedded(given)
  const folder = resolve(target)
  await backUp(data, folder)
  if (given.on('json')) return console.log(JSON.stringify({ data, backup: folder }))
  console.log(`${data} is backed up in ${folder}; sluice ledger audit --data ${folder} checks the copy`)
}

/** Replaces the content of the data folder by a copy of `store backup`. */
export async function restoreStore(given: Given, copy: string): Promise<void> {
  const { data, store } = configOf(given)
  if (store.postgres !== undefined) throw ofPostgres()
  const backup = resolve(copy)
  requireDatabase(backup)
  const replaced = await restore(backup, data, Date.now())
  if (given.on('json')) return console.log(JSON.stringify({ data, restored: backup, replaced: replaced ?? null }))
  const kept = replaced === undefined ? '' : `; what was there is in ${replaced}`
  console.log(`${data} is as ${backup}${kept}`)
}

/** Moves the store of the data folder to PostgreSQL, checks both, and says what is to be done next. */
export async function migrateStore(given: Given): Promise<void> {
  const config = configOf(given)
  const url = given.text('to') ?? config.store.postgres?.url
  if (url === undefined) throw new UsageError('sluice store migrate requires --to postgres://user:password@host/name')
  const problem = urlProblem(url)
  if (problem !== undefined) throw new UsageError(`--to ${problem}`)
  hideSecret(decodeURIComponent(new URL(url).password))
  const { data: folder } = config
  requireDatabase(folder)
  const source = new SqliteStore({ folder, exclusive: false })
  const before = await checkBook(source, config).finally(() => source.close())
  const isPlaced = config.store.postgres !== undefined || typeof config.files.store === 'object'
  const withFiles = isPlaced ? config.files.store === 'postgres' : !given.on('keep-files')
  const moved = await moveStore({ folder, url, withFiles, onProgress: progress() })
  const postgres = { url, connections: 4, patienceMs: 10_000 }
  const target = await openStore(
    { data: folder, store: { ...config.store, postgres } as Config['store'] },
    { exclusive: false },
  )
  const after = await checkBook(target, config).finally(() => target.close())
  if (JSON.stringify(before) !== JSON.stringify(after))
    throw new Error(
      `the audits of both differ: ${JSON.stringify(before)} of the folder, ${JSON.stringify(after)} of the database`,
    )
  if (given.on('json'))
    return console.log(
      JSON.stringify({ data: folder, to: shownUrl(url), ...moved, rows: Object.fromEntries(moved.rows) }),
    )
  printMoved(folder, shownUrl(url), moved)
}

function printMoved(folder: string, to: string, { rows, files, missing }: MovedStore): void {
  if (missing > 0) console.error(`${missing} files have no content in ${folder}, and had none before`)
  const count = [...rows.values()].reduce((sum, one) => sum + one, 0)
  console.log(
    `${folder} is moved to ${to}: ${count} rows, whose counts, sums and audit agree, and the contents of ${files} ` +
      'files. The folder is as it was.\nNext: set store in sluice.yaml to the URL, and give every process the same ' +
      `pepper (SLUICE_PEPPER, or a copy of ${join(folder, 'pepper')}).`,
  )
  if ((rows.get('bodies') ?? 0) > 0)
    console.log(
      `Captured bodies are still in ${join(folder, 'bodies')}: only processes with this folder, or a copy of it, in ` +
        'their data folder show them.',
    )
}

const REPORT_MS = 1_000

/** Writes how far the copy is to stderr: each table that has rows, and long ones each second. */
function progress(): (progress: Progress) => void {
  let reportedAt = performance.now()
  return ({ table, done, all, isEnd }) => {
    if (all === 0 || (!isEnd && performance.now() - reportedAt < REPORT_MS)) return
    reportedAt = performance.now()
    console.error(isEnd ? `${table}: ${done}` : `${table}: ${done} of ${all}`)
  }
}

/** The configuration, for what is about the embedded store. */
function embedded(given: Given): Config {
  const config = configOf(given)
  if (config.store.postgres !== undefined) throw ofPostgres()
  requireDatabase(config.data)
  return config
}

const ofPostgres = (): Error => new Error('the store is PostgreSQL: use its own tools, such as pg_dump and pg_restore')

/** Throws an error for the operator where there is no embedded store. */
export function requireDatabase(folder: string): void {
  if (!existsSync(folder)) throw new Error(`the data folder ${folder} does not exist`)
  if (!existsSync(join(folder, DATABASE))) throw new Error(`the folder ${folder} has no database ${DATABASE}`)
}
