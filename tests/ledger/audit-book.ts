import { afterAll, expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noUsage, type Usage } from '../../src/generation/usage.ts'
import { audit, type Audit } from '../../src/ledger/audit.ts'
import { chargesOf, topUp, type Payment } from '../../src/ledger/book.ts'
import { encodeRates, type Price } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import type { Store } from '../../src/store/store.ts'
import type { Closing, GenerationRecord, QuotaWindow, StoredKey } from '../../src/store/store.ts'
import { USD_PER_FLOW } from '../audit.ts'
import { changesIn, copyStore, ON_POSTGRES, storeIn } from '../stores.ts'
import { accountOf, keyOf } from '../store/account.ts'

/** Books for the tests of the audit: correct ones, and what breaks them. */

let scratch = ''
let folders = 0

/** A folder for the books of one test file, removed after it. */
export function useScratch(): string {
  scratch = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
  const folder = scratch
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
    made = undefined
  })
  return folder
}

export const newFolder = (): string => join(scratch, `data-${folders++}`)

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
export const START = 1_780_000_000_000

export const idOf = (number: number): string => number.toString(16).padStart(32, '0')

type Extra = Partial<GenerationRecord> & { cost?: bigint; payment?: Payment }

/** A settlement as the ledger writes it; its id is made from `number`. */
export function closing(number: number, { cost, payment, ...extra }: Extra = {}): Closing {
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
    client: null,
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
    estimation: null,
    disputed: null,
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

export const HOUR = 3_600_000
export const windows = (used: bigint, startedAt = START): QuotaWindow[] =>
  (
    [
      ['5_hour', 5],
      ['7_day', 168],
      ['monthly', 720],
    ] as const
  ).map(([window, hours]) => ({ accountId: 'acc_a', window, startedAt, endsAt: startedAt + hours * HOUR, used }))

export const key = (id: string, number: number): StoredKey =>
  keyOf(id, 'acc_a', number, { kind: 'subscription', createdAt: START, limit: 1n, limitPeriod: 'day' })

let made: Promise<string> | undefined

/** A copy of a correct book, in a new folder. */
export async function correctBook(): Promise<string> {
  const folder = newFolder()
  await copyStore(await (made ??= makeBook()), folder)
  return folder
}

/**
 * Generation 1: paid by bonus and credit, with a configured key that got its limit later; 2: by credit, with a cost and
 * that key; 3: by subscription, with a stored key that has a limit; 4: partly written off; 5: failed and not charged;
 * 6: without a price.
 */
export async function makeBook(
  folder: string = newFolder(),
  open: (folder: string) => Promise<Store> = storeIn,
): Promise<string> {
  const store = await open(folder)
  for (const id of ['acc_a', 'acc_b']) await store.accounts.add(accountOf(id, { createdAt: START }))
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

export const auditFor = (store: Store, overdraft = 0n): Promise<Audit> =>
  audit(store, { overdraft, usdPerFlow: USD_PER_FLOW })

export async function auditOf(folder: string, overdraft = 0n): Promise<Audit> {
  const store = await storeIn(folder)
  try {
    return await auditFor(store, overdraft)
  } finally {
    await store.close()
  }
}

/** Changes rows in a way that Sluice never does, without the checks of the tables. */
export async function breakBook(folder: string, sql: string): Promise<void> {
  const checks = ON_POSTGRES ? WITHOUT_CHECKS : 'PRAGMA ignore_check_constraints = ON'
  expect(await changesIn(folder, sql, checks)).toBeGreaterThan(0)
}

/** Triggers of foreign keys and of changes do not run, and constraints are dropped. */
const WITHOUT_CHECKS = `
  SET session_replication_role = replica;
  DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT conrelid::regclass AS name, conname FROM pg_constraint
      WHERE contype = 'c' AND coninhcount = 0 AND connamespace = 'public'::regnamespace
    LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.name, one.conname); END LOOP;
  END $$`

const idLiteral = (number: number): string => (ON_POSTGRES ? `'${idOf(number)}'` : `x'${idOf(number)}'`)
/** The column of transfers with the id of their generation. */
const REFERENCE = ON_POSTGRES ? 'id' : 'reference'

export const whereGeneration = (number: number, comparison = '='): string =>
  `WHERE id ${comparison} ${idLiteral(number)}`
export const whereTransfer = (number: number, kind: string): string =>
  `WHERE ${REFERENCE} = ${idLiteral(number)} AND kind = '${kind}'`
export const bookAccountId = (kind: string): string =>
  `(SELECT id FROM book_accounts WHERE kind = '${kind}' ORDER BY owner LIMIT 1)`
export const insertTransfer = (number: number, kind: string, debit: string, credit: string): string =>
  `INSERT INTO transfers (${REFERENCE}, kind, debit, credit, amount, at)
   VALUES (${idLiteral(number)}, '${kind}', ${bookAccountId(debit)}, ${bookAccountId(credit)}, 5, 1)`
/** A text as records have it. */
export const textValue = (text: string): string =>
  ON_POSTGRES ? `'${text}'` : `(SELECT id FROM names WHERE text = '${text}')`
export const addToBalance = (kind: string): string =>
  ON_POSTGRES
    ? `UPDATE book_balances SET balance = balance + 1 WHERE account = ${bookAccountId(kind)}`
    : `UPDATE book_accounts SET balance = balance + 1 WHERE kind = '${kind}'`
export const insertBalance = (kind: string, owner: string, balance: number): string =>
  ON_POSTGRES
    ? `WITH opened AS (INSERT INTO book_accounts (kind, owner) VALUES ('${kind}', '${owner}') RETURNING id)
       INSERT INTO book_balances (account, shard, balance) SELECT id, 0, ${balance} FROM opened`
    : `INSERT INTO book_accounts (kind, owner, balance) VALUES ('${kind}', '${owner}', ${balance})`
