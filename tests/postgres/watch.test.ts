import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import type { PredictionNotice } from '../../src/store/store.ts'
import { until } from '../store/account-contract.ts'
import { type PostgresServer, startPostgres, WITH_START_MS } from './server.ts'
import { accountOf } from '../store/account.ts'

setDefaultTimeout(60_000)

const NEVER_MS = 3_600_000

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, WITH_START_MS)
afterAll(() => server.stop())

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Opened = { store: PostgresStore; other: PostgresStore; sql: PostgresClient; calls: () => number }

/** A store that is watched, another one, and a connection beside both. */
async function open(name: string, pollMs?: number): Promise<Opened> {
  const url = await server.createDatabase(name)
  const options = { url, connections: 4, patienceMs: WITH_START_MS }
  const other = await PostgresStore.open(options)
  await other.accounts.add(accountOf('a'))
  const store = await PostgresStore.open({ ...options, ...(pollMs === undefined ? {} : { pollMs }) })
  let calls = 0
  store.watch(async () => void (calls += 1))
  const sql = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
  cleanups.push(
    () => other.close(),
    () => store.close(),
    () => sql.close(),
  )
  return { store, other, sql, calls: () => calls }
}

const LISTENERS = `FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%table_changes%'`

const isListening = ({ sql }: Opened): Promise<boolean> =>
  until(async () => (await sql.all(`SELECT pid ${LISTENERS} AND state = 'idle'`)).length > 0)

test('a notification calls the listeners before the next poll', async () => {
  const opened = await open('notified', NEVER_MS)
  expect(await isListening(opened)).toBe(true)
  expect(opened.calls()).toBe(0)
  for (const discount of [1, 2]) {
    await opened.other.accounts.setDiscount('a', discount)
    expect(await until(() => opened.calls() === discount)).toBe(true)
  }
})

test('a change whose notification is lost is found', async () => {
  const opened = await open('lost')
  const functions = await opened.sql.all<{ text: string }>(
    "SELECT pg_get_functiondef(oid) AS text FROM pg_proc WHERE prosrc LIKE '%NOTIFY%'",
  )
  expect(functions.length).toBe(2)
  for (const { text } of functions) await opened.sql.script(text.replace('NOTIFY sluice_changes;', ''))
  await opened.other.accounts.setDiscount('a', 1)
  expect(await until(() => opened.calls() === 1)).toBe(true)
  await opened.other.setSettings.put({ kind: 'x', name: 'y', value: 'z', at: 1, by: 'ann' })
  expect(await until(() => opened.calls() === 2)).toBe(true)
})

test('changes are found after the connection that listens was ended, and those during it', async () => {
  const opened = await open('ended', NEVER_MS)
  for (const discount of [1, 2, 3]) {
    expect(await isListening(opened)).toBe(true)
    const before = opened.calls()
    await opened.sql.all(`SELECT pg_terminate_backend(pid) ${LISTENERS}`)
    await opened.other.accounts.setDiscount('a', discount)
    expect(await until(() => opened.calls() > before)).toBe(true)
  }
})

test('changes are found after the connection was ended while listeners were called', async () => {
  const opened = await open('ended_in_call', NEVER_MS)
  expect(await isListening(opened)).toBe(true)
  let isEnded = false
  opened.store.watch(async () => {
    if (isEnded) return
    await opened.sql.all(`SELECT pg_terminate_backend(pid) ${LISTENERS}`)
    // The store receives the end of its connection before this call ends.
    isEnded = await until(async () => (await opened.sql.all(`SELECT pid ${LISTENERS}`)).length === 0)
    await Bun.sleep(50)
  })
  await opened.other.accounts.setDiscount('a', 1)
  expect(await until(() => isEnded)).toBe(true)
  expect(await isListening(opened)).toBe(true)
  await opened.other.accounts.setDiscount('a', 2)
  expect(await until(() => opened.calls() === 2)).toBe(true)
})

test(
  'changes are found after the server was away',
  async () => {
    const { other, calls } = await open('away', NEVER_MS)
    server.kill()
    const writing = other.accounts.setDiscount('a', 1)
    await server.start()
    await writing
    expect(await until(() => calls() === 1)).toBe(true)
  },
  WITH_START_MS,
)

test('changes of a prediction are notified with their kind', async () => {
  const opened = await open('predictions')
  expect(await isListening(opened)).toBe(true)
  const { store, other } = opened
  const seen: PredictionNotice[] = []
  store.predictions.shared.onChange((notice) => void seen.push(notice))
  const made = { id: 'one', accountId: 'a', model: 'm', createdAt: 1, startedAt: null, completedAt: null, state: '{}' }
  await other.predictions.add({ ...made, status: 'starting', input: '{}' })
  await other.predictions.update({ ...made, status: 'processing' })
  await store.predictions.shared.requestCancel('a', 'one')
  await other.predictions.update({ ...made, status: 'canceled', completedAt: 2 })
  expect(await until(() => seen.length >= 3)).toBe(true)
  const about = { id: 'one', accountId: 'a' }
  expect(seen).toEqual([
    { kind: 'changed', ...about },
    { kind: 'unwanted', ...about },
    { kind: 'ended', ...about },
  ])
})
