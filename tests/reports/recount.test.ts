import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { withAccounts } from '../store/records.ts'
import { Chance, randomFacts, randomGeneration, storeFacts } from './records.ts'

const CLOSER = join(import.meta.dir, 'closer.ts')
const DAY_MS = 86_400_000

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-recount-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const open = (): SqliteStore => new SqliteStore({ folder, exclusive: true, durability: 'process' })

const countIn = async (store: SqliteStore): Promise<number> => {
  const rows = await store.reports.usage({ bounds: [0, Date.now() + DAY_MS], groups: [], choices: {} })
  return rows.reduce((sum, { requests }) => sum + requests, 0)
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 30_000; !(await holds()); await Bun.sleep(20))
    if (Date.now() > end) throw new Error('still not so after 30 seconds')
}

/** Changes the database as no Sluice does. */
function change(...statements: string[]): void {
  const database = new Database(join(folder, 'sluice.sqlite'))
  for (const statement of statements) database.run(statement)
  database.close()
}

const rowsIn = (table: string): number => {
  const database = new Database(join(folder, 'sluice.sqlite'), { readonly: true })
  try {
    return (database.query(`SELECT count(*) AS rows FROM ${table}`).get() as { rows: number }).rows
  } finally {
    database.close()
  }
}

test('generations that a killed process had in no roll-up are counted at the next start, once', async () => {
  const child = Bun.spawn([process.execPath, CLOSER, folder], { stdout: 'pipe', stderr: 'inherit' })
  let printed = ''
  const decoder = new TextDecoder()
  for await (const chunk of child.stdout) {
    printed += decoder.decode(chunk, { stream: true })
    // Some are written by then, and the last ones are not.
    if (printed.length > 200 && rowsIn('usage_hours') > 0) child.kill('SIGKILL')
  }
  await child.exited
  const records = rowsIn('generations')
  const store = open()
  await store.reports.begin()
  // A generation that this process closes while it counts again is not counted twice.
  const now = Date.now()
  await storeFacts(store, { generations: [randomGeneration(new Chance(2), now, 900_000_000)], refusals: [] })
  await until(async () => (await countIn(store)) === records + 1)
  await store.close()
  const after = open()
  expect([await countIn(after), await after.reports.wrongRollUps()]).toEqual([records + 1, []])
  await after.close()
}, 60_000)

test('generations of earlier versions are counted beside the server', async () => {
  const from = Date.UTC(2026, 0, 1)
  const before = open()
  await withAccounts(before)
  const facts = randomFacts(new Chance(3), 2_000, from, from + 20 * DAY_MS)
  await storeFacts(before, facts)
  await before.close()
  const hour = Math.floor((from + 21 * DAY_MS) / 3_600_000)
  change('DELETE FROM usage_hours', 'DELETE FROM speed_hours', `UPDATE roll_ups SET counted_from = ${hour}`)
  const store = open()
  expect([await countIn(store), await store.reports.countedFrom()]).toEqual([0, hour * 3_600_000])
  await store.reports.begin()
  await until(async () => (await store.reports.countedFrom()) === 0)
  expect(await countIn(store)).toBe(facts.generations.length)
  await store.close()
  const after = open()
  expect(await after.reports.wrongRollUps()).toEqual([])
  await after.close()
}, 60_000)

test('an audit reports a roll-up that differs from its records', async () => {
  const before = open()
  await withAccounts(before)
  await storeFacts(before, randomFacts(new Chance(4), 200, Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2)))
  await before.close()
  change(
    'UPDATE usage_hours SET bill = bill + 1 WHERE hour = (SELECT min(hour) FROM usage_hours)',
    'DELETE FROM speed_hours WHERE hour = (SELECT max(hour) FROM speed_hours)',
  )
  const store = open()
  const wrong = await store.reports.wrongRollUps()
  expect(new Set(wrong.map(({ row }) => row))).toEqual(
    new Set(['the usage of 2026-01-01T00:00:00.000Z', 'the speed of 2026-01-01T23:00:00.000Z']),
  )
  await store.close()
})
