import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Quotas of what is kept. The first account has credit; the others have none. */

const KIB = 1024
const POOR = ['poor', 'racing', 'predicting', 'counted', 'failing', 'priced', 'uploading', 'streaming'] as const
type Account = (typeof POOR)[number]
const keyOf = (account: Account): string => `sk-ai-v1-of-account-${account}-0123456789abcdef`
const config = (store: string, more = ''): string => `
store: { ${store} }
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, delay: 0s }
keys: [${POOR.map((account) => `{ key: ${keyOf(account)}, account: ${account} }`).join(', ')}]
${more}`

type Answer = { status: number; headers: Headers; id: string; code: string; message: string }

async function call(gateway: Gateway, method: string, path: string, key: string, body?: object): Promise<Answer> {
  const response = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return answerOf(response)
}

async function answerOf(response: Response): Promise<Answer> {
  const json = (await response.json()) as { id: string; error?: { code: string; message: string } }
  const { status, headers } = response
  return { status, headers, id: json.id, code: json.error?.code ?? '', message: json.error?.message ?? '' }
}

/** `announced`: with a Content-Length. */
async function upload({ url }: Gateway, key: string, bytes: number, announced = true): Promise<Answer> {
  const form = new FormData()
  form.set('file', new File([new Uint8Array(bytes)], 'a.bin'))
  const sent = new Response(form)
  const type = sent.headers.get('content-type')!
  const body = announced ? await sent.arrayBuffer() : sent.body!
  const headers = { authorization: `Bearer ${key}`, 'content-type': type }
  return answerOf(await fetch(`${url}/v1/files`, { method: 'POST', headers, body }))
}

const input = (bytes: number): string => `[[reply: short]] ${'x'.repeat(bytes)}`

const respond = (gateway: Gateway, key: string, bytes: number, more: object = {}): Promise<Answer> =>
  call(gateway, 'POST', '/v1/responses', key, { model: 'sandbox/responses', input: input(bytes), ...more })

describe('requests to free models by an account without credit', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config: config('quotaWithoutCredit: 100KiB') })
  })
  afterAll(() => gateway?.stop())

  test('a response beyond the small quota is refused before it is made, with what would help', async () => {
    const key = keyOf('poor')
    const refused = await respond(gateway, key, 101 * KIB)
    expect([refused.status, refused.code, refused.headers.get('x-should-retry')]).toEqual([
      429,
      'quota_exceeded',
      'false',
    ])
    for (const part of [
      '102400 bytes',
      'store.quotaWithoutCredit',
      '0 are used',
      'Add credit',
      'store: false',
      'DELETE',
    ])
      expect(refused.message).toContain(part)
    expect(refused.headers.get('x-generation-id')).toBeNull()
    expect((await respond(gateway, key, 101 * KIB, { store: false })).status).toBe(200)
    // The first account has credit.
    expect((await respond(gateway, gateway.key, 101 * KIB)).status).toBe(200)
  })

  test('deleting a response makes room for another one', async () => {
    const key = keyOf('poor')
    const first = await respond(gateway, key, 60 * KIB)
    expect(first.status).toBe(200)
    expect((await respond(gateway, key, 60 * KIB)).status).toBe(429)
    expect((await call(gateway, 'DELETE', `/v1/responses/${first.id}`, key)).status).toBe(200)
    expect((await respond(gateway, key, 60 * KIB)).status).toBe(200)
  })

  test('of requests that arrive together only as many are accepted as there is room for', async () => {
    const key = keyOf('racing')
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => respond(gateway, key, 30 * KIB, { stream: false })),
    )
    const served = answers.filter(({ status }) => status === 200).length
    expect(served).toBeLessThanOrEqual(3)
    expect(answers.filter(({ status }) => status === 429).length).toBe(12 - served)
    // Nothing is held any more.
    let rest = served
    while ((await respond(gateway, key, 30 * KIB)).status === 200) rest++
    expect(rest).toBe(3)
  })

  test('predictions and responses share the small quota', async () => {
    const key = keyOf('predicting')
    const predict = (bytes: number): Promise<Answer> =>
      call(gateway, 'POST', '/v1/predictions', key, { model: 'sandbox/chat', input: { prompt: input(bytes) } })
    expect((await predict(60 * KIB)).status).toBe(200)
    const refused = await respond(gateway, key, 60 * KIB)
    expect([refused.status, refused.code]).toEqual([429, 'quota_exceeded'])
    const again = await predict(60 * KIB)
    expect([again.status, again.code]).toEqual([429, 'quota_exceeded'])
    expect(again.message).toContain('predictions.keepDays')
  })

  test('uploads of an account without credit share the small quota, whatever they announce', async () => {
    const key = keyOf('uploading')
    for (const announced of [true, false]) {
      const refused = await upload(gateway, key, 101 * KIB, announced)
      expect([refused.status, refused.code]).toEqual([429, 'quota_exceeded'])
      expect(refused.message).toContain('store.quotaWithoutCredit')
    }
    const first = await upload(gateway, key, 60 * KIB)
    expect(first.status).toBe(200)
    const response = await respond(gateway, key, 60 * KIB)
    expect([response.status, response.message]).toEqual([429, expect.stringContaining('files included')])
    expect((await respond(gateway, key, 20 * KIB)).status).toBe(200)
    expect((await upload(gateway, key, 30 * KIB)).status).toBe(429)
    expect((await call(gateway, 'DELETE', `/v1/files/${first.id}`, key)).status).toBe(200)
    // 100 KiB are the blocks of 25 files.
    for (let times = 0; times < 20; times++) expect((await upload(gateway, key, 1)).status).toBe(200)
    const statuses = new Set<number>()
    for (let times = 0; times < 10; times++) statuses.add((await upload(gateway, key, 1)).status)
    expect(statuses).toContain(429)
    // The first account has credit.
    expect((await upload(gateway, gateway.key, 200 * KIB)).status).toBe(200)
  })

  test('uploads that arrive together pass the small quota neither while they arrive nor at their end', async () => {
    const key = keyOf('streaming')
    const uploads = Array.from({ length: 8 }, () => upload(gateway, key, 40 * KIB, false))
    const responses = Array.from({ length: 2 }, () => respond(gateway, key, 30 * KIB))
    await Promise.all([...uploads, ...responses])
    let kept = 0
    for (const upload of uploads) if ((await upload).status === 200) kept += 40
    for (const response of responses) if ((await response).status === 200) kept += 30
    expect(kept).toBeLessThanOrEqual(100)
    expect(kept).toBeGreaterThan(0)
  })

  test('what is held is released when a request fails at its provider or is refused for its cost', async () => {
    for (let times = 0; times < 4; times++) {
      const failed = await call(gateway, 'POST', '/v1/responses', keyOf('failing'), {
        model: 'sandbox/responses',
        input: `[[error: 500]] ${'x'.repeat(60 * KIB)}`,
      })
      expect(failed.status).toBeGreaterThanOrEqual(500)
      const { status } = await call(gateway, 'POST', '/v1/predictions', keyOf('priced'), {
        model: 'sandbox/prediction',
        input: { prompt: 'x'.repeat(60 * KIB) },
      })
      expect(status).toBe(402)
    }
    for (const account of ['failing', 'priced'] as const)
      expect((await respond(gateway, keyOf(account), 60 * KIB)).status).toBe(200)
  })
})

