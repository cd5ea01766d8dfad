import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { program } from '../program.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ON_POSTGRES, storeIn, withStoreOption } from '../stores.ts'
import { ask, PROTOCOLS } from './asking.ts'
import { BILL, gatedConfig, gatedProvider, type Gated } from './gated.ts'

/** A gateway on a machine whose clock is changed. */

const HOUR = 3_600_000
const SUBSCRIPTION = 'sk-ss-v1-0123456789abcdef0123456789abcdef'
const DAILY = 'sk-ai-v1-0123456789abcdef0123456789abcdef'
const MANAGEMENT = 'sk-mg-v1-0123456789abcdef0123456789abcdef'

const folder = mkdtempSync(join(tmpdir(), 'sluice-clock-'))
/** The data folder of the server. */
let data = folder
let provider: Gated
let gateway: GatewayProcess

/** Sets the offset of the server's clock. */
const jump = (ms: number): void => writeFileSync(join(folder, 'offset'), String(ms))
/** Lets this time pass for the server, besides that which passes. */
const pass = (ms: number): void => writeFileSync(join(folder, 'passed'), String(ms))

const start = (): Promise<GatewayProcess> =>
  startGatewayProcess({
    data,
    env: { BUN_OPTIONS: `--preload=${join(folder, 'clock.ts')}` },
    config: `${gatedConfig({ up: provider })}
plans: { usdPerFlow: 0.00001, tiers: { free: { flows: { 5_hour: 20, 7_day: 1000, monthly: 1000 } } } }
keys:
  - { key: ${SUBSCRIPTION}, kind: subscription }
  - { key: ${MANAGEMENT}, kind: management }
  - { key: ${DAILY}, limit: 0.0001, limitPeriod: day }
`,
  })

beforeAll(async () => {
  jump(0)
  pass(0)
  writeFileSync(
    join(folder, 'clock.ts'),
    `
import { readFileSync } from 'node:fs'
const [now, elapsed] = [Date.now, performance.now.bind(performance)]
const read = (name: string): number => Number(readFileSync(${JSON.stringify(folder)} + '/' + name, 'utf8'))
Date.now = () => now() + read('passed') + read('offset')
performance.now = () => elapsed() + read('passed')
`,
  )
  provider = gatedProvider()
  gateway = await start()
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
  for (const one of new Set([folder, data])) rmSync(one, { recursive: true, force: true })
})

test('durations and bills of generations in flight are right when the clock is changed', async () => {
  provider.shut()
  const answers = await Promise.all(
    PROTOCOLS.map((protocol) =>
      ask({ url: gateway.url, key: gateway.key, protocol, model: 'up/messages', stream: true, limit: 10 }),
    ),
  )
  jump(30 * 24 * HOUR)
  await Bun.sleep(150)
  jump(-HOUR)
  provider.open()
  await Promise.all(answers.map((answer) => answer.text()))
  jump(0)
  const store = await storeIn(folder)
  try {
    const records = await store.ledger.generations(undefined, 10)
    expect(
      records.map(({ ending, bill, latency, duration }) => [
        ending,
        bill,
        latency >= 0 && latency < 60_000,
        duration >= 100 && duration < 60_000,
      ]),
    ).toEqual(PROTOCOLS.map(() => ['completed', BILL, true, true]))
    expect(await store.ledger.openGenerations()).toEqual([])
  } finally {
    await store.close()
  }
}, 20_000)

type Window = { resets_at: string; used_flows: number }

const used = async (): Promise<Window> => {
  const response = await fetch(`${gateway.url}/v1/management/subscription/detail`, {
    headers: { authorization: `Bearer ${MANAGEMENT}` },
  })
  const { data } = (await response.json()) as { data: { quota_5_hour: Window } }
  return { resets_at: data.quota_5_hour.resets_at, used_flows: data.quota_5_hour.used_flows }
}

const generate = async (key = SUBSCRIPTION): Promise<number> =>
  (
    await ask({
      url: gateway.url,
      key,
      protocol: 'chat.completions',
      model: 'up/messages',
      stream: false,
      limit: 5,
    })
  ).status

test('a daily limit outlasts a clock that is wrong for a moment, and is not locked after it', async () => {
  provider.open()
  jump(20 * 365 * 24 * HOUR)
  expect(await generate(DAILY)).toBe(200)
  jump(0)
  const statuses: number[] = []
  while (statuses.at(-1) !== 402) statuses.push(await generate(DAILY))
  jump(40 * 24 * HOUR)
  expect(await generate(DAILY)).toBe(402)
  jump(0)
  pass(24 * HOUR)
  expect(await generate(DAILY)).toBe(200)
  pass(0)
  await gateway.stop()
  gateway = await start()
}, 20_000)

test('a quota window returns nothing and ends once when the clock is changed, even over a restart', async () => {
  provider.open()
  // Each uses 2 flows and reserves the most that it may use.
  let fitted = 0
  while ((await generate()) === 200) fitted++
  const full = await used()
  expect([fitted > 0, full.used_flows]).toEqual([true, fitted * 2])
  for (const ms of [-2 * HOUR, -30 * 24 * HOUR, 4 * HOUR]) {
    jump(ms)
    expect([ms, await used(), await generate()]).toEqual([ms, full, 429])
  }
  // A clock that was set forward counts after a minute.
  for (const ms of [20 * 365 * 24 * HOUR, 0, 6 * HOUR]) {
    jump(ms)
    expect([ms, await used(), await generate()]).toEqual([ms, full, 429])
  }
  pass(61_000)
  // Processes over PostgreSQL go by its clock, however their own is set.
  if (ON_POSTGRES) {
    expect([await used(), await generate()]).toEqual([full, 429])
    pass(6 * HOUR)
  }
  expect(await generate()).toBe(200)
  const next = await used()
  expect([next.used_flows, Date.parse(next.resets_at) > Date.parse(full.resets_at) + 5 * HOUR]).toEqual([2, true])
  jump(-2 * HOUR)
  expect([await used(), await generate()]).toEqual([next, 200])
  await gateway.stop()
  gateway = await start()
  expect(await used()).toEqual({ ...next, used_flows: 4 })
}, 20_000)

const sluice = async (...args: string[]): Promise<string> => {
  const words = await withStoreOption([...args, '--data', data])
  const child = Bun.spawn([program(), ...words], {
    env: { PATH: process.env.PATH ?? '', OLLAMA_HOST: 'http://127.0.0.1:9' },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const out = await new Response(child.stdout).text()
  expect(await child.exited).toBe(0)
  return out
}

test('the command line resets a full quota of a running server, and of one that is not running', async () => {
  // The time of the commands is that of the machine: the server of before has been further.
  await gateway.stop()
  jump(0)
  pass(0)
  data = mkdtempSync(join(tmpdir(), 'sluice-clock-'))
  gateway = await start()
  provider.open()
  while ((await generate()) === 200) continue
  expect(await sluice('quota', 'reset', 'default')).toContain('are reset')
  while ((await generate()) !== 200) await Bun.sleep(50)
  const before = await used()
  expect([before.used_flows, Date.parse(before.resets_at) <= Date.now() + 5 * HOUR]).toEqual([2, true])
  while ((await generate()) === 200) continue
  await gateway.stop()
  await sluice('quota', 'reset', 'default')
  gateway = await start()
  expect(await generate()).toBe(200)
  expect((await used()).used_flows).toBe(2)
  await gateway.stop()
  gateway = await start()
  expect((await used()).used_flows).toBe(2)
  expect(await sluice('ledger', 'audit', '--json')).toContain('"right":true')
}, 60_000)
