import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type GatewayProcess, startGatewayProcess } from '../server.ts'
import { newPostgresFolder, storeIn } from '../stores.ts'

const IS_LINUX = process.platform === 'linux'
const WORKERS = 3
const CONFIG = `workers: ${WORKERS}
metrics: { port: 0 }
timeouts: { drain: 20s }
`

let data: string
let gateway: GatewayProcess
beforeAll(async () => {
  if (!IS_LINUX) return
  data = newPostgresFolder()
  gateway = await startGatewayProcess({ config: CONFIG, data })
}, 60_000)
afterAll(async () => {
  await gateway?.stop()
  if (IS_LINUX) rmSync(data, { recursive: true })
})

/** Ids of the processes that a process has started. */
const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

/** True until the process has ended, even if its end was not waited for. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 30_000; !condition(); await Bun.sleep(20))
    if (Date.now() > end) throw new Error(`it is not so after 30 seconds: ${condition}\n${gateway.output().stderr}`)
}

/** On a connection of its own, so that the system chooses the worker. */
const ask = (content: string, stream = false): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    keepalive: false,
    headers: { authorization: `Bearer ${gateway.key}`, connection: 'close' },
    body: JSON.stringify({ model: 'sandbox/chat', stream, messages: [{ role: 'user', content }] }),
  })

const metricsUrls = (): string[] => [...gateway.output().stderr.matchAll(/metrics on (\S+)/g)].map(([, url]) => url!)

/** The number of chat completions that the worker with these metrics has answered. */
async function answeredBy(url: string): Promise<number> {
  const text = await (await fetch(url)).text()
  const counts = text.matchAll(/^sluice_requests_total\{[^}]*route="chat\.completions"[^}]*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

test.skipIf(!IS_LINUX)(
  'workers share the port, and each has its own metrics',
  async () => {
    expect(gateway.output().stdout.match(/^listening on /gm)?.length).toBe(1)
    expect(Object.keys(gateway.createdKeys).length).toBeGreaterThan(0)
    const statuses = await Promise.all(Array.from({ length: 60 }, async () => (await ask('hello')).status))
    expect(new Set(statuses)).toEqual(new Set([200]))
    const answered = await Promise.all(metricsUrls().map(answeredBy))
    expect(answered.length).toBe(WORKERS)
    expect(answered.reduce((sum, count) => sum + count, 0)).toBe(60)
    expect(answered.filter((count) => count > 0).length).toBeGreaterThan(1)
    const shared = await fetch(`${gateway.url}/metrics`)
    expect([shared.status, await shared.text()]).toEqual([404, expect.stringContaining('metrics.port')])
  },
  60_000,
)

test.skipIf(!IS_LINUX)(
  'SIGHUP has all of them read the file again',
  async () => {
    const file = join(data, 'test-config.yaml')
    writeFileSync(file, `${readFileSync(file, 'utf8')}keepAlive: 7s\n`)
    const count = (line: string): number => gateway.output().stderr.split(line).length - 1
    gateway.kill('SIGHUP')
    await until(() => count('test-config.yaml is read again: changed keepAlive\n') === 1)
    await until(() => count('test-config.yaml is read again, as by another server\n') === WORKERS - 1)
    expect((await ask('hello')).status).toBe(200)
  },
  60_000,
)

test.skipIf(!IS_LINUX)(
  'a worker that is killed is started again, and the others go on',
  async () => {
    const before = childrenOf(gateway.pid)
    expect(before.length).toBe(WORKERS)
    process.kill(before[1]!, 'SIGKILL')
    await until(() => /worker 2 ended with \d+; it is started again/.test(gateway.output().stderr))
    expect((await ask('hello')).status).toBe(200)
    await until(() => metricsUrls().length === WORKERS + 1)
    expect(childrenOf(gateway.pid).length).toBe(WORKERS)
  },
  60_000,
)

test.skipIf(!IS_LINUX)(
  'a worker answers a stream to its end before it stops, and nothing is left',
  async () => {
    const streams = await Promise.all(
      Array.from({ length: 6 }, () => ask('[[chunk: 1]] [[pace: 100ms]] [[reply: one two three four five]]', true)),
    )
    const workers = childrenOf(gateway.pid)
    gateway.kill('SIGTERM')
    const texts = await Promise.all(streams.map((response) => response.text()))
    expect(texts.map((text) => text.includes('[DONE]'))).toEqual(texts.map(() => true))
    expect(await gateway.exited).toBe(0)
    expect(workers.filter(isRunning)).toEqual([])
    const store = await storeIn(data)
    expect(await store.ledger.openGenerations()).toEqual([])
    await store.close()
  },
  60_000,
)

test.skipIf(!IS_LINUX)(
  'workers end with the process that started them',
  async () => {
    gateway = await startGatewayProcess({ config: CONFIG, data })
    const workers = childrenOf(gateway.pid)
    expect(workers.filter(isRunning).length).toBe(WORKERS)
    gateway.kill('SIGKILL')
    await gateway.exited
    await until(() => workers.every((pid) => !isRunning(pid)))
  },
  60_000,
)

const listen = (port: number): Bun.Server<undefined> =>
  Bun.serve({ hostname: '127.0.0.1', port, fetch: () => new Response() })

/** A server on a port after one that is free. */
function listenAfterFreePort(): Bun.Server<undefined> {
  for (let tries = 20; ; tries--) {
    const server = listen(0)
    try {
      listen(server.port! - 1).stop(true)
      return server
    } catch (error) {
      server.stop(true)
      if (tries === 0) throw error
    }
  }
}

test.skipIf(!IS_LINUX)(
  'a worker that does not start ends them all',
  async () => {
    const other = newPostgresFolder()
    // The metrics of the second worker have the next port.
    using taken = listenAfterFreePort()
    const config = `workers: ${WORKERS}\nmetrics: { port: ${taken.port! - 1} }\n`
    const error = await startGatewayProcess({ config, data: other }).catch(String)
    expect(error).toContain('sluice ended with 1 before it listened')
    expect(error).toContain(`metrics.port: port ${taken.port} of 127.0.0.1 is in use`)
    rmSync(other, { recursive: true })
  },
  60_000,
)
