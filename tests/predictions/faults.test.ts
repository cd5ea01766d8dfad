import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rawServer, until, type RawSocket } from '../transport/raw-server.ts'
import { storeIn, storeOf } from '../stores.ts'
import { ask, billOf, ended, faultTest, send, type Shown } from './fault-scene.ts'

/** Faults of providers: each prediction ends, is charged and is reported once, and is never created twice. */

faultTest('a provider that sends invalid responses for a while is polled on', async (at) => {
  const gateway = await at.start()
  const nonsense = [
    () => new Response('Bad gateway', { status: 502 }),
    () => Response.json({ id: 'x', status: 'exploded' }),
    () => Response.json({ id: '../files', status: 'succeeded' }),
    () => Response.json({ id: 'x', status: 'processing', logs: 5, output: { a: 1 }, metrics: { predict_time: -1 } }),
    () => new Response('{"id":"x","st'),
  ]
  at.upstream.instead = (kind) => (kind === 'GET' ? nonsense.shift()?.() : undefined)
  const slow = await ended(gateway, await at.create(gateway, { key: 'nonsense', ms: 300 }))
  expect(slow).toMatchObject({ status: 'succeeded', output: ['done'], metrics: { predict_time: 0.3 } })
  expect([
    nonsense.length,
    at.upstream.creates.filter((key) => key === 'nonsense').length,
    await billOf(gateway, slow),
  ]).toEqual([0, 1, 0.01])
  await until(() => at.calls.length === 1)
})

faultTest(
  'queued predictions of a suspended account are not run and not charged',
  async (at) => {
    const { upstream, calls } = at
    const gateway = await at.start({ settings: 'predictions: { concurrency: 1 }\n' })
    let isSuspended = false
    // The prediction that runs goes on until then.
    upstream.instead = (kind) => (kind === 'GET' && !isSuspended ? new Response(null, { status: 502 }) : undefined)
    const running = await at.create(gateway, { key: 'runs', ms: 10 })
    const waiting = await at.create(gateway, { key: 'waits', ms: 10 })
    await until(() => upstream.creates.includes('runs'))
    const store = await storeOf(gateway)
    const [account] = await store.accounts.list()
    await store.accounts.setStatus(account!.id, 'suspended')
    while ((await send(gateway, 'GET', '/v1/predictions')).status !== 403) await Bun.sleep(20)
    isSuspended = true
    await until(() => calls.length === 2)
    expect(calls.map(({ path, status }) => `${path} ${status}`).toSorted()).toEqual([
      '/runs succeeded',
      '/waits failed',
    ])
    const records = await store.ledger.generations(undefined, 10)
    const billed = ({ id }: Shown): number => Number(records.find((record) => id.endsWith(record.id))?.bill)
    expect([billed(running), billed(waiting), upstream.creates.includes('waits')]).toEqual([10_000_000, 0, false])
    await store.close()
  },
  test.concurrent,
)

faultTest('a prediction is polled at intervals that grow with its age', async (at) => {
  const gateway = await at.start()
  const polledAt: number[] = []
  /** The time that an eighth of the age at each poll takes here: on a busy machine longer, as the interval does. */
  const eighths: Promise<number>[] = []
  at.upstream.instead = () => {
    const now = performance.now()
    polledAt.push(now)
    eighths.push(Bun.sleep((now - polledAt[0]!) / 8).then(() => performance.now() - now))
    return undefined
  }
  await ended(gateway, await at.create(gateway, { key: 'patient', ms: 5_000 }))
  const [made = 0] = polledAt
  const expected = await Promise.all(eighths)
  const ratios = polledAt
    .map((at, index) => ({ age: at - made, ratio: (at - polledAt[index - 1]!) / expected[index - 1]! }))
    .filter(({ age }) => age > 2_300)
    .map(({ ratio }) => ratio)
    .toSorted((a, b) => a - b)
  expect(ratios.length).toBeGreaterThan(1)
  const median = ratios[Math.floor(ratios.length / 2)]!
  expect(median).toBeGreaterThan(0.52)
  expect(median).toBeLessThan(1.5)
})

