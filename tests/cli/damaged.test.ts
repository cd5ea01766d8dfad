import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, openSync, closeSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { accountOf } from '../store/account.ts'
import { type Ran, runSluice } from './run.ts'

setDefaultTimeout(60_000)

/** Commands on a folder of SQLite that they cannot read or write. */

const scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-damaged-'))
const folder = join(scratch, 'data')
const database = join(folder, 'sluice.sqlite')
beforeAll(async () => {
  const store = new SqliteStore({ folder, exclusive: true })
  for (let at = 0; at < 200; at++) await store.accounts.add(accountOf(`a${at}`))
  await store.close()
})
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const run = (...args: string[]): Promise<Ran> =>
  runSluice([...args, '--data', folder], { cwd: scratch, env: { HOME: scratch } })

test('a copy that cannot be made is named, with what to do', async () => {
  const target = join(database, 'copy')
  const { code, err } = await run('store', 'backup', target)
  expect([code, err]).toEqual([
    1,
    expect.stringMatching(/^sluice: cannot make .*copy \(.*\); name one in a folder that this user can write to/),
  ])
})

test('an audit of a corrupt database says so', async () => {
  const descriptor = openSync(database, 'r+')
  const from = 8 * 4096
  writeSync(descriptor, Buffer.alloc(statSync(database).size - from, 'x'), 0, undefined, from)
  closeSync(descriptor)
  const { code, err } = await run('ledger', 'audit')
  expect([code, err]).toEqual([1, expect.stringContaining(`the database ${database} is corrupt (`)])
  expect(err).toContain('restore it from a backup')
})
