import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { topUp } from '../../src/ledger/book.ts'
import { removeOldRecords } from '../../src/ledger/retention.ts'
import { firstIdAt } from '../../src/store/generation-ids.ts'
import type { Closing, GenerationRecord, Store } from '../../src/store/store.ts'
import { newPostgresFolder, ON_POSTGRES, sqlIn, storeIn } from '../stores.ts'
import { auditFor, closing, HOUR, key, newFolder, useScratch, windows } from './audit-book.ts'
import { accountOf } from '../store/account.ts'

setDefaultTimeout(60_000)

useScratch()
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const [JANUARY, FEBRUARY, JUNE, JULY] = [0, 1, 5, 6].map((month) => Date.UTC(2025, month, 10)) as [
  number,
  number,
  number,
  number,
]
const idAt = (at: number, number: number): string => firstIdAt(at).slice(0, 24) + String(number).padStart(8, '0')

/** Settlements at an instant of every kind: paid by bonus, credit and cost, written off, and by subscription. */
function settlementsAt(at: number, number: number): Closing[] {
  const one = (more: Partial<GenerationRecord> & Parameters<typeof closing>[1]): Closing => {
    const id = idAt(at, ++number)
    return closing(number, { id, createdAt: at, ...more })
  }
  const bonus = one({ payment: { bonus: 1_000_000n, credit: 3_250_000n, writtenOff: 0n }, cost: 2_100_000n })
  const writtenOff = one({ payment: { bonus: 0n, credit: 4_000_000n, writtenOff: 250_000n } })
  const subscribed = one({ kind: 'subscription', keyId: 'key_b' })
  return [
    bonus,
    writtenOff,
    {
      ...subscribed,
      windows: windows(129_455n, at),
      spend: { keyId: 'key_b', since: 0, spent: subscribed.record.bill },
    },
  ]
}

async function openBook(folder: string): Promise<Store> {
  const store = await storeIn(folder)
  cleanups.push(() => store.close().catch(() => {}))
  return store
}

