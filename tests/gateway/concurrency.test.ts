import { afterEach, beforeEach, describe, expect, type Mock, setDefaultTimeout, spyOn, test } from 'bun:test'
import { FairQueue } from '../../src/pipeline/fair-queue.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Limits of concurrency: of endpoints, accounts and the server, with a queue. */

setDefaultTimeout(60_000)

type Held = { name: string; answer(): void }

let gateway: Gateway | undefined
let provider: ReturnType<typeof Bun.serve> | undefined
/** The calls by which requests began to wait. */
let waits: Mock<FairQueue['wait']>
beforeEach(() => {
  waits = spyOn(FairQueue.prototype, 'wait')
})
afterEach(async () => {
  waits.mockRestore()
  await gateway?.stop()
  await provider?.stop(true)
})

/** A gateway whose provider answers each request when it is let. `held`: those that it has, in their order. */
async function started(config: (url: string) => string): Promise<Held[]> {
  const held: Held[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { messages } = (await request.json()) as { messages: { content: string }[] }
      const { promise, resolve } = Promise.withResolvers<void>()
      held.push({ name: messages[0]!.content, answer: resolve })
      await promise
      return Response.json({
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      })
    },
  })
  provider = server
  gateway = await startGateway({ config: config(server.url.origin) })
  return held
}

const KEYS = { ada: 'fixed-key-of-ada-0', bob: 'fixed-key-of-bob-0' }
const ACCOUNTS = `
billing: { unpriced: free }
keys: [{ key: ${KEYS.ada}, account: ada }, { key: ${KEYS.bob}, account: bob }]
`
const configOf =
  (rest: string, provided = ''): ((url: string) => string) =>
  (url) =>
    `${ACCOUNTS}${rest}
providers: { far: { protocol: chat.completions, baseUrl: "${url}" } }
models: { m: { endpoints: [{ provider: far, model: m${provided} }] } }
`

const ask = (name: string, key: string, signal?: AbortSignal): Promise<Response> =>
  fetch(`${gateway!.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: name }] }),
    ...(signal === undefined ? {} : { signal }),
  })

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 30_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('the condition did not come')
    await Bun.sleep(5)
  }
}

/** Answers the held requests one after the other. Returns their names in the order in which they came. */
async function answerAll(held: Held[], count: number): Promise<string[]> {
  for (let at = 0; at < count; at++) {
    await until(() => held.length > at)
    held[at]!.answer()
  }
  return held.map(({ name }) => name)
}

const waiting = (count: number): Promise<void> => until(() => waits.mock.calls.length === count)

test('an endpoint has as many requests as it may; the others wait, and none is lost', async () => {
  const held = await started(configOf('', ', limits: { concurrency: 2 }'))
  const answers = Array.from({ length: 6 }, (_, at) => ask(`${at}`, KEYS.ada))
  await waiting(4)
  for (let answered = 0; answered < 6; answered++) {
    await until(() => held.length === Math.min(answered + 2, 6))
    held[answered]!.answer()
  }
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
})

describe('the server', () => {
  test('lets the accounts in by turns, and answers /livez throughout', async () => {
    const held = await started(configOf('limits: { concurrency: 1 }'))
    const first = ask('a1', KEYS.ada)
    await until(() => held.length === 1)
    const others: Promise<Response>[] = []
    const names = [
      ['a2', KEYS.ada],
      ['a3', KEYS.ada],
      ['b1', KEYS.bob],
      ['b2', KEYS.bob],
    ] as const
    for (const [at, [name, key]] of names.entries()) {
      others.push(ask(name, key))
      await waiting(at + 1)
    }
    expect((await fetch(`${gateway!.url}/livez`)).status).toBe(200)
    expect(await answerAll(held, 5)).toEqual(['a1', 'a2', 'b1', 'a3', 'b2'])
    for (const answer of [first, ...others]) expect((await answer).status).toBe(200)
  })

  test('refuses what does not fit in the queue with 503 and the time until it would be served', async () => {
    const queue = 'routing: { queue: { requests: 1, wait: 25s } }'
    const held = await started(configOf(`limits: { concurrency: 2 }\n${queue}`))
    const first = [ask('1', KEYS.ada), ask('2', KEYS.ada)]
    await until(() => held.length === 2)
    const third = ask('3', KEYS.ada)
    await waiting(1)
    const refused = await ask('4', KEYS.bob)
    // Two at a time, of which none has ended: each is taken to last as long as the longest wait.
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '25'])
    expect(refused.headers.get('x-should-retry')).toBe('true')
    await answerAll(held, 3)
    for (const answer of [...first, third]) expect((await answer).status).toBe(200)
  })

  test('forgets a request whose client left while it waited', async () => {
    const held = await started(configOf('limits: { concurrency: 1 }'))
    const first = ask('1', KEYS.ada)
    await until(() => held.length === 1)
    const leaving = new AbortController()
    const left = ask('left', KEYS.ada, leaving.signal).catch(() => undefined)
    await waiting(1)
    const third = ask('3', KEYS.ada)
    await waiting(2)
    leaving.abort()
    await left
    await until(() => (waits.mock.contexts[0] as FairQueue).size === 1)
    expect(await answerAll(held, 2)).toEqual(['1', '3'])
    expect([(await first).status, (await third).status]).toEqual([200, 200])
  })
})

describe('an account', () => {
  test('over its limit is refused with 429 once it waited too long, and no other waits for it', async () => {
    const held = await started(configOf('limits: { accountConcurrency: 1 }\nrouting: { queue: { wait: 200ms } }'))
    const first = ask('a1', KEYS.ada)
    await until(() => held.length === 1)
    const second = await ask('a2', KEYS.ada)
    expect([second.status, second.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await second.text()).toContain('This account has 1 requests in flight, as many as it may')
    const other = ask('b1', KEYS.bob)
    expect(await answerAll(held, 2)).toEqual(['a1', 'b1'])
    expect([(await first).status, (await other).status]).toEqual([200, 200])
    const again = ask('a3', KEYS.ada)
    await answerAll(held, 3)
    expect((await again).status).toBe(200)
  })

  test('has the limit of its plan', async () => {
    const held = await started(
      configOf(
        'limits: { accountConcurrency: 1 }\nrouting: { queue: { wait: 0s } }\n' +
          'plans: { tiers: { free: { concurrency: 2 } } }',
      ),
    )
    const answers = [ask('1', KEYS.ada), ask('2', KEYS.ada)]
    await until(() => held.length === 2)
    expect((await ask('3', KEYS.ada)).status).toBe(429)
    await answerAll(held, 2)
    for (const answer of answers) expect((await answer).status).toBe(200)
  })
})

test('requests that fail, are refused or leave give their slots back', async () => {
  const held = await started(configOf('limits: { concurrency: 1 }\nrouting: { queue: { wait: 30s } }'))
  const bad = await fetch(`${gateway!.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEYS.ada}`, 'content-type': 'application/json' },
    body: '{"model":',
  })
  expect(bad.status).toBe(400)
  const leaving = new AbortController()
  const left = ask('left', KEYS.ada, leaving.signal).catch(() => undefined)
  await until(() => held.length === 1)
  leaving.abort()
  await left
  const next = ask('next', KEYS.bob)
  await answerAll(held, 2)
  expect((await next).status).toBe(200)
})
