import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { Connection } from '../../src/store/postgres/connection.ts'
import { isUnwritten } from '../../src/store/postgres/errors.ts'
import { Health } from '../../src/store/postgres/health.ts'
import { migrate } from '../../src/store/postgres/migrations.ts'
import { Pool } from '../../src/store/postgres/pool.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { startProxy } from '../postgres/proxy.ts'
import { type PostgresServer, startPostgres, WITH_START_MS } from '../postgres/server.ts'
import { failure } from './records.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, WITH_START_MS)
afterAll(() => server.stop())

test('processes that start at the same time make the schema once', async () => {
  const url = await server.createDatabase('schema')
  const options = { url, connections: 4, patienceMs: 1_000 }
  const stores = await Promise.all([PostgresStore.open(options), PostgresStore.open(options)])
  for (const store of stores) await store.close()
})

const poolOf = (url: string, max: number): Pool => new Pool({ url, connectMs: 5_000, statementMs: 10_000 }, max)

test('short reads of one turn do not open a connection each, and long ones do', async () => {
  const url = await server.createDatabase('reads')
  const several = <T>(count: number, read: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, read))
  const pool = poolOf(url, 8)
  await several(20, () => pool.one('SELECT 1'))
  const [row] = await pool.all<{ open: number }>(
    'SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database()',
  )
  expect(row!.open).toBeLessThan(8)
  const longs = await several(8, () => pool.one<{ pid: number }>('SELECT pg_backend_pid() AS pid, pg_sleep(2)'))
  expect(new Set(longs.map((long) => long!.pid)).size).toBe(8)
  await pool.close()
})

