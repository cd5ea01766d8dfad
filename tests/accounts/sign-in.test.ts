import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPeople, type People } from '../../src/accounts/people.ts'
import { endOf, sessionTimes } from '../../src/accounts/sessions.ts'
import type { GatewayError } from '../../src/error.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let folder: string
let store: SqliteStore
let people: People
let now: number
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-people-'))
  store = new SqliteStore({ folder, exclusive: true })
  now = Date.parse('2026-11-22T12:00:00Z')
  people = openPeople(store, () => now)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const place = { address: '127.0.0.1', client: null }
const status = (promise: Promise<unknown>): Promise<number> =>
  promise.then(
    () => 200,
    (error: GatewayError) => error.status,
  )

test('of many uses of one link at once, one succeeds', async () => {
  const { text } = await people.signIn.newLink(await people.users.add({ name: 'Ann', roles: [] }))
  const all = await Promise.all([1, 2, 3, 4].map(() => status(people.signIn.withLink(text, {}))))
  expect(all.toSorted()).toEqual([200, 404, 404, 404])
})

test('of two first owners at once, one is made', async () => {
  const links = [await people.signIn.newLink(), await people.signIn.newLink()]
  const all = await Promise.all(links.map(({ text }) => status(people.signIn.withLink(text, { name: 'Owner' }))))
  expect([all.toSorted(), (await people.users.list()).length]).toEqual([[200, 404], 1])
})

test('a link for the owner lasts 15 minutes, an invite 72 hours, to the millisecond', async () => {
  const first = await people.signIn.newLink()
  now += 15 * MINUTE_MS - 1
  expect(await status(people.signIn.preview(first.text))).toBe(200)
  now += 1
  expect(await status(people.signIn.preview(first.text))).toBe(404)
  const invite = await people.signIn.newLink(await people.users.add({ name: 'Ann', roles: [] }))
  now += 72 * HOUR_MS - 1
  expect(await status(people.signIn.preview(invite.text))).toBe(200)
  now += 1
  expect(await status(people.signIn.withLink(invite.text, {}))).toBe(404)
})

test('a session ends when it is unused for its time, and at its latest end however it is used', async () => {
  const user = await people.users.add({ name: 'Ann', roles: [] })
  const { text, session } = await people.sessions.begin(user, place, sessionTimes(false))
  const begun = now
  expect(endOf(session) - begun).toBe(12 * HOUR_MS)
  const isValid = async (): Promise<boolean> => (await people.sessions.find(text)) !== undefined
  for (; now < begun + 7 * 24 * HOUR_MS; now += 11 * HOUR_MS) expect(await isValid()).toBe(true)
  expect(await isValid()).toBe(false)
  const second = await people.sessions.begin(user, place, sessionTimes(false))
  now += 12 * HOUR_MS
  expect(await people.sessions.find(second.text)).toBeUndefined()
  expect(sessionTimes(true)).toEqual({ idleMs: 7 * 24 * HOUR_MS, mostMs: 30 * 24 * HOUR_MS })
})

test('a new text replaces the old one a minute after the roles changed', async () => {
  const user = await people.users.add({ name: 'Ann', roles: [{ scope: 'installation', role: 'owner' }] })
  const { text } = await people.sessions.begin(user, place, sessionTimes(true))
  await people.users.setRoles(user.id, [{ scope: 'installation', role: 'owner' }])
  const both = await Promise.all([people.sessions.find(text), people.sessions.find(text)])
  // Of requests in flight at once, one gets the new text, and all go on.
  const renewed = both.flatMap((found) => found?.renewed ?? [])
  expect([both.every((found) => found !== undefined), renewed.length]).toEqual([true, 1])
  expect((await people.sessions.find(renewed[0]!))?.session.userId).toBe(user.id)
  now += MINUTE_MS
  expect(await people.sessions.find(text)).toBeUndefined()
  expect((await people.sessions.find(renewed[0]!))?.renewed).toBeUndefined()
})

test('no text of a link or session is stored', async () => {
  const user = await people.users.add({ name: 'Ann', roles: [] })
  const { text } = await people.signIn.newLink(user)
  const session = await people.sessions.begin(user, place, sessionTimes(true))
  await store.close()
  for (const file of ['sluice.sqlite', 'sluice.sqlite-wal']) {
    const bytes = await Bun.file(join(folder, file))
      .text()
      .catch(() => '')
    expect([file, bytes.includes(text), bytes.includes(session.text)]).toEqual([file, false, false])
  }
  store = new SqliteStore({ folder, exclusive: true })
})
