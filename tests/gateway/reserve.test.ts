import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { SmallDisk } from '../small-disk.ts'
import { until } from '../transport/raw-server.ts'
import { ask, ENDED, PROTOCOLS } from './asking.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'

/** A gateway on a disk that fills up: what it refuses first, and what it does to the last byte. */

const MIB = 2 ** 20
const POOR_KEY = 'sk-ai-v1-of-account-poor-0123456789abcdef'

const MEGABYTES = 40
const disk = await SmallDisk.open(MEGABYTES)
let provider: Gated
beforeAll(() => {
  provider = gatedProvider()
})
afterAll(async () => {
  await provider.stop()
  await disk?.close()
})

const start = (store: string, on = disk!): Promise<GatewayProcess> =>
  startGatewayProcess({
    disk: on,
    config: `store: { ${store} }\nkeys: [{ key: ${POOR_KEY}, account: poor }]\n${gatedConfig({ by: provider })}`,
  })

type Answer = { status: number; headers: Headers; text: string; id: string; message: string }

async function call(
  { url }: GatewayProcess,
  method: string,
  path: string,
  key: string,
  body?: object,
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const json = (text.startsWith('{') ? JSON.parse(text) : {}) as { id?: string; error?: { message: string } }
  return {
    status: response.status,
    headers: response.headers,
    text,
    id: json.id ?? '',
    message: json.error?.message ?? '',
  }
}

const keep = (gateway: GatewayProcess, key: string, bytes: number): Promise<Answer> =>
  call(gateway, 'POST', '/v1/responses', key, {
    model: 'sandbox/responses',
    input: `[[reply: short]] ${'x'.repeat(bytes)}`,
  })

const paid = async ({ url, key }: GatewayProcess): Promise<number> =>
  (await ask({ url, key, protocol: 'chat.completions', model: 'by/messages', stream: false })).status

const readiness = async (gateway: GatewayProcess): Promise<string> => {
  const { status, text } = await call(gateway, 'GET', '/readyz', '')
  return `${status} ${text.trim()}`
}

/** Waits until the gateway has measured the disk and reports this. */
async function ready(gateway: GatewayProcess, expected: RegExp): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (expected.test(await readiness(gateway))) return
    await Bun.sleep(50)
  }
  throw new Error(`the readiness is ${await readiness(gateway)}`)
}

