import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DURABILITIES, type Durability } from '../../src/config/terms.ts'
import { MIGRATIONS } from '../../src/store/sqlite/migrations.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { bookContract } from './book-contract.ts'
import { storeContract } from './contract.ts'
import { allGenerations, allTransfers, closing, expectBalanced, idOf, topUp } from './records.ts'
import { accountOf } from './account.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

function open(folder = newFolder(), durability: Durability = 'power'): SqliteStore {
  const store = new SqliteStore({ folder, exclusive: false, durability })
  cleanups.push(() => store.close().catch(() => {}))
  return store
}

storeContract('SQLite', open)
for (const durability of DURABILITIES) bookContract(`SQLite, ${durability}`, () => open(undefined, durability))

test('the migration of a folder of version 2 keeps its data', async () => {
  const folder = newFolder()
  mkdirSync(folder)
  const database = new Database(join(folder, 'sluice.sqlite'))
  for (const step of MIGRATIONS.slice(0, 2)) database.run(step)
  database.run('PRAGMA user_version = 2')
  database.run("INSERT INTO accounts (id, name, status, created_at) VALUES ('a', 'first', 'monitored', 7)")
  database.run(
    `INSERT INTO keys (id, account_id, kind, hash, prefix, last4, created_at)
     VALUES ('k', 'a', 'subscription', ?, 'sk', 'wxyz', 8)`,
    [new Uint8Array(32)],
  )
  database.run(
    `INSERT INTO responses (account_id, id, created_at, expires_at, response, input)
     VALUES ('a', 'r', 1, 9e15, '{}', '[]'), ('a', 'r2', 1, 9e15, ?, ?)`,
    [
      '{"id":"r2","output":[{"id":"m","number":9007199254740993}],"model":"x"}',
      '[{"id":"in"},"text",null,true,[1],{"id":"m","type":"item_reference"}]',
    ],
  )
  database.close()
  const store = open(folder)
  expect(await store.accounts.list()).toEqual([
    { id: 'a', name: 'first', status: 'monitored', createdAt: 7, discount: 0, memberRequests: 'own' },
  ])
  expect(
    (await store.accounts.keys()).map(({ id, models, limit, limitPeriod }) => ({ id, models, limit, limitPeriod })),
  ).toEqual([{ id: 'k', models: null, limit: null, limitPeriod: null }])
  expect((await store.responses.find('a', 'r'))?.response).toEqual({})
  const { response, inputItems } = (await store.responses.find('a', 'r2'))!
  expect([JSON.stringify(response), inputItems, await store.responses.findItem('a', 'm')]).toEqual([
    '{"id":"r2","output":[{"id":"m","number":9007199254740992}],"model":"x"}',
    [{ id: 'in' }, 'text', null, true, [1], { id: 'm', type: 'item_reference' }],
    { id: 'm', number: 9007199254740992 },
  ])
  expect((await store.kept.totals('a')).responses.things).toBe(2)
  expect(await store.kept.wrongTotals()).toEqual([])
  await store.ledger.closeGeneration(closing(1, 5n))
  await store.close()
  expect((await open(folder).ledger.findGeneration('a', idOf(1)))?.bill).toBe(5n)
})

test('queries on tables that grow with generations use an index', async () => {
  const folder = newFolder()
  const store = open(folder)
  const statements = new Set<string>()
  const { prepare } = Database.prototype
  Database.prototype.prepare = function (this: Database, sql: string, ...rest: never[]) {
    statements.add(sql)
    return prepare.call(this, sql, ...rest)
  } as typeof prepare
  try {
    await store.accounts.add(accountOf('a'))
    await store.ledger.saveOpen([{ id: idOf(1), accountId: 'a', state: '' }], true)
    const price = { version: '1', model: 'm', rates: '' }
    const full = closing(1, 5n, {
      spend: { keyId: 'k', since: 0, spent: 5n },
      windows: [{ accountId: 'a', window: '7_day', startedAt: 1, endsAt: 2, used: 3n }],
      wasOpen: true,
    })
    await store.ledger.closeGeneration({ ...full, record: { ...full.record, price } })
    await store.ledger.post(topUp('one', 5n))
    await store.ledger.findGeneration('a', idOf(1))
    await store.ledger.state()
    await Promise.all([allGenerations(store), allTransfers(store)])
  } finally {
    Database.prototype.prepare = prepare
  }
  const database = new Database(join(folder, 'sluice.sqlite'))
  const plans = [...statements]
    .filter((sql) => /^\s*(SELECT|INSERT|UPDATE|DELETE)/.test(sql))
    .flatMap((sql) =>
      (database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail),
    )
  database.close()
  // These tables are read completely at the start; they have about as many rows as there are accounts and keys.
  const small = /^SCAN (book_accounts|quota_windows|subscriptions|key_spends)\b/
  expect(plans.filter((detail) => /SCAN|TEMP B-TREE/.test(detail) && !small.test(detail))).toEqual([])
  for (const search of [
    'SEARCH g USING PRIMARY KEY (id=?)',
    'SEARCH g USING PRIMARY KEY (id>?)',
    'SEARCH transfers USING PRIMARY KEY (reference=?)',
    'SEARCH open_generations USING PRIMARY KEY (id=?)',
  ])
    expect(plans).toContain(search)
})

