import { afterEach, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { changesIn, newPostgresFolder, sqlIn } from '../stores.ts'
import { auditOf, makeBook } from './audit-book.ts'

/** The audit of a book that several processes share. */

let folder: string
beforeEach(async () => {
  folder = await makeBook(newPostgresFolder())
}, 60_000)
afterEach(() => rmSync(folder, { recursive: true }))

const change = (sql: string): Promise<number> => changesIn(folder, sql, 'SET lock_timeout = 5000')

/** Makes a process, and moves money of acc_a from what all share to it. */
async function leaseTo(ended: string, heir: string, amount: number): Promise<number> {
  const [row] = await sqlIn<{ id: number }>(
    folder,
    `INSERT INTO processes (name, address, version, ended_at, heir)
     VALUES ('p', 'a', 'v', ${ended}, ${heir}) RETURNING id`,
  )
  const account = `(SELECT id FROM book_accounts WHERE kind = 'credit' AND owner = 'acc_a')`
  await change(`UPDATE book_balances SET balance = balance - ${amount} WHERE account = ${account} AND shard = 0`)
  await change(`INSERT INTO book_balances VALUES (${account}, ${row!.id}, ${amount})`)
  return row!.id
}

test('leases of processes that run, or whose leases are taken over later, are right', async () => {
  await leaseTo('NULL', 'NULL', 100)
  await leaseTo('now()', 'NULL', 50)
  expect(await auditOf(folder)).toMatchObject({ balances: 9, wrong: 0 })
}, 30_000)

test('the audit finds what a process leased that has ended and gives nothing back', async () => {
  const id = await leaseTo('now()', '1', 70)
  expect(await auditOf(folder)).toMatchObject({
    wrong: 1,
    first: {
      table: 'leases',
      id: `${id} credit acc_a`,
      expected: `nothing, since process ${id} has ended`,
      found: '70',
    },
  })
}, 30_000)

test('the audit finds windows and spending of a process that has ended', async () => {
  const id = await leaseTo('now()', '1', 0)
  const started = '(SELECT started_at FROM quota_windows LIMIT 1)'
  await change(`INSERT INTO quota_windows VALUES ('acc_a', '5_hour', ${id}, ${started}, ${started} + 5 * 3600000, -7)`)
  await change(`UPDATE quota_windows SET used = used + 7 WHERE name = '5_hour' AND shard = 0`)
  expect((await auditOf(folder)).first).toMatchObject({ table: 'leases', id: `${id} acc_a 5_hour`, found: '-7' })
}, 30_000)

test('a process may have spent more than it leased by the overdraft', async () => {
  const id = await leaseTo('NULL', 'NULL', -1_000)
  expect((await auditOf(folder, 1_000n)).wrong).toBe(0)
  expect(await auditOf(folder, 999n)).toMatchObject({
    wrong: 1,
    first: { table: 'leases', id: `${id} credit acc_a`, expected: '-999 nano-USD or more', found: '-1000 nano-USD' },
  })
}, 30_000)
