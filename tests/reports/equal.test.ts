import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  BookRow,
  Closing,
  Operation,
  Store,
  Transfer,
  TransferPosition,
  TransferRow,
} from '../../src/store/store.ts'
import { OUTSIDE, REVENUE, withAccounts } from '../store/records.ts'
import { ACCOUNTS, Chance, MODELS, PROVIDERS, randomGeneration, randomRefusal } from './records.ts'
import { openStoreOf, STORES } from './stores.ts'

/** The same data in both stores: what SQLite answers, PostgreSQL answers, too. */

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** Over the beginning of a month, where partitions end. */
const [FROM, TO] = [Date.UTC(2026, 9, 30), Date.UTC(2026, 10, 3)]
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const chance = new Chance(seed)

/** Texts that databases could change or refuse. */
const ODD = ['\0', '\u001b0', '\ud83d\ude00', '"\\u0000"', "' OR 1=1 --", 'é', 'É', 'a\nb', 'z'.repeat(300)]

const folder = mkdtempSync(join(tmpdir(), 'sluice-equal-'))
let stores: Store[]

beforeAll(async () => {
  stores = await Promise.all(STORES.map((name, index) => openStoreOf(name, join(folder, `${index}`))))
  const [closings, operations] = [Array.from({ length: 700 }, randomClosing), randomOperations()]
  const refusals = Array.from({ length: 150 }, (_, number) => ({
    ...randomRefusal(chance, randomTime(), 10_000 + number),
    ...(chance.is(0.2) ? { message: chance.of(ODD), param: chance.of(ODD), client: chance.of(ODD) } : {}),
  }))
  for (const store of stores) {
    await withAccounts(store)
    for (const operation of operations) await store.ledger.post(operation)
    for (const refusal of refusals) store.reports.addRefusal(refusal, Number.parseInt(refusal.id.slice(-1), 16) < 12)
    await Promise.all(closings.map((closing) => store.ledger.closeGeneration(closing)))
  }
}, 60_000)
afterAll(async () => {
  for (const store of stores) await store.close()
  rmSync(folder, { recursive: true })
})

const randomTime = (): number => FROM + chance.below(TO - FROM)

function randomClosing(_: unknown, number: number): Closing {
  const random = randomGeneration(chance, randomTime(), number)
  const odd = chance.is(0.1)
  const attempts = [{ provider: chance.of(PROVIDERS), error: 'upstream_error', message: chance.of(ODD) }]
  const record = {
    ...random,
    ...(odd ? { model: chance.of(ODD), client: chance.of(ODD), attempts: JSON.stringify(attempts) } : {}),
    price: chance.is(0.5) ? { version: 'v', model: chance.of(MODELS), rates: chance.of(ODD) } : null,
  }
  const owner = record.accountId
  const transfers: Transfer[] = []
  for (const kind of ['bonus', 'credit'] as const)
    if (chance.is(0.6))
      transfers.push({ kind, debit: { kind, owner }, credit: REVENUE, amount: BigInt(1 + chance.below(1e9)) })
  return { record, transfers, windows: [], spend: undefined, wasOpen: false }
}

const randomOperations = (): Operation[] =>
  Array.from({ length: 120 }, (_, number) => ({
    reference: `${chance.of(ODD)} ${number}`,
    at: randomTime(),
    note: chance.is(0.5) ? chance.of(ODD) : null,
    transfers: (['top-up', 'grant'] as const)
      .filter((kind) => kind === 'top-up' || chance.is(0.4))
      .map((kind) => ({
        kind,
        debit: OUTSIDE,
        credit: { kind: kind === 'top-up' ? 'credit' : 'bonus', owner: chance.of(ACCOUNTS) } as const,
        amount: BigInt(1 + chance.below(1e12)),
      })),
  }))

/** The answer of each store, as text: SQLite's first. */
const answers = async (ask: (store: Store) => Promise<unknown>): Promise<unknown[]> =>
  Promise.all(stores.map(async (store) => inText(await ask(store))))

