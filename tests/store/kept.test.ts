import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { itemText, writtenResponse } from '../../src/store/responses.ts'
import { KEPT_KINDS, type KeptKind } from '../../src/store/kept.ts'
import type { PredictionChange, Store } from '../../src/store/store.ts'
import { runs } from '../runs.ts'
import { ofSqlite, storeIn } from '../stores.ts'
import { accountOf } from './account.ts'

const ACCOUNTS = ['a', 'b'] as const

async function withStore(use: (folder: string, open: () => Promise<Store>) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kept-'))
  const stores: Store[] = []
  try {
    await use(folder, async () => {
      await stores.pop()?.close()
      const store = await storeIn(folder, { now: () => 0 })
      stores.push(store)
      for (const id of ACCOUNTS) await store.accounts.add(accountOf(id))
      return store
    })
  } finally {
    await stores.pop()?.close()
    rmSync(folder, { recursive: true })
  }
}

const prediction = (accountId: string, id: string): PredictionChange & { input: string } => ({
  id,
  accountId,
  model: 'm',
  status: 'starting',
  createdAt: 1,
  startedAt: null,
  completedAt: null,
  state: '{}',
  input: '',
})

/** Writes one thing under a number, again and again in place of the one before where the kind allows that. */
const ADD: Record<KeptKind, (store: Store, accountId: string, number: number, text: string) => Promise<unknown>> = {
  responses: (store, accountId, number, text) =>
    store.responses.save(accountId, {
      ...writtenResponse({ id: `r${number}`, text, output: [{ id: 'o', text }, text] })!,
      inputItems: [itemText({ id: 'i', text })],
      expiresAt: number + 1,
      ...(number % 2 === 0 ? { upstream: { provider: 'p', id: 'u' } } : {}),
    }),
  predictions: (store, accountId, number, text) =>
    store.predictions.add({ ...prediction(accountId, `${accountId}${number}`), input: text }).catch(() => {}),
  files: (store, accountId, number, text) =>
    store.files
      .add(
        {
          id: `f${number}`,
          accountId,
          blob: `f${number}`,
          filename: '',
          purpose: null,
          bytes: text.length,
          mediaType: '',
          sha256: '',
          metadata: null,
          createdAt: 1,
          expiresAt: number + 1,
        },
        { files: 5, bytes: 100 },
      )
      .catch(() => {}),
  outputs: (store, accountId, number, text) =>
    store.files
      .addOutput({
        token: `t${number}`,
        accountId,
        blob: `t${number}`,
        mediaType: '',
        bytes: text.length,
        expiresAt: number + 1,
      })
      .catch(() => {}),
  idempotent_answers: (store, accountId, number, text) =>
    store.idempotency.save(
      {
        accountId,
        key: new Uint8Array(32).fill(number),
        digest: new Uint8Array(32),
        createdAt: number,
        expiresAt: number + 1,
        status: 200,
        headers: '{}',
        body: Buffer.from(text),
      },
      { accountBytes: 60, totalBytes: 100 },
    ),
  reasoning: (store, accountId, number, text) =>
    store.reasoning.save(
      {
        accountId,
        key: `k${number}`,
        provider: 'p',
        model: 'm',
        expiresAt: number + 1,
        sealed: Buffer.from(text),
      },
      number % 3 === 0 ? 10 : 0,
    ),
}

const CHANGES: ((store: Store, accountId: string, number: number, text: string) => Promise<unknown>)[] = [
  (store, accountId, number, text) =>
    store.responses.finish(accountId, `r${number}`, { id: `r${number}`, output: [{ id: 'late', text }] }),
  (store, accountId, number) => store.responses.delete(accountId, `r${number}`),
  (store, _accountId, number) => store.responses.purge(number),
  (store, accountId, number, text) => {
    const change = { ...prediction(accountId, `${accountId}${number}`), state: JSON.stringify({ text }) }
    return store.predictions.update({ ...change, completedAt: text.length % 2 === 0 ? number : null })
  },
  (store, _accountId, number) => store.predictions.purge(number),
  (store, accountId, number) => store.files.delete(accountId, `f${number}`, 0),
  (store, _accountId, number) => store.files.purge(number),
  (store, _accountId, number) => store.reasoning.purge(number),
  (store, _accountId, number) => store.idempotency.purge(number),
]

