import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Connection } from '../../src/store/postgres/connection.ts'
import { Reader } from '../../src/store/postgres/reports/reader.ts'
import { databaseFor } from '../postgres/databases.ts'
import { failure } from '../store/records.ts'

let connection: Connection
beforeAll(async () => {
  const url = await databaseFor('reader', () => true)
  // Two connections are for writes and notifications, so that four read.
  connection = new Connection({ url, connections: 6, patienceMs: 10_000 })
}, 60_000)
afterAll(() => connection.close())

test('reports take half of the connections, and the others wait for them', async () => {
  const reader = new Reader(connection)
  const ending = Promise.withResolvers<void>()
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let running = 0
  const reports = Array.from({ length: 5 }, (_, index) =>
    reader.read(async (questions) => {
      running += 1
      begun[index]?.resolve()
      await ending.promise
      return (await questions.ask<{ one: number }>('SELECT 1 AS one', []))[0]!.one
    }),
  )
  await Promise.all(begun.map(({ promise }) => promise))
  // Reads that are no reports go on.
  for (let read = 0; read < 20; read += 1) expect(await connection.one('SELECT 2 AS two')).toEqual({ two: 2 })
  expect(running).toBe(2)
  ending.resolve()
  expect(await Promise.all(reports)).toEqual([1, 1, 1, 1, 1])
}, 30_000)

test('a statement that takes too long is ended by the server, and the next report can be read', async () => {
  const reader = new Reader(connection, 100)
  const slow = await failure(reader.read((questions) => questions.ask('SELECT pg_sleep(60)', [])))
  expect(slow).toMatchObject({
    code: 'store_unavailable',
    message: 'The report took more than 0.1 seconds; ask for a shorter range or fewer groups.',
  })
  expect(await reader.read((questions) => questions.ask('SELECT 1 AS one', []))).toEqual([{ one: 1 }])
}, 30_000)

test('all statements of a report see one state', async () => {
  await connection.run('CREATE TABLE things (id integer)')
  const counts = await new Reader(connection).read(async (questions) => {
    const count = (): Promise<unknown> => questions.ask('SELECT count(*) AS things FROM things', [])
    const before = await count()
    await connection.run('INSERT INTO things VALUES (1)')
    return [before, await count()]
  })
  expect(counts).toEqual([[{ things: 0 }], [{ things: 0 }]])
}, 30_000)
