import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noUsage, type Usage } from '../../src/generation/usage.ts'
import { audit, type Audit } from '../../src/ledger/audit.ts'
import { chargesOf, topUp, type Payment } from '../../src/ledger/book.ts'
import { encodeRates, type Price } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import type { Closing, GenerationRecord, QuotaWindow, StoredKey } from '../../src/store/store.ts'
import { USD_PER_FLOW } from '../audit.ts'
import { startGateway } from '../server.ts'

/** A right book passes the audit; one row of it broken by hand is found and named. */

const scratch = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))
let folders = 0

const PRICE: Price = {
  version: 'v1',
  model: 'acme/m',
  rates: {
    prompt: { base: 1_250_000_000n, tiers: [] },
    completion: { base: 10_000_000_000n, tiers: [] },
    request: { base: 1_000_000n, tiers: [] },
  },
}
const USAGE: Usage = { ...noUsage(), inputTokens: 1000, outputTokens: 200 }
const START = 1_780_000_000_000

const idOf = (number: number): string => number.toString(16).padStart(32, '0')

type Extra = Partial<GenerationRecord> & { cost?: bigint; payment?: Payment }

/** A generation that ended as the ledger would have it; `number` makes its id. */
function closing(number: number, { cost, payment, ...extra }: Extra = {}): Closing {
  const { bill, origin } = rate(extra.usage ?? USAGE, PRICE, extra.discount ?? 0)
  const subscribed = extra.kind === 'subscription'
  const record: GenerationRecord = {
    id: idOf(number),
    accountId: 'acc_a',
    keyId: 'key_a',
    kind: 'pay-as-you-go',
    api: 'chat.completions',
    model: 'acme/m',
    provider: 'acme',
    createdAt: START + number,
    latency: 30,
    duration: 700,
    streamed: true,
    finish: 'stop',
    ending: 'completed',
    retries: 0,
    attempts: null,
    translation: null,
    estimated: false,
    usage: USAGE,
    price: { version: PRICE.version, model: PRICE.model, rates: encodeRates(PRICE.rates) },
    discount: 0,
    held: 20_000_000n,
    bill: subscribed ? origin : bill,
    flows: subscribed ? 129_455n : 0n,
    ...extra,
  }
  const paid = subscribed ? undefined : (payment ?? { bonus: 0n, credit: record.bill, writtenOff: 0n })
  return {
    record,
    transfers: chargesOf('acc_a', paid, record.provider, cost),
    windows: [],
    spend: undefined,
    wasOpen: false,
  }
}

const HOUR = 3_600_000
const windows = (used: bigint, startedAt = START): QuotaWindow[] =>
  (
    [
      ['5_hour', 5],
      ['7_day', 168],
      ['monthly', 720],
    ] as const
  ).map(([window, hours]) => ({ accountId: 'acc_a', window, startedAt, endsAt: startedAt + hours * HOUR, used }))

const key = (id: string, number: number): StoredKey => ({
  id,
  accountId: 'acc_a',
  kind: 'subscription',
  hash: new Uint8Array(32).fill(number),
  prefix: 'p',
  last4: 'q',
  name: null,
  createdAt: START,
  expiresAt: null,
  revokedAt: null,
  requestsPerMinute: null,
  models: null,
  limit: 1n,
  limitPeriod: 'day',
})

/**
 * 1: paid by bonus and credit, with a key of the file that got its limit later; 2: by credit, with a cost and that key;
 * 3: by subscription, with a stored key that has a limit; 4: written off in part; 5: failed and released; 6: without a
 * price.
 */
