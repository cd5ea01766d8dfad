import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Store, StoredBodies } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Where bodies are, and the keys of accounts. */

let folder: string
let store: Store
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  store = await storeIn(folder)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const bodies = (id: string, others: Partial<StoredBodies> = {}): StoredBodies => ({
  id,
  accountId: 'a',
  keyId: 'k',
  segment: 's1',
  offset: 2 ** 33,
  length: 70,
  expiresAt: 100,
  parts: [{ name: 'client_request', bytes: 5_000_000_000, cut: 0 }],
  ...others,
})

test('bodies are found as they were written, until they expire', async () => {
  await store.bodies.add(bodies('1'))
  await store.bodies.add(bodies('2', { expiresAt: 50 }))
  await store.bodies.add(bodies('1', { segment: 'other' }))
  expect(await store.bodies.find('1', 99)).toEqual(bodies('1'))
  expect(await store.bodies.find('1', 100)).toBeUndefined()
  expect(await store.bodies.among(['1', '2', '3'], 49)).toEqual(new Set(['1', '2']))
  expect(await store.bodies.among(['1', '2', '3'], 50)).toEqual(new Set(['1']))
  await store.bodies.purge(50)
  expect(await store.bodies.among(['1', '2'], 0)).toEqual(new Set(['1']))
})

test('bodies are removed one by one, with their segment, and with their account', async () => {
  for (const id of ['1', '2', '3', '4']) await store.bodies.add(bodies(id, id === '4' ? { accountId: 'b' } : {}))
  await store.bodies.add(bodies('5', { segment: 's2' }))
  await store.bodies.remove('1')
  expect(await store.bodies.among(['1', '2', '3', '4', '5'], 0)).toEqual(new Set(['2', '3', '4', '5']))
  await store.bodies.removeAccount('a')
  expect(await store.bodies.among(['1', '2', '3', '4', '5'], 0)).toEqual(new Set(['4']))
  await store.bodies.removeSegment('s1')
  expect(await store.bodies.among(['4'], 0)).toEqual(new Set())
})

test('an account has one key, which is the first, until it is removed', async () => {
  const [first, second] = [new Uint8Array([1, 255]), new Uint8Array([2])]
  expect(await store.bodies.keyOf('a')).toBeUndefined()
  const keys = await Promise.all([store.bodies.keyOf('a', first), store.bodies.keyOf('a', second)])
  expect(keys.map((key) => [...key!])).toEqual([[...first], [...first]])
  await store.bodies.removeAccount('a')
  expect(await store.bodies.keyOf('a')).toBeUndefined()
  expect([...(await store.bodies.keyOf('a', second))!]).toEqual([2])
})