describe('a provider out of capacity', () => {
  const busy = (status: number, more: object = {}): Response =>
    Response.json({ detail: 'Too much at the moment.', status }, { status, ...more })

  faultTest('is tried again when it asks for it, and the prediction is charged once', async (at) => {
    const gateway = await at.start()
    const failures = [busy(429, { headers: { 'retry-after': '1' } }), busy(503)]
    const sentAt: number[] = []
    at.upstream.instead = (kind) => (kind === 'POST' ? (sentAt.push(performance.now()), failures.shift()) : undefined)
    const end = await ended(gateway, await at.create(gateway, { key: 'busy', ms: 100 }))
    expect([end.status, at.createsOf('busy'), await billOf(gateway, end)]).toEqual(['succeeded', 3, 0.01])
    expect(sentAt[1]! - sentAt[0]!).toBeGreaterThan(990)
    await until(() => at.calls.filter(({ path }) => path === '/busy').length === 1)
  })

  faultTest('is not tried again where it may have taken the prediction', async (at) => {
    const gateway = await at.start()
    at.upstream.instead = (kind) => (kind === 'POST' ? busy(500) : undefined)
    const end = await ended(gateway, await at.create(gateway, { key: 'unclear', ms: 100 }))
    expect([end.status, at.createsOf('unclear'), await billOf(gateway, end)]).toEqual(['failed', 1, 0])
  })

  faultTest('fails the prediction when it stays out of capacity', async (at) => {
    const gateway = await at.start({ settings: 'timeouts: { total: 2900ms }\n' })
    at.upstream.instead = (kind) => (kind === 'POST' ? busy(429) : undefined)
    const end = await ended(gateway, await at.create(gateway, { key: 'given-up' }))
    expect([end.status, end.error, await billOf(gateway, end)]).toEqual([
      'failed',
      expect.stringContaining('Too much at the moment.'),
      0,
    ])
    expect(at.createsOf('given-up')).toBe(2)
  })

  faultTest(
    'is not tried again for a prediction that is cancelled meanwhile, which costs nothing',
    async (at) => {
      const gateway = await at.start()
      at.upstream.instead = (kind) => (kind === 'POST' ? busy(429, { headers: { 'retry-after': '60' } }) : undefined)
      const made = await at.create(gateway, { key: 'changed-mind' })
      await until(() => at.createsOf('changed-mind') === 1)
      await Bun.sleep(100)
      expect((await ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)).status).toBe('canceled')
      expect([at.createsOf('changed-mind'), await billOf(gateway, made)]).toEqual([1, 0])
    },
    test.concurrent,
  )

  faultTest(
    'costs nothing where a creation fails after it was cancelled',
    async (at) => {
      const gateway = await at.start()
      const answer = Promise.withResolvers<void>()
      at.upstream.instead = (kind) => (kind === 'POST' ? answer.promise.then(() => busy(500)) : undefined)
      const made = await at.create(gateway, { key: 'cancelled-early' })
      await until(() => at.createsOf('cancelled-early') === 1)
      const canceled = ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)
      await Bun.sleep(1_000)
      answer.resolve()
      expect([(await canceled).status, await billOf(gateway, made)]).toEqual(['canceled', 0])
    },
    test.concurrent,
  )

  for (const signal of ['SIGKILL', 'SIGTERM'] as const)
    faultTest(
      `is tried by the next start for a prediction that it has not taken: ${signal}`,
      async (at) => {
        const { upstream } = at
        const data = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
        try {
          const first = await at.startProcess({ data })
          upstream.instead = (kind) => (kind === 'POST' ? busy(429, { headers: { 'retry-after': '60' } }) : undefined)
          const made = await at.create(first, { key: signal })
          await until(() => at.createsOf(signal) === 1)
          const store = await storeIn(data)
          while ((await store.predictions.unfinished()).some(({ state }) => 'sentAt' in JSON.parse(state)))
            await Bun.sleep(10)
          await store.close()
          first.kill(signal)
          await first.exited
          upstream.instead = undefined
          const second = await at.startProcess({ data })
          const end = await ended(second, made)
          expect([end.status, at.createsOf(signal), await billOf(second, end)]).toEqual(['succeeded', 2, 0.01])
          for (const gateway of at.gateways.splice(0)) await gateway.stop()
        } finally {
          rmSync(data, { recursive: true, force: true })
        }
      },
      test.concurrent,
    )

  faultTest('of a generation model is tried again, too', async (at) => {
    let polls = 0
    const chat = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () =>
        ++polls === 1
          ? busy(429)
          : Response.json({
              id: 'c',
              object: 'chat.completion',
              created: 1,
              model: 'm',
              choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
              usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
            }),
    })
    try {
      const gateway = await at.start({
        models: `  text: { endpoints: [{ provider: chat, model: m }], price: { request: 0.02 } }\n`,
        providers: `  chat: { protocol: chat.completions, baseUrl: "${chat.url}v1", apiKey: none }\n`,
      })
      const end = await ended(
        gateway,
        await ask(gateway, 'POST', '/v1/predictions', {
          model: 'text',
          input: { prompt: 'Hi' },
          webhook: `http://127.0.0.1:${at.hooks.port}/text`,
          webhook_events_filter: ['start', 'completed'],
        }),
      )
      expect([end.status, end.output, polls, await billOf(gateway, end)]).toEqual(['succeeded', 'Hello', 2, 0.02])
      await until(() => at.calls.length === 2)
      expect(at.calls.map(({ status }) => status)).toEqual(['processing', 'succeeded'])
    } finally {
      await chat.stop(true)
    }
  })
})

