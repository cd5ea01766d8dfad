import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { ask, ENDED, PROTOCOLS } from '../gateway/asking.ts'
import { inScene, Scene } from '../scene.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../server.ts'
import { once } from '../stores.ts'
import { inParallel, type Behaviour, poolConfig, upstream, type Upstream } from './upstreams.ts'

const LIMIT_MS = 60_000

/** A head that comes so late is of no endpoint that is given up. */
const SLOW_MS = 40

class FailoverScene extends Scene {
  async gatewayOver(
    protocol: ConversationName,
    behaviours: Behaviour[],
    more?: object,
  ): Promise<{ gateway: Gateway; upstreams: Upstream[] }> {
    const upstreams = behaviours.map((behaviour) => upstream(behaviour, SLOW_MS))
    for (const one of upstreams) this.atEnd(() => one.stop())
    return { gateway: await this.start({ config: poolConfig(protocol, upstreams, more) }), upstreams }
  }

  async start(options: GatewayOptions): Promise<Gateway> {
    const gateway = await startGateway(options)
    this.atEnd(() => gateway.stop())
    return gateway
  }
}

/** `as`: `test`, or with `concurrent` where it mostly waits. */
function failoverTest(name: string, run: (at: FailoverScene) => Promise<void>, as: typeof test = once): void {
  as(
    name,
    inScene(() => new FailoverScene(), run),
    LIMIT_MS,
  )
}

type Answered = { status: number; text: string; attempts: number; provider: string | null }

async function send(gateway: Gateway, protocol: ConversationName, stream: boolean): Promise<Answered> {
  const response = await ask({ ...gateway, protocol, model: 'pool', stream, limit: 50 })
  const { status, headers } = response
  const text = await response.text()
  return {
    status,
    text,
    attempts: Number(headers.get('x-sluice-attempts')),
    provider: headers.get('x-sluice-provider'),
  }
}

const requestsTo = (upstreams: Upstream[]): number => upstreams.reduce((sum, { requests }) => sum + requests, 0)

/** Faults of two endpoints, beside a healthy third one. Requests to a stalled one wait, so their tests do together. */
const FAULTS: [Behaviour, Behaviour, typeof test][] = [
  ['resetting', 'failing', once],
  ['stalled', 'limited', once.concurrent],
  ['error-first', 'slow', once],
]

describe('one healthy endpoint of three', () => {
  for (const [first, second, as] of FAULTS)
    for (const protocol of PROTOCOLS) {
      const noneFails = async (at: FailoverScene): Promise<void> => {
        const behaviours: Behaviour[] = [first, second, 'well']
        const { gateway, upstreams } = await at.gatewayOver(protocol, behaviours, { routing: { patience: '1s' } })
        const requests = 100
        await inParallel(requests, 8, async (job) => {
          const { status, text } = await send(gateway, protocol, job % 2 === 0)
          expect([status, job % 2 !== 0 || ENDED[protocol].whole.test(text)], text).toEqual([200, true])
        })
        expect(requestsTo(upstreams)).toBeLessThanOrEqual(1.2 * requests + 10)
      }
      failoverTest(`no request fails while the others are ${first} and ${second}: ${protocol}`, noneFails, as)
    }

  failoverTest('an endpoint that cannot be reached costs one attempt until its breaker opens', async (at) => {
    const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['well', 'well'])
    upstreams[0]!.stop()
    const attempts: number[] = []
    for (let request = 0; request < 30; request++)
      attempts.push((await send(gateway, 'chat.completions', true)).attempts)
    expect(attempts.slice(0, 5)).toEqual([2, 2, 2, 2, 2])
    expect(attempts.slice(5).filter((count) => count > 1).length).toBeLessThanOrEqual(3)
  })

  for (const protocol of ['chat.completions', 'messages'] as const)
    failoverTest(
      `a request that another process writes is written again for the next endpoint: ${protocol}`,
      async (at) => {
        const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['failing', 'failing', 'well'])
        const text = 'word '.repeat(300_000)
        const response = await ask({ ...gateway, protocol, model: 'pool', stream: true, limit: 50, text })
        expect([response.status, ENDED[protocol].whole.test(await response.text())]).toEqual([200, true])
        expect(upstreams.map(({ requests }) => requests)).toEqual([1, 1, 1])
      },
    )

  failoverTest('a stream that dies after its first byte ends with an error, and is not tried again', async (at) => {
    const { gateway, upstreams } = await at.gatewayOver('messages', ['dying', 'well'])
    const { status, text, attempts } = await send(gateway, 'messages', true)
    expect([status, attempts, ENDED.messages.failed.test(text), upstreams[1]!.requests]).toEqual([200, 1, true, 0])
  })

  for (const protocol of PROTOCOLS)
    failoverTest(`a request that the provider refuses is not tried again: ${protocol}`, async (at) => {
      const { gateway, upstreams } = await at.gatewayOver(protocol, ['refusing', 'well'])
      const { status } = await send(gateway, protocol, true)
      expect([status, upstreams.map(({ requests }) => requests)]).toEqual([400, [1, 0]])
    })

  failoverTest(
    'all endpoints that name the time of their limits: the client gets it without another attempt',
    async (at) => {
      const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['limited', 'limited'])
      for (const one of upstreams) one.retryAfter = '90'
      expect((await send(gateway, 'chat.completions', true)).status).toBe(429)
      const response = await ask({ ...gateway, protocol: 'chat.completions', model: 'pool', stream: true })
      expect([response.status, requestsTo(upstreams)]).toEqual([429, 2])
      expect(Number(response.headers.get('retry-after'))).toBeWithin(60, 91)
    },
  )
})