const postgresFolders = new Set<string>()
function newPostgres(): string {
  const folder = newPostgresFolder()
  postgresFolders.add(folder)
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A book with generations of three months; in PostgreSQL one of them has a partition. */
async function makeBook(folder: string): Promise<Store> {
  const store = await openBook(folder)
  if (postgresFolders.has(folder))
    for (const table of ['generations', 'transfers'])
      await sqlIn(
        folder,
        `CREATE TABLE ${table}_2025_01 PARTITION OF ${table}
         FOR VALUES FROM ('${firstIdAt(Date.UTC(2025, 0))}') TO ('${firstIdAt(Date.UTC(2025, 1))}')`,
      )
  await store.accounts.add(accountOf('acc_a'))
  await store.accounts.addKey({ ...key('key_b', 1), limitPeriod: null })
  for (const [amount, isBonus] of [
    [100_000_000_000n, false],
    [50_000_000n, true],
  ] as const)
    await store.ledger.post(
      topUp({ reference: `start ${isBonus}`, at: JANUARY, accountId: 'acc_a', amount, bonus: isBonus }),
    )
  for (const at of [JANUARY, FEBRUARY, JUNE])
    for (const settlement of settlementsAt(at, 10)) await store.ledger.closeGeneration(settlement)
  return store
}

const contentOf = async (store: Store): Promise<{ ids: string[]; references: string[] }> => ({
  ids: (await store.ledger.generations(undefined, 1_000)).map(({ id }) => id),
  references: [...new Set((await store.ledger.transfers(undefined, 1_000)).map(({ reference }) => reference))],
})

async function expectRight(store: Store): Promise<void> {
  expect((await auditFor(store)).first).toBeUndefined()
  expect(await store.reports.wrongRollUps()).toEqual([])
}

describe.each([
  ['SQLite', newFolder],
  ['PostgreSQL', newPostgres],
] as const)('removing old records from %s', (_, makeFolder) => {
  test('leaves the later ones and every balance, and the audit proves what remains', async () => {
    const store = await makeBook(makeFolder())
    await expectRight(store)
    const [before, { ids }] = [await store.ledger.state(), await contentOf(store)]
    for (const [month, left] of [
      [0, 9],
      [1, 6],
      [5, 3],
    ] as const) {
      await store.ledger.removeRecords(Date.UTC(2025, month))
      expect(await contentOf(store)).toEqual({
        ids: ids.slice(-left),
        references: ['start false', 'start true', ...ids.slice(-left).filter((id) => !id.endsWith('13'))],
      })
      expect(await store.ledger.state()).toEqual(before)
      await expectRight(store)
    }
    expect(await store.ledger.findGeneration('acc_a', ids[0]!)).toBeUndefined()
    const { before: end, transfers, usage } = await store.ledger.carried()
    expect([end, transfers.map(({ kind, amount }) => `${kind} ${amount}`).sort()]).toEqual([
      Date.UTC(2025, 5),
      ['bonus 2000000', 'cost 4200000', 'credit 14500000', 'write-off 500000'],
    ])
    expect(usage.toSorted((a, b) => a.keyId.localeCompare(b.keyId))).toEqual([
      { accountId: 'acc_a', keyId: 'key_a', bill: 17_000_000n, flows: 0n },
      { accountId: 'acc_a', keyId: 'key_b', bill: 8_500_000n, flows: 258_910n },
    ])
    for (const settlement of settlementsAt(JULY, 20)) await store.ledger.closeGeneration(settlement)
    await expectRight(store)
  })

  test.each([
    ['a balance', 'UPDATE carried_transfers SET amount = amount + 1', 'balances'],
    ['a spend', 'UPDATE carried_usage SET bill = bill + 1', 'spends'],
    ['a spend', 'UPDATE carried_usage SET bill = bill - 1', 'spends'],
  ])(
    'has the audit find that %s is wrong: %s',
    async (_what, sql, table) => {
      const folder = makeFolder()
      const store = await makeBook(folder)
      await store.ledger.removeRecords(JUNE)
      await expectRight(store)
      await sqlIn(folder, sql)
      expect((await auditFor(store)).first?.table).toBe(table)
    },
    30_000,
  )

  test('goes on while generations end, and after it was cut off', async () => {
    const folder = makeFolder()
    const store = await makeBook(folder)
    const many = Array.from({ length: 1_500 }, (_, number) => number + 100)
    await Promise.all(
      many.map((number) =>
        store.ledger.closeGeneration(closing(number, { id: idAt(FEBRUARY, number), createdAt: FEBRUARY })),
      ),
    )
    const removing = store.ledger.removeRecords(JUNE - 10 * 24 * HOUR).catch(() => {})
    await store.ledger.closeGeneration(closing(1, { id: idAt(JUNE, 99), createdAt: JUNE }))
    expect((await auditFor(store)).first).toBeUndefined()
    await store.close()
    await removing
    const again = await openBook(folder)
    expect((await auditFor(again)).first).toBeUndefined()
    await again.ledger.removeRecords(JUNE - 10 * 24 * HOUR)
    await expectRight(again)
    expect((await contentOf(again)).ids).toEqual([11, 12, 13, 99].map((number) => idAt(JUNE, number)))
  })
})

test('a partition is not removed while everything is read, and later it is', async () => {
  const folder = newPostgres()
  const store = await makeBook(folder)
  await store.snapshot(async () => {
    await expect(store.ledger.removeRecords(JUNE)).rejects.toThrow()
    expect((await store.ledger.generations(undefined, 100)).length).toBe(9)
  })
  expect((await store.ledger.carried()).transfers).toEqual([])
  await store.ledger.removeRecords(JUNE)
  expect((await contentOf(store)).ids.length).toBe(3)
  expect(await sqlIn(folder, "SELECT to_regclass('generations_2025_01') AS name")).toEqual([{ name: null }])
})

test.skipIf(ON_POSTGRES)(
  'a count of what a killed server left out takes nothing of the sums of removed records',
  async () => {
    const folder = newFolder()
    const store = await openBook(folder)
    for (const [number, at] of [JANUARY, JANUARY + HOUR / 2, JANUARY + 9 * HOUR].entries())
      await store.ledger.closeGeneration(closing(number, { id: idAt(at, number), createdAt: at }))
    expect(await store.reports.wrongRollUps()).toEqual([])
    await store.ledger.removeRecords(JANUARY + HOUR / 4)
    await store.close()
    const hours = (): Promise<unknown[]> => sqlIn(folder, 'SELECT requests FROM usage_hours ORDER BY hour')
    await sqlIn(folder, 'DELETE FROM usage_hours WHERE hour > ?', JANUARY / HOUR)
    await sqlIn(folder, 'UPDATE roll_ups SET is_open = 1')
    const again = await openBook(folder)
    await again.reports.begin()
    for (const giveUpAt = Date.now() + 20_000; (await hours()).length < 2 && Date.now() < giveUpAt; ) await Bun.sleep(5)
    expect(await hours()).toEqual([{ requests: 2 }, { requests: 1 }])
  },
)

test('records are kept for whole months beside the current one, or for ever', async () => {
  const removed: number[] = []
  const removeRecords = async (before: number): Promise<void> => void removed.push(before)
  const store = { ledger: { removeRecords } } as unknown as Store
  await removeOldRecords(store, { recordMonths: undefined }, JULY)
  await removeOldRecords(store, { recordMonths: 1 }, Date.UTC(2025, 6, 31, 23))
  await removeOldRecords(store, { recordMonths: 13 }, JULY)
  expect(removed).toEqual([Date.UTC(2025, 5), Date.UTC(2024, 5)])
})
