import { expect, setDefaultTimeout, test } from 'bun:test'
import { Client } from 'pg'
import { providersAt, send } from '../../prove/requests.ts'
import { runWith, Server, startSandbox } from '../../prove/servers.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'
import { startProxy } from './proxy.ts'
import { startPostgres } from './server.ts'

runWith(program(), LATE_COMPILERS)

/** A process that was away from PostgreSQL, and one that starts when PostgreSQL is back. */

setDefaultTimeout(180_000)

const ask = (server: Server, text: string, signal?: AbortSignal): Promise<Response> => {
  const asked = { client: 'messages', provider: 'messages', stream: true, limit: 10_000 } as const
  return send(server, { ...asked, text }, signal)
}

const isServing = async (server: Server): Promise<boolean> => {
  const response = await ask(server, '[[reply: Hello]]')
  await response.text()
  return response.status === 200
}

/** Begins an answer without an end. `received`: its pieces so far. */
async function hold(server: Server): Promise<{ received: number; error?: unknown; end(): void }> {
  const leaving = new AbortController()
  const held: Awaited<ReturnType<typeof hold>> = { received: 0, end: () => leaving.abort() }
  const response = await ask(server, '[[length: 5000]] [[pace: 100ms]]', leaving.signal)
  const read = async (): Promise<void> => {
    for await (const _ of response.body!) held.received++
    throw new Error('it has ended')
  }
  read().catch((error: unknown) => (held.error = error))
  return held
}

/** PostgreSQL, stopped and started again, as after an outage that was longer than any process may be silent. */
test('a process that starts when PostgreSQL is back takes nothing from one that could not report yet', async () => {
  const postgres = await startPostgres(['fsync=on'])
  const sandbox = await startSandbox()
  const url = await postgres.createDatabase('outage')
  const proxy = await startProxy(url)
  const at = (address: string): Server =>
    new Server(
      `store: { url: "${address}", deadAfter: 60s }\nbilling: { startingCredit: 1000, delay: 0s }\n` +
        providersAt(sandbox.url),
    )
  const [away, started] = [at(proxy.url), at(url)]
  try {
    await away.start()
    const held = await hold(away)
    proxy.keepAway(true)
    postgres.kill()
    await postgres.start()
    const client = new Client(url)
    await client.connect()
    await client.query(`UPDATE processes SET heartbeat_at = heartbeat_at - interval '1 hour'`)
    await started.start()
    expect(await until(() => isServing(started))).toBe(true)
    proxy.keepAway(false)
    expect(await until(() => isServing(away))).toBe(true)
    const { received } = held
    expect(await until(async () => held.received > received)).toBe(true)
    expect(held.error).toBeUndefined()
    expect(started.printed).not.toContain('took over from')
    expect(away.printed).not.toContain('taken over from this one')
    const { rows } = await client.query('SELECT count(*)::int AS alive FROM processes WHERE ended_at IS NULL')
    expect(rows).toEqual([{ alive: 2 }])
    held.end()
    await client.end()
  } finally {
    await Promise.all([away.remove(), started.remove()])
    proxy.stop()
    await sandbox.stop()
    postgres.stop()
  }
})