async function rightBook(): Promise<string> {
  const folder = join(scratch, `data-${folders++}`)
  const store = new SqliteStore({ folder, exclusive: false })
  for (const id of ['acc_a', 'acc_b'])
    await store.accounts.add({ id, name: id, status: 'healthy', createdAt: START, discount: 0 })
  await store.ledger.post(
    topUp({ reference: 'op_1', at: START, accountId: 'acc_a', amount: 10_000_000n, bonus: false }),
  )
  await store.ledger.post(topUp({ reference: 'op_2', at: START, accountId: 'acc_a', amount: 2_000_000n, bonus: true }))
  await store.ledger.post(topUp({ reference: 'op_3', at: START, accountId: 'acc_b', amount: 5_000_000n, bonus: false }))
  await store.ledger.closeGeneration(closing(1, { payment: { bonus: 2_000_000n, credit: 2_250_000n, writtenOff: 0n } }))
  await store.ledger.closeGeneration({
    ...closing(2, { cost: 2_100_000n, discount: 1_000 }),
    spend: { keyId: 'key_a', since: START, spent: 3_825_000n },
  })
  await store.accounts.addKey(key('key_b', 1))
  await store.ledger.closeGeneration({
    ...closing(3, { kind: 'subscription', keyId: 'key_b' }),
    windows: windows(129_455n),
    spend: { keyId: 'key_b', since: START, spent: 4_250_000n },
  })
  await store.ledger.closeGeneration(closing(4, { payment: { bonus: 0n, credit: 3_925_000n, writtenOff: 325_000n } }))
  await store.ledger.closeGeneration(
    closing(5, {
      usage: noUsage(),
      bill: 0n,
      ending: 'failed',
      finish: 'failed',
      payment: { bonus: 0n, credit: 0n, writtenOff: 0n },
    }),
  )
  await store.ledger.closeGeneration(closing(6, { price: null, bill: 0n }))
  await store.close()
  return folder
}

const auditFor = (store: SqliteStore, overdraft = 0n): Promise<Audit> =>
  audit(store, { overdraft, usdPerFlow: USD_PER_FLOW })

async function auditOf(folder: string, overdraft = 0n): Promise<Audit> {
  const store = new SqliteStore({ folder, exclusive: false })
  try {
    return await auditFor(store, overdraft)
  } finally {
    await store.close()
  }
}

/** What no Sluice would write: the tables' own checks are off. */
function breakBook(folder: string, sql: string): void {
  const database = new Database(join(folder, 'sluice.sqlite'))
  database.run('PRAGMA ignore_check_constraints = ON')
  expect(database.run(sql).changes).toBeGreaterThan(0)
  database.close()
}

const generation = (number: number): string => `WHERE id = x'${idOf(number)}'`
const transfer = (number: number, kind: string): string => `WHERE reference = x'${idOf(number)}' AND kind = '${kind}'`
const account = (kind: string): string => `(SELECT id FROM book_accounts WHERE kind = '${kind}' ORDER BY owner LIMIT 1)`

