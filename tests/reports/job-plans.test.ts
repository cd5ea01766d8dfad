import { Database } from 'bun:sqlite'
import { afterAll, expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Binding, PostgresClient } from '../../src/store/postgres/client.ts'
import { jobPage } from '../../src/store/postgres/reports/jobs.ts'
import { JobList } from '../../src/store/sqlite/reports/jobs.ts'
import type { NameCache } from '../../src/store/sqlite/reports/name-cache.ts'
import { databaseFor } from '../postgres/databases.ts'
import { once } from '../stores.ts'
import { openStoreOf } from './stores.ts'

/** A page of jobs, which is read every two seconds, looks each of them up by an index. */

const QUESTION = { ownAccountIds: [], openIds: [], now: 1 }
const folder = mkdtempSync(join(tmpdir(), 'sluice-job-plans-'))
let isUsed = true
afterAll(() => {
  isUsed = false
  rmSync(folder, { recursive: true })
})

once('a page of jobs scans no table in SQLite', async () => {
  await (await openStoreOf('SQLite', folder)).close()
  const database = new Database(join(folder, 'sluice.sqlite'))
  const statements: string[] = []
  const query = database.query.bind(database)
  database.query = ((sql: string) => (statements.push(sql), query(sql))) as typeof query
  new JobList(database, { ids: () => [] } as unknown as NameCache).page(QUESTION, undefined, 50)
  const plans = statements.flatMap((sql) =>
    (database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail),
  )
  database.close()
  expect(plans.filter((detail) => /^SCAN (?!json_each|responses USING INDEX)/.test(detail))).toEqual([])
  expect(plans.join('\n')).toContain('(prediction_id=?)')
})

once('a page of jobs scans no table in PostgreSQL', async () => {
  const url = await databaseFor('job_plans', () => isUsed)
  const client = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 30_000 })
  // An index of a table without rows is used only where nothing else is left.
  await client.script('SET enable_seqscan = off')
  const plans: string[] = []
  const ask = async <Row>(sql: string, values: readonly Binding[]): Promise<Row[]> => {
    const lines = await client.ask<Record<string, string>>(`EXPLAIN ${sql}`, values)
    plans.push(...lines.flatMap((line) => Object.values(line)))
    return client.ask<Row>(sql, values)
  }
  await jobPage({ ask }, QUESTION, undefined, 50)
  await client.close()
  expect(plans.filter((line) => line.includes('Seq Scan'))).toEqual([])
  expect(plans.join('\n')).toContain('(prediction_id = p.id)')
})
