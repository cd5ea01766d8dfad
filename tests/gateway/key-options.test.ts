/** Settings of keys and accounts, changed by the command line while the gateway runs. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { program } from '../program.ts'
import { startGateway, type Gateway } from '../server.ts'

/** They wait until the gateway sees changes, so they run at the same time. */
const LIMIT_MS = 60_000

const CONFIG = `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1 }
accountStatus: { requestsPerMinute: 2 }
models:
  acme/chat: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 3, completion: 15 } }
  acme/other: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 3, completion: 15 } }
`

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
})
afterAll(() => gateway.stop())

/** Runs a command on the gateway's data folder. Returns its JSON output. */
async function sluice<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const child = Bun.spawn(
    [program(), ...args, '--json', '--data', gateway.data, '--config', join(gateway.data, 'test-config.yaml')],
    { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  )
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(err)
  return JSON.parse(out) as T
}

const newKey = async (...options: string[]): Promise<{ id: string; text: string }> =>
  sluice('keys', 'create', ...options)

type Outcome = { status: number; code: string | undefined; message: string }

async function ask(key: string, model: string, maxTokens = 100): Promise<Outcome> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      max_completion_tokens: maxTokens,
      messages: [{ role: 'user', content: '[[reply: four words of answer]]' }],
    }),
  })
  const { error } = (await response.json()) as { error?: { code: string; message: string } }
  return { status: response.status, code: error?.code, message: error?.message ?? '' }
}

/** The first outcome other than `before`. A change by another process takes a second, and longer on a busy machine. */
async function askAfter(before: string, ...request: Parameters<typeof ask>): Promise<Outcome> {
  for (;;) {
    const outcome = await ask(...request)
    if ((outcome.code ?? 'none') !== before) return outcome
    await Bun.sleep(50)
  }
}

describe('a key', () => {
  test.concurrent(
    'a key can use its allowed models only',
    async () => {
      const { text } = await newKey('--models', 'acme/c*')
      expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({ status: 200 })
      expect(await ask(text, 'acme/other')).toMatchObject({ status: 403, code: 'permission_denied' })
      const [counting, gemini] = [
        { messages: [{ role: 'user', content: 'Hi' }] },
        { contents: [{ parts: [{ text: 'Hi' }] }] },
      ]
      for (const [model, status] of [
        ['acme/chat', 200],
        ['acme/other', 403],
      ] as const) {
        for (const [path, body] of [
          ['messages/count_tokens', { model, ...counting }],
          [`publishers/${model.replace('/', '/models/')}:countTokens`, gemini],
        ] as const) {
          expect([
            path,
            model,
            (
              await fetch(`${gateway.url}/v1/${path}`, {
                method: 'POST',
                headers: { authorization: `Bearer ${text}`, 'content-type': 'application/json' },
                body: JSON.stringify(body),
              })
            ).status,
          ]).toEqual([path, model, status])
        }
      }
      const { data } = (await (
        await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${text}` } })
      ).json()) as { data: { id: string }[] }
      expect(data.map(({ id }) => id)).toEqual(['acme/chat'])
    },
    LIMIT_MS,
  )

  test.concurrent(
    'a key can spend up to its limit, and the amount spent is shown',
    async () => {
      // 100 output tokens cost at most 0.0015 USD; the real output is much smaller.
      const { id, text } = await newKey('--limit', '0.0022', '--limit-period', 'month')
      expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({ status: 200 })
      const refused = await ask(text, 'acme/chat', 200)
      expect(refused).toMatchObject({ status: 402, code: 'insufficient_credit' })
      expect(refused.message).toMatch(
        /limit of \$0\.0022 per month\. An output limit of at most 1\d\d tokens fits\. The limit resets at /,
      )
      const { keys, balance } = await sluice<{
        keys: { id: string; spentUsd: number | null }[]
        balance: { totalUsd: number }
      }>('accounts', 'show', 'default')
      const spent = keys.find((key) => key.id === id)!.spentUsd!
      expect(spent > 0 && spent < 0.0015).toBe(true)
      expect(balance.totalUsd).toBeLessThan(1)
    },
    LIMIT_MS,
  )

  test.concurrent(
    'a key with a limit of 0 cannot spend anything',
    async () => {
      const { text } = await newKey('--limit', '0')
      expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({ status: 402 })
    },
    LIMIT_MS,
  )
})

describe('an account', () => {
  test.concurrent(
    'an account can spend credit added while the gateway runs, but not credit that was removed',
    async () => {
      await sluice('accounts', 'create', 'team')
      const { text } = await newKey('--account', 'team')
      expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({
        status: 402,
        code: 'insufficient_credit',
      })
      await sluice('accounts', 'credit', 'team', '0.5')
      expect(await askAfter('insufficient_credit', text, 'acme/chat')).toMatchObject({ status: 200 })
      // Until the gateway reads the change, it may spend the removed credit, which the book must allow.
      await sluice('accounts', 'credit', 'team', '-0.499')
      expect(await askAfter('none', text, 'acme/chat')).toMatchObject({ status: 402 })
      await sluice('accounts', 'status', 'team', 'banned')
      expect(await askAfter('insufficient_credit', text, 'acme/chat')).toMatchObject({
        status: 403,
        code: 'account_suspended',
      })
    },
    LIMIT_MS,
  )

  test.concurrent(
    'an abusive account has a lower rate limit on its pay-as-you-go keys',
    async () => {
      await sluice('accounts', 'create', 'hasty', '--credit', '1')
      const { text } = await newKey('--account', 'hasty')
      expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({ status: 200 })
      for (let count = 0; count < 3; count++) expect(await ask(text, 'acme/chat')).toMatchObject({ status: 200 })
      await sluice('accounts', 'status', 'hasty', 'abusive')
      expect(await askAfter('none', text, 'acme/chat')).toMatchObject({
        status: 422,
        code: 'rate_limit_exceeded',
        message: expect.stringContaining('limited to 2 requests per minute'),
      })
    },
    LIMIT_MS,
  )

  test.concurrent(
    'an account pays less by its discount',
    async () => {
      await sluice('accounts', 'create', 'half', '--credit', '1', '--discount', '50')
      await sluice('accounts', 'create', 'whole', '--credit', '1')
      const spent = await Promise.all(
        ['half', 'whole'].map(async (account) => {
          const { text } = await newKey('--account', account)
          expect(await askAfter('invalid_api_key', text, 'acme/chat')).toMatchObject({ status: 200 })
          const { balance } = await sluice<{ balance: { creditUsd: number } }>('accounts', 'show', account)
          return Math.round((1 - balance.creditUsd) * 1e9)
        }),
      )
      expect(spent[0]).toBeGreaterThan(0)
      expect(spent[1]).toBe(spent[0]! * 2)
    },
    LIMIT_MS,
  )
})