faultTest('a prediction that exceeds the total timeout is cancelled at its provider, and costs nothing', async (at) => {
  const gateway = await at.start({ settings: 'timeouts: { total: 2s }\n' })
  const end = await ended(gateway, await at.create(gateway, { key: 'stuck', ms: 600_000 }))
  expect([
    end.status,
    end.error,
    at.upstream.cancels.filter((key) => key === 'stuck').length,
    await billOf(gateway, end),
  ]).toEqual(['failed', expect.stringContaining('did not end in time'), 1, 0])
  await until(() => at.calls.length === 1)
  expect(at.calls[0]).toMatchObject({ path: '/stuck', status: 'failed' })
})

faultTest('a creation whose connection breaks is not sent again, on a new connection or a reused one', async (at) => {
  const keys: string[] = []
  let dies = false
  const answerTo = (socket: RawSocket, body: object): void => {
    const text = JSON.stringify(body)
    socket.write(
      `HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    )
  }
  const raw = rawServer((socket, request) => {
    const { input } = JSON.parse(request.slice(request.indexOf('\r\n\r\n') + 4)) as { input: { key: string } }
    keys.push(input.key)
    if (dies) socket.terminate()
    else answerTo(socket, { id: `p${keys.length}`, status: 'succeeded', output: ['done'] })
  })
  try {
    const gateway = await at.start({ url: `${raw.url}/v1` })
    expect(await ended(gateway, await at.create(gateway, { key: 'before' }))).toMatchObject({ status: 'succeeded' })
    dies = true
    const lost = await ended(gateway, await at.create(gateway, { key: 'lost' }))
    expect([lost.status, keys, await billOf(gateway, lost)]).toEqual(['failed', ['before', 'lost'], 0])
  } finally {
    raw.stop()
  }
})

faultTest('an id that would change the path of a poll is refused', async (at) => {
  const gateway = await at.start()
  const polls = at.upstream.polls
  for (const id of ['../files/x', 'a/b', '', '.', 'x?y=1', 5]) {
    at.upstream.instead = (kind) => (kind === 'POST' ? Response.json({ id, status: 'processing' }) : undefined)
    const end = await ended(gateway, await at.create(gateway, { key: 'odd-id' }))
    expect([id, end.status, await billOf(gateway, end)]).toEqual([id, 'failed', 0])
  }
  expect(at.upstream.polls).toBe(polls)
})

faultTest(
  'an end and a cancellation at the same time are one end, which is reported once',
  async (at) => {
    const gateway = await at.startProcess({ settings: 'predictions: { concurrency: 20 }\n' })
    const ends = await Promise.all(
      Array.from({ length: 20 }, async (_, number) => {
        const made = await at.create(gateway, { key: `race-${number}`, ms: 300 })
        await Bun.sleep(230 + number * 15)
        const responses = await Promise.all(
          Array.from({ length: 4 }, () => ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)),
        )
        const end = await ended(gateway, made)
        for (const one of responses) if (one.completed_at !== null) expect(one).toEqual(end)
        return { number, end }
      }),
    )
    await until(() => at.calls.length >= 20)
    await Bun.sleep(100)
    expect(at.calls.map(({ path, status }) => `${path} ${status}`).toSorted()).toEqual(
      ends.map(({ number, end }) => `/race-${number} ${end.status}`).toSorted(),
    )
    for (const { end } of ends)
      expect([end.status === 'succeeded' || end.status === 'canceled', await billOf(gateway, end)]).toEqual([
        true,
        0.01,
      ])
  },
  test,
)