describe('the audit', () => {
  test('passes a right book, and counts what it read', async () => {
    expect(await auditOf(await rightBook())).toEqual({
      generations: 6,
      transfers: 9,
      balances: 9,
      windows: 3,
      spends: 2,
      wrong: 0,
      first: undefined,
    })
  })

  test.each([
    [
      'a bill',
      `UPDATE generations SET bill = bill + 1 ${generation(2)}`,
      'generations',
      idOf(2),
      'a bill of 3825000 nano-USD, which is its usage at price v1',
      '3825001 nano-USD',
    ],
    [
      "a subscription's list price",
      `UPDATE generations SET bill = bill - 1 ${generation(3)}`,
      'generations',
      idOf(3),
      'a bill of 4250000',
      '4249999 nano-USD',
    ],
    [
      'a count',
      `UPDATE generations SET output_tokens = 201 ${generation(1)}`,
      'generations',
      idOf(1),
      'a bill of 4260000',
      '4250000 nano-USD',
    ],
    [
      'a count below 0',
      `UPDATE generations SET web_searches = -1 ${generation(6)}`,
      'generations',
      idOf(6),
      'webSearches of 0 or more',
      '-1',
    ],
    [
      'a duration below 0',
      `UPDATE generations SET latency = -5 ${generation(6)}`,
      'generations',
      idOf(6),
      'latency of 0 or more',
      '-5',
    ],
    [
      'a discount',
      `UPDATE generations SET discount = 0 ${generation(2)}`,
      'generations',
      idOf(2),
      'a bill of 4250000',
      '3825000 nano-USD',
    ],
    [
      'a discount above the whole',
      `UPDATE generations SET discount = 10001 ${generation(6)}`,
      'generations',
      idOf(6),
      '0 to 10000 basis points',
      '10001',
    ],
    [
      'a hold below 0',
      `UPDATE generations SET held = -1 ${generation(1)}`,
      'generations',
      idOf(1),
      'held of 0 or more',
      '-1',
    ],
    [
      'what a released generation was charged',
      `UPDATE generations SET bill = 1 ${generation(5)}`,
      'generations',
      idOf(5),
      'a bill of 1000000',
      '1 nano-USD',
    ],
    [
      'the ending of one that was not charged',
      `UPDATE generations SET ending = (SELECT ending FROM generations ${generation(1)}) ${generation(5)}`,
      'generations',
      idOf(5),
      'a bill of 1000000',
      '0 nano-USD',
    ],
    [
      'an unknown ending',
      `UPDATE generations SET ending = (SELECT id FROM names WHERE text = 'acme/m') ${generation(6)}`,
      'generations',
      idOf(6),
      'an ending of completed',
      'acme/m',
    ],
    [
      'an unknown account',
      `UPDATE generations SET account = (SELECT id FROM names WHERE text = 'acme') ${generation(6)}`,
      'generations',
      idOf(6),
      'a known account',
      'acme',
    ],
    [
      'flows without a subscription',
      `UPDATE generations SET flows = 7 ${generation(6)}`,
      'generations',
      idOf(6),
      'no flows with a pay-as-you-go key',
      '7 micro-flows',
    ],
    [
      'a stored rate',
      `UPDATE prices SET rates = replace(rates, '"1250000000"', '"2250000000"')`,
      'generations',
      idOf(1),
      'a bill of 5250000',
      '4250000 nano-USD',
    ],
    [
      'rates that are no JSON',
      `UPDATE prices SET rates = '{'`,
      'generations',
      idOf(1),
      'rates of price v1 that can be read',
      '{',
    ],
    [
      'a price that is gone',
      'DELETE FROM prices',
      'generations',
      idOf(1),
      'a bill of 0 nano-USD, which is its usage at price unpriced',
      '4250000 nano-USD',
    ],
    [
      'a payment',
      `UPDATE transfers SET amount = amount - 1 ${transfer(1, 'bonus')}`,
      'generations',
      idOf(1),
      'transfers to revenue of 4250000',
      '4249999 nano-USD',
    ],
    [
      'a payment that is gone',
      `DELETE FROM transfers ${transfer(4, 'write-off')}`,
      'generations',
      idOf(4),
      'transfers to revenue of 4250000',
      '3925000 nano-USD',
    ],
    [
      "another account's payment",
      `UPDATE transfers SET debit = (SELECT id FROM book_accounts WHERE kind = 'credit' AND owner = 'acc_b') ${transfer(1, 'credit')}`,
      'transfers',
      `${idOf(1)} credit`,
      'from credit acc_a to revenue',
      'from credit acc_b to revenue',
    ],
    [
      'a payment to nobody',
      `UPDATE transfers SET credit = 99 ${transfer(1, 'credit')}`,
      'transfers',
      `${idOf(1)} credit`,
      'known accounts',
      'null',
    ],
    [
      'an amount of 0',
      `UPDATE transfers SET amount = 0 ${transfer(2, 'cost')}`,
      'transfers',
      `${idOf(2)} cost`,
      'an amount above 0',
      '0 nano-USD',
    ],
    [
      'a transfer to itself',
      `UPDATE transfers SET credit = debit ${transfer(2, 'cost')}`,
      'transfers',
      `${idOf(2)} cost`,
      'two different accounts',
      'cost twice',
    ],
    [
      'a cost without a provider',
      `UPDATE generations SET provider = NULL ${generation(2)}`,
      'transfers',
      `${idOf(2)} cost`,
      'no cost of this generation',
      'from cost to payable acme',
    ],
    [
      'a payment for a subscription',
      `INSERT INTO transfers (reference, kind, debit, credit, amount, at) VALUES (x'${idOf(3)}', 'credit', ${account('credit')}, ${account('revenue')}, 5, 1)`,
      'transfers',
      `${idOf(3)} credit`,
      'no credit of this generation',
      '5 nano-USD',
    ],
    [
      'a payment of no generation',
      `DELETE FROM generations ${generation(2)}`,
      'transfers',
      `${idOf(2)} cost`,
      `a generation ${idOf(2)}`,
      'none',
    ],
    [
      'a payment of the last generation, which is gone',
      `DELETE FROM generations WHERE id >= x'${idOf(4)}'`,
      'transfers',
      `${idOf(4)} credit`,
      `a generation ${idOf(4)}`,
      'none',
    ],
    [
      'an account that is gone',
      `DELETE FROM accounts WHERE id = 'acc_b'`,
      'transfers',
      'op_3 top-up',
      'known accounts',
      'credit acc_b',
    ],
    [
      'a balance',
      `UPDATE book_accounts SET balance = balance + 1 WHERE kind = 'revenue'`,
      'balances',
      'revenue',
      '12325000 nano-USD, which its transfers add up to',
      '12325001 nano-USD',
    ],
    [
      'a balance that is gone',
      `DELETE FROM book_accounts WHERE kind = 'promotion'`,
      'transfers',
      'op_2 grant',
      'known accounts',
      'null',
    ],
    [
      'the use of a window',
      `UPDATE quota_windows SET used = -1`,
      'windows',
      'acc_a 5_hour',
      'use of 0 or more',
      '-1 micro-flows',
    ],
    [
      'the end of a window',
      `UPDATE quota_windows SET ends_at = started_at`,
      'windows',
      'acc_a 5_hour',
      'an end after its beginning',
      `${START}`,
    ],
    [
      'the account of a window',
      `UPDATE quota_windows SET account_id = 'acc_c'`,
      'windows',
      'acc_c 5_hour',
      'a known account',
      'acc_c',
    ],
    [
      "a key's spending",
      `UPDATE key_spends SET spent = -1`,
      'spends',
      'key_a',
      '0 nano-USD spent or more',
      '-1 nano-USD',
    ],
    [
      'windows that have forgotten',
      'UPDATE quota_windows SET used = 0',
      'windows',
      'acc_a 5_hour',
      'use of 129455 micro-flows or more',
      '0 micro-flows',
    ],
    [
      'the use of a window, by the least',
      `UPDATE quota_windows SET used = used - 1 WHERE name = 'monthly'`,
      'windows',
      'acc_a monthly',
      'use of 129455 micro-flows or more',
      '129454 micro-flows',
    ],
    [
      'the use of a window, by more than there was',
      `UPDATE quota_windows SET used = used + 1 WHERE name = '7_day'`,
      'windows',
      'acc_a 7_day',
      'use of 129455 micro-flows or less',
      '129456 micro-flows',
    ],
    [
      'a window that is gone',
      `DELETE FROM quota_windows WHERE name = '7_day'`,
      'windows',
      'acc_a 7_day',
      `an end after ${START + 3}`,
      'no such window',
    ],
    [
      'a window that is over',
      `UPDATE quota_windows SET started_at = 1, ends_at = 2, used = 0 WHERE name = '5_hour'`,
      'windows',
      'acc_a 5_hour',
      `an end after ${START + 3}`,
      '2',
    ],
    [
      'keys that have forgotten',
      `UPDATE key_spends SET spent = 0`,
      'spends',
      'key_b',
      'spending of 4250000 nano-USD or more',
      '0 nano-USD',
    ],
    [
      "a key's spending, by more than it was",
      `UPDATE key_spends SET spent = 4250001 WHERE key_id = 'key_b'`,
      'spends',
      'key_b',
      'spending of 4250000 nano-USD or less',
      '4250001 nano-USD',
    ],
    [
      'the spending of a key of the file',
      `UPDATE key_spends SET spent = 1000000000 WHERE key_id = 'key_a'`,
      'spends',
      'key_a',
      'nano-USD or less',
      '1000000000 nano-USD',
    ],
    [
      "a key's spending that is gone",
      `DELETE FROM key_spends WHERE key_id = 'key_b'`,
      'spends',
      'key_b',
      'spending of 4250000 nano-USD',
      'none',
    ],
    [
      'flows that are gone',
      `UPDATE generations SET flows = 0 ${generation(3)}`,
      'generations',
      idOf(3),
      'flows for a list price of 4250000 nano-USD',
      'none',
    ],
    [
      'flows of what cost nothing',
      `UPDATE generations SET flows = 1, kind = (SELECT kind FROM generations ${generation(3)}) ${generation(6)}`,
      'generations',
      idOf(6),
      'no flows for a list price of 0',
      '1 micro-flows',
    ],
    [
      'a hold that is gone',
      `UPDATE generations SET held = 0 ${generation(1)}`,
      'generations',
      idOf(1),
      'a hold of 1001250 nano-USD or more',
      '0 nano-USD',
    ],
  ])('finds %s that is wrong', async (_, sql, table, id, expected, found) => {
    const folder = await rightBook()
    breakBook(folder, sql)
    const { wrong, first } = await auditOf(folder)
    expect(first).toEqual({
      table,
      id,
      expected: expect.stringContaining(expected),
      found: expect.stringContaining(found),
    })
    expect(wrong).toBeGreaterThan(0)
  })

  test('finds credit below what the overdraft allows, and bonus below 0', async () => {
    const folder = join(scratch, `data-${folders++}`)
    const store = new SqliteStore({ folder, exclusive: false })
    await store.accounts.add({ id: 'acc_a', name: 'a', status: 'healthy', createdAt: START, discount: 0 })
    await store.ledger.closeGeneration(closing(1))
    await store.close()
    expect((await auditOf(folder, 4_250_000n)).first).toBeUndefined()
    expect((await auditOf(folder, 4_249_999n)).first).toEqual({
      table: 'balances',
      id: 'credit acc_a',
      expected: 'a credit of -4249999 nano-USD or more',
      found: '-4250000 nano-USD',
    })
    const again = new SqliteStore({ folder, exclusive: false })
    await again.ledger.closeGeneration(closing(2, { payment: { bonus: 4_250_000n, credit: 0n, writtenOff: 0n } }))
    await again.close()
    expect((await auditOf(folder, 4_250_000n)).first).toEqual({
      table: 'balances',
      id: 'bonus acc_a',
      expected: 'a bonus of 0 nano-USD or more',
      found: '-4250000 nano-USD',
    })
  })

  test('leaves alone what no hold, no flow and no count can be told of', async () => {
    const folder = join(scratch, `data-${folders++}`)
    const store = new SqliteStore({ folder, exclusive: false })
    await store.accounts.add({ id: 'acc_a', name: 'a', status: 'healthy', createdAt: START, discount: 0 })
    const search: Price = { version: 'v1', model: 'acme/m', rates: { web_search: { base: 10n, tiers: [] } } }
    const price = { version: 'v1', model: 'acme/m', rates: encodeRates(search.rates) }
    // Searches that nobody expected, and a price that is worth no flows.
    await store.ledger.closeGeneration({
      ...closing(1, {
        kind: 'subscription',
        price,
        usage: { ...noUsage(), webSearches: 2 },
        bill: 20n,
        flows: 0n,
        held: 0n,
      }),
      windows: windows(0n),
    })
    // The clock went back: it counts in the window that is known, which began later.
    await store.ledger.closeGeneration({
      ...closing(2, { kind: 'subscription', createdAt: START - HOUR }),
      windows: windows(129_455n),
    })
    // It was asked for in a window that was over when it ended, and in the present ones.
    await store.ledger.closeGeneration({
      ...closing(3, { kind: 'subscription', createdAt: START + 6 * HOUR }),
      windows: windows(129_455n, START + 6 * HOUR)
        .slice(0, 1)
        .concat(windows(129_455n).slice(1)),
    })
    await store.ledger.closeGeneration({ ...closing(4, { kind: 'subscription' }), windows: windows(129_455n) })
    expect((await auditFor(store)).first).toBeUndefined()
    expect((await store.ledger.state()).windows.map(({ used }) => used)).toEqual([129_455n, 388_365n, 388_365n])
    await store.close()
  })

  test('knows what a flow stands for', async () => {
    const folder = join(scratch, `data-${folders++}`)
    const store = new SqliteStore({ folder, exclusive: false })
    await store.accounts.add({ id: 'acc_a', name: 'a', status: 'healthy', createdAt: START, discount: 0 })
    await store.ledger.closeGeneration({ ...closing(1, { kind: 'subscription', flows: 0n }), windows: windows(0n) })
    expect((await auditFor(store)).first?.expected).toBe('flows for a list price of 4250000 nano-USD')
    expect((await audit(store, { overdraft: 0n, usdPerFlow: 8_500_000_000_000n })).first).toBeUndefined()
    await store.close()
  })

  test('lets a balance fall below 0 by what was taken back and spent, since its server may not have heard of it', async () => {
    const folder = join(scratch, `data-${folders++}`)
    const store = new SqliteStore({ folder, exclusive: false })
    await store.accounts.add({ id: 'acc_a', name: 'a', status: 'healthy', createdAt: START, discount: 0 })
    await store.ledger.post(
      topUp({ reference: 'op_1', at: START, accountId: 'acc_a', amount: 4_250_000n, bonus: false }),
    )
    await store.ledger.post(
      topUp({ reference: 'op_2', at: START, accountId: 'acc_a', amount: -4_000_000n, bonus: false }),
    )
    await store.ledger.post(
      topUp({ reference: 'op_3', at: START, accountId: 'acc_a', amount: -1_000_000n, bonus: false }),
    )
    expect((await auditOf(folder)).first).toEqual({
      table: 'balances',
      id: 'credit acc_a',
      expected: 'a credit of 0 nano-USD or more',
      found: '-750000 nano-USD',
    })
    await store.ledger.post(
      topUp({ reference: 'op_4', at: START, accountId: 'acc_a', amount: 1_000_000n, bonus: false }),
    )
    await store.ledger.closeGeneration(closing(1))
    expect((await auditOf(folder)).first).toBeUndefined()
    await store.ledger.closeGeneration(closing(2))
    await store.close()
    expect((await auditOf(folder)).first).toEqual({
      table: 'balances',
      id: 'credit acc_a',
      expected: 'a credit of -5000000 nano-USD or more',
      found: '-8250000 nano-USD',
    })
  })

  test('finds balances that do not add up to 0 as such', async () => {
    const folder = await rightBook()
    breakBook(folder, `INSERT INTO book_accounts (kind, owner, balance) VALUES ('payable', 'nobody', 3)`)
    const { first, wrong } = await auditOf(folder)
    expect([first?.id, wrong]).toEqual(['payable nobody', 2])
  })

  test('counts every row that is wrong, once', async () => {
    const folder = await rightBook()
    breakBook(folder, `UPDATE generations SET retries = -1, held = -1, latency = -1 WHERE id <= x'${idOf(4)}'`)
    expect(await auditOf(folder)).toMatchObject({ wrong: 4, first: { id: idOf(1) } })
    const other = await rightBook()
    breakBook(other, `UPDATE transfers SET credit = 99 ${transfer(1, 'credit')}`)
    // That transfer, whatever is wrong with it, and the balance of revenue.
    expect(await auditOf(other)).toMatchObject({ wrong: 2, first: { id: `${idOf(1)} credit` } })
  })
})

