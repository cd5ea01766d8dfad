import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { ChangeWatch } from '../../src/store/postgres/change-watch.ts'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { Connection } from '../../src/store/postgres/connection.ts'
import { InternedRows } from '../../src/store/postgres/interned.ts'
import { migrate } from '../../src/store/postgres/migrations.ts'
import { Pool } from '../../src/store/postgres/pool.ts'
import { Processes } from '../../src/store/postgres/processes.ts'
import { StoreTime } from '../../src/store/postgres/store-time.ts'
import { failure } from '../store/records.ts'
import { type Proxy, startProxy } from './proxy.ts'
import { type PostgresServer, startPostgres } from './server.ts'

/** Connections to PostgreSQL on which nothing comes any more, as where a network forgets them. */

setDefaultTimeout(120_000)

let server: PostgresServer
let proxy: Proxy
beforeAll(async () => {
  server = await startPostgres()
  proxy = await startProxy(server.url)
})
afterAll(() => {
  proxy.stop()
  server.stop()
})

test.concurrent('a connection of a pool that hangs is replaced', async () => {
  const pool = new Pool({ url: proxy.url, connectMs: 5_000, statementMs: 100 }, 1)
  const one = (): Promise<unknown> => pool.one('SELECT 1 AS one')
  expect(await one()).toEqual({ one: 1 })
  proxy.hold()
  expect(String(await failure(one()))).toContain('unavailable')
  expect(await Promise.race([one(), Bun.sleep(20_000)])).toEqual({ one: 1 })
  await pool.close()
})

test.concurrent('nothing more is sent on a connection that has not answered in time', async () => {
  const other = await startProxy(server.url)
  const client = await PostgresClient.open({ url: other.url, connectMs: 5_000, statementMs: 100 })
  other.hold()
  expect(String(await failure(client.one('SELECT 1')))).toContain('timeout')
  expect(client.isOpen).toBe(false)
  other.stop()
})

test.concurrent('a write reads on another connection where one hangs', async () => {
  const other = await startProxy(await server.createDatabase('reading'))
  const connection = new Connection({ url: other.url, connections: 4, patienceMs: 1_000 })
  await connection.run('CREATE TABLE names (id serial, name text UNIQUE)')
  const names = new InternedRows(connection, 'names', ['name'], 't.name = r.name')
  await connection.commit(async () => {})
  other.hold()
  const written = connection.commitMerged(async () => {
    await names.add(new Map([['one', ['one']]]))
    return [undefined]
  }, undefined)
  expect(await Promise.race([written, Bun.sleep(20_000).then(() => 'waits')])).toBeUndefined()
  expect(names.id('one')).toBe(1)
  other.stop()
  await connection.close()
})

test.concurrent('a process whose connections hang reports on another one before others take over from it', async () => {
  const url = await server.createDatabase('hanging')
  const options = { heartbeatMs: 500, deadMs: 6_000, version: 'test' }
  const begin = async (at: string): Promise<{ connection: Connection; processes: Processes }> => {
    const connection = new Connection({ url: at, connections: 4, patienceMs: 1_000 })
    return { connection, processes: await Processes.begin(connection, new StoreTime(), options) }
  }
  const other = await startProxy(url)
  await migrate({ url, connectMs: 5_000, statementMs: 30_000 })
  const [hanging, heir] = [await begin(other.url), await begin(url)]
  await hanging.processes.confirm()
  other.hold()
  for (const endsAt = performance.now() + 2 * options.deadMs; performance.now() < endsAt; await Bun.sleep(100))
    expect(await heir.processes.inherit()).toBeUndefined()
  expect(await hanging.processes.confirm()).toBe(true)
  for (const { connection, processes } of [heir, hanging]) {
    await processes.end()
    await connection.close()
  }
  other.stop()
})

test.concurrent('connections that hang when they begin to listen are closed', async () => {
  const url = await server.createDatabase('listening')
  await migrate({ url, connectMs: 5_000, statementMs: 30_000 })
  const other = await startProxy(url)
  other.holdAfter('LISTEN')
  const watch = new ChangeWatch({ url: other.url, connectMs: 5_000, statementMs: 5_000 }, 0, 10)
  watch.add(() => Promise.resolve())
  const opened: number[] = []
  for (const endsAt = performance.now() + 10_000; performance.now() < endsAt; await Bun.sleep(50))
    if (other.open !== opened.at(-1)) opened.push(other.open)
  // Each is closed before the next one is opened.
  expect([Math.max(...opened), opened.filter((count) => count === 1).length > 1]).toEqual([1, true])
  other.stop()
  await watch.close()
})
