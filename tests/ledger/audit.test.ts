import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { noUsage } from '../../src/generation/usage.ts'
import { audit } from '../../src/ledger/audit.ts'
import { topUp } from '../../src/ledger/book.ts'
import { encodeRates, type Price } from '../../src/ledger/prices.ts'
import { USD_PER_FLOW } from '../audit.ts'
import { program } from '../program.ts'
import { startGateway } from '../server.ts'
import {
  addToBalance,
  auditFor,
  auditOf,
  breakBook,
  closing,
  HOUR,
  idOf,
  insertBalance,
  newFolder,
  correctBook,
  START,
  whereGeneration,
  whereTransfer,
  useScratch,
  windows,
} from './audit-book.ts'
import { ofSqlite, ON_POSTGRES, storeIn, withStoreText } from '../stores.ts'
import { accountOf } from '../store/account.ts'

setDefaultTimeout(60_000)

const scratch = useScratch()

describe('audit', () => {
  test('a correct book passes the audit, which counts the rows it read', async () => {
    expect(await auditOf(await correctBook())).toEqual({
      generations: 6,
      transfers: 9,
      balances: 9,
      windows: 3,
      spends: 2,
      wrong: 0,
      first: undefined,
    })
  })

  test('the audit finds credit below the overdraft and bonus below 0', async () => {
    const folder = newFolder()
    const store = await storeIn(folder)
    await store.accounts.add(accountOf('acc_a', { createdAt: START }))
    await store.ledger.closeGeneration(closing(1))
    await store.close()
    expect((await auditOf(folder, 4_250_000n)).first).toBeUndefined()
    expect((await auditOf(folder, 4_249_999n)).first).toEqual({
      table: 'balances',
      id: 'credit acc_a',
      expected: 'a credit of -4249999 nano-USD or more',
      found: '-4250000 nano-USD',
    })
    const again = await storeIn(folder)
    await again.ledger.closeGeneration(closing(2, { payment: { bonus: 4_250_000n, credit: 0n, writtenOff: 0n } }))
    await again.close()
    expect((await auditOf(folder, 4_250_000n)).first).toEqual({
      table: 'balances',
      id: 'bonus acc_a',
      expected: 'a bonus of 0 nano-USD or more',
      found: '-4250000 nano-USD',
    })
  })

  test('the audit accepts generations for which hold, flows or window cannot be determined', async () => {
    const folder = newFolder()
    const store = await storeIn(folder)
    await store.accounts.add(accountOf('acc_a', { createdAt: START }))
    const rates: Price['rates'] = {
      prompt: { base: 0n, tiers: [{ over: 128_000, rate: 1_250_000_000n }] },
      web_search: { base: 10n, tiers: [] },
    }
    const price = { version: 'v1', model: 'acme/m', rates: encodeRates(rates) }
    // Searches beyond the hold, at a price that amounts to no flows, and to nothing for a short prompt.
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
    // The clock went back, so it counts in a window that began later.
    await store.ledger.closeGeneration({
      ...closing(2, { kind: 'subscription', createdAt: START - HOUR }),
      windows: windows(129_455n),
    })
    // Requested in a window that had ended at settlement, and in the current ones.
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

  test('the audit expects flows by the price of a flow', async () => {
    const folder = newFolder()
    const store = await storeIn(folder)
    await store.accounts.add(accountOf('acc_a', { createdAt: START }))
    await store.ledger.closeGeneration({ ...closing(1, { kind: 'subscription', flows: 0n }), windows: windows(0n) })
    expect((await auditFor(store)).first?.expected).toBe('flows for a list price of 4250000 nano-USD')
    expect((await audit(store, { overdraft: 0n, usdPerFlow: 8_500_000_000_000n })).first).toBeUndefined()
    await store.close()
  })

  test('the audit lets a balance fall below 0 by what was withdrawn and spent before the server knew', async () => {
    const folder = newFolder()
    const store = await storeIn(folder)
    await store.accounts.add(accountOf('acc_a', { createdAt: START }))
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

  test('the audit finds balances whose sum is not 0', async () => {
    const folder = await correctBook()
    await breakBook(folder, insertBalance('payable', 'unknown', 3))
    const { first, wrong } = await auditOf(folder)
    expect([first?.id, wrong]).toEqual(['payable unknown', 2])
  })

  test('the audit counts every wrong row once', async () => {
    const folder = await correctBook()
    await breakBook(folder, `UPDATE generations SET retries = -1, held = -1, latency = -1 ${whereGeneration(4, '<=')}`)
    expect(await auditOf(folder)).toMatchObject({ wrong: 4, first: { id: idOf(1) } })
    const other = await correctBook()
    await breakBook(other, `UPDATE transfers SET credit = 99 ${whereTransfer(1, 'credit')}`)
    // Wrong are the transfer and the balance of revenue.
    expect(await auditOf(other)).toMatchObject({ wrong: 2, first: { id: `${idOf(1)} credit` } })
  })
})

describe('audit of a large book', () => {
  const MANY = 2_345

  test('the audit reads all pages of a book', async () => {
    const folder = await correctBook()
    const store = await storeIn(folder)
    await store.ledger.post(
      topUp({ reference: 'op_many', at: START, accountId: 'acc_a', amount: 1_000_000_000_000n, bonus: false }),
    )
    await Promise.all(
      Array.from({ length: MANY }, (_, index) => store.ledger.closeGeneration(closing(100 + index, { cost: 1n }))),
    )
    await store.close()
    expect(await auditOf(folder)).toMatchObject({ generations: 6 + MANY, transfers: 10 + 2 * MANY, wrong: 0 })
    await breakBook(folder, `UPDATE transfers SET amount = amount + 1 ${whereTransfer(100 + MANY - 1, 'credit')}`)
    // Wrong are the generation and the balances of credit and revenue.
    expect(await auditOf(folder)).toMatchObject({ wrong: 3, first: { table: 'generations', id: idOf(100 + MANY - 1) } })
  }, 20_000)

  test('the audit reads one snapshot while a server writes', async () => {
    const folder = await correctBook()
    const [reader, writer] = [await storeIn(folder), await storeIn(folder)]
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
  const run = async (folder: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> => {
    const config = join(scratch, 'sluice.yaml')
    writeFileSync(config, await withStoreText('{}\n', folder))
    const { exitCode, stdout, stderr } = Bun.spawnSync([program(), 'ledger', 'audit', '--data', folder, ...args], {
      cwd: scratch,
      env: { PATH: process.env.PATH ?? '' },
    })
    return { code: exitCode, out: stdout.toString(), err: stderr.toString() }
  }

  test('the command reports a correct book as text and as JSON', async () => {
    const folder = await correctBook()
    expect(await run(folder)).toEqual({
      code: 0,
      out: 'read 6 generations, 9 transfers, 9 balances, 3 quota windows, 2 key limits\nthe ledger is consistent\n',
      err: '',
    })
    const { code, out } = await run(folder, '--json')
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

  test('the command reports the first wrong row and exits with 1', async () => {
    const folder = await correctBook()
    await breakBook(folder, addToBalance('revenue'))
    const { code, err } = await run(folder)
    expect([code, err]).toEqual([
      1,
      'sluice: the ledger is inconsistent: balances revenue must have 12325000 nano-USD, ' +
        'which its transfers add up to, but has 12325001 nano-USD; 1 more row is wrong\n',
    ])
    const json = await run(folder, '--json')
    expect([json.code, (JSON.parse(json.out) as { right: boolean; first: object }).first]).toMatchObject([
      1,
      { table: 'balances', id: 'revenue', found: '12325001 nano-USD' },
    ])
  }, 20_000)

  ofSqlite('folder')(
    'the command does not make a folder that does not exist',
    async () => {
      const folder = join(scratch, 'nowhere')
      expect(await run(folder)).toMatchObject({ code: 1, err: `sluice: the data folder ${folder} does not exist\n` })
    },
    20_000,
  )

  test('the command reports a wrong total of what is kept', async () => {
    const folder = await correctBook()
    await breakBook(
      folder,
      ON_POSTGRES
        ? `INSERT INTO kept (account_id, kind, shard, things, bytes) VALUES ('', 'responses', 0, 0, 5)`
        : `UPDATE kept SET bytes = bytes + 5 WHERE account_id = '' AND kind = 'responses'`,
    )
    const { code, err } = await run(folder)
    expect([code, err]).toEqual([
      1,
      'sluice: the total of responses of all accounts must be 0 with 0 bytes, but is 0 with 5 bytes\n',
    ])
  }, 20_000)
})

test('stopping a test gateway fails where its book is wrong', async () => {
  const gateway = await startGateway()
  await breakBook(gateway.data, addToBalance('outside'))
  expect(
    await gateway.stop().then(
      () => 'right',
      (error: Error) => error.message,
    ),
  ).toContain('which its transfers add up to')
}, 20_000)

test('quota windows of a running gateway count its first generation', async () => {
  const key = 'sk-ss-v1-of-one-subscription-0123456789abcdef'
  const gateway = await startGateway({
    config: `
models: { tokens: { endpoints: [{ provider: sandbox, model: chat }], price: { completion: 100 } } }
keys: [{ key: ${key}, kind: subscription }]
billing: { unpriced: refuse }
`,
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
  await breakBook(gateway.data, 'UPDATE quota_windows SET used = used - 1')
  // A window that begins with its lease begins after the request, so that the audit does not know that it counts.
  expect((await auditOf(gateway.data)).wrong).toBe(ON_POSTGRES ? 1 : 3)
  expect(
    await gateway.stop().then(
      () => 'right',
      (error: Error) => error.message,
    ),
  ).toContain('which its generations add up to')
}, 20_000)
