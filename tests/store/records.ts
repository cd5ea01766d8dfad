import { expect } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type {
  BookAccount,
  Closing,
  GenerationRecord,
  LedgerState,
  Operation,
  PostedTransfer,
  Store,
} from '../../src/store/store.ts'
import { accountOf } from './account.ts'

export const credit = (owner: string): BookAccount => ({ kind: 'credit', owner })
export const REVENUE: BookAccount = { kind: 'revenue', owner: '' }
export const OUTSIDE: BookAccount = { kind: 'outside', owner: '' }

export const idOf = (number: number): string => `019aa00000007000${number.toString(16).padStart(16, '0')}`

export const record = (number: number, over: Partial<GenerationRecord> = {}): GenerationRecord => ({
  id: idOf(number),
  accountId: 'a',
  keyId: 'k',
  kind: 'pay-as-you-go',
  api: 'messages',
  model: 'maker/model',
  provider: 'somewhere',
  client: null,
  createdAt: 1_700_000_000_000 + number,
  latency: 20,
  duration: 300,
  streamed: true,
  finish: 'stop',
  ending: 'completed',
  retries: 0,
  attempts: null,
  translation: null,
  estimated: false,
  estimation: null,
  disputed: null,
  usage: noUsage(),
  price: null,
  discount: 0,
  held: 0n,
  bill: 0n,
  flows: 0n,
  ...over,
})

/** A generation that account `a` paid for. */
export const closing = (number: number, amount: bigint, over: Partial<Closing> = {}): Closing => ({
  record: record(number, { bill: amount }),
  transfers: amount === 0n ? [] : [{ kind: 'credit', debit: credit('a'), credit: REVENUE, amount }],
  windows: [],
  spend: undefined,
  wasOpen: false,
  ...over,
})

export const topUp = (reference: string, amount: bigint, owner = 'a'): Operation => ({
  reference,
  at: 5,
  note: null,
  transfers: [{ kind: 'top-up', debit: OUTSIDE, credit: credit(owner), amount }],
})

export const balanceOf = ({ balances }: LedgerState, { kind, owner }: BookAccount): bigint =>
  balances.find((one) => one.kind === kind && one.owner === owner)?.balance ?? 0n

/** Every row of a paged listing, whose pages must not be longer than requested. */
async function all<Row>(page: (after: Row | undefined, limit: number) => Promise<Row[]>, limit = 3): Promise<Row[]> {
  const rows: Row[] = []
  for (;;) {
    const more = await page(rows.at(-1), limit)
    expect(more.length).toBeLessThanOrEqual(limit)
    if (more.length === 0) return rows
    rows.push(...more)
  }
}
export const allGenerations = (store: Store, limit?: number): Promise<GenerationRecord[]> =>
  all((after, size) => store.ledger.generations(after?.id, size), limit)
export const allTransfers = (store: Store, limit?: number): Promise<PostedTransfer[]> =>
  all((after, size) => store.ledger.transfers(after, size), limit)

/** Every balance is what its transfers add up to, and all of them are 0 together. */
export async function expectBalanced(store: Store): Promise<void> {
  const sums = new Map<string, bigint>()
  const add = ({ kind, owner }: BookAccount, amount: bigint): void =>
    void sums.set(`${kind} ${owner}`, (sums.get(`${kind} ${owner}`) ?? 0n) + amount)
  for (const transfer of await allTransfers(store, 1000)) {
    add(transfer.debit, -transfer.amount)
    add(transfer.credit, transfer.amount)
  }
  const { balances } = await store.ledger.state()
  expect(balances.reduce((sum, { balance }) => sum + balance, 0n)).toBe(0n)
  expect(balances.filter(({ kind, owner, balance }) => balance !== (sums.get(`${kind} ${owner}`) ?? 0n))).toEqual([])
  expect(balances.length).toBeGreaterThanOrEqual(sums.size)
}

/** The error that a promise rejects with, or undefined. */
export const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** A store with the accounts `a` and `b`. */
export async function withAccounts(opened: Store | Promise<Store>): Promise<Store> {
  const store = await opened
  for (const id of ['a', 'b']) await store.accounts.add(accountOf(id))
  return store
}
