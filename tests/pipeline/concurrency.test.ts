import { expect, spyOn, test } from 'bun:test'
import { Concurrency, type Slot } from '../../src/pipeline/concurrency.ts'
import type { Entry } from '../../src/providers/routing/attempts.ts'
import { Router, type Sending } from '../../src/providers/routing/router.ts'
import { endpointNamed } from '../routing/endpoints.ts'

const { signal } = new AbortController()

type Options = { server?: number; account?: number; plan?: number; waitMs?: number; requests?: number }

/** Without `plan`, no plan has a limit of its own. Accounts are loaded before their plan is known. */
function modulesOf({ server, account, plan, waitMs = 60_000, requests = 10 }: Options) {
  const router = new Router({ settings: { strategy: 'order', retryBudget: { share: 0.2, perSecond: 10 } } })
  const config = {
    limits: { concurrency: server, accountConcurrency: account },
    plans: { tiers: new Map([['free', { concurrency: plan }]]) },
    routing: { queue: { waitMs, requests } },
  }
  const loaded = new Set<string>()
  const funds = {
    loadAccount: (id: string) => (loaded.has(id) ? undefined : Promise.resolve().then(() => void loaded.add(id))),
    tierOf: (id: string) => (loaded.has(id) ? 'free' : undefined),
  }
  return { router, counted: new Concurrency({ config, funds, slots: undefined, permits: undefined, router } as never) }
}

/** An endpoint that takes one request at a time. */
function endpointScene(options: Options = {}) {
  const { router, counted } = modulesOf(options)
  const endpoint = endpointNamed('far', { limits: { concurrency: 1 } })
  return {
    enter: () => counted.enterEndpoint({ endpoint, accountId: 'ada', signal, promptTokens: 1 }, true),
    /** Sends a request, after its entry if it waited for one. */
    send(entry?: Entry): Sending {
      const sending = router.begin(endpoint, 1)
      entry?.sent!()
      return sending
    },
  }
}

/** The entry of a request that waited. Fails where it still waits. */
async function entryOf(entering: ReturnType<Concurrency['enterEndpoint']>): Promise<Entry> {
  const entry = await Promise.race([entering, Bun.sleep(0)])
  return entry!
}

const isWaiting = async (entering: ReturnType<Concurrency['enterEndpoint']>): Promise<boolean> =>
  entering instanceof Promise && (await Promise.race([entering, Bun.sleep(0)])) === undefined

test('a request does not overtake one that its endpoint has let in, and is let in when that has ended', async () => {
  const { enter, send } = endpointScene()
  expect(enter()).toBeUndefined()
  const first = send()
  const second = enter()
  first.end('success')
  const third = enter()
  const sent = send(await entryOf(second))
  expect(await isWaiting(third)).toBe(true)
  sent.end('success')
  const last = send(await entryOf(third))
  last.end('success')
  expect(enter()).toBeUndefined()
})

test('a hedge that ends lets no request in beside one that was let in', async () => {
  const { enter, send } = endpointScene()
  const first = send()
  const [second, third] = [enter(), enter()]
  first.end('success')
  send().end('success')
  expect(await isWaiting(third)).toBe(true)
  send(await entryOf(second)).end('success')
  expect(await entryOf(third)).toBeDefined()
})

test('a request that is let in and not sent leaves its place to the next one, and the endpoint free', async () => {
  const { enter, send } = endpointScene()
  const first = send()
  const [second, third] = [enter(), enter()]
  first.end('success')
  ;(await entryOf(second)).abandon!()
  ;(await entryOf(third)).abandon!()
  expect(enter()).toBeUndefined()
})

test('an endpoint without a limit is entered at once beside one that has it', () => {
  const { counted } = modulesOf({})
  const request = { endpoint: endpointNamed('free'), accountId: 'ada', signal, promptTokens: 1 }
  expect(counted.enterEndpoint(request, true)).toBeUndefined()
})

test('a request whose client has left does not wait', async () => {
  const { counted } = modulesOf({ server: 1 })
  const first = (await counted.enter('ada', signal))!
  const second = counted.enter('ada', signal)
  expect(counted.waiting).toBe(1)
  await expect(counted.enter('ada', AbortSignal.abort())).rejects.toMatchObject({ code: 'overloaded' })
  expect(counted.waiting).toBe(1)
  first.end()
  expect(await second).toBeDefined()
})

test('no generation is counted without a limit', () => {
  expect(modulesOf({}).counted.enter('ada', signal)).toBeUndefined()
})

test.each([
  ['of its own', { account: 2, requests: 0 }],
  ['of its plan', { plan: 2, requests: 0 }],
])('an account whose generations end one by one keeps to the limit %s', async (_, options) => {
  const { counted } = modulesOf(options)
  const slots = [await counted.enter('ada', signal), await counted.enter('ada', signal)] as Slot[]
  slots[0]!.end()
  void counted.enter('ada', signal)
  await expect(counted.enter('ada', signal)).rejects.toMatchObject({ code: 'quota_exceeded', shouldRetry: true })
  slots[1]!.end()
  expect(await counted.enter('ada', signal)).toBeDefined()
})

test('a full server and a full account have errors of their own', async () => {
  const { counted } = modulesOf({ server: 1, account: 1, requests: 0 })
  void counted.enter('ada', signal)
  await expect(counted.enter('ada', signal)).rejects.toMatchObject({ code: 'quota_exceeded' })
  await expect(counted.enter('bob', signal)).rejects.toMatchObject({ code: 'overloaded' })
})

test('an endpoint is entered at once when all who waited for it were refused', async () => {
  const { enter, send } = endpointScene({ waitMs: 1 })
  const first = send()
  await expect(enter()).rejects.toMatchObject({ code: 'overloaded', retryAfterSeconds: 1 })
  first.end('success')
  expect(enter()).toBeUndefined()
})

test.each([
  [1, 25_000, 25],
  [2, 25_000, 13],
  [1, 200, 1],
  [1, 90_000, 60],
])('over the limit of %p, a wait of at most %p ms is one of %p s for a client', async (server, waitMs, seconds) => {
  const { counted } = modulesOf({ server, waitMs, requests: 0 })
  for (let count = 0; count < server; count++) void counted.enter('ada', signal)
  await expect(counted.enter('bob', signal)).rejects.toMatchObject({ retryAfterSeconds: seconds })
})

test('the time until a retry follows the mean time of the requests so far', async () => {
  const { counted } = modulesOf({ server: 1, requests: 0 })
  const now = spyOn(performance, 'now')
  try {
    let at = 0
    for (const seconds of [10, 20]) {
      now.mockReturnValue(at)
      const slot = (await counted.enter('ada', signal)) as Slot
      now.mockReturnValue((at += seconds * 1_000))
      slot.end()
      slot.end()
    }
  } finally {
    now.mockRestore()
  }
  void counted.enter('ada', signal)
  await expect(counted.enter('ada', signal)).rejects.toMatchObject({ retryAfterSeconds: 11 })
})
