import { expect, test } from 'bun:test'
import type { Connection } from '../../src/store/postgres/connection.ts'
import { ProgressTable } from '../../src/store/postgres/progress-table.ts'

/** A connection whose statements end when `end` is called, and the texts that they write. */
function heldConnection(): { connection: Connection; texts: unknown[]; end(): Promise<void> } {
  const texts: unknown[] = []
  let statement = Promise.withResolvers<{ changes: number }>()
  const run = (_sql: string, _process: unknown, text: unknown): Promise<{ changes: number }> => {
    texts.push(text)
    statement = Promise.withResolvers()
    return statement.promise
  }
  return {
    connection: { run, process: 1 } as unknown as Connection,
    texts,
    async end() {
      statement.resolve({ changes: 1 })
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test('progress is written at once, and what came meanwhile as soon as the statement before has ended', async () => {
  const { connection, texts, end } = heldConnection()
  const progress = new ProgressTable(connection)
  progress.write('1')
  expect(texts).toEqual(['1'])
  progress.write('2')
  progress.write('3')
  expect(texts).toEqual(['1'])
  await end()
  expect(texts).toEqual(['1', '3'])
  await end()
  progress.write('4')
  expect(texts).toEqual(['1', '3', '4'])
})