describe('a book of many pages', () => {
  const MANY = 2_345

  test('is walked to its end', async () => {
    const folder = await rightBook()
    const store = new SqliteStore({ folder, exclusive: false })
    await store.ledger.post(
      topUp({ reference: 'op_many', at: START, accountId: 'acc_a', amount: 1_000_000_000_000n, bonus: false }),
    )
    await Promise.all(
      Array.from({ length: MANY }, (_, index) => store.ledger.closeGeneration(closing(100 + index, { cost: 1n }))),
    )
    await store.close()
    expect(await auditOf(folder)).toMatchObject({ generations: 6 + MANY, transfers: 10 + 2 * MANY, wrong: 0 })
    breakBook(folder, `UPDATE transfers SET amount = amount + 1 ${transfer(100 + MANY - 1, 'credit')}`)
    // The generation, and the balances of credit and revenue.
    expect(await auditOf(folder)).toMatchObject({ wrong: 3, first: { table: 'generations', id: idOf(100 + MANY - 1) } })
  }, 20_000)

  test('is read in one state while a server writes on', async () => {
    const folder = await rightBook()
    const [reader, writer] = [
      new SqliteStore({ folder, exclusive: false }),
      new SqliteStore({ folder, exclusive: false }),
    ]
    let number = 1_000
    const generations = reader.ledger.generations.bind(reader.ledger)
    reader.ledger.generations = async (after, limit) => {
      await writer.ledger.closeGeneration(
        closing(number++, { payment: { bonus: 0n, credit: 0n, writtenOff: 4_250_000n } }),
      )
      return generations(after, limit)
    }
    const seen = await audit(reader, { overdraft: 0n, usdPerFlow: USD_PER_FLOW })
    await reader.close()
    await writer.close()
    expect([number, seen.generations, seen.first]).toEqual([1_001, 6, undefined])
    expect(await auditOf(folder)).toMatchObject({ generations: 7, wrong: 0 })
  })
})