const step = fc.record({
  account: fc.constantFrom(...ACCOUNTS),
  number: fc.nat(8),
  text: fc.string({ unit: 'grapheme', maxLength: 40 }),
  action: fc.oneof(
    fc.constantFrom(...KEPT_KINDS).map((kind) => ADD[kind]),
    fc.constantFrom(...CHANGES),
    fc.constant('reopen' as const),
  ),
})

test('the totals are the sums of the rows, whatever is written, removed, expired and opened again', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), (steps) =>
      withStore(async (_folder, open) => {
        let store = await open()
        for (const { action, account, number, text } of steps) {
          if (action === 'reopen') store = await open()
          else await action(store, account, number, text)
          expect(await store.kept.wrongTotals()).toEqual([])
        }
        for (const account of ACCOUNTS)
          expect((await store.kept.totals(account)).idempotent_answers.bytes).toBeLessThanOrEqual(60)
        const totals = await Promise.all(ACCOUNTS.map((account) => store.kept.totals(account)))
        const sum = totals.flatMap((total) => KEPT_KINDS.map((kind) => total[kind].bytes)).reduce((a, b) => a + b, 0)
        for (const { allBytes } of totals) expect(allBytes).toBe(sum)
      }),
    ),
    { numRuns: runs(15, 1_000) },
  )
}, 60_000)

test('a failed write leaves the totals as they were', async () => {
  await withStore(async (_folder, open) => {
    const store = await open()
    await ADD.predictions(store, 'a', 1, 'x')
    const before = await store.kept.totals('a')
    await Promise.all([ADD.predictions(store, 'a', 1, 'again'), ADD.outputs(store, 'a', 1, 'xyz')])
    expect(await store.kept.totals('a')).toEqual({
      ...before,
      outputs: { things: 1, bytes: 3 },
      allBytes: before.allBytes + 3,
    })
    expect(before.predictions.things).toBe(1)
  })
})

ofSqlite('files')('a response is stored once: the database grows by little more than its bytes', async () => {
  await withStore(async (folder, open) => {
    let store = await open()
    const file = join(folder, 'sluice.sqlite')
    const text = 'x'.repeat(2 ** 20)
    store = await open()
    const before = statSync(file).size
    await store.responses.save('a', {
      ...writtenResponse({ id: 'r', output: [{ id: 'o', text }] })!,
      inputItems: [itemText({ id: 'i', text })],
      expiresAt: 1,
    })
    await open()
    expect(statSync(file).size - before).toBeLessThan(2.1 * 2 ** 20)
  })
})

describe('the space of what was deleted', () => {
  const MIB = 2 ** 20
  const save = (store: Store, id: string, bytes: number): Promise<void> =>
    store.responses.save('a', {
      ...writtenResponse({ id, output: [] })!,
      inputItems: [itemText({ id: `in_${id}`, text: 'x'.repeat(bytes) })],
      expiresAt: 1,
    })

  ofSqlite('disk')(
    'is given back to the disk, and what remains is intact',
    async () => {
      await withStore(async (folder, open) => {
        let store = await open()
        for (let number = 0; number < 20; number++) await save(store, `r${number}`, 3 * MIB)
        for (let number = 0; number < 19; number++) await store.responses.delete('a', `r${number}`)
        store = await open()
        const file = join(folder, 'sluice.sqlite')
        const before = statSync(file).size
        expect(before).toBeGreaterThan(57 * MIB)
        await Promise.all([store.shrink(), save(store, 'meanwhile', MIB)])
        const { size } = statSync(file)
        expect([size < 30 * MIB, size > 16 * MIB]).toEqual([true, true])
        for (const id of ['r19', 'meanwhile'])
          expect((await store.responses.findItem('a', `in_${id}`))?.text).toHaveLength(id === 'r19' ? 3 * MIB : MIB)
        store = await open()
        expect(await store.kept.wrongTotals()).toEqual([])
        const database = new Database(file)
        expect(database.query('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' })
        database.close()
      })
    },
    30_000,
  )

  test('is used again in a database that cannot become shorter', async () => {
    await withStore(async (folder, open) => {
      const file = join(folder, 'sluice.sqlite')
      const old = new Database(file)
      old.run('CREATE TABLE older (x)')
      old.run('DROP TABLE older')
      old.close()
      let store = await open()
      for (let round = 0; round < 3; round++) {
        for (let number = 0; number < 8; number++) await save(store, `r${number}`, 3 * MIB)
        for (let number = 0; number < 8; number++) await store.responses.delete('a', `r${number}`)
        await store.shrink()
      }
      store = await open()
      expect(statSync(file).size).toBeLessThan(30 * MIB)
    })
  }, 30_000)
})