const inText = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}n` : part), 1)

const some = <T>(values: readonly T[]): T[] => values.filter(() => chance.is(0.5))

test('a list and the detail of each request are equal', async () => {
  const filter = { choices: {}, flags: {}, seesListPrices: true }
  const all: string[] = []
  for (let before: string | undefined; ; ) {
    const [first, second] = await Promise.all(stores.map((store) => store.reports.requests(filter, before, 100)))
    expect({ seed, page: second }).toEqual({ seed, page: first! })
    all.push(...first!.rows.map(({ id }) => id))
    if (first!.next === null) break
    before = first!.next
  }
  for (const id of some(all)) {
    const [first, second] = await answers((store) => store.reports.request(id, {}))
    expect({ seed, detail: second }).toEqual({ seed, detail: first })
  }
}, 60_000)

test('all pages of transfers have each transfer once, whatever is asked', async () => {
  for (let round = 0; round < 15; round++) {
    // The first asks for all.
    const maybe = <T>(share: number, value: () => T): T | undefined =>
      round > 0 && chance.is(share) ? value() : undefined
    const question = {
      accountIds: maybe(0.5, () => some(ACCOUNTS)),
      kinds: maybe(0.4, () => some(['credit', 'bonus', 'top-up', 'grant'])),
      from: maybe(0.3, randomTime),
      to: maybe(0.3, randomTime),
    }
    const limit = 3 + chance.below(60)
    const [first, second] = await answers((store) => allTransfers(store, question, limit))
    expect({ seed, round, question, found: second }).toEqual({ seed, round, question, found: first })
  }
}, 60_000)

async function allTransfers(
  store: Store,
  question: Parameters<Store['reports']['transfers']>[0],
  limit: number,
): Promise<TransferRow[]> {
  const rows: TransferRow[] = []
  for (let before: TransferPosition | undefined; ; ) {
    const page = await store.reports.transfers(question, before, limit)
    rows.push(...page.rows)
    if (page.next === null) break
    before = page.next
  }
  const keys = new Set(rows.map(({ reference, kind }) => `${reference} ${kind}`))
  expect(keys.size).toBe(rows.length)
  const isWhole = Object.values(question).every((value) => value === undefined)
  if (isWhole) expect(rows.length).toBe((await store.ledger.transfers(undefined, 10_000)).length)
  return rows
}

test('usage, speeds and the health of providers are equal', async () => {
  for (let round = 0; round < 25; round++) {
    const start = randomTime()
    const step = chance.of([DAY_MS, HOUR_MS, 1_234_567])
    const bounds = Array.from({ length: 2 + chance.below(40) }, (_, at) => start + at * step)
    const choices = chance.is(0.5) ? { model: { only: [...some(MODELS), '\0'] } } : {}
    const groups = some(['model', 'key', 'account', 'provider', 'outcome', 'code'] as const).slice(0, 2)
    const [provider, span] = [chance.of(PROVIDERS), chance.below(10) * HOUR_MS]
    const asked = { seed, round, bounds, choices, groups, provider }
    for (const ask of [
      async ({ reports }: Store) => sorted(await reports.usage({ bounds, groups, choices })),
      async ({ reports }: Store) => sorted(await reports.speed({ bounds, choices })),
      ({ reports }: Store) => reports.health(provider, start, start + span),
    ]) {
      const [first, second] = await answers(ask)
      expect({ ...asked, found: second }).toEqual({ ...asked, found: first })
    }
  }
}, 60_000)

/** Groups have no order, and accounts of the book may be opened in another one. */
const sorted = (rows: readonly object[]): string[] => rows.map(inText).sort()

test('both stores list the same jobs and files', async () => {
  const ids = Array.from({ length: 40 }, () => randomGeneration(chance, randomTime(), 50_000 + chance.below(1e6)))
  const predictions = ids.map(({ id, accountId, model, createdAt, keyId }, number) => ({
    prediction: {
      ...{ id, accountId, model, createdAt, status: 'starting' as const, startedAt: null, completedAt: null },
      ...{ state: JSON.stringify({ logs: chance.of(ODD).repeat(chance.of([1, 200])) }), input: chance.of(ODD) },
    },
    end: { status: 'succeeded' as const, startedAt: createdAt + 1, completedAt: createdAt + chance.below(9_000) },
    delivery: chance.is(0.5) ? [{ url: 'https://a.example/', body: '{}', attempts: 2, nextAt: 5 + number }] : [],
    isEnded: chance.is(0.6),
    keyId,
  }))
  const files = Array.from({ length: 40 }, (_, number) => ({
    ...{ id: `file-${chance.below(1e6)}-${number}`, accountId: chance.of(ACCOUNTS), blob: `b${number}` },
    ...{ filename: chance.of(ODD), purpose: chance.is(0.5) ? 'batch' : null, bytes: number, mediaType: 'a/b' },
    ...{ sha256: 'x', metadata: null, createdAt: chance.below(20), expiresAt: chance.is(0.5) ? 50 : null },
  }))
  const responses = Array.from({ length: 20 }, (_, number) => ({
    id: randomGeneration(chance, randomTime(), 90_000 + number).id,
    accountId: chance.of(ACCOUNTS),
    work: chance.is(0.7) ? { provider: 'p', id: `${number}` } : undefined,
    isEnded: chance.is(0.5),
  }))
  for (const store of stores) {
    for (const { id, accountId, work, isEnded } of responses) {
      const saved = { id: `resp_${id}`, head: JSON.stringify({ text: chance.of(ODD) }), output: [], inputItems: [] }
      await store.responses.save(accountId, { ...saved, expiresAt: 50, upstream: work })
      if (isEnded) await store.responses.finish(accountId, saved.id, {})
    }
    for (const { prediction, end, delivery, isEnded } of predictions) {
      const { id, accountId } = prediction
      await store.predictions.add(prediction)
      const calls = delivery.map((one) => ({ ...one, id: `w${id}`, accountId, predictionId: id }))
      if (isEnded) await store.predictions.update({ ...prediction, ...end }, calls)
    }
    for (const file of files) await store.files.add(file, { files: 1e6, bytes: 1e9 })
    const records = ids.filter((_, index) => index % 2 === 0)
    for (const record of records)
      await store.ledger.closeGeneration({ record, transfers: [], windows: [], spend: undefined, wasOpen: false })
  }
  for (let round = 0; round < 20; round++) {
    const scope = chance.is(0.5) ? {} : { accountIds: some(ACCOUNTS), keyIds: some(ids.map(({ keyId }) => keyId)) }
    const [before, limit, now] = [
      chance.is(0.5) ? chance.of(ids).id : undefined,
      1 + chance.below(30),
      chance.of([1, 60]),
    ]
    const position = chance.is(0.5) ? chance.of(files) : undefined
    const isOpen = chance.of([undefined, true, false])
    const jobs = { ...scope, ownAccountIds: some(ACCOUNTS), openIds: some(ids.map(({ id }) => id)), isOpen, now }
    for (const ask of [
      ({ reports }: Store) => reports.jobs(jobs, before, limit),
      ({ reports }: Store) => reports.files(scope.accountIds, now, position, limit),
    ]) {
      const [first, second] = await answers(ask)
      expect({ seed, round, scope, found: second }).toEqual({ seed, round, scope, found: first })
    }
  }
}, 60_000)

test('both stores list the same balances', async () => {
  for (const accountIds of [undefined, ['a'], []]) {
    const [first, second] = await answers(async (store) => {
      const rows: BookRow[] = []
      for (let page = rows; ; rows.push(...page)) {
        page = await store.reports.balances(accountIds, rows.at(-1)?.id ?? 0, 2)
        if (page.length === 0) return sorted(rows.map(({ id: _, ...row }) => row))
      }
    })
    expect({ seed, found: second }).toEqual({ seed, found: first })
  }
})