describe('sluice ledger audit', () => {
  const run = (...args: string[]): { code: number; out: string; err: string } => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(
      [process.execPath, join(import.meta.dir, '../../src/main.ts'), 'ledger', 'audit', ...args],
      { cwd: scratch, env: { PATH: process.env.PATH ?? '' } },
    )
    return { code: exitCode, out: stdout.toString(), err: stderr.toString() }
  }

  test('says that the book is right, in words and in JSON', async () => {
    const folder = await rightBook()
    expect(run('--data', folder)).toEqual({
      code: 0,
      out: 'read 6 generations, 9 transfers, 9 balances, 3 quota windows, 2 key limits\nthe ledger is consistent\n',
      err: '',
    })
    const { code, out } = run('--json', '--data', folder)
    expect([code, JSON.parse(out)]).toEqual([
      0,
      {
        right: true,
        rows: { generations: 6, transfers: 9, balances: 9, windows: 3, spends: 2 },
        wrong: 0,
        first: null,
      },
    ])
  }, 20_000)

  test('names the row that is wrong and ends with 1', async () => {
    const folder = await rightBook()
    breakBook(folder, `UPDATE book_accounts SET balance = balance + 1 WHERE kind = 'revenue'`)
    const { code, err } = run('--data', folder)
    expect([code, err]).toEqual([
      1,
      'sluice: the ledger is inconsistent: balances revenue must have 12325000 nano-USD, which its transfers add up to, ' +
        'but has 12325001 nano-USD; 1 more row is wrong\n',
    ])
    const json = run('--json', '--data', folder)
    expect([json.code, (JSON.parse(json.out) as { right: boolean; first: object }).first]).toMatchObject([
      1,
      { table: 'balances', id: 'revenue', found: '12325001 nano-USD' },
    ])
    expect(run('--data', join(scratch, 'nowhere'))).toMatchObject({
      code: 1,
      err: `sluice: the data folder ${join(scratch, 'nowhere')} does not exist\n`,
    })
  }, 20_000)
})

