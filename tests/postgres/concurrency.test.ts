import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { providersAt, send } from '../../prove/requests.ts'
import { runWith, type Server } from '../../prove/servers.ts'
import { withSeveral } from '../../prove/several.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'

runWith(program(), LATE_COMPILERS)

/** Limits of concurrency hold over all processes. */

setDefaultTimeout(180_000)

const ENDLESS = '[[length: 5000]] [[pace: 100ms]]'

const ask = (server: Server, text: string, signal?: AbortSignal): Promise<Response> => {
  const asked = { client: 'messages', provider: 'messages', stream: true, limit: 10_000 } as const
  return send(server, { ...asked, text }, signal)
}

/** Begins an answer without an end, and reads it until `end` is called or its server dies. */
async function hold(server: Server): Promise<{ response: Response; end(): void }> {
  const leaving = new AbortController()
  const response = await ask(server, ENDLESS, leaving.signal)
  response.text().catch(() => {})
  return { response, end: () => leaving.abort() }
}

/** The status of a short answer. */
const statusOf = async (server: Server): Promise<number> => {
  const response = await ask(server, '[[reply: Hello]]')
  await response.text()
  return response.status
}

/** Answers of an endpoint with these limits, and of one that is tried after it where `hasOther`. */
const endpoints =
  (limits: string, hasOther = false) =>
  (sandbox: string): string => {
    const model = '{ provider: up-messages, model: m'
    const other = ', { provider: up-responses, model: other, priority: 1 }'
    return providersAt(sandbox).replace(
      `[${model} }]`,
      `[${model}, priority: 0, limits: ${limits} }${hasOther ? other : ''}]`,
    )
  }

const withLimits = (processes: number, limits: string, run: (servers: Server[]) => Promise<void>): Promise<void> =>
  withSeveral(
    processes,
    (sandbox) => `billing: { startingCredit: 1000000, delay: 0s }\n${limits}\n${providersAt(sandbox)}`,
    ({ servers }) => run(servers),
  )

const AT_ONCE = 'timeouts: { clientLeft: 0s }\nrouting: { queue: { wait: 0s } }'

const withEndpoints = (
  processes: number,
  config: (sandbox: string) => string,
  run: (servers: Server[]) => Promise<void>,
  settings = AT_ONCE,
): Promise<void> =>
  withSeveral(
    processes,
    (sandbox) =>
      'billing: { startingCredit: 1000000, delay: 0s }\nlimits: { requestsPerMinute: 1000000 }\n' +
      `${settings}\n${config(sandbox)}`,
    ({ servers }) => run(servers),
  )

/** The provider that answers. */
const providerOf = async (server: Server): Promise<string | null> => {
  const response = await ask(server, '[[reply: Hello]]')
  await response.text()
  return response.headers.get('x-sluice-provider')
}

