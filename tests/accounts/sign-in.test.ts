import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPeople, type People } from '../../src/accounts/people.ts'
import { endOf, sessionTimes } from '../../src/accounts/sessions.ts'
import { GatewayError } from '../../src/error.ts'
import type { Admission } from '../../src/accounts/sign-in.ts'
import type { Store, User } from '../../src/store/store.ts'
import { added, begin, entered, linkFor } from './people-fixture.ts'
import { everythingIn, storeIn } from '../stores.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let folder: string
let store: Store
let people: People
let now: number
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-people-'))
  store = await storeIn(folder)
  now = Date.parse('2026-11-22T12:00:00Z')
  people = openPeople(store, () => now)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const place = { address: '127.0.0.1', client: null }
const enter = (admission: Promise<Admission>): Promise<User> => entered(store, admission)
const status = (promise: Promise<unknown>): Promise<number> =>
  promise.then(
    () => 200,
    (error: GatewayError) => error.status,
  )

test('of many uses of one link at once, one succeeds', async () => {
  const text = await linkFor(people, await added(people, { name: 'Ann', roles: [] }))
  const all = await Promise.all([1, 2, 3, 4].map(() => status(enter(people.signIn.withLink(text, {})))))
  expect(all.toSorted()).toEqual([200, 404, 404, 404])
})

test('of two first owners at once, one is made', async () => {
  const links = [await linkFor(people), await linkFor(people)]
  const all = await Promise.all(links.map((text) => status(enter(people.signIn.withLink(text, { name: 'Owner' })))))
  expect([all.toSorted(), (await people.users.list()).length]).toEqual([[200, 404], 1])
})

test('a link for the owner lasts 15 minutes, an invite 72 hours, to the millisecond', async () => {
  const first = await linkFor(people)
  now += 15 * MINUTE_MS - 1
  expect(await status(people.signIn.preview(first))).toBe(200)
  now += 1
  expect(await status(people.signIn.preview(first))).toBe(404)
  const invite = await linkFor(people, await added(people, { name: 'Ann', roles: [] }))
  now += 72 * HOUR_MS - 1
  expect(await status(people.signIn.preview(invite))).toBe(200)
  now += 1
  expect(await status(enter(people.signIn.withLink(invite, {})))).toBe(404)
})

test('a session ends when it is unused for its time, and at its latest end however it is used', async () => {
  const user = await added(people, { name: 'Ann', roles: [] })
  const { text, session } = await begin(people, user, place, sessionTimes(false))
  const begun = now
  expect(endOf(session) - begun).toBe(12 * HOUR_MS)
  const isValid = async (): Promise<boolean> => (await people.sessions.find(text)) !== undefined
  for (; now < begun + 7 * 24 * HOUR_MS; now += 11 * HOUR_MS) expect(await isValid()).toBe(true)
  expect(await isValid()).toBe(false)
  const second = await begin(people, user, place, sessionTimes(false))
  now += 12 * HOUR_MS
  expect(await people.sessions.find(second.text)).toBeUndefined()
  expect(sessionTimes(true)).toEqual({ idleMs: 7 * 24 * HOUR_MS, mostMs: 30 * 24 * HOUR_MS })
})

test('a new text replaces the old one a minute after the roles changed', async () => {
  const user = await added(people, { name: 'Ann', roles: [{ scope: 'installation', role: 'owner' }] })
  const { text } = await begin(people, user, place, sessionTimes(true))
  await people.users.setRoles(user.id, [{ scope: 'installation', role: 'owner' }])
  const both = await Promise.all([people.sessions.find(text), people.sessions.find(text)])
  // One of the requests in flight gets the new text, and all go on.
  const renewed = both.flatMap((found) => found?.renewed ?? [])
  expect([both.every((found) => found !== undefined), renewed.length]).toEqual([true, 1])
  expect((await people.sessions.find(renewed[0]!))?.session.userId).toBe(user.id)
  now += MINUTE_MS
  expect(await people.sessions.find(text)).toBeUndefined()
  expect((await people.sessions.find(renewed[0]!))?.renewed).toBeUndefined()
})

test('no text of a link or session is stored', async () => {
  const user = await added(people, { name: 'Ann', roles: [] })
  const text = await linkFor(people, user)
  const session = await begin(people, user, place, sessionTimes(true))
  await store.close()
  const stored = await everythingIn(folder)
  expect([stored.includes(text), stored.includes(session.text)]).toEqual([false, false])
  store = await storeIn(folder)
})

test('a password that could not be compared counts as no wrong one', async () => {
  const password = 'long enough 123'
  const hash = await people.passwords.hash(password)
  await added(people, { name: 'Ann', email: 'ann@example.com', password: hash, roles: [] })
  const tryIn = (): Promise<number> =>
    status(enter(people.signIn.withPassword('ann@example.com', password, '192.0.2.1')))
  const { matches } = people.passwords
  people.passwords.matches = () => Promise.reject(new GatewayError('overloaded', 'Too many.'))
  for (let at = 0; at < 12; at++) expect(await tryIn()).toBe(503)
  people.passwords.matches = matches
  expect(await tryIn()).toBe(200)
})

test('a password that is set with a link ends the other sessions', async () => {
  const user = await added(people, { name: 'Ann', email: 'ann@example.com', roles: [] })
  await enter(people.signIn.withLink(await linkFor(people, user), {}))
  await begin(people, user, place, sessionTimes(true))
  const known = (await people.users.find(user.id))!
  await enter(people.signIn.withLink(await linkFor(people, known), {}))
  expect((await people.sessions.list(user.id)).length).toBe(1)
  await enter(people.signIn.withLink(await linkFor(people, known), { password: 'long enough 123' }))
  expect(await people.sessions.list(user.id)).toEqual([])
})

test('links of a person end when roles change', async () => {
  const user = await added(people, { name: 'Ann', roles: [] })
  const text = await linkFor(people, user)
  await added(people, { name: 'Owner', roles: [{ scope: 'installation', role: 'owner' }] })
  await people.users.setRoles(user.id, [{ scope: 'installation', role: 'admin' }])
  expect(await status(enter(people.signIn.withLink(text, {})))).toBe(404)
})