test('a gateway of these tests does not end well with a wrong book', async () => {
  const gateway = await startGateway()
  breakBook(gateway.data, `UPDATE book_accounts SET balance = balance + 1 WHERE kind = 'outside'`)
  expect(
    await gateway.stop().then(
      () => 'right',
      (error: Error) => error.message,
    ),
  ).toContain('which its transfers add up to')
}, 20_000)

test('the windows and the limit of a running gateway count from the very first generation on', async () => {
  const key = 'sk-ss-v1-of-one-subscription-0123456789abcdef'
  const gateway = await startGateway({
    config: `models: { tokens: { endpoints: [{ provider: sandbox, model: chat }], price: { completion: 100 } } }\nkeys: [{ key: ${key}, kind: subscription }]\nbilling: { unpriced: refuse }\n`,
  })
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: 'tokens',
      max_tokens: 50,
      messages: [{ role: 'user', content: '[[usage: in=1 out=9]]' }],
    }),
  })
  expect(response.status).toBe(200)
  await response.text()
  expect((await auditOf(gateway.data)).first).toBeUndefined()
  breakBook(gateway.data, 'UPDATE quota_windows SET used = used - 1')
  expect((await auditOf(gateway.data)).wrong).toBe(3)
  expect(
    await gateway.stop().then(
      () => 'right',
      (error: Error) => error.message,
    ),
  ).toContain('which its generations add up to')
}, 20_000)
