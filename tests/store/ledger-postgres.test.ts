import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { firstIdAt } from '../../src/store/generation-ids.ts'
import { Connection } from '../../src/store/postgres/connection.ts'
import { LedgerTables } from '../../src/store/postgres/ledger-tables.ts'
import { makePartitions } from '../../src/store/postgres/partitions.ts'
import { Processes } from '../../src/store/postgres/processes.ts'
import { StoreTime } from '../../src/store/postgres/store-time.ts'
import { foldRollUps } from '../../src/store/postgres/roll-ups.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import {
  ClosedAlready,
  type Closing,
  type LedgerStore,
  NotCovered,
  type Operation,
  type Store,
} from '../../src/store/store.ts'
import { databaseFor } from '../postgres/databases.ts'
import { type Proxy, startProxy } from '../postgres/proxy.ts'
import { bookContract } from './book-contract.ts'
import { storeContract } from './contract.ts'
import { balanceOf, closing, credit, failure, idOf, record, REVENUE, topUp, withAccounts } from './records.ts'

setDefaultTimeout(60_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

let databases = 0
async function newDatabase(): Promise<string> {
  let isUsed = true
  cleanups.push(() => (isUsed = false))
  return databaseFor(`ledger_${databases++}`, () => isUsed)
}

function connect(url: string): { connection: Connection; ledger: LedgerTables } {
  const connection = new Connection({ url, connections: 4, patienceMs: 20_000 })
  cleanups.push(() => connection.close())
  return { connection, ledger: new LedgerTables(connection) }
}

/** A connection of a process, which is registered. */
async function connectProcess(url: string): Promise<ReturnType<typeof connect>> {
  const opened = connect(url)
  const row = await opened.connection.one<{ id: number }>(
    "INSERT INTO processes (name, address, version) VALUES ('', '', '') RETURNING id",
  )
  opened.connection.process = row!.id
  return opened
}

async function connectProxy(url: string): Promise<ReturnType<typeof connect> & { proxy: Proxy }> {
  const proxy = await startProxy(url)
  cleanups.push(() => proxy.stop())
  return { ...connect(proxy.url), proxy }
}

async function open(): Promise<Store> {
  const store = await PostgresStore.open({ url: await newDatabase(), connections: 4, patienceMs: 10_000 })
  cleanups.push(() => store.close())
  return store as unknown as Store
}

storeContract('PostgreSQL', open)
bookContract('PostgreSQL', open)

const FIVE_HOURS = { accountId: 'a', window: '5_hour', startedAt: 1, endsAt: 9 } as const
/** A closing that changes a balance, a window, a spend and an open generation. */
const whole = (number: number): Closing =>
  closing(number, 5n, {
    windows: [{ ...FIVE_HOURS, used: 3n }],
    spend: { keyId: 'k', since: 1, spent: 5n },
    wasOpen: true,
  })

test('a closing whose acknowledgement is lost is written once and succeeds', async () => {
  const { ledger, connection, proxy } = await connectProxy(await newDatabase())
  await ledger.saveOpen([{ id: idOf(2), accountId: 'a', state: '' }])
  await ledger.closeGeneration(whole(1))
  for (const width of [1, 2]) {
    const { statements } = connection
    proxy.dropAnswer()
    await Promise.all(Array.from({ length: width }, (_, at) => ledger.closeGeneration(whole(width * 2 + at))))
    expect(connection.statements).toBeGreaterThan(statements + 1)
  }
  const { balances, windows, spends } = await ledger.state()
  expect([balances.map(({ balance }) => balance), windows[0]?.used, spends[0]?.spent]).toEqual([[-20n, 20n], 12n, 20n])
  expect(await ledger.openGenerations()).toEqual([])
  expect(String(await failure(ledger.closeGeneration(whole(2))))).toContain('is closed already')
})

test('a record that is there otherwise is not taken for one whose acknowledgement was lost', async () => {
  const { ledger, proxy } = await connectProxy(await newDatabase())
  await ledger.closeGeneration(whole(1))
  const failed = closing(1, 0n, { record: record(1, { ending: 'failed' }) })
  for (const others of [[], [whole(2)]]) {
    const { dropped } = proxy
    proxy.dropAnswer()
    const [error, ...rest] = await Promise.all([failed, ...others].map((one) => failure(ledger.closeGeneration(one))))
    expect([error, rest, proxy.dropped]).toEqual([new ClosedAlready(idOf(1)), others.map(() => undefined), dropped + 1])
  }
  expect(balanceOf(await ledger.state(), REVENUE)).toBe(10n)
})

test('a process that another has declared dead closes, saves and posts nothing any more', async () => {
  const url = await newDatabase()
  const [{ ledger, connection }, other] = await Promise.all([connectProcess(url), connectProcess(url)])
  await ledger.closeGeneration(whole(1))
  let fenced = 0
  connection.onFenced = () => fenced++
  await other.connection.run('UPDATE processes SET ended_at = now() WHERE id = $1', connection.process!)
  const errors = await Promise.all([
    failure(ledger.closeGeneration(whole(2))),
    failure(ledger.closeGeneration(whole(3))),
  ])
  expect(errors.map(String)).toEqual(Array(2).fill(expect.stringContaining('unavailable')))
  expect(await failure(ledger.saveOpen([{ id: idOf(4), accountId: 'a', state: '' }]))).toBeDefined()
  expect(await failure(ledger.post(topUp('one', 5n)))).toBeDefined()
  expect(fenced).toBe(1)
  await other.ledger.closeGeneration(whole(5))
  const { balances, windows, spends } = await other.ledger.state()
  expect([balances.map(({ balance }) => balance), windows[0]?.used, spends[0]?.spent]).toEqual([[-10n, 10n], 6n, 10n])
  expect((await other.ledger.generations(undefined, 9)).map(({ id }) => id)).toEqual([idOf(1), idOf(5)])
  expect(await other.ledger.openGenerations()).toEqual([])
})

test('a process waits for no row that the transaction of another has', async () => {
  const url = await newDatabase()
  const [one, other] = await Promise.all([connectProcess(url), connectProcess(url)])
  await Promise.all([one.ledger.closeGeneration(whole(1)), other.ledger.closeGeneration(whole(2))])
  await one.connection.transaction(async (transaction) => {
    const shard = one.connection.process!
    for (const table of ['book_balances', 'quota_windows', 'key_spends', 'usage_hours', 'speed_hours']) {
      const { changes } = await transaction.run(`UPDATE ${table} SET shard = shard WHERE shard = $1`, shard)
      expect([table, changes > 0]).toEqual([table, true])
    }
    await other.ledger.closeGeneration(whole(3))
  })
  const rolled = await one.connection.all('SELECT sum(requests) AS requests, sum(bill) AS bill FROM usage_hours')
  expect(rolled).toEqual([{ requests: 3, bill: 15 }])
})

test('each process has its own open generations, and what is closed is not opened again', async () => {
  const url = await newDatabase()
  const [one, other] = await Promise.all([connectProcess(url), connectProcess(url)])
  await one.ledger.saveOpen([1, 2].map((number) => ({ id: idOf(number), accountId: 'a', state: `${number}` })))
  await other.ledger.saveOpen([{ id: idOf(3), accountId: 'b', state: '\0' }])
  expect((await one.ledger.openGenerations()).map(({ id }) => id)).toEqual([idOf(1), idOf(2)])
  expect(await other.ledger.openGenerations()).toEqual([{ id: idOf(3), accountId: 'b', state: '\0' }])
  expect((await connect(url).ledger.openGenerations()).length).toBe(3)
  await Promise.all([
    one.ledger.closeGeneration(whole(1)),
    one.ledger.saveOpen([1, 2].map((number) => ({ id: idOf(number), accountId: 'a', state: 'late' }))),
  ])
  expect(await one.ledger.openGenerations()).toEqual([{ id: idOf(2), accountId: 'a', state: 'late' }])
})

test('processes that post the same reference or the same new accounts do it once', async () => {
  const url = await newDatabase()
  const all = await Promise.all(Array.from({ length: 4 }, () => connectProcess(url)))
  for (let round = 0; round < 10; round++) {
    const posted = await Promise.all(all.map(({ ledger }) => ledger.post(topUp(`op ${round}`, 5n, `new ${round}`))))
    expect(posted.filter(Boolean).length).toBe(1)
    await Promise.all(
      all.map(({ ledger }, at) => {
        const { transfers, ...rest } = closing(round * 10 + at, 1n)
        const [transfer] = transfers
        const owner = `payer ${round}`
        const price = { version: '1', model: `${round}`, rates: '' }
        return ledger.closeGeneration({
          ...rest,
          record: record(round * 10 + at, { price }),
          transfers: [{ ...transfer!, debit: credit(owner) }],
        })
      }),
    )
  }
  const state = await all[0]!.ledger.state()
  expect([balanceOf(state, credit('new 3')), balanceOf(state, credit('payer 3')), balanceOf(state, REVENUE)]).toEqual([
    5n,
    -4n,
    40n,
  ])
  expect(await all[0]!.connection.one('SELECT count(*) AS prices FROM prices')).toEqual({ prices: 10 })
})

test('money and plans are changes of their accounts, and what generations spend is none', async () => {
  const store = await withAccounts(open())
  const before = await store.accounts.lastChange()
  await store.ledger.closeGeneration(whole(1))
  expect(await store.accounts.lastChange()).toBe(before)
  await store.ledger.post(topUp('one', 5n, 'b'))
  expect((await store.accounts.changes(before, 9)).accountIds).toEqual(['b'])
  const plan = { accountId: 'a', tier: 'pro', anchor: 1, periodStart: 2, periodEnd: 3, renews: true, nextTier: null }
  await store.ledger.setSubscription(plan)
  expect((await store.accounts.changes(before, 9)).accountIds).toEqual(['b', 'a'])
})

test('records of a month are in its partition, and those of other times beside it', async () => {
  const { ledger, connection } = connect(await newDatabase())
  await makePartitions(connection)
  const now = Date.now()
  const ids = [now, now + 31 * 86_400_000, now - 500 * 86_400_000].map((at) => firstIdAt(at))
  await Promise.all(ids.map((id) => ledger.closeGeneration({ ...closing(1, 5n), record: record(1, { id }) })))
  for (const table of ['generations', 'transfers'])
    expect(
      await connection.all(
        `SELECT CASE tableoid WHEN to_regclass('${table}_other') THEN 'other'
           WHEN to_regclass('${table}_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')) THEN 'now'
           ELSE 'next' END AS part
         FROM ${table} ORDER BY id`,
      ),
    ).toEqual([{ part: 'other' }, { part: 'now' }, { part: 'next' }])
  expect((await ledger.findGeneration('a', ids[1]!))?.id).toBe(ids[1]!)
})

test('an hour whose sums differ from its records is found', async () => {
  const url = await newDatabase()
  const store = await PostgresStore.open({ url, connections: 4, patienceMs: 10_000 })
  cleanups.push(() => store.close())
  const { connection, ledger } = connect(url)
  await ledger.closeGeneration(closing(1, 7n))
  expect(await store.reports.wrongRollUps()).toEqual([])
  await connection.run('UPDATE usage_hours SET bill = bill + 1')
  const row = expect.stringMatching(/^the usage of /) as unknown
  expect(await store.reports.wrongRollUps()).toMatchObject([{ row }])
})

test('sums of past hours are joined, and those of this hour stay with their processes', async () => {
  const url = await newDatabase()
  const all = await Promise.all(Array.from({ length: 3 }, () => connectProcess(url)))
  const sums = 'SELECT hour, sum(requests) AS requests, sum(bill) AS bill FROM usage_hours GROUP BY hour ORDER BY hour'
  const count = async (): Promise<unknown[]> =>
    Promise.all(
      ['usage_hours', 'speed_hours'].map((table) =>
        all[0]!.connection.all(`SELECT count(*) AS rows FROM ${table} GROUP BY hour ORDER BY hour`),
      ),
    )
  const close = (number: number, createdAt: number): Promise<unknown> =>
    Promise.all(
      all.map(({ ledger }, at) => {
        const { record: closed, ...rest } = closing(10 * number + at, 7n)
        return ledger.closeGeneration({ ...rest, record: { ...closed, createdAt } })
      }),
    )
  for (const number of [1, 2]) await close(number, 0)
  await close(3, Date.now())
  const before = await all[0]!.connection.all(sums)
  expect(before).toMatchObject([
    { hour: 0, requests: 6, bill: 42 },
    { requests: 3, bill: 21 },
  ])
  await Promise.all(all.map(({ connection }) => foldRollUps(connection)))
  await foldRollUps(all[0]!.connection)
  expect(await all[0]!.connection.all(sums)).toEqual(before)
  expect(await count()).toEqual(Array(2).fill([{ rows: 1 }, { rows: 3 }]))
  await close(4, 0)
  await foldRollUps(all[1]!.connection)
  expect(await all[0]!.connection.all(sums)).toMatchObject([{ hour: 0, requests: 9, bill: 63 }, { requests: 3 }])
})

test('a covered operation is paid with what a process has leased and gives back', async () => {
  const url = await newDatabase()
  const { ledger } = connect(url)
  const { connection } = connect(url)
  const process = await Processes.begin(connection, new StoreTime(), {
    heartbeatMs: 60_000,
    deadMs: 600_000,
    version: '',
  })
  cleanups.push(() => process.end())
  const withdrawal = { ...topUp('out', 8n), covered: true }
  const [transfer] = withdrawal.transfers
  const operation = { ...withdrawal, transfers: [{ ...transfer!, debit: credit('a'), credit: transfer!.debit }] }
  await ledger.post(topUp('in', 10n))
  expect(await process.funds('a', { least: 5n, most: 5n })).toMatchObject({ credit: 5n })
  expect(await failure(ledger.post(operation))).toEqual(new NotCovered(5n))
  process.onReclaim((accountId) =>
    setTimeout(
      () => void process.giveBack({ funds: [{ accountId, credit: 5n, bonus: 0n }], windows: [], budgets: [] }),
      60,
    ),
  )
  // The process may not listen yet.
  let posted: unknown
  for (const giveUpAt = Date.now() + 20_000; posted !== true && Date.now() < giveUpAt; )
    posted = await ledger.post(operation).catch((error: NotCovered) => error.balance)
  expect(posted).toBe(true)
  expect(balanceOf(await ledger.state(), credit('a'))).toBe(2n)
})

type Step = { number: number; amount: bigint; isClosing: boolean; since: number; isDuplicated: boolean }

const closingOf = ({ number, amount, since, isDuplicated }: Step): Closing => {
  const { transfers, ...rest } = whole(number)
  const [first] = transfers
  return {
    ...rest,
    record: record(number, { model: `m${since}`, bill: amount, latency: since * 7 }),
    transfers: [{ ...first!, amount }, ...(isDuplicated ? transfers : [])],
    windows: [{ ...FIVE_HOURS, startedAt: since, used: amount }],
    spend: { keyId: `k${number % 2}`, since, spent: amount },
  }
}

const operationOf = ({ number, amount, isDuplicated }: Step): Operation => ({
  ...topUp(`op ${number}`, amount),
  transfers: [{ kind: 'top-up', debit: credit('a'), credit: REVENUE, amount }],
  covered: isDuplicated,
})

/** The outcome of each step of a turn. */
const runTurn = (ledger: LedgerStore, turn: readonly Step[]): Promise<boolean[]> =>
  Promise.all(
    turn.map((step) =>
      (step.isClosing
        ? ledger.closeGeneration(closingOf(step)).then(() => true)
        : ledger.post(operationOf(step))
      ).catch(() => false),
    ),
  )

async function contentOf(ledger: LedgerStore): Promise<object> {
  const { balances, ...state } = await ledger.state()
  const sorted = balances
    .filter(({ balance }) => balance !== 0n)
    .map((one) => `${one.kind} ${one.owner} ${one.balance}`)
  return {
    ...state,
    balances: sorted.sort(),
    generations: await ledger.generations(undefined, 1_000),
    transfers: await ledger.transfers(undefined, 1_000),
    open: await ledger.openGenerations(),
  }
}

test('any writes over connections that are cut leave what they leave in SQLite', async () => {
  const step = fc.record({
    number: fc.nat(8),
    amount: fc.bigInt(-1n, 2n ** 40n),
    isClosing: fc.boolean(),
    since: fc.nat(3),
    isDuplicated: fc.boolean(),
  })
  const turn = fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 6 }),
    cut: fc.constantFrom('', 'now', 'answer'),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { maxLength: 6 }), async (turns) => {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
      const sqlite = new SqliteStore({ folder, exclusive: false, durability: 'process' })
      const { ledger, connection, proxy } = await connectProxy(await newDatabase())
      for (const [at, { steps, cut }] of turns.entries()) {
        // A closing that is repeated cannot be known from one of before, so that those of a cut turn are new.
        const own = steps.map((one, index) => (cut === '' ? one : { ...one, number: 100 * (at + 1) + index }))
        if (cut === 'answer') proxy.dropAnswer()
        const outcomes = runTurn(ledger, own)
        if (cut === 'now') setImmediate(() => proxy.cut())
        expect(await outcomes).toEqual(await runTurn(sqlite.ledger, own))
      }
      expect(await contentOf(ledger)).toEqual(await contentOf(sqlite.ledger))
      await connection.close()
      proxy.stop()
      await sqlite.close()
      rmSync(folder, { recursive: true })
    }),
    { numRuns: 15 },
  )
})