describe('requests to an endpoint', () => {
  test('are one at a time at two processes, where that is the limit', () =>
    withEndpoints(2, endpoints('{ concurrency: 1 }'), async (servers) => {
      const [first, second] = servers as [Server, Server]
      const held = await hold(first)
      expect(held.response.status).toBe(200)
      expect([await statusOf(first), await statusOf(second)]).toEqual([529, 529])
      held.end()
      expect(await until(async () => (await statusOf(second)) === 200)).toBe(true)
      expect(await until(async () => (await statusOf(first)) === 200)).toBe(true)
      expect((await hold(first)).response.status).toBe(200)
      await first.kill()
      expect(await until(async () => (await statusOf(second)) === 200)).toBe(true)
    }))

  test('go to another endpoint while a process elsewhere has all places', () =>
    withEndpoints(2, endpoints('{ concurrency: 1 }', true), async (servers) => {
      const [first, second] = servers as [Server, Server]
      const { response } = await hold(first)
      expect(response.headers.get('x-sluice-provider')).toBe('up-messages')
      expect(await providerOf(second)).toBe('up-responses')
      expect(await providerOf(second)).toBe('up-responses')
    }))

  test('that wait at three processes for one place all get it', () =>
    withEndpoints(
      3,
      endpoints('{ concurrency: 1 }'),
      async (servers) => {
        const asked = servers.flatMap((server) => [statusOf(server), statusOf(server), statusOf(server)])
        expect(await Promise.all(asked)).toEqual(asked.map(() => 200))
      },
      'routing: { queue: { wait: 60s } }',
    ))

  test('are in a minute as many at two processes as at one', () =>
    withEndpoints(2, endpoints('{ requestsPerMinute: 5 }'), async (servers) => {
      const statuses: number[] = []
      for (let round = 0; round < 5; round++) for (const server of servers) statuses.push(await statusOf(server))
      expect(statuses.filter((status) => status === 200).length).toBe(5)
      expect(statuses.filter((status) => status === 429).length).toBe(5)
    }))

  test('have in a minute as many tokens at two processes as at one', () =>
    withEndpoints(2, endpoints('{ tokensPerMinute: 5000 }'), async (servers) => {
      // Some 1,000 tokens.
      const text = `[[reply: Hello]] ${'word '.repeat(800)}`
      const statuses = await Promise.all(
        Array.from({ length: 12 }, async (_, at) => {
          const response = await ask(servers[at % 2]!, text)
          await response.text()
          return response.status
        }),
      )
      const served = statuses.filter((status) => status === 200).length
      expect(served).toBeGreaterThanOrEqual(3)
      expect(served).toBeLessThanOrEqual(5)
      expect(statuses.filter((status) => status === 429).length).toBe(12 - served)
    }))

  test('are refused at each process after answers at another one that have as many tokens as the limit', () =>
    withEndpoints(2, endpoints('{ tokensPerMinute: 200000 }'), async (servers) => {
      const [first, second] = servers as [Server, Server]
      expect(await statusOf(second)).toBe(200)
      const answered = async (): Promise<unknown> =>
        (await ask(first, '[[delay: 1s]] [[reply: Hello]] [[usage: in=5 out=10000]]')).text()
      await Promise.all(Array.from({ length: 20 }, answered))
      expect(await until(async () => (await statusOf(second)) === 429)).toBe(true)
      expect(await statusOf(first)).toBe(429)
    }))
})

describe('generations of an account', () => {
  test('are one at a time at two processes, where that is the limit, and a place that is idle is given away', () =>
    withLimits(2, `limits: { accountConcurrency: 1, requestsPerMinute: 1000000 }\n${AT_ONCE}`, async (servers) => {
      const [first, second] = servers as [Server, Server]
      const held = await hold(first)
      expect(held.response.status).toBe(200)
      expect([await statusOf(first), await statusOf(second)]).toEqual([429, 429])
      held.end()
      expect(await until(async () => (await statusOf(second)) === 200)).toBe(true)
      // Nothing runs at the second any more, which has the place.
      expect(await until(async () => (await statusOf(first)) === 200)).toBe(true)
    }))

  test('whose process was killed leave their places to the others', () =>
    withLimits(2, `limits: { accountConcurrency: 1, requestsPerMinute: 1000000 }\n${AT_ONCE}`, async (servers) => {
      const [first, second] = servers as [Server, Server]
      expect((await hold(first)).response.status).toBe(200)
      expect(await statusOf(second)).toBe(429)
      await first.kill()
      expect(await until(async () => (await statusOf(second)) === 200)).toBe(true)
    }))

  test('that wait at four processes for one place all get it', () =>
    withLimits(4, 'limits: { accountConcurrency: 1 }\nrouting: { queue: { wait: 60s } }', async (servers) => {
      const asked = servers.flatMap((server) => [statusOf(server), statusOf(server), statusOf(server)])
      expect(await Promise.all(asked)).toEqual(asked.map(() => 200))
    }))
})
