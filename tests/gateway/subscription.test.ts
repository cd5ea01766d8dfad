import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { program } from '../program.ts'
import { startGateway, type Gateway } from '../server.ts'
import { rawClient } from '../transport/raw-server.ts'
import { ask, PROTOCOLS } from './asking.ts'
import { withStoreOption } from '../stores.ts'

/** The quota of subscriptions, and its changes by operators while the gateway runs. */

const ACCOUNTS = ['fresh', 'full', 'punished', 'upgraded', 'revoked']
const keyOf = (account: string, kind: 'ss' | 'mg'): string => `sk-${kind}-v1-of-account-${account}-0123456789abcdef`

/** A flow is a cent, and an output token a hundredth of a flow. */
const CONFIG = `
limits: { requestsPerMinute: 100000 }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
plans:
  usdPerFlow: 0.01
  tiers:
    free: { flows: { 5_hour: 10, 7_day: 1000, monthly: 1000 } }
    pro: { flows: { 5_hour: 30, 7_day: 1000, monthly: 1000 } }
models: { tokens: { endpoints: [{ provider: sandbox, model: chat }], price: { completion: 100 } } }
billing: { unpriced: refuse }
keys:
${ACCOUNTS.flatMap((account) => [
  `  - { key: ${keyOf(account, 'ss')}, kind: subscription, account: ${account} }`,
  `  - { key: ${keyOf(account, 'mg')}, kind: management, account: ${account} }`,
]).join('\n')}
`

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
})
afterAll(() => gateway?.stop())

async function sluice(...args: string[]): Promise<void> {
  const child = Bun.spawn(
    [program(), ...args, '--data', gateway.data, '--config', join(gateway.data, 'test-config.yaml')],
    { env: { PATH: process.env.PATH ?? '' }, stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' },
  )
  expect([await new Response(child.stderr).text(), await child.exited]).toEqual(['', 0])
}

/** A generation with this output limit and this number of output tokens. */
const generate = (
  account: string,
  limit: number,
  tokens: number,
  protocol: ConversationName = 'chat.completions',
): Promise<Response> =>
  ask({
    url: gateway.url,
    key: keyOf(account, 'ss'),
    protocol,
    model: 'tokens',
    stream: false,
    limit,
    text: `[[reply: done]] [[usage: in=1 out=${tokens}]]`,
  })

type Window = {
  usage_percentage: number
  resets_at: string | null
  max_flows: number
  used_flows: number
  remaining_flows: number
  used_value_usd: number
  max_value_usd: number
}
type Detail = {
  account_status: string
  effective_usd_per_flow: number
  quota_5_hour: Window
  quota_7_day: Window
  plan: { tier: string }
}

async function detail(account: string): Promise<Detail> {
  const response = await fetch(`${gateway.url}/v1/management/subscription/detail`, {
    headers: { authorization: `Bearer ${keyOf(account, 'mg')}` },
  })
  expect(response.status).toBe(200)
  return ((await response.json()) as { data: Detail }).data
}

/** Retries for the two seconds in which a change by another process takes effect. */
async function seen(look: () => Promise<boolean>): Promise<boolean> {
  for (let looks = 0; looks < 40; looks++) {
    if (await look()) return true
    await Bun.sleep(50)
  }
  return false
}

const HOUR = 3_600_000

test('windows begin with the first request and show four decimals', async () => {
  const before = await detail('fresh')
  expect([before.quota_5_hour.resets_at, before.quota_7_day.resets_at]).toEqual([null, null])
  const began = Date.now()
  expect((await generate('fresh', 200, 123)).status).toBe(200)
  const { quota_5_hour: five, quota_7_day: seven } = await detail('fresh')
  expect(five).toEqual({
    usage_percentage: 0.123,
    resets_at: expect.any(String),
    max_flows: 10,
    used_flows: 1.23,
    remaining_flows: 8.77,
    used_value_usd: 0.0123,
    max_value_usd: 0.1,
  })
  expect([seven.used_flows, seven.usage_percentage]).toEqual([1.23, 0.0012])
  for (const [window, hours] of [
    [five, 5],
    [seven, 168],
  ] as const) {
    const resets = Date.parse(window.resets_at!) - hours * HOUR
    expect(resets >= began && resets <= Date.now()).toBe(true)
  }
  expect((await generate('fresh', 200, 1)).status).toBe(200)
  expect((await detail('fresh')).quota_5_hour).toMatchObject({ resets_at: five.resets_at, used_flows: 1.24 })
})

test('a full window is refused with 429 in every protocol, with its end and the amount that would fit', async () => {
  expect((await generate('full', 950, 950)).status).toBe(200)
  const resets = (await detail('full')).quota_5_hour.resets_at!
  for (const protocol of PROTOCOLS) {
    const response = await generate('full', 51, 51, protocol)
    const seconds = Number(response.headers.get('retry-after'))
    expect([
      protocol,
      response.status,
      response.headers.get('x-should-retry'),
      seconds > 4.9 * 3600 && seconds <= 5 * 3600,
    ]).toEqual([protocol, 429, 'false', true])
    const body = (await response.json()) as { error: { message: string } & Record<string, unknown> }
    expect(body).toMatchObject(
      {
        'chat.completions': { error: { type: 'insufficient_quota', param: null, code: 'quota_exceeded' } },
        responses: { error: { type: 'insufficient_quota', param: null, code: 'quota_exceeded' } },
        messages: { type: 'error', error: { type: 'rate_limit_error' } },
        generateContent: { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } },
      }[protocol],
    )
    expect(body.error.message).toBe(
      'This request holds 0.51 flows, and 0.5 of 10 are left in the 5-hour quota of the free plan. ' +
        `It resets at ${resets}. 0.5 flows ($0.005 at list prices) are available now; lower the output limit.`,
    )
  }
  // The refused request used nothing, and the amount in the message fits.
  expect((await detail('full')).quota_5_hour.used_flows).toBe(9.5)
  expect((await generate('full', 50, 50, 'messages')).status).toBe(200)
  expect((await detail('full')).quota_5_hour).toMatchObject({ used_flows: 10, remaining_flows: 0, usage_percentage: 1 })
})

