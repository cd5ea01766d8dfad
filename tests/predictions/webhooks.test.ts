import { describe, expect, spyOn, test } from 'bun:test'
import { Deadlines, deadlines } from '../../src/deadlines.ts'
import type { Prediction } from '../../src/endpoints/predictions/prediction.ts'
import { readWebhook, Webhooks } from '../../src/endpoints/predictions/webhooks.ts'
import { log } from '../../src/log/log.ts'
import { Fields } from '../../src/protocols/fields.ts'
import { rawServer, until } from '../transport/raw-server.ts'
import { ON_POSTGRES } from '../stores.ts'
import {
  answers,
  countDue,
  ended,
  finish,
  got,
  prediction,
  restart,
  secretOf,
  store,
  urlOf,
  useWebhooks,
  validated,
  webhooksWith,
  type Got,
} from './webhook-receiver.ts'

useWebhooks()

describe('the call for the end of a prediction', () => {
  test("has the body of GET, and a signature that Replicate's own client accepts", async () => {
    const webhooks = webhooksWith()
    const one = ended(prediction('/a'))
    await finish(webhooks, one)
    await until(() => got.length === 1)
    const [call] = got as [Got]
    expect(call.body).toMatchObject({
      id: `pred_${one.id}`,
      model: 'owner/name',
      status: 'succeeded',
      input: { prompt: 'a fox' },
      output: ['x'],
      urls: {
        get: `https://sluice.example/v1/predictions/pred_${one.id}`,
        stream: expect.stringContaining('https://sluice.example/v1/streams/'),
      },
    })
    expect(call.headers.get('webhook-id')).toBe(`msg_${one.id}`)
    expect(Math.abs(Number(call.headers.get('webhook-timestamp')) - Date.now() / 1000)).toBeLessThan(60)
    const secret = await secretOf('mine')
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(await validated(call, secret)).toBe(true)
    expect(await validated(call, await secretOf('theirs'))).toBe(false)
    expect(await validated({ ...call, text: call.text.replace('succeeded', 'failed') }, secret)).toBe(false)
    await webhooks.stop()
    await store.close()
    await restart()
    expect(await secretOf('mine')).toBe(secret)
  })

  test('is made once where it succeeds', async () => {
    const webhooks = webhooksWith()
    await finish(webhooks, ended(prediction('/a')))
    while ((await countDue()) > 0) await Bun.sleep(5)
    for (let round = 0; round < 5; round++) webhooks.round()
    await Bun.sleep(50)
    expect(got).toHaveLength(1)
  })

  test.each([500, 404, 300, 301])('is repeated after %i, with the same id, until it succeeds', async (status) => {
    const webhooks = webhooksWith()
    let refusals = 2
    answers.set('/a', () => (refusals-- > 0 ? status : 204))
    const one = ended(prediction('/a'))
    await finish(webhooks, one)
    await until(() => got.length === 3)
    while ((await countDue()) > 0) await Bun.sleep(5)
    expect(new Set(got.map(({ headers, text }) => `${headers.get('webhook-id')} ${text}`)).size).toBe(1)
    const secret = await secretOf('mine')
    for (const call of got) expect(await validated(call, secret)).toBe(true)
  })

  test('is repeated after growing intervals', async () => {
    const webhooks = webhooksWith({ retryAfterMs: [1_000_000, 50_000_000, 7] })
    answers.set('/a', () => 500)
    await finish(webhooks, ended(prediction('/a')))
    await until(() => got.length === 1)
    const nextAt = async (): Promise<number> =>
      (await store.predictions.dueDeliveries(Infinity, 1))[0]!.nextAt - Date.now()
    while ((await nextAt()) <= 0) await Bun.sleep(5)
    expect([(await nextAt()) > 700_000, (await nextAt()) < 1_200_001]).toEqual([true, true])
    const [delivery] = await store.predictions.dueDeliveries(Infinity, 1)
    await store.predictions.updateDelivery(delivery!.id, delivery!.attempts, 0)
    webhooks.round()
    await until(() => got.length === 2)
    while ((await nextAt()) <= 0) await Bun.sleep(5)
    expect([(await nextAt()) > 39_000_000, (await nextAt()) < 60_000_001]).toEqual([true, true])
  })

  test('is given up after the last attempt, with one log line that contains no secret', async () => {
    const logged = spyOn(log, 'error').mockImplementation(() => {})
    try {
      const webhooks = webhooksWith()
      answers.set('/a', () => 500)
      await finish(
        webhooks,
        ended(prediction('/a', { webhook: { url: urlOf('/a?token=hidden'), events: ['completed'] } })),
      )
      await until(() => logged.mock.calls.length > 0)
      expect([got.length, await countDue()]).toEqual([4, 0])
      expect(logged.mock.calls.map(([line]) => String(line))).toEqual([
        expect.stringMatching(/^webhook msg_\w+ of pred_\w+ to 127\.0\.0\.1:\d+: giving up after 4 attempts$/),
      ])
    } finally {
      logged.mockRestore()
    }
  })

  test('is looked for only while one waits, at the latest after a minute', async () => {
    const delays: number[] = []
    const set = spyOn(deadlines, 'set').mockImplementation((deadline, ms) => {
      if (deadline.owner instanceof Webhooks) delays.push(ms)
      Deadlines.prototype.set.call(deadlines, deadline, ms)
    })
    try {
      const webhooks = webhooksWith({ retryAfterMs: [40_000, 50_000_000] })
      await finish(webhooks, ended(prediction('/a')))
      while ((await countDue()) > 0) await Bun.sleep(5)
      await Bun.sleep(20)
      // Other processes leave calls, too.
      expect(delays).toEqual(ON_POSTGRES ? delays.map(() => 60_000) : [])
      answers.set('/b', () => 500)
      delays.length = 0
      await finish(webhooks, ended(prediction('/b')))
      await until(() => delays.some((ms) => ms !== 60_000))
      expect(delays.at(-1)).toBeWithin(30_000, 48_001)
      const [delivery] = await store.predictions.dueDeliveries(Infinity, 1)
      await store.predictions.updateDelivery(delivery!.id, 1, 0)
      delays.length = 0
      webhooks.round()
      await until(() => delays.includes(60_000))
      // A search that was under way finds a call that is due by now.
      expect(delays.filter((ms) => ms > 0 && ms !== 60_000)).toEqual([])
    } finally {
      set.mockRestore()
    }
  })

  test('is made again, but not at once, if the store does not update it', async () => {
    const logged = spyOn(log, 'error').mockImplementation(() => {})
    const update = spyOn(store.predictions, 'updateDelivery').mockRejectedValueOnce(new Error('full'))
    try {
      const webhooks = webhooksWith()
      await finish(webhooks, ended(prediction('/a')))
      await until(() => logged.mock.calls.length > 0)
      await Bun.sleep(100)
      expect(got).toHaveLength(1)
      await until(() => got.length === 2)
      while ((await countDue()) > 0) await Bun.sleep(5)
    } finally {
      logged.mockRestore()
      update.mockRestore()
    }
  })

  test('is made again soon also where a search ends only after the store failed', async () => {
    const failed = Promise.withResolvers<void>()
    const logged = spyOn(log, 'error').mockImplementation(() => failed.resolve())
    const update = spyOn(store.predictions, 'updateDelivery').mockRejectedValueOnce(new Error('full'))
    const search = spyOn(store.predictions, 'nextDelivery').mockImplementationOnce(async () => {
      await failed.promise
      return undefined
    })
    try {
      await finish(webhooksWith(), ended(prediction('/a')))
      await until(() => got.length === 2)
      expect([update.mock.calls.length > 0, search.mock.calls.length > 0]).toEqual([true, true])
      while ((await countDue()) > 0) await Bun.sleep(5)
    } finally {
      for (const spy of [logged, update, search]) spy.mockRestore()
    }
  })

  test('is made by the next process if the first one dies', async () => {
    const first = webhooksWith({ timeoutMs: 60_000 })
    answers.set('/a', () => new Promise(() => {}))
    const one = ended(prediction('/a'))
    await finish(first, one)
    await until(() => got.length === 1)
    await first.stop()
    await store.close()
    await restart()
    answers.delete('/a')
    webhooksWith().round()
    await until(() => got.length === 2)
    expect(got.map(({ headers }) => headers.get('webhook-id'))).toEqual([`msg_${one.id}`, `msg_${one.id}`])
  })

  test('is not made where the client did not request it', async () => {
    const webhooks = webhooksWith()
    expect(
      webhooks.delivery(ended(prediction('/a', { webhook: { url: urlOf('/a'), events: ['start', 'output'] } }))),
    ).toBeUndefined()
    const { webhook: _, ...without } = ended(prediction('/a'))
    expect(webhooks.delivery(without)).toBeUndefined()
  })

  test('leaves out a large input', async () => {
    const webhooks = webhooksWith()
    await finish(
      webhooks,
      ended(prediction('/a', { input: { image: `data:image/png;base64,${'A'.repeat(2_000_000)}` } })),
    )
    await until(() => got.length === 1)
    expect([got[0]!.body.input, got[0]!.body.output]).toEqual([{}, ['x']])
  })

  test('is not made to a private address', async () => {
    const webhooks = webhooksWith({ retryAfterMs: [] })
    const canary = rawServer(() => {})
    const logged = spyOn(log, 'error').mockImplementation(() => {})
    try {
      await finish(
        webhooks,
        ended(prediction('/a', { webhook: { url: `http://127.0.0.1:${canary.port}/`, events: ['completed'] } })),
      )
      await until(() => logged.mock.calls.length > 0)
      expect([canary.connections, logged.mock.calls.length]).toEqual([0, 1])
    } finally {
      logged.mockRestore()
      canary.stop()
    }
  })
})