describe('after a failure', () => {
  failoverTest(
    'traffic returns to an endpoint that is well again, through probes',
    async (at) => {
      const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['failing', 'well'])
      const [first] = upstreams as [Upstream, Upstream]
      await inParallel(30, 4, async () => void (await send(gateway, 'chat.completions', true)))
      const before = first.requests
      expect(before).toBeLessThan(12)
      first.behaviour = 'well'
      const startedAt = performance.now()
      let served = 0
      while (served < 20) {
        expect(performance.now() - startedAt).toBeLessThan(30_000)
        const { status, provider } = await send(gateway, 'chat.completions', true)
        expect(status).toBe(200)
        if (provider === 'up-0') served++
        await Bun.sleep(20)
      }
    },
    once.concurrent,
  )

  failoverTest(
    'a cool-down survives a restart',
    async (at) => {
      const data = mkdtempSync(join(tmpdir(), 'sluice-routing-'))
      at.atEnd(() => rmSync(data, { recursive: true, force: true }))
      const upstreams = [upstream('limited'), upstream()]
      for (const one of upstreams) at.atEnd(() => one.stop())
      const config = poolConfig('chat.completions', upstreams)
      upstreams[0]!.retryAfter = '300'
      const first = await startGateway({ config, data })
      expect((await send(first, 'chat.completions', true)).attempts).toBe(2)
      await first.stop()
      const next = await at.start({ config, data })
      expect((await send(next, 'chat.completions', true)).attempts).toBe(1)
      expect(upstreams[0]!.requests).toBe(1)
    },
    test.concurrent,
  )

  for (const behaviour of ['resetting', 'failing'] as const)
    failoverTest(
      `an only endpoint is tried again: ${behaviour}`,
      async (at) => {
        const { gateway, upstreams } = await at.gatewayOver('chat.completions', [behaviour])
        const [only] = upstreams as [Upstream]
        const answering = send(gateway, 'chat.completions', false)
        while (only.requests === 0) await Bun.sleep(1)
        only.behaviour = 'well'
        const { status, attempts } = await answering
        expect([status, attempts, only.requests]).toEqual([200, 2, 2])
      },
      once.concurrent,
    )

  failoverTest(
    'a limit of an only endpoint is waited for where it is short',
    async (at) => {
      const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['limited'])
      const [only] = upstreams as [Upstream]
      only.retryAfter = '1'
      const answering = send(gateway, 'chat.completions', false)
      while (only.requests === 0) await Bun.sleep(1)
      only.behaviour = 'well'
      expect(await answering).toMatchObject({ status: 200, attempts: 2 })
      only.behaviour = 'limited'
      only.retryAfter = '60'
      expect(await send(gateway, 'chat.completions', false)).toMatchObject({ status: 429, attempts: 1 })
    },
    once.concurrent,
  )

  failoverTest(
    'an only endpoint is not tried more than four times, nor where the operator wants one attempt',
    async (at) => {
      const { gateway, upstreams } = await at.gatewayOver('chat.completions', ['failing'])
      expect(await send(gateway, 'chat.completions', false)).toMatchObject({ status: 500, attempts: 4 })
      const single = await at.gatewayOver('chat.completions', ['failing'], { routing: { attempts: 1 } })
      expect(await send(single.gateway, 'chat.completions', false)).toMatchObject({ status: 500, attempts: 1 })
      expect([upstreams[0]!.requests, single.upstreams[0]!.requests]).toEqual([4, 1])
    },
    once.concurrent,
  )
})