test('an account with credit has quotas of its own for bytes and numbers of responses and predictions', async () => {
  const more = 'responses: { quota: 100KiB, count: 3 }\npredictions: { quota: 100KiB, count: 2 }\n'
  const gateway = await startGateway({ config: config('quotaWithoutCredit: 0B', more) })
  try {
    const { key } = gateway
    const refused = await respond(gateway, key, 101 * KIB)
    expect([refused.status, refused.code]).toEqual([429, 'quota_exceeded'])
    expect(refused.message).toContain('use 0 of 102400 bytes (responses.quota)')
    const ids: string[] = []
    for (let times = 0; times < 3; times++) ids.push((await respond(gateway, key, 1)).id)
    const counted = await respond(gateway, key, 1)
    expect([counted.status, counted.message]).toEqual([429, expect.stringContaining('3 of at most 3')])
    expect(counted.message).toContain('responses.count')
    expect((await call(gateway, 'DELETE', `/v1/responses/${ids[0]}`, key)).status).toBe(200)
    expect((await respond(gateway, key, 1)).status).toBe(200)

    const predict = (prompt: string): Promise<Answer> =>
      call(gateway, 'POST', '/v1/predictions', key, { model: 'sandbox/chat', input: { prompt } })
    expect((await predict('x'.repeat(101 * KIB))).message).toContain('predictions.quota')
    expect([(await predict('a')).status, (await predict('b')).status]).toEqual([200, 200])
    expect((await predict('c')).message).toContain('2 of at most 2 stored predictions (predictions.count)')

    // With nothing for accounts without credit, they can still be served.
    const poor = keyOf('counted')
    expect((await respond(gateway, poor, 1)).status).toBe(429)
    expect((await respond(gateway, poor, 1, { store: false })).status).toBe(200)
  } finally {
    await gateway.stop()
  }
})

test('the quota of all accounts refuses whatever would be kept, uploads and images too, and nothing else', async () => {
  const gateway = await startGateway({ config: config('quota: 100KiB') })
  try {
    const { key } = gateway
    const first = await respond(gateway, key, 90 * KIB)
    expect(first.status).toBe(200)
    const file = await upload(gateway, key, 20 * KIB)
    const image = { model: 'sandbox/image', prompt: 'x'.repeat(20 * KIB), response_format: 'url' }
    const refused = await respond(gateway, keyOf('poor'), 20 * KIB)
    expect([refused.status, refused.code, refused.headers.get('retry-after')]).toEqual([503, 'store_unavailable', '60'])
    expect(refused.message).toContain('102400 bytes (store.quota)')
    expect(file.status).toBe(503)
    expect((await call(gateway, 'POST', '/v1/images/generations', key, image)).status).toBe(200)
    expect((await respond(gateway, key, 20 * KIB, { store: false })).status).toBe(200)
    expect((await call(gateway, 'DELETE', `/v1/responses/${first.id}`, key)).status).toBe(200)
    expect((await respond(gateway, keyOf('poor'), 20 * KIB)).status).toBe(200)
  } finally {
    await gateway.stop()
  }
})
