import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Connection } from '../../src/store/postgres/connection.ts'
import { migrate } from '../../src/store/postgres/migrations.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { type PostgresServer, startPostgres } from '../postgres/server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

test('processes that start at the same time make the schema once', async () => {
  const url = await server.createDatabase('schema')
  const options = { url, connections: 4, patienceMs: 1_000 }
  const stores = await Promise.all([PostgresStore.open(options), PostgresStore.open(options)])
  for (const store of stores) await store.close()
})

test('writes of one turn share a transaction, and one that is refused leaves the others', async () => {
  const url = await server.createDatabase('commits')
  const connection = new Connection({ url, connections: 4, patienceMs: 1_000 })
  await migrate(connection.address)
  await connection.run(
    'CREATE TABLE things (id integer PRIMARY KEY, xid bigint DEFAULT pg_current_xact_id()::text::bigint)',
  )
  const add = (id: number): Promise<string> =>
    connection
      .commit((transaction) => transaction.run('INSERT INTO things (id) VALUES ($1)', id))
      .then(
        () => 'written',
        () => 'refused',
      )
  expect(await Promise.all([add(1), add(2)])).toEqual(['written', 'written'])
  expect(await connection.one('SELECT count(DISTINCT xid) AS groups FROM things')).toEqual({ groups: 1 })
  expect(await Promise.all([add(3), add(1), add(4)])).toEqual(['written', 'refused', 'written'])
  expect(await connection.all('SELECT id FROM things ORDER BY id')).toEqual([1, 2, 3, 4].map((id) => ({ id })))
  await connection.close()
})

test('a text with U+0000 is read as it was written', async () => {
  const url = await server.createDatabase('texts')
  const connection = new Connection({ url, connections: 4, patienceMs: 1_000 })
  const text = '\0a\u001b0\u001b\u001b1\0'
  expect(await connection.one('SELECT $1::text AS text', text)).toEqual({ text })
  await connection.close()
})

test('a write waits for a server that comes back, and is made once', async () => {
  const url = await server.createDatabase('away')
  const connection = new Connection({ url, connections: 4, patienceMs: 20_000 })
  await migrate(connection.address)
  await connection.run('CREATE TABLE things (id integer PRIMARY KEY)')
  await connection.commit(async (transaction) => transaction.run('INSERT INTO things VALUES (1)'))
  server.kill()
  const writing = connection.commit(async (transaction) => transaction.run('INSERT INTO things VALUES (2)'))
  server.start()
  await writing
  expect(await connection.all('SELECT id FROM things ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }])
  await connection.close()
})