describe('a slow receiver', () => {
  test('delays neither other accounts nor more than a few calls of its own', async () => {
    const webhooks = webhooksWith({ timeoutMs: 60_000 })
    answers.set('/slow', () => new Promise(() => {}))
    for (let count = 0; count < 30; count++) await finish(webhooks, ended(prediction('/slow')))
    await until(() => got.length === 4)
    for (let count = 0; count < 20; count++)
      await finish(webhooks, ended(prediction('/quick', { accountId: 'theirs' })))
    await until(() => got.filter(({ path }) => path === '/quick').length === 20)
    expect(got.filter(({ path }) => path === '/slow')).toHaveLength(4)
  })

  test('is disconnected after the timeout', async () => {
    // Long enough for a call to arrive from a busy machine, which would not be repeated otherwise.
    const webhooks = webhooksWith({ timeoutMs: 300, retryAfterMs: [1_000_000] })
    answers.set('/slow', () => new Promise(() => {}))
    for (let count = 0; count < 12; count++) await finish(webhooks, ended(prediction('/slow')))
    await until(() => got.length === 12)
    while ((await store.predictions.dueDeliveries(Date.now(), 100)).length > 0) await Bun.sleep(5)
    expect((await store.predictions.dueDeliveries(Infinity, 100)).map(({ attempts }) => attempts)).toEqual(
      Array.from({ length: 12 }, () => 1),
    )
  })
})

