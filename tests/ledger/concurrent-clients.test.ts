import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { storeIn } from '../stores.ts'
import { CLIENTS, MILLI } from './reserving.ts'

setDefaultTimeout(60_000)

describe('64 concurrent clients of a gateway', () => {
  let gateway: Gateway | undefined
  afterEach(async () => gateway?.stop())

  const CONFIG = `
limits: { requestsPerMinute: 100000 }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
models:
  fee: { endpoints: [{ provider: sandbox, model: chat }], price: { request: 0.1 } }
  tokens: { endpoints: [{ provider: sandbox, model: messages }], price: { completion: 1000 } }
  prompts: { endpoints: [{ provider: sandbox, model: messages }], price: { prompt: 1000 } }
plans: { usdPerFlow: 0.1, tiers: { free: { flows: { 5_hour: 10, 7_day: 1000, monthly: 1000 } } } }
keys: [{ key: sk-limited-0123456789abcdef, limit: 1 }]
`

  const open = async (startingCredit: number): Promise<Gateway> =>
    (gateway = await startGateway({
      config: `${CONFIG}billing: { unpriced: refuse, startingCredit: ${startingCredit} }\n`,
    }))

  /** One request per client, in four protocols, half of them streamed; gives the number of each status. */
  async function requestAll(
    { url }: Gateway,
    key: string,
    model: string,
    directives: string,
  ): Promise<Record<number, number>> {
    const statuses = await Promise.all(
      Array.from({ length: CLIENTS }, async (_, at) => {
        const [stream, text] = [at % 8 < 4, `${directives} [[delay: 300ms]]`]
        const [path, body] = [
          [
            '/v1/chat/completions',
            { model, stream, max_tokens: 10, messages: [{ role: 'user', content: text }] },
          ] as const,
          ['/v1/messages', { model, stream, max_tokens: 10, messages: [{ role: 'user', content: text }] }] as const,
          ['/v1/responses', { model, stream, max_output_tokens: 10, input: text, store: false }] as const,
          [
            `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
            { contents: [{ role: 'user', parts: [{ text }] }], generationConfig: { maxOutputTokens: 10 } },
          ] as const,
        ][at % 4]!
        const response = await fetch(url + path, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}` },
          body: JSON.stringify(body),
        })
        const answer = await response.text()
        expect(answer.includes('one two') || response.status >= 400).toBe(true)
        return response.status
      }),
    )
    return Object.fromEntries(
      [...new Set(statuses)].map((status) => [status, statuses.filter((other) => other === status).length]),
    )
  }

  /** Balances in nano-USD by their kind. */
  async function bookOf({ data }: Gateway): Promise<Record<string, bigint>> {
    const store = await storeIn(data)
    try {
      const { balances } = await store.ledger.state()
      return Object.fromEntries(balances.map(({ kind, balance }) => [kind, balance]))
    } finally {
      await store.close()
    }
  }

  test('clients get exactly ten responses for the fee of ten requests', async () => {
    const running = await open(1)
    expect(await requestAll(running, running.key, 'fee', '[[reply: one two]]')).toEqual({ 200: 10, 402: 54 })
    expect(await bookOf(running)).toEqual({ credit: 0n, outside: -1_000n * MILLI, revenue: 1_000n * MILLI })
  })

  test('clients get exactly ten responses for the tokens of ten requests', async () => {
    const running = await open(0.1)
    expect(await requestAll(running, running.key, 'tokens', '[[reply: one two]] [[usage: in=5 out=10]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toMatchObject({ credit: 0n, revenue: 100n * MILLI })
  })

  test('clients never spend more than the balance: what responses use above their holds is written off', async () => {
    const running = await open(0.5)
    const { 200: served = 0, ...others } = await requestAll(
      running,
      running.key,
      'prompts',
      '[[reply: one two]] [[usage: in=700 out=10]]',
    )
    expect(served).toBeWithin(1, 11)
    expect(others).toEqual({ 402: CLIENTS - served })
    const billed = BigInt(served) * 700n * MILLI
    expect(await bookOf(running)).toMatchObject({ credit: 0n, revenue: billed, 'write-off': 500n * MILLI - billed })
  })

  test('tokens that are reported above the output limit are charged as the limit, at no other cost', async () => {
    const running = await open(0.1)
    expect(await requestAll(running, running.key, 'tokens', '[[reply: one two]] [[usage: in=5 out=9000000]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toEqual({ credit: 0n, outside: -100n * MILLI, revenue: 100n * MILLI })
  })

  test('a key with a spending limit gets exactly ten responses although the account could pay more', async () => {
    const running = await open(100)
    expect(await requestAll(running, 'sk-limited-0123456789abcdef', 'fee', '[[reply: one two]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toMatchObject({ credit: 99_000n * MILLI })
  })

  test('a subscription gets exactly ten responses in a window of ten flows', async () => {
    const running = await open(100)
    const key = running.createdKeys.subscription!
    expect(await requestAll(running, key, 'fee', '[[reply: one two]]')).toEqual({ 200: 10, 429: 54 })
    expect(await bookOf(running)).toMatchObject({ credit: 100_000n * MILLI })
  })
})
