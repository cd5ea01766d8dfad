import { afterAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { runWith, type Server } from '../../prove/servers.ts'
import { withSeveral } from '../../prove/several.ts'
import { predictionUpstream } from '../predictions/upstream.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'

runWith(program(), LATE_COMPILERS)

/** Limits of an account hold over all processes. */

setDefaultTimeout(120_000)

const FOREVER_MS = 1e9

const upstream = predictionUpstream()
afterAll(() => upstream.stop())
beforeEach(() => void (upstream.creates.length = 0))

const call = async (server: Server, path: string, body: object): Promise<{ status: number; id: string }> => {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const { id = '' } = (await response.json()) as { id?: string }
  return { status: response.status, id }
}

const create = (server: Server, key: string): Promise<{ status: number; id: string }> =>
  call(server, '/v1/models/up/owner/name/predictions', { input: { key, ms: FOREVER_MS } })

const withLimits = (limits: string, run: (servers: Server[]) => Promise<void>): Promise<void> =>
  withSeveral(
    3,
    () => `predictions: ${limits}\nproviders:\n  up: { protocol: predictions, baseUrl: "${upstream.url}" }\n`,
    ({ servers }) => run(servers),
  )

describe('predictions of an account', () => {
  test('at three processes run and wait as many as at one', () =>
    withLimits('{ concurrency: 2, waiting: 1 }', async ([first, second, third]) => {
      const made = await Promise.all(
        [first!, first!, second!, second!, third!, third!].map((server, index) => create(server, `${index}`)),
      )
      expect(made.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429, 429, 429])
      expect(await until(() => upstream.creates.length >= 2)).toBe(true)
      // A third one that began wrongly would have done so by now.
      await Bun.sleep(1_000)
      expect(upstream.creates.length).toBe(2)
      const running = made.find(({ status }, index) => status === 200 && upstream.creates.includes(`${index}`))!
      expect((await call(third!, `/v1/predictions/${running.id}/cancel`, {})).status).toBe(200)
      expect(await until(() => upstream.creates.length === 3)).toBe(true)
      expect((await create(first!, 'more')).status).toBe(200)
      expect((await create(second!, 'refused')).status).toBe(429)
    }))

  test('whose process was killed count at the one that takes over', () =>
    withLimits('{ concurrency: 1, waiting: 1 }', async ([first, second, third]) => {
      expect((await create(first!, 'runs')).status).toBe(200)
      expect(await until(() => upstream.creates.length === 1)).toBe(true)
      const waits = await create(second!, 'waits')
      await second!.kill()
      expect((await create(third!, 'refused')).status).toBe(429)
      // The process that has the waiting one now cancels it.
      const hasEnded = async (): Promise<boolean> => {
        await call(third!, `/v1/predictions/${waits.id}/cancel`, {})
        return (await create(third!, 'next')).status === 200
      }
      expect(await until(hasEnded)).toBe(true)
      expect(upstream.creates).toEqual(['runs'])
    }))
})