describe('calls before the end', () => {
  const received = (): string[] => got.map(({ body: { status, logs } }) => `${status} ${logs}`)

  test('are made in order, with the changes in between together', async () => {
    const webhooks = webhooksWith()
    const gate = Promise.withResolvers<number>()
    answers.set('/a', () => gate.promise)
    const one = prediction('/a')
    webhooks.notify({ ...one, logs: '0' }, 'start')
    await until(() => got.length === 1)
    for (const logs of ['01', '012', '0123']) webhooks.notify({ ...one, logs }, 'logs')
    await Bun.sleep(40)
    expect(received()).toEqual(['processing 0'])
    gate.resolve(200)
    await until(() => got.length === 2)
    webhooks.notify({ ...one, logs: '01234' }, 'logs')
    await until(() => got.length === 3)
    expect(received()).toEqual(['processing 0', 'processing 0123', 'processing 01234'])
    expect(new Set(got.map(({ headers }) => headers.get('webhook-id'))).size).toBe(3)
    expect(await validated(got[2]!, await secretOf('mine'))).toBe(true)
  })

  test('are never made after the end, and the end waits for the call in progress', async () => {
    const webhooks = webhooksWith()
    const gate = Promise.withResolvers<number>()
    answers.set('/a', () => gate.promise)
    const one = prediction('/a')
    webhooks.notify(one, 'start')
    await until(() => got.length === 1)
    webhooks.notify({ ...one, logs: 'late' }, 'logs')
    await finish(webhooks, ended(one))
    webhooks.notify(ended(one, { logs: 'later' }), 'logs')
    await Bun.sleep(40)
    expect(received()).toEqual(['processing '])
    answers.delete('/a')
    gate.resolve(200)
    await until(() => got.length === 2)
    await Bun.sleep(60)
    expect(received()).toEqual(['processing ', 'succeeded '])
  })

  test('are made once, whether or not they succeed', async () => {
    const webhooks = webhooksWith()
    answers.set('/a', () => 500)
    webhooks.notify(prediction('/a'), 'start')
    await until(() => got.length === 1)
    await Bun.sleep(60)
    expect([got.length, await countDue()]).toEqual([1, 0])
  })

  test('are made only for the requested events', async () => {
    const webhooks = webhooksWith()
    const one = prediction('/a', { webhook: { url: urlOf('/a'), events: ['logs'] } })
    webhooks.notify(one, 'start')
    webhooks.notify(one, 'output')
    webhooks.notify({ ...one, logs: 'x' }, 'logs')
    await until(() => got.length === 1)
    await Bun.sleep(60)
    expect(received()).toEqual(['processing x'])
  })

  test('are dropped, not queued, where an account has many slow receivers', async () => {
    const webhooks = webhooksWith({ timeoutMs: 60_000 })
    answers.set('/slow', () => new Promise(() => {}))
    for (let count = 0; count < 50; count++) webhooks.notify(prediction('/slow'), 'start')
    await until(() => got.length === 8)
    webhooks.notify(prediction('/quick', { accountId: 'theirs' }), 'start')
    await until(() => got.length === 9)
    expect(got.at(-1)!.path).toBe('/quick')
  })
})

