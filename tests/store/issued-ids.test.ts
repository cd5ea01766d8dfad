import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Store } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Ids that providers issued, in the store. */

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function open(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-issued-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  const store = await storeIn(folder)
  cleanups.push(() => store.close())
  return store
}

test('an id belongs to the account and the provider that it was issued by last', async () => {
  const { issuedIds } = await open()
  await issuedIds.add('a', 'p', ['x', 'y'], 10, 100)
  await issuedIds.add('b', 'q', ['y'], 10, 100)
  await issuedIds.add('a', 'r', ['y'], 10, 100)
  expect(await issuedIds.providersOf('a', ['x', 'y', 'z'], 1)).toEqual(
    new Map([
      ['x', 'p'],
      ['y', 'r'],
    ]),
  )
  expect(await issuedIds.providersOf('b', ['x', 'y'], 1)).toEqual(new Map([['y', 'q']]))
})

test('an account keeps so many ids and the latest, each until it expires', async () => {
  const { issuedIds } = await open()
  const ids = Array.from({ length: 9 }, (_, number) => `id${number}`)
  for (const [number, id] of ids.entries()) await issuedIds.add('a', 'p', [id], 10 + number, 5)
  await issuedIds.add('b', 'p', ['other'], 1, 5)
  const kept = async (account: string, now: number): Promise<string[]> => [
    ...(await issuedIds.providersOf(account, [...ids, 'other'], now)).keys(),
  ]
  expect(await kept('a', 1)).toEqual(ids.slice(4))
  expect(await kept('a', 16)).toEqual(ids.slice(7))
  await issuedIds.purge(16)
  expect(await kept('a', 0)).toEqual(ids.slice(7))
  expect(await kept('b', 0)).toEqual([])
})