const ROUNDS = 10
test.each(DURABILITIES)(
  'after SIGKILL with durability %s each reported generation is there, whole and once',
  async (durability) => {
    const folder = newFolder()
    let next = 0
    for (let round = 0; round < ROUNDS; round++) {
      const child = Bun.spawn(
        [process.execPath, join(import.meta.dir, 'closer.ts'), folder, String(next), durability],
        {
          stdout: 'pipe',
          stderr: 'inherit',
        },
      )
      const enough = 20 + Math.random() * 300
      let output = ''
      for await (const chunk of child.stdout) {
        output += new TextDecoder().decode(chunk)
        if (output.split('\n').length > enough) child.kill('SIGKILL')
      }
      const printed = output.split('\n').slice(0, -1).map(Number)
      expect(printed.length).toBeGreaterThan(19)
      const store = open(folder)
      const generations = await allGenerations(store, 1000)
      const ids = new Set(generations.map(({ id }) => id))
      expect(printed.filter((number) => !ids.has(idOf(number)))).toEqual([])
      // Generations that were committed and not yet printed are complete, too.
      const bills = generations.map(({ id, bill }) => `${id} ${bill}`)
      expect((await allTransfers(store, 1000)).map(({ reference, amount }) => `${reference} ${amount}`)).toEqual(bills)
      const { spends, windows } = await store.ledger.state()
      expect([spends[0]?.spent, windows[0]?.used]).toEqual([
        generations.reduce((sum, { bill }) => sum + bill, 0n),
        3n * BigInt(generations.length),
      ])
      const open_ = (await store.ledger.openGenerations()).map(({ id }) => id)
      expect(open_.filter((id) => ids.has(id))).toEqual([])
      await expectBalanced(store)
      await store.close()
      next += 100_000
    }
  },
  60_000,
)

/** A command line that runs a command on a disk of a few megabytes, in a namespace of its own. */
const onSmallDisk = (command: string): string[] => [
  'unshare',
  '--user',
  '--map-root-user',
  '--mount',
  'sh',
  '-c',
  `mkdir -p "$0" && mount -t tmpfs -o size=6m none "$0" && ${command}`,
]
const hasSmallDisks =
  process.platform === 'linux' &&
  Bun.spawnSync([...onSmallDisk('rmdir "$0" 2>/dev/null; true'), newFolder()], { stderr: 'ignore' }).success

test.skipIf(!hasSmallDisks)(
  'with a full disk writes fail, nothing is lost, and writes succeed again when there is space',
  () => {
    const { stdout, stderr, exitCode } = Bun.spawnSync([
      ...onSmallDisk(`exec '${process.execPath}' '${join(import.meta.dir, 'disk-filler.ts')}' "$0"`),
      newFolder(),
    ])
    expect([exitCode, stderr.toString()]).toEqual([0, ''])
    const { number, whenFull, whenCleared, again } = JSON.parse(stdout.toString()) as Record<
      'whenFull' | 'whenCleared',
      Record<string, unknown>
    > & { number: number; again: number }
    expect(whenFull.errors).toEqual(['store_unavailable'])
    expect(whenFull.kept).toBe(whenFull.closed)
    expect(whenFull.revenue).toBe(String(3 * Number(whenFull.closed)))
    expect(whenCleared).toEqual({ closed: number, failed: 0, kept: number, revenue: String(3 * number) })
    expect(again).toBe(number)
  },
  30_000,
)