describe('webhook and webhook_events_filter', () => {
  const read = (body: object): Prediction['webhook'] => readWebhook(new Fields(body), ['hooks.internal:8080'])

  test.each([
    [{}, undefined],
    [
      { webhook: 'https://example.com/hook?id=1' },
      { url: 'https://example.com/hook?id=1', events: ['output', 'completed'] },
    ],
    [
      { webhook: 'http://hooks.internal:8080/x', webhook_events_filter: ['completed', 'start', 'completed'] },
      { url: 'http://hooks.internal:8080/x', events: ['completed', 'start'] },
    ],
  ])('are read: %j', (body, webhook) => expect(read(body)).toEqual(webhook as Prediction['webhook']))

  test.each([
    [{ webhook: 5 }, 'webhook: must be a string'],
    [{ webhook: '' }, 'webhook: must be a public http:// or https:// URL'],
    [{ webhook: 'http://127.0.0.1/' }, 'webhook: must be a public'],
    [{ webhook: 'http://hooks.internal/' }, 'webhook: must be a public'],
    [{ webhook: 'https://u:p@example.com/' }, 'webhook: must be a public'],
    [{ webhook: 'ftp://example.com/' }, 'webhook: must be a public'],
    [
      { webhook: 'https://example.com', webhook_events_filter: ['done'] },
      "webhook_events_filter[0]: must be one of 'start', 'output', 'logs', 'completed'",
    ],
    [{ webhook: 'https://example.com', webhook_events_filter: 'completed' }, 'webhook_events_filter: must be an array'],
    [{ webhook_events_filter: [] }, 'webhook_events_filter: must have at least 1'],
  ])('are refused with the path of what is wrong: %j', (body, message) => expect(() => read(body)).toThrow(message))
})
