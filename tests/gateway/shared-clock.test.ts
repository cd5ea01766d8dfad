import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Browser, firstLink } from '../management/browser.ts'
import { runSluice } from '../cli/run.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { newPostgresFolder } from '../stores.ts'
import { ask } from './asking.ts'

/** Two processes over one PostgreSQL, of which the clock of one is an hour ahead and that of another an hour behind. */

const HOUR = 3_600_000
const MINUTE = 60_000
const OWNER = 'sk-mg-v1-0123456789abcdef0123456789abcdef'
const SUBSCRIPTION = 'sk-ss-v1-0123456789abcdef0123456789abcdef'
const CONFIG = `
keys: [{ key: ${SUBSCRIPTION}, kind: subscription }]
models: { translated: { endpoints: [{ provider: sandbox, model: chat, protocol: chat.completions }] } }
`

let folder: string
const processes: GatewayProcess[] = []
const preloads: string[] = []
beforeAll(async () => {
  folder = newPostgresFolder()
  for (const [index, ahead] of [HOUR, -HOUR].entries()) {
    const preload = join(folder, `clock${index}.ts`)
    writeFileSync(preload, `const now = Date.now\nDate.now = () => now() + ${ahead}\n`)
    preloads.push(preload)
    processes.push(
      await startGatewayProcess({
        data: folder,
        env: { BUN_OPTIONS: `--preload=${preload}`, SLUICE_MANAGEMENT_KEY: OWNER },
        config: CONFIG,
      }),
    )
  }
}, 60_000)
afterAll(async () => {
  for (const one of processes) await one.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const managed = async <T>({ url }: GatewayProcess, path: string, body?: object): Promise<T> => {
  const headers = { authorization: `Bearer ${OWNER}`, 'content-type': 'application/json' }
  const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  return (await (await fetch(`${url}/v1/management${path}`, { headers, ...sent })).json()) as T
}

const generate = async ({ url }: GatewayProcess, key: string): Promise<number> => {
  const asked = { url, key, protocol: 'chat.completions', model: 'sandbox/chat', stream: false, limit: 5 } as const
  return (await ask(asked)).status
}

/** The distance of an instant from now, in minutes. */
const minutesTo = (instant: string): number => Math.round((Date.parse(instant) - Date.now()) / MINUTE)

test('a quota window that begins at one is the same window at the other, and ends when it should', async () => {
  for (const process of processes) expect(await generate(process, SUBSCRIPTION)).toBe(200)
  const ends = await Promise.all(
    processes.map(async (process) => {
      const { data } = await managed<{ data: { quota_5_hour: { resets_at: string } } }>(process, '/subscription/detail')
      return data.quota_5_hour.resets_at
    }),
  )
  expect(ends[0]).toBe(ends[1]!)
  expect(minutesTo(ends[0]!)).toBeWithin(5 * 60 - 2, 5 * 60 + 1)
})

test('a key that expires soon works at processes with wrong clocks, and records have the right times', async () => {
  const expires_at = new Date(Date.now() + HOUR / 2).toISOString()
  for (const process of processes) {
    const { text } = await managed<{ text: string }>(process, '/keys', { kind: 'pay-as-you-go', expires_at })
    for (const other of processes)
      while ((await generate(other, text)) !== 200) {
        expect(minutesTo(expires_at)).toBeGreaterThan(25)
        await Bun.sleep(50)
      }
  }
  const { data } = await managed<{ data: { at: string }[] }>(processes[0]!, '/requests')
  expect(data.map(({ at }) => minutesTo(at)).filter((minutes) => Math.abs(minutes) > 2)).toEqual([])
})

test('a stored response has the right times at two processes with wrong clocks', async () => {
  for (const { url } of processes) {
    const asked = { url, key: SUBSCRIPTION, protocol: 'responses', model: 'translated', stream: true } as const
    const frames = await (await ask({ ...asked, more: { store: true } })).text()
    for (const name of ['created_at', 'completed_at']) {
      const [, seconds] = new RegExp(`"${name}":(\\d+)`).exec(frames)!
      expect([name, Math.abs(minutesTo(new Date(Number(seconds) * 1000).toISOString())) < 2]).toEqual([name, true])
    }
  }
})

test('each process with a wrong clock warns once', () => {
  const warnings = processes.map((process) => process.output().stderr.match(/the clock of this machine is .*/g))
  expect(warnings).toEqual([[expect.stringContaining('3600 s ahead of')], [expect.stringContaining('3600 s behind')]])
})

test('commands on either machine make links and keys that end when they should', async () => {
  const options = ['--config', join(folder, 'test-config.yaml'), '--data', folder, '--json']
  for (const preload of preloads) {
    const run = async <T>(...words: string[]): Promise<T> => {
      const { out } = await runSluice([...words, ...options], { env: { BUN_OPTIONS: `--preload=${preload}` } })
      return JSON.parse(out) as T
    }
    const { until } = await run<{ until: string }>('console')
    expect(minutesTo(until)).toBeWithin(14, 16)
    const { id } = await run<{ id: string }>('keys', 'create', '--expires', '30m')
    const listed = await run<{ id: string; createdAt: string; expiresAt: string }[]>('keys', 'list')
    const { createdAt, expiresAt } = listed.find((one) => one.id === id)!
    expect(minutesTo(createdAt)).toBeWithin(-2, 1)
    expect(minutesTo(expiresAt)).toBeWithin(28, 31)
  }
})

test('a link of 15 minutes signs in at both', async () => {
  for (const { url } of processes) {
    const got = await new Browser(url).post('/session/preview', { link: await firstLink(folder) })
    expect(got.status).toBe(200)
  }
})
