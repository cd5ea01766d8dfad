import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RouteAnswer } from '../../src/endpoints/management/answers.ts'
import { startUpstreams } from '../gateway/route-upstreams.ts'
import { program } from '../program.ts'
import { startGateway, type Gateway } from '../server.ts'

/** The preview of a choice, through the API and on the command line. */

setDefaultTimeout(60_000)

const upstreams = startUpstreams(({ model }) =>
  model === 'sick' ? Response.json({ error: { message: 'no' } }, { status: 500 }) : undefined,
)
const scratch = mkdtempSync(join(tmpdir(), 'sluice-route-'))
let gateway: Gateway
const key = `sk-mg-v1-test${'0123456789abcdef'.repeat(3)}`
beforeAll(async () => {
  gateway = await startGateway({
    env: { SLUICE_MANAGEMENT_KEY: key },
    config: `
billing: { unpriced: free }
providers:
  one: { protocol: chat.completions, baseUrl: "${upstreams.url}/one", apiKeys: [{ name: k1, key: canary-secret-1 }] }
  two: { protocol: messages, baseUrl: "${upstreams.url}/two", apiKey: canary-secret-2, region: eu }
  three: { protocol: chat.completions, baseUrl: "${upstreams.url}/three" }
  sick: { protocol: chat.completions, baseUrl: "${upstreams.url}/sick" }
models:
  many:
    endpoints: [{ provider: one, model: a }, { provider: two, model: b }, { provider: three, model: c }]
    fallbacks: [other]
  other: { endpoints: [{ provider: three, model: o }] }
  sick: { endpoints: [{ provider: sick, model: sick }], fallbacks: [other] }
`,
  })
})
afterAll(async () => {
  await gateway.stop()
  await upstreams.stop()
  rmSync(scratch, { recursive: true })
})

const ask = (given: unknown, bearer = key): Promise<Response> =>
  fetch(`${gateway.url}/v1/management/route`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify(given),
  })

test('candidates come in the order of attempts, with their state, and nothing is sent', async () => {
  const response = await ask({ model: 'many' })
  const text = await response.text()
  const routed = JSON.parse(text) as RouteAnswer
  expect([response.status, routed.model, routed.protocol, routed.strategy]).toEqual([
    200,
    'many',
    'chat.completions',
    'order',
  ])
  expect(routed.candidates.map(({ endpoint, model, fallback }) => [endpoint, model, fallback])).toEqual([
    ['one/k1', 'a', null],
    ['two', 'b', null],
    ['three', 'c', null],
    ['three', 'o', 'other'],
  ])
  expect(routed.candidates[0]).toMatchObject({
    protocol: 'chat.completions',
    reason: 'order',
    in_flight: 0,
    success_rate: null,
    first_token_ms: null,
    tokens_per_second: null,
    quota_left: 1,
    breaker: 'closed',
  })
  expect(routed.left_out).toEqual([])
  expect(text).not.toContain('canary-secret')
  expect(upstreams.calls).toEqual([])
})

test('the success rate of an endpoint is shown once something is known of it', async () => {
  const rate = async (): Promise<number | null> => {
    const { candidates } = (await (await ask({ model: 'sick' })).json()) as RouteAnswer
    return candidates.find(({ endpoint }) => endpoint === 'sick')!.success_rate
  }
  expect(await rate()).toBeNull()
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sick', messages: [{ role: 'user', content: 'Hi' }] }),
  })
  await response.text()
  expect(await rate()).toBeLessThan(1)
})

test('the preferences in a body and in headers count, and those left out have reasons', async () => {
  const body = { model: 'many', messages: [{ role: 'user', content: 'Hi' }], seed: 1, provider: { ignore: ['one'] } }
  const routed = (await (await ask({ body, headers: { 'x-sluice-strict': 'true' } })).json()) as RouteAnswer
  expect(routed.candidates.map(({ endpoint }) => endpoint)).toEqual(['three', 'three'])
  expect(routed.left_out).toEqual([
    {
      endpoint: 'one/k1',
      model: 'a',
      protocol: 'chat.completions',
      fallback: null,
      reason: 'among ignore',
      seconds: null,
    },
    {
      endpoint: 'two',
      model: 'b',
      protocol: 'messages',
      fallback: null,
      reason: 'something would be lost in translation',
      seconds: null,
    },
  ])
})

test('what a request would be refused for is refused, and so are other callers', async () => {
  expect((await ask({ model: 'many', headers: { 'x-sluice-provider-regions': 'mars' } })).status).toBe(404)
  expect((await ask({ model: 'missing' })).status).toBe(404)
  expect((await ask({ model: 'many', headers: { 'x-sluice-provider-only': 'nowhere' } })).status).toBe(400)
  expect((await ask({ modle: 'many' })).status).toBe(400)
  expect((await ask({ model: 'many' }, gateway.key)).status).toBe(403)
})

test('sluice route prints them as a table and as JSON', async () => {
  const file = join(scratch, 'request.json')
  writeFileSync(file, '{"model":"many","messages":[{"role":"user","content":"Hi"}],"provider":{"only":["one","two"]}}')
  const run = async (env: Record<string, string>, ...args: string[]): Promise<[number, string, string]> => {
    const { port } = new URL(gateway.url)
    const child = Bun.spawn([program(), 'route', '--port', port, ...args], {
      cwd: scratch,
      env: { PATH: process.env.PATH ?? '', HOME: scratch, ...env },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return [await child.exited, out, err]
  }
  const [code, out] = await run({ SLUICE_MANAGEMENT_KEY: key }, 'many', '--request', file)
  expect([code, out.split('\n').map((line) => line.trim().split(/ {2,}/).slice(0, 4).join('|'))]).toEqual([
    0,
    [
      'many, requested in chat.completions, strategy order',
      '',
      'ENDPOINT|MODEL|WHY|SCORE',
      '1.|one/k1|a|order',
      '2.|two|b|order',
      '',
      'Left out:',
      'three|c|not among only',
      'three (other)|o|not among only',
      '',
    ],
  ])
  const [, json] = await run({}, 'many', '--key', key, '--json')
  expect((JSON.parse(json) as RouteAnswer).candidates).toHaveLength(4)
  expect(await run({}, 'many')).toEqual([2, '', expect.stringContaining('set $SLUICE_MANAGEMENT_KEY or --key')])
  expect(await run({}, 'missing', '--key', key)).toEqual([1, '', expect.stringContaining('missing is not available')])
})