test('a connection that does not open holds up no later read', async () => {
  const url = new URL(await server.createDatabase('slow_opening'))
  const [asked, sockets] = [Promise.withResolvers<void>(), [] as Socket[]]
  let connections = 0
  const network = createServer((client) => {
    sockets.push(client)
    if (connections++ === 0) return asked.resolve()
    const upstream = connect(server.port, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      from
        .on('error', () => {})
        .on('close', () => to.destroy())
        .pipe(to)
  })
  await new Promise<void>((resolve) => network.listen(0, '127.0.0.1', resolve))
  url.port = String((network.address() as AddressInfo).port)
  const pool = poolOf(url.href, 4)
  const first = failure(pool.one('SELECT 1 AS one'))
  await asked.promise
  await Bun.sleep(200)
  const begunAt = performance.now()
  expect(await pool.one('SELECT 2 AS two')).toEqual({ two: 2 })
  expect(performance.now() - begunAt).toBeLessThan(4_000)
  expect(String(await first)).toContain('unavailable')
  expect(await pool.one('SELECT 3 AS three')).toEqual({ three: 3 })
  await pool.close()
  for (const socket of sockets) socket.destroy()
  network.close()
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

/** A process can look for what became of a write. */
async function register(connection: Connection): Promise<void> {
  const row = await connection.one<{ id: number }>(
    "INSERT INTO processes (name, address, version) VALUES ('', '', '') RETURNING id",
  )
  connection.process = row!.id
}

/** Writes of one transaction, through a proxy. */
async function startWrites(name: string, patienceMs: number) {
  const proxy = await startProxy(await server.createDatabase(name))
  const connection = new Connection({ url: proxy.url, connections: 4, patienceMs })
  await migrate(connection.address)
  await connection.run('CREATE TABLE things (id integer)')
  return {
    proxy,
    connection,
    add: (id: number, then = (): void => {}): Promise<unknown> =>
      connection.commit(async (transaction) => {
        await transaction.run('INSERT INTO things VALUES ($1)', id)
        then()
      }),
    things: async () => (await connection.all<{ id: number }>('SELECT id FROM things ORDER BY id')).map(({ id }) => id),
    async stop() {
      await connection.close()
      proxy.stop()
    },
  }
}

test('a commit whose acknowledgement is lost succeeds in a process, and is refused at once without one', async () => {
  const { connection, proxy, add, things, stop } = await startWrites('lost_commit', 60_000)
  const addAll = (ids: number[]): Promise<unknown[]> =>
    Promise.all(ids.map((id) => failure(add(id, id === ids.at(-1) ? proxy.dropAnswer : undefined))))
  for (const error of await addAll([1, 2])) {
    expect(String(error)).toContain('The store is unavailable: PostgreSQL does not answer')
    expect(isUnwritten(error)).toBe(false)
  }
  await register(connection)
  expect(await addAll([3, 4])).toEqual([undefined, undefined])
  expect(proxy.dropped).toBe(2)
  expect(await things()).toEqual([1, 2, 3, 4])
  await stop()
})

test('the writes of a transaction are refused together where the server stays away', async () => {
  const { proxy, add, things, stop } = await startWrites('together', 100)
  await add(0)
  proxy.keepAway(true)
  let refused = 0
  const writes = [1, 2, 3].map((id) => failure(add(id)).then(() => refused++))
  await writes[0]
  await new Promise(setImmediate)
  expect(refused).toBe(3)
  proxy.keepAway(false)
  expect(await things()).toEqual([0])
  await stop()
})

test('more writes than one transaction takes are refused together, too', async () => {
  const patienceMs = 400
  const { proxy, add, stop } = await startWrites('many', patienceMs)
  await add(0)
  proxy.keepAway(true)
  const writes = Array.from({ length: 501 }, (_, id) => failure(add(id)))
  await writes[0]
  const refusedAt = performance.now()
  expect((await Promise.all(writes)).every(isUnwritten)).toBe(true)
  expect(performance.now() - refusedAt).toBeLessThan(patienceMs)
  await stop()
})

test('a write that reads on a connection which has broken is made again', async () => {
  const { connection, proxy, things, stop } = await startWrites('broken_read', 60_000)
  await things()
  let tries = 0
  await connection.commit(async (transaction) => {
    if (tries++ === 0) proxy.cut()
    await things()
    await transaction.run('INSERT INTO things VALUES (1)')
  })
  expect([tries, await things()]).toEqual([2, [1]])
  await stop()
})

test('a write of a process that slept in the middle of it is made again, whatever its patience', async () => {
  const { connection, proxy, add: addFirst, things, stop } = await startWrites('slept', 0)
  await addFirst(0)
  let tries = 0
  await connection.commit(async (transaction) => {
    const add = (): Promise<unknown> => transaction.run('INSERT INTO things VALUES (1)')
    if (tries++ > 0) return void (await add())
    const wake = proxy.hold()
    const answers = [transaction.run('SET idle_in_transaction_session_timeout = 1'), add()]
    await Bun.sleep(50)
    wake()
    await Promise.all(answers)
  })
  expect([tries, await things()]).toEqual([2, [0, 1]])
  await stop()
})

test('a write waits for a server that has no connection left', async () => {
  const url = new URL(await server.createDatabase('no_connection'))
  const admin = await PostgresClient.open({ url: url.href, connectMs: 5_000, statementMs: 5_000 })
  await admin.script(
    'CREATE TABLE things (id integer); CREATE ROLE one LOGIN CONNECTION LIMIT 1; GRANT ALL ON things TO one',
  )
  url.username = 'one'
  const other = await PostgresClient.open({ url: url.href, connectMs: 5_000, statementMs: 5_000 })
  const connection = new Connection({ url: url.href, connections: 4, patienceMs: 60_000 })
  const written = connection.commit((transaction) => transaction.run('INSERT INTO things VALUES (1)'))
  await Bun.sleep(20)
  await other.close()
  await written
  expect(await admin.all('SELECT id FROM things')).toEqual([{ id: 1 }])
  await connection.close()
  await admin.close()
})

test('a write is made on another connection where one leads to a server that is read-only', async () => {
  const { connection, add, things, stop } = await startWrites('replaced', 60_000)
  const asNew = (value: string): Promise<unknown> =>
    connection.run(`ALTER DATABASE replaced SET default_transaction_read_only = ${value}`)
  await asNew('on')
  let tries = 0
  await connection.commit(async (transaction) => {
    if (tries++ === 0) await asNew('off')
    await transaction.run('INSERT INTO things VALUES (1)')
  })
  await add(2)
  expect([tries, await things()]).toEqual([2, [1, 2]])
  await stop()
})

test('a server that is read-only is reported until new connections lead to another one', async () => {
  const { connection, stop } = await startWrites('reported', 1_000)
  const asNew = (value: string): Promise<unknown> =>
    connection.commit((writer) => writer.run(`ALTER DATABASE reported SET default_transaction_read_only = ${value}`))
  const pool = poolOf(connection.address.url, 1)
  await asNew('on')
  expect(await new Health(pool).outage()).toBe('this PostgreSQL is read-only')
  await asNew('off')
  expect(await new Health(pool).outage()).toBeUndefined()
  await pool.close()
  await stop()
})

test('a read takes no connection that was idle when another one became silent', async () => {
  const proxy = await startProxy(await server.createDatabase('forgotten'))
  const pool = new Pool({ url: proxy.url, connectMs: 5_000, statementMs: 30_000 }, 3, 50)
  const one = (): Promise<unknown> => pool.one('SELECT 1 AS one')
  await Promise.all([pool.one('SELECT pg_sleep(0.2)'), Bun.sleep(120).then(one)])
  expect(proxy.open).toBe(2)
  proxy.hold()
  const silent = failure(one())
  await Bun.sleep(60)
  expect(await one()).toEqual({ one: 1 })
  proxy.stop()
  expect(String(await silent)).toContain('unavailable')
  await pool.close()
})

test('a store whose server is away is closed without the patience of its writes', async () => {
  const proxy = await startProxy(await server.createDatabase('closed'))
  const serves = { heartbeatMs: 1_000, deadMs: 60_000, version: 'test' }
  const store = await PostgresStore.open({ url: proxy.url, connections: 4, patienceMs: 60_000, serves })
  proxy.keepAway(true)
  const begunAt = performance.now()
  await store.close()
  expect(performance.now() - begunAt).toBeLessThan(30_000)
  proxy.stop()
})

test('a connection to a server that is frozen is closed', async () => {
  const client = await PostgresClient.open({ url: server.url, connectMs: 5_000, statementMs: 5_000 })
  const { pid } = (await client.one<{ pid: number }>('SELECT pg_backend_pid() AS pid'))!
  process.kill(pid, 'SIGSTOP')
  await client.close()
  process.kill(pid, 'SIGCONT')
  expect(client.isOpen).toBe(false)
})

test(
  'a write waits for a server that comes back, and is made once',
  async () => {
    const url = await server.createDatabase('away')
    const connection = new Connection({ url, connections: 4, patienceMs: WITH_START_MS })
    await migrate(connection.address)
    await register(connection)
    await connection.run('CREATE TABLE things (id integer PRIMARY KEY)')
    await connection.commit(async (transaction) => transaction.run('INSERT INTO things VALUES (1)'))
    server.kill()
    const writing = connection.commit(async (transaction) => transaction.run('INSERT INTO things VALUES (2)'))
    await server.start()
    await writing
    expect(await connection.all('SELECT id FROM things ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }])
    await connection.close()
  },
  WITH_START_MS,
)
