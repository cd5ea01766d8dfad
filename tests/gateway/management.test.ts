import { beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { program } from '../program.ts'
import { withStoreOption } from '../stores.ts'
import {
  gateway,
  generate,
  get,
  keys,
  keysOf,
  late,
  record,
  store,
  useGateways,
  type Got,
} from './shown-generations.ts'

useGateways()

describe('another account', () => {
  let other: string
  beforeAll(async () => {
    const options = await withStoreOption(['--data', gateway.data])
    sluice('accounts', 'create', 'other', '--credit', '3', '--bonus', '0.5', ...options)
    const made = sluice('keys', 'create', '--account', 'other', '--json', ...options)
    other = (JSON.parse(made) as { text: string }).text
    // The server reads changes of another process within two seconds.
    while ((await get(gateway, '/v1/models', other)).status !== 200) await Bun.sleep(50)
  })

  const HEADERS_OF_ITS_OWN = ['date', 'x-request-id', 'request-id']
  const visible = ({ status, headers, text }: Got): unknown => [
    status,
    [...headers].filter(([name]) => !HEADERS_OF_ITS_OWN.includes(name)),
    text,
  ]

  test.each(['/v1/management/generation', '/v1/generation'])(
    'another account receives from %s the response for an unknown id',
    async (path) => {
      const id = await generate(gateway, 'messages', 'sandbox/messages', 'Hello')
      expect((await get(gateway, `${path}?id=${id}`)).status).toBe(200)
      const expected = visible(await get(gateway, `${path}?id=${id}`, other))
      expect(expected).toEqual([404, expect.any(Array), expect.stringContaining('"not_found"')])
      for (const unknown of [
        `msg_${'0'.repeat(32)}`,
        `msg_${'f'.repeat(32)}`,
        'msg_1',
        '%00',
        '../../etc/passwd',
        "' OR 1=1 --",
      ]) {
        expect(visible(await get(gateway, `${path}?id=${unknown}`))).toEqual(expected)
        expect(visible(await get(gateway, `${path}?id=${unknown}`, other))).toEqual(expected)
      }
    },
  )

  test('another account has its own balance and its own generations', async () => {
    const { text } = await get(gateway, '/v1/management/payg/balance', other)
    expect(JSON.parse(text)).toEqual({
      success: true,
      data: { currency: 'usd', total_credits: 3.5, top_up_credits: 3, bonus_credits: 0.5 },
    })
    const id = await generate(gateway, 'responses', 'sandbox/responses', 'Hello', { key: other })
    expect((await record(gateway, id, other)).generationId).toBe(id)
    expect((await get(gateway, `/v1/management/generation?id=${id}`)).status).toBe(404)
  })
})

describe('the routes', () => {
  test('the management routes accept their own kinds of key only', async () => {
    const id = await generate(gateway, 'chat.completions', 'sandbox/chat', 'Hello', { key: keys.subscription })
    const allowed = async (path: string): Promise<number[]> =>
      Promise.all(
        [keys.own, keys.subscription, keys.management, 'sk-ai-v1-unknown'].map(
          async (key) => (await get(gateway, path, key)).status,
        ),
      )
    expect(await allowed(`/v1/management/generation?id=${id}`)).toEqual([200, 200, 200, 401])
    expect(await allowed(`/v1/generation?id=${id}`)).toEqual([200, 200, 200, 401])
    expect(await allowed('/v1/management/payg/balance')).toEqual([200, 403, 200, 401])
    expect(await allowed('/v1/management/subscription/detail')).toEqual([403, 403, 200, 401])
    expect(
      (
        await fetch(`${gateway.url}/v1/management/payg/balance`, {
          method: 'POST',
          headers: { authorization: `Bearer ${keys.own}` },
        })
      ).status,
    ).toBe(405)
  })

  test('the routes at the old path answer the same, are marked deprecated and name the new path', async () => {
    const id = await store(gateway, 'default')
    const [now, old] = [
      await get(gateway, `/v1/management/generation?id=${id}`),
      await get(gateway, `/v1/generation?generate_id=${id}`),
    ]
    expect(old.text).toBe(now.text)
    expect([now.headers.get('deprecation'), now.headers.get('link')]).toEqual([null, null])
    expect(old.headers.get('deprecation')).toMatch(/^@\d+$/)
    expect(Number(old.headers.get('deprecation')!.slice(1)) * 1000).toBeLessThan(Date.now())
    expect(old.headers.get('link')).toBe(`</v1/management/generation?id=${id}>; rel="successor-version"`)
    const unknown = await get(gateway, '/v1/generation?id=x')
    expect([unknown.status, unknown.headers.get('deprecation'), unknown.headers.get('link')]).toEqual([
      404,
      old.headers.get('deprecation'),
      '</v1/management/generation>; rel="successor-version"',
    ])
  })

  test('the plan and its windows are shown; windows begin with the first request', async () => {
    const fresh = keysOf(late)
    const detail = async (): Promise<Record<string, Record<string, unknown>>> =>
      (
        JSON.parse((await get(late, '/v1/management/subscription/detail', fresh.management)).text) as {
          data: Record<string, Record<string, unknown>>
        }
      ).data
    const before = await detail()
    expect(before).toMatchObject({
      plan: { tier: 'free', amount_usd: 0, interval: 'month' },
      currency: 'usd',
      base_usd_per_flow: 0.03283,
      effective_usd_per_flow: 0.03283,
      account_status: 'healthy',
    })
    expect(before.quota_5_hour).toEqual({
      usage_percentage: 0,
      resets_at: null,
      max_flows: 5,
      used_flows: 0,
      remaining_flows: 5,
      used_value_usd: 0,
      max_value_usd: 0.1642,
    })
    expect(before.quota_monthly).toEqual({ max_flows: 165.6, max_value_usd: 5.4366 })
    await generate(late, 'chat.completions', 'priced/chat', '[[usage: in=1000 out=2000]] [[reply: Hello]]', {
      key: fresh.subscription,
    })
    const { quota_5_hour: after } = await detail()
    // 0.02125 USD of 0.03283 USD each.
    expect(after).toMatchObject({ used_flows: 0.6473, remaining_flows: 4.3527, usage_percentage: 0.1295 })
    expect(Date.parse(after!.resets_at as string) - Date.now()).toBeLessThanOrEqual(5 * 3_600_000)
  })

  test('the management routes answer any invalid query with 400 or 404', async () => {
    const junk = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 80 }),
      fc.constantFrom(
        '%',
        '%ff',
        '%00',
        '%0d%0aX:1',
        '+',
        '..',
        'null',
        'undefined',
        '{}',
        '[]',
        '0'.repeat(32),
        'x'.repeat(3_000),
      ),
    )
    const parameter = fc.tuple(
      fc.constantFrom('id', 'generate_id', 'id[]', 'id.x', 'ID', '__proto__', ''),
      junk,
      fc.boolean(),
    )
    const encode = (value: string): string => encodeURIComponent(value.toWellFormed())
    const query = fc
      .array(parameter, { maxLength: 4 })
      .map((parameters) =>
        parameters
          .map(
            ([name, value, encoded]) =>
              `${name}=${encoded || !/^[\x21-\x7e]*$/.test(value) ? encode(value) : value.replaceAll('#', '')}`,
          )
          .join('&'),
      )
    await fc.assert(
      fc.asyncProperty(query, fc.constantFrom('/v1/management/generation', '/v1/generation'), async (given, path) => {
        expect([400, 404]).toContain((await get(gateway, `${path}?${given}`)).status)
      }),
      { numRuns: 200 },
    )
  }, 30_000)
})

function sluice(...args: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync([program(), ...args], { env: { PATH: process.env.PATH ?? '' } })
  if (exitCode !== 0) throw new Error(stderr.toString())
  return stdout.toString()
}