describe.skipIf(disk === undefined)('a disk that fills up', () => {
  test('an account without credit cannot fill it', async () => {
    const gateway = await start('reserve: 4MiB')
    try {
      provider.open()
      for (let times = 0; times < 3; times++) {
        const refused = await keep(gateway, POOR_KEY, 17 * MIB)
        expect([refused.status, refused.message]).toEqual([429, expect.stringContaining('store.quotaWithoutCredit')])
      }
      expect(await readiness(gateway)).toBe('200 ok')
      expect(await paid(gateway)).toBe(200)
    } finally {
      await gateway.stop()
    }
  }, 60_000)

  test('without quotas the reserve refuses what is kept, and clients that keep nothing are served', async () => {
    const gateway = await start('reserve: 8MiB, quotaWithoutCredit: 1GiB')
    const { url, key } = gateway
    try {
      provider.open()
      const kept: string[] = []
      let last: Answer
      // Until it is refused by what was measured, and not by what was accepted since then.
      for (let refused = 0; ; ) {
        last = await keep(gateway, POOR_KEY, MIB)
        if (last.status === 200) kept.push(last.id)
        refused = last.status === 200 ? 0 : refused + 1
        if (refused === 3 || kept.length === 40) break
        if (refused === 0) continue
        await Bun.sleep(150)
        // Measures the disk.
        await readiness(gateway)
      }
      expect([last.status, last.headers.get('retry-after')]).toEqual([503, '30'])
      expect(last.message).toContain('store.reserve')
      expect(last.message).toContain('store: false')
      expect(kept.length).toBeGreaterThan(3)

      disk!.fill(disk!.free - 3 * MIB)
      await ready(gateway, /^200 degraded: the disk has \d+ bytes left of a reserve of 8388608; refused: everything/)
      expect((await keep(gateway, key, 1)).status).toBe(503)
      const form = new FormData()
      form.set('file', new File(['text'], 'a.txt'))
      const headers = { authorization: `Bearer ${key}` }
      expect((await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form })).status).toBe(503)
      for (let times = 0; times < 20; times++) expect(await paid(gateway)).toBe(200)
      for (const id of kept) expect((await call(gateway, 'DELETE', `/v1/responses/${id}`, POOR_KEY)).status).toBe(200)
      // Their pages are free in the database, which makes room on a disk that is as full as before.
      await ready(gateway, /^200 ok$/)
      for (let tries = 0; tries < 100; tries++) {
        last = await keep(gateway, POOR_KEY, MIB)
        if (last.status === 200) break
        await Bun.sleep(50)
      }
      expect(last.status).toBe(200)
    } finally {
      disk!.clear()
      await gateway.stop()
    }
  }, 60_000)

  test('on a full disk streams end and are recorded, deletions work, and readiness comes back', async () => {
    // Without free pages in its database.
    const disk = (await SmallDisk.open(MEGABYTES))!
    let gateway = await start('reserve: 8MiB', disk)
    const { url, key } = gateway
    try {
      provider.open()
      await ready(gateway, /^200 ok$/)
      const response = await keep(gateway, key, 100_000)
      const form = new FormData()
      form.set('file', new File(['text'], 'a.txt'))
      const headers = { authorization: `Bearer ${key}` }
      const file = (await (await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form })).json()) as {
        id: string
      }
      provider.shut()
      const before = provider.begun
      const streams = PROTOCOLS.map((protocol) => ask({ url, key, protocol, model: 'by/messages', stream: true }))
      await until(() => provider.begun === before + streams.length)
      disk.fill()
      provider.open()
      for (const [at, stream] of streams.entries()) {
        const answer = await stream
        const text = await answer.text()
        expect([PROTOCOLS[at], text]).toEqual([PROTOCOLS[at]!, expect.stringMatching(ENDED[PROTOCOLS[at]!].whole)])
        const id = answer.headers.get('x-generation-id')!
        expect((await call(gateway, 'GET', `/v1/management/generation?id=${id}`, key)).status).toBe(200)
      }

      await ready(gateway, /^503 degraded: the disk has \d+ bytes left/)
      const refused = await ask({ url, key, protocol: 'chat.completions', model: 'by/messages', stream: false })
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30'])
      expect(await refused.text()).toContain('nearly full')
      expect((await keep(gateway, key, 1)).status).toBe(503)
      expect((await call(gateway, 'DELETE', `/v1/responses/${response.id}`, key)).status).toBe(200)
      expect((await call(gateway, 'DELETE', `/v1/files/${file.id}`, key)).status).toBe(200)
      expect((await call(gateway, 'GET', `/v1/responses/${response.id}`, key)).status).toBe(404)

      disk.clear()
      await ready(gateway, /^200 ok$/)
      expect(await paid(gateway)).toBe(200)
      const { stderr } = gateway.output()
      expect(stderr).toMatch(/has \d+ bytes left of a reserve of 8388608\. Refusing generations and everything/)
      expect(stderr).toContain('accepting everything again')

      // Its database is closed, and opening it again needs space.
      const last = await keep(gateway, key, 100_000)
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(0)
      disk.fill()
      gateway = await start('reserve: 8MiB', disk)
      await ready(gateway, /^503 degraded/)
      expect((await call(gateway, 'DELETE', `/v1/responses/${last.id}`, key)).status).toBe(200)
    } finally {
      disk.clear()
      await gateway.stop()
      await disk.close()
    }
  }, 60_000)
})
