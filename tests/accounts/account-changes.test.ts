import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AccountChanges } from '../../src/accounts/account-changes.ts'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { Store } from '../../src/store/store.ts'
import { accountOf, keyOf } from '../store/account.ts'
import { storeIn } from '../stores.ts'
import { bearer, identify, KeyFixture } from './key-fixture.ts'

/** Accounts and keys are read by what changed, and in slices. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

/** A server's store, and that of another process on the same folder. */
async function stores(): Promise<{ store: Store; other: Store }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-changes-'))
  const [store, other] = [await storeIn(folder), await storeIn(folder)]
  cleanUp.push(
    () => rmSync(folder, { recursive: true, force: true }),
    () => store.close(),
    () => other.close(),
  )
  return { store, other }
}

const addAccount = (store: Store, id: string): Promise<boolean> => store.accounts.add(accountOf(id))

describe('changes of accounts', () => {
  const CHANGES: [string, (store: Store) => Promise<unknown>][] = [
    ['its status', ({ accounts }) => accounts.setStatus('b', 'monitored')],
    ['its discount', ({ accounts }) => accounts.setDiscount('b', 100)],
    ['a new key', ({ accounts }) => accounts.addKey(keyOf('new', 'b', 9))],
    ['a revoked key', ({ accounts }) => accounts.revokeKey('kb', 7)],
    ['a key that expires', ({ accounts }) => accounts.expireKey('kb', 7, null)],
    ['its plan', ({ ledger }) => ledger.setSubscription(newSubscription('b', 'pro', 1))],
    [
      'its credit',
      ({ ledger }) => ledger.post(topUp({ reference: 'r', at: 1, accountId: 'b', amount: 5n, bonus: false })),
    ],
    [
      'its bonus',
      ({ ledger }) => ledger.post(topUp({ reference: 'r', at: 1, accountId: 'b', amount: 5n, bonus: true })),
    ],
  ]

  test.each(CHANGES)('%s is read after another process changed it, without the other accounts', async (_, change) => {
    const { store, other } = await stores()
    for (const [at, id] of ['a', 'b', 'c'].entries()) {
      await addAccount(store, id)
      await store.accounts.addKey(keyOf(`k${id}`, id, at))
    }
    const read: string[][] = []
    const changes = new AccountChanges(store.accounts, async (ids) => void read.push([...ids]))
    await changes.readAll()
    await change(other)
    await changes.read()
    await changes.read()
    expect(read).toEqual([['a', 'b', 'c'], ['b']])
  })

  test('many accounts are read in slices, with turns of the event loop between them', async () => {
    const { store, other } = await stores()
    const ids = Array.from({ length: 1_200 }, (_, at) => `a${String(at).padStart(4, '0')}`)
    await Promise.all(ids.map((id) => addAccount(store, id)))
    let turns = 0
    const counting = setInterval(() => turns++, 0)
    cleanUp.push(() => clearInterval(counting))
    const read: string[][] = []
    const changes = new AccountChanges(store.accounts, async (slice) => {
      read.push([...slice])
      await Bun.sleep(2)
    })
    await changes.readAll()
    expect([read.map(({ length }) => length), read.flat()]).toEqual([[500, 500, 200], ids])
    await Promise.all(ids.map((id) => other.accounts.setDiscount(id, 1)))
    await changes.read()
    expect(read.slice(3).map(({ length }) => length)).toEqual([500, 500, 200])
    expect(turns).toBeGreaterThan(0)
  })

  test('a change that could not be read is read the next time', async () => {
    const { store, other } = await stores()
    await addAccount(store, 'a')
    const read: string[][] = []
    let fails = false
    const changes = new AccountChanges(store.accounts, async (ids) => {
      if (fails) throw new Error('not now')
      read.push([...ids])
    })
    await changes.readAll()
    await other.accounts.setDiscount('a', 1)
    fails = true
    await expect(changes.read()).rejects.toThrow('not now')
    fails = false
    await changes.read()
    expect(read).toEqual([['a'], ['a']])
  })
})

describe('keys', () => {
  const fixture = new KeyFixture()
  const CONFIGURED = { key: 'sk-ai-v1-configured-0123456789', kind: 'pay-as-you-go' as const, account: 'team' }

  test('a stored key that is revoked stays so, although the file has it and its account changes', async () => {
    const admin = await fixture.open()
    await fixture.accounts.create('team', {})
    const { id } = await admin.create({ kind: 'pay-as-you-go', account: 'default', text: CONFIGURED.key })
    await admin.revoke(id)
    const server = await fixture.open([CONFIGURED])
    expect(identify(server, bearer(CONFIGURED.key))).toBe('invalid_api_key')
    const store = await storeIn(fixture.folder)
    cleanUp.push(() => store.close())
    const { id: team } = (await store.accounts.find('team'))!
    await store.accounts.setDiscount(team, 500)
    await server.refresh()
    expect(identify(server, bearer(CONFIGURED.key))).toBe('invalid_api_key')
  })

  test('of many keys, one of another process is read alone', async () => {
    const admin = await fixture.open()
    for (let at = 0; at < 5; at++) {
      await fixture.accounts.create(`team-${at}`, {})
      await admin.create({ kind: 'pay-as-you-go', account: `team-${at}` })
    }
    const server = await fixture.open()
    const { text } = await admin.create({ kind: 'pay-as-you-go', account: 'team-3' })
    const { id } = await fixture.accounts.named('team-3')
    using read = spyOn(fixture.stores.at(-1)!.accounts, 'keys')
    await server.refresh()
    expect(read.mock.calls).toEqual([[[id]]])
    expect(identify(server, bearer(text))).toMatchObject({ kind: 'pay-as-you-go' })
  })
})
