import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { log } from '../../src/log/log.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { startGatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'

/** A database whose lock another process has: a shell, a backup, a VACUUM. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

/** A second connection that has the lock until `release`. */
function locked(folder: string): { release(): void } {
  const other = new Database(join(folder, 'sluice.sqlite'))
  other.run('BEGIN IMMEDIATE')
  cleanUp.push(() => other.close())
  return { release: () => void other.run('COMMIT') }
}

describe('a store', () => {
  function open(): { folder: string; store: SqliteStore } {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-locked-'))
    const store = new SqliteStore({ folder, exclusive: true })
    cleanUp.push(
      () => rmSync(folder, { recursive: true, force: true }),
      () => store.close(),
    )
    return { folder, store }
  }

  test('a write waits for the lock without blocking the event loop, and reads do not wait', async () => {
    const { folder, store } = open()
    const { release } = locked(folder)
    // The lock is released by the event loop that the write must not block.
    const released = Bun.sleep(30).then(release)
    const writes = ['a', 'b'].map((name) => store.settings.setOnce(name, name))
    expect(await store.accounts.list()).toEqual([])
    expect(await Promise.all(writes)).toEqual(['a', 'b'])
    await released
  })

  test('writes are committed in their order after the lock, those that came meanwhile included', async () => {
    const { folder, store } = open()
    const { release } = locked(folder)
    const first = store.settings.setOnce('name', 'first')
    await Bun.sleep(30)
    const second = store.settings.setOnce('name', 'second')
    release()
    expect(await Promise.all([first, second])).toEqual(['first', 'first'])
  })

  test('a folder is opened while another process has the lock, and what is written then waits for it', async () => {
    const { folder } = open()
    const { release } = locked(folder)
    const late = new SqliteStore({ folder, exclusive: false })
    cleanUp.push(() => late.close())
    const written = late.settings.setOnce('name', 'late')
    await Bun.sleep(30)
    release()
    expect(await written).toBe('late')
  })

  test('a write that waits too long is store_unavailable, and a later one succeeds', async () => {
    const { folder, store } = open()
    const { release } = locked(folder)
    const { now } = performance
    let skipped = 0
    using _ = spyOn(performance, 'now').mockImplementation(() => now.call(performance) + skipped)
    using reported = spyOn(log, 'warn').mockImplementation(() => {})
    const late = store.settings.setOnce('a', 'late').catch((error: unknown) => error)
    await Bun.sleep(30)
    skipped = 29_000
    await until(() => reported.mock.calls.length > 0)
    const next = store.settings.setOnce('a', 'next')
    skipped = 31_000
    const error = await late
    expect(error).toBeInstanceOf(GatewayError)
    expect((error as GatewayError).message).toBe(
      'The store is unavailable: it is locked by another process; try again.',
    )
    release()
    expect(await next).toBe('next')
    expect(reported.mock.calls).toEqual([
      ['Another process has locked the database: writes wait until it has released the lock.'],
    ])
  })
})

test('while another process has the lock, streams flow, health is answered, and requests end after it', async () => {
  const gateway = await startGatewayProcess()
  cleanUp.push(() => gateway.stop())
  const ask = (content: string, stream: boolean): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model: 'sandbox/chat', stream, messages: [{ role: 'user', content }] }),
    })
  expect((await ask('before', false)).status).toBe(200)
  const { release } = locked(gateway.data)
  let isWholeAnswered = false
  const whole = ask('[[reply: whole]]', false).finally(() => (isWholeAnswered = true))
  const stream = await ask('[[reply: one two three four five six]] [[chunk: 1]] [[pace: 60ms]]', true)
  let text = ''
  const ended = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of stream.body!) text += decoder.decode(chunk, { stream: true })
  })()
  for (let asked = 0; asked < 100 || !text.includes('six'); asked++)
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
  expect([isWholeAnswered, text.includes('[DONE]')]).toEqual([false, false])
  release()
  expect((await whole).status).toBe(200)
  await ended
  expect(text).toEndWith('data: [DONE]\n\n')
}, 60_000)