test('a request larger than a whole window is refused without a time to wait', async () => {
  const response = await generate('fresh', 2_000, 1)
  expect([response.status, response.headers.get('retry-after'), response.headers.get('x-should-retry')]).toEqual([
    429,
    null,
    'false',
  ])
  expect(await response.text()).toContain(
    'holds 20 flows, more than the 5-hour quota of the free plan, which is 10 flows',
  )
})

/** Each change is seen within a second or two, and they are of different accounts. */
const LIMIT_MS = 60_000

test.concurrent(
  'the status of an account sets its penalty, or ends its requests',
  async () => {
    expect((await generate('punished', 100, 100)).status).toBe(200)
    const status = async (next: string): Promise<Detail> => {
      await sluice('accounts', 'status', 'punished', next)
      await seen(async () => (await detail('punished')).account_status === next)
      return detail('punished')
    }
    expect(await status('abusive')).toMatchObject({
      account_status: 'abusive',
      effective_usd_per_flow: 0.015,
      quota_5_hour: { used_flows: 1 },
    })
    expect((await generate('punished', 100, 100)).status).toBe(200)
    expect((await detail('punished')).quota_5_hour.used_flows).toBe(2.5)
    // 7.5 flows are left, which pay for 500 tokens.
    expect(await (await generate('punished', 501, 1)).text()).toContain('holds 7.515 flows, and 7.5 of 10 are left')
    for (const next of ['suspended', 'banned']) {
      await sluice('accounts', 'status', 'punished', next)
      expect(
        await seen(async () => (await (await generate('punished', 1, 1)).text()).includes(`This account is ${next}.`)),
      ).toBe(true)
      expect((await detail('punished')).account_status).toBe(next)
      for (const protocol of PROTOCOLS) {
        const response = await generate('punished', 1, 1, protocol)
        expect([protocol, response.status, response.headers.get('retry-after'), await response.text()]).toEqual([
          protocol,
          403,
          null,
          expect.stringContaining(`This account is ${next}.`),
        ])
      }
    }
  },
  LIMIT_MS,
)

test.concurrent(
  'another plan applies within two seconds and keeps the usage',
  async () => {
    expect((await generate('upgraded', 1_000, 1_000)).status).toBe(200)
    expect((await generate('upgraded', 1_000, 1)).status).toBe(429)
    const before = (await detail('upgraded')).quota_5_hour.resets_at
    await sluice('accounts', 'plan', 'upgraded', 'pro')
    expect(await seen(async () => (await generate('upgraded', 1_000, 1)).status === 200)).toBe(true)
    expect(await detail('upgraded')).toMatchObject({
      plan: { tier: 'pro' },
      quota_5_hour: { max_flows: 30, used_flows: 10.01, resets_at: before },
    })
  },
  LIMIT_MS,
)

test.concurrent(
  'a revoked key stops within two seconds, even on an open connection',
  async () => {
    const created = Bun.spawn(
      [
        program(),
        ...(await withStoreOption(['keys', 'create', '--account', 'revoked', '--json', '--data', gateway.data])),
      ],
      { env: { PATH: process.env.PATH ?? '' } },
    )
    const { id, text: key } = (await new Response(created.stdout).json()) as { id: string; text: string }
    const client = await rawClient(Number(new URL(gateway.url).port))
    let answers = 0
    const status = async (): Promise<string> => {
      client.write(`GET /v1/management/generation?id=x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
      answers++
      const statuses = (): string[] => [...client.text().matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code!)
      while (statuses().length < answers && !client.closed()) await Bun.sleep(1)
      return statuses()[answers - 1] ?? 'closed'
    }
    expect(await seen(async () => (await status()) === '404')).toBe(true)
    await sluice('keys', 'revoke', id)
    expect(await seen(async () => (await status()) === '401')).toBe(true)
    expect([await status(), client.closed()]).toEqual(['401', false])
    client.close()
  },
  LIMIT_MS,
)
