import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { topUp } from '../../src/ledger/book.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { gatedProvider, type Gated } from './gated.ts'
import { runs } from '../runs.ts'
import { predictionProvider, Predictions, type Made, type PredictionProvider, type Shown } from './predicting.ts'
import { storeOf } from '../stores.ts'

/** Predictions: their state for clients, their cost, and that each ends once. */

const keyOf = (account: string): string => `sk-ai-v1-of-account-${account}-0123456789abcdef`
const CONCURRENCY = 3
const WAITING = 4
/** Each has as many predictions as run at once. */
const RACERS = Array.from({ length: 10 }, (_, at) => `racer-${at}`)
const ACCOUNTS = ['mine', 'theirs', 'poor', ...RACERS]

let gateway: Gateway
let provider: PredictionProvider
let other: PredictionProvider
let gated: Gated
let mine: Predictions
let theirs: Predictions
let poor: Predictions
let racers: Predictions[]
beforeAll(async () => {
  ;[provider, other, gated] = [predictionProvider(), predictionProvider(), gatedProvider()]
  gateway = await startGateway({
    config: `
limits: { requestsPerMinute: 1000000, body: 1MiB }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 }, concurrency: { monitored: 100000, abusive: 100000 } }
billing: { unpriced: refuse }
predictions: { concurrency: ${CONCURRENCY}, waiting: ${WAITING} }
keys: [${ACCOUNTS.map((account) => `{ key: ${keyOf(account)}, account: ${account} }`).join(', ')}]
providers:
  up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none }
  other: { protocol: predictions, baseUrl: "${other.url}", apiKey: none }
  gated: { protocol: messages, baseUrl: "${gated.url}", apiKey: none }
models:
  maker/flux:
    endpoints: [{ provider: up, model: "maker/flux:${'ab'.repeat(32)}" }]
    price: { request: 0.01, image: 0.04 }
  maker/dear: { endpoints: [{ provider: up, model: maker/dear }], price: { request: 100 } }
  maker/twice:
    endpoints: [{ provider: up, model: maker/twice }, { provider: other, model: maker/twice }]
    price: { request: 0.01 }
  maker/text: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 100, completion: 200 } }
  maker/gated: { endpoints: [{ provider: gated, model: m }], price: { prompt: 1, completion: 2 } }
  maker/image:
    endpoints: [{ provider: sandbox, model: image }]
    price: { image: 0.05 }
    capabilities: { api: images }
  maker/drawing:
    endpoints: [{ provider: sandbox, model: image, protocol: chat.completions }]
    price: { image: 0.05 }
    capabilities: { output: [image] }
`,
  })
  const store = await storeOf(gateway)
  for (const { id, name } of await store.accounts.list())
    await store.ledger.post(topUp({ reference: name, at: 1, accountId: id, amount: 20_000_000_000n, bonus: false }))
  await store.close()
  const clientOf = (account: string): Predictions => new Predictions(gateway.url, keyOf(account))
  ;[mine, theirs, poor] = [clientOf('mine'), clientOf('theirs'), clientOf('poor')]
  racers = RACERS.map(clientOf)
  const credit = async (client: Predictions): Promise<number> =>
    ((await (await client.send('GET', '/v1/management/payg/balance')).json()) as { data: { total_credits: number } })
      .data.total_credits
  for (const client of [mine, theirs, poor, ...racers]) while ((await credit(client)) === 0) await Bun.sleep(50)
})
afterAll(async () => {
  gated?.open()
  await gateway?.stop()
  await Promise.all([provider?.stop(), other?.stop(), gated?.stop()])
})
beforeEach(() => {
  for (const one of [provider, other])
    Object.assign(one, { creates: 'answer', fails: undefined, onMade: succeedsAtOnce })
})

const succeedsAtOnce = (made: Made): void =>
  void Object.assign(made, {
    status: 'succeeded',
    output: ['https://files.example/a.png', 'https://files.example/b.png'],
  })
const stays = (made: Made): void => {
  made.status = 'processing'
}
const finish = (made: Made): void => succeedsAtOnce(made)

async function recordOf(id: string): Promise<GenerationRecord | undefined> {
  const store = await storeOf(gateway)
  try {
    return (await store.ledger.generations(undefined, 10_000)).find((record) => `pred_${record.id}` === id)
  } finally {
    await store.close()
  }
}

async function errorOf(
  response: Promise<Response>,
): Promise<{ status: number; code: string; param: string | null; message: string }> {
  const { status, ...answer } = await response
  const { error } = (await (await response).json()) as {
    error: { code: string; param: string | null; message: string }
  }
  expect(answer).toBeDefined()
  return { status, ...error }
}

describe('a prediction', () => {
  test("a prediction can be read as soon as it is created, in Replicate's format", async () => {
    provider.onMade = stays
    const response = await mine.send('POST', '/v1/predictions', { model: 'maker/flux', input: { prompt: 'A cat' } })
    const created = (await response.json()) as Shown
    expect([response.status, response.headers.get('x-generation-id')]).toEqual([200, created.id])
    const url = `${gateway.url}/v1/predictions/${created.id}`
    // A copy, because matchers replace the values that they match.
    expect(structuredClone(created)).toMatchObject({
      id: expect.stringMatching(/^pred_[0-9a-f]{32}$/),
      model: 'maker/flux',
      version: 'hidden',
      input: { prompt: 'A cat' },
      output: null,
      logs: '',
      error: null,
      status: 'starting',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      started_at: null,
      completed_at: null,
      metrics: {},
      urls: { get: url, cancel: `${url}/cancel`, stream: expect.stringContaining(`${gateway.url}/v1/`) },
      data_removed: false,
      source: 'api',
    })
    expect(await mine.get(created.id)).toMatchObject({ id: created.id, input: { prompt: 'A cat' } })
    await until(() => provider.made.at(-1)?.input.prompt === 'A cat')
    Object.assign(provider.made.at(-1)!, { logs: '50%\n', output: ['https://files.example/1.png'] })
    let seen = created
    for (let looks = 0; looks < 300 && seen.logs === ''; looks++, await Bun.sleep(20)) seen = await mine.get(created.id)
    expect(seen).toMatchObject({
      status: 'processing',
      logs: '50%\n',
      output: ['https://files.example/1.png'],
      started_at: expect.any(String),
      completed_at: null,
    })
    Object.assign(provider.made.at(-1)!, { logs: '50%\n100%\n' })
    finish(provider.made.at(-1)!)
    expect(await mine.ended(created.id)).toMatchObject({
      status: 'succeeded',
      logs: '50%\n100%\n',
      output: ['https://files.example/a.png', 'https://files.example/b.png'],
      error: null,
      completed_at: expect.any(String),
      metrics: { predict_time: expect.any(Number) },
    })
  })

  test('a prediction is sent with the numbers its client wrote and costs as many images as they request', async () => {
    const upload = new FormData()
    upload.set('content', new File(['A image'], 'a.txt', { type: 'text/plain' }))
    const { urls } = (await (
      await fetch(`${gateway.url}/v1/files`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keyOf('mine')}` },
        body: upload,
      })
    ).json()) as { urls: { get: string } }
    const numbers =
      '"seed":12345678901234567890,"scale":1.0,"nested":[{"id":-9007199254740993,"step":1e3}],"num_outputs":2.0'
    for (const file of ['none', urls.get]) {
      const created = await mine.send(
        'POST',
        '/v1/predictions',
        `{"model":"maker/flux","input":{"prompt":"Numbers","file":"${file}",${numbers}}}`,
        { prefer: 'wait=30' },
      )
      const text = await created.text()
      const { id } = JSON.parse(text) as Shown
      expect(text).toContain(numbers)
      expect(await (await mine.send('GET', `/v1/predictions/${id}`)).text()).toContain(numbers)
      expect(await (await mine.send('GET', '/v1/predictions')).text()).toContain(numbers)
      expect(provider.made.at(-1)!.body).toContain(numbers)
      expect((await recordOf(id))?.held).toBe(90_000_000n)
    }
  })

  test('a prediction costs its fee and its images, once', async () => {
    const { id } = await mine.create('maker/flux', { prompt: 'A cat', num_outputs: 2 }, {}, 'wait=30')
    const record = await recordOf(id)
    expect(record).toMatchObject({
      api: 'predictions',
      model: 'maker/flux',
      provider: 'up',
      ending: 'completed',
      bill: 90_000_000n,
      held: 90_000_000n,
      usage: { images: 2 },
    })
  })

  test('a failed prediction costs nothing and shows the reason', async () => {
    provider.onMade = (made) => void Object.assign(made, { status: 'failed', error: 'NSFW content', logs: 'oh\n' })
    const made = await mine.create('maker/flux', { prompt: 'A cat' }, {}, 'wait=30')
    expect(made).toMatchObject({ status: 'failed', error: 'NSFW content', logs: 'oh\n', output: null })
    expect(await recordOf(made.id)).toMatchObject({ bill: 0n, ending: 'failed', held: 50_000_000n })
  })

  test.each([
    [400, 'not now'],
    [500, 'The provider failed (500).'],
  ])('a prediction refused with %p fails, costs nothing and is not sent again', async (status, says) => {
    provider.creates = status
    const made = await mine.create('maker/twice', { prompt: 'A cat' }, {}, 'wait=30')
    expect(made).toMatchObject({ status: 'failed', error: expect.stringContaining(says) })
    expect(await recordOf(made.id)).toMatchObject({ bill: 0n, ending: 'failed', retries: 0 })
    const record = (await (await mine.send('GET', `/v1/management/generation?id=${made.id}`)).json()) as object
    expect(record).toMatchObject({
      attempts: [
        {
          provider: 'up',
          model: 'maker/twice',
          protocol: 'predictions',
          status,
          error: expect.any(String),
          message: expect.stringContaining(says),
        },
      ],
    })
  })

  test('a prediction goes to the next provider if the first one did not accept it', async () => {
    provider.creates = 503
    const before = other.made.length
    const made = await mine.create('maker/twice', { prompt: 'A cat' }, {}, 'wait=30')
    expect(made.status).toBe('succeeded')
    expect(other.made.length - before).toBe(1)
    expect(await recordOf(made.id)).toMatchObject({ bill: 10_000_000n, provider: 'other', retries: 1 })
  })

  test('a prediction is followed through connection failures', async () => {
    provider.onMade = stays
    const { id } = await mine.create('maker/flux', { prompt: 'Unreached' })
    provider.fails = 500
    const made = (): Made | undefined => provider.made.findLast(({ input }) => input.prompt === 'Unreached')
    await until(() => (made()?.polls ?? 0) > 1)
    finish(made()!)
    provider.fails = undefined
    expect((await mine.ended(id)).status).toBe('succeeded')
    expect(made()!.canceled).toBe(0)
  })

  test('a prediction that its provider does not know any more fails', async () => {
    provider.onMade = stays
    const { id } = await mine.create('maker/flux', { prompt: 'Forgotten' })
    await until(() => provider.made.some(({ input }) => input.prompt === 'Forgotten'))
    provider.made.splice(
      provider.made.findIndex(({ input }) => input.prompt === 'Forgotten'),
      1,
    )
    expect(await mine.ended(id)).toMatchObject({
      status: 'failed',
      error: 'The provider does not know the prediction any more.',
    })
    expect(await recordOf(id)).toMatchObject({ bill: 0n })
  }, 30_000)

  test.each([
    ['the model of a path', '/v1/models/maker/flux/predictions', {}],
    ['a version', '/v1/predictions', { version: 'ab'.repeat(32) }],
    ['a model and a version', '/v1/predictions', { version: `maker/flux:${'ab'.repeat(32)}` }],
  ])('a prediction is created with %s', async (_, path, named) => {
    const response = await mine.send('POST', path, { ...named, input: { prompt: path } }, { prefer: 'wait=30' })
    expect(await response.json()).toMatchObject({ model: 'maker/flux', status: 'succeeded' })
    expect(provider.made.at(-1)).toMatchObject({
      path: '/v1/predictions',
      version: `maker/flux:${'ab'.repeat(32)}`,
      input: { prompt: path },
    })
  })

  test('a large data output is served at a URL', async () => {
    const bytes = Buffer.alloc(40_000, 7)
    provider.onMade = (made) =>
      void Object.assign(made, {
        status: 'succeeded',
        output: { image: `data:image/png;base64,${bytes.toString('base64')}`, small: 'data:text/plain;base64,aGk=' },
      })
    const { output, id } = await mine.create('maker/flux', { prompt: 'Large' }, {}, 'wait=30')
    const { image, small } = output as { image: string; small: string }
    expect([image.startsWith(`${gateway.url}/v1/outputs/`), small]).toEqual([true, 'data:text/plain;base64,aGk='])
    expect(Buffer.from(await (await fetch(image)).arrayBuffer()).equals(bytes)).toBe(true)
    expect(await recordOf(id)).toMatchObject({ usage: { images: 1 } })
  })
})

describe('a text or image model used as a prediction', () => {
  test('a text model receives a prompt, and its text is the output', async () => {
    const made = await mine.create(
      'maker/text',
      { prompt: 'Hello', system_prompt: 'Be kind', max_tokens: 100 },
      {},
      'wait=30',
    )
    expect(made).toMatchObject({
      status: 'succeeded',
      output: expect.stringContaining('You said: "Hello"'),
      started_at: expect.any(String),
    })
    const record = await recordOf(made.id)
    expect(record).toMatchObject({ api: 'predictions', ending: 'completed', finish: 'stop', provider: 'sandbox' })
    // USD 100 and 200 per million tokens are 100,000 and 200,000 nano-USD per token.
    expect(record!.bill).toBe(
      BigInt(record!.usage.inputTokens) * 100_000n + BigInt(record!.usage.outputTokens) * 200_000n,
    )
    expect(record!.usage.outputTokens).toBeGreaterThan(5)
  })

  test('a text model accepts messages and all other fields of Chat Completions', async () => {
    const made = await mine.create(
      'maker/text',
      { messages: [{ role: 'user', content: 'One two three four five six seven' }], max_tokens: 3 },
      {},
      'wait=30',
    )
    expect(made.status).toBe('succeeded')
    expect(await recordOf(made.id)).toMatchObject({ finish: 'length', usage: { outputTokens: 3 } })
  })

  test('a text model that fails in mid-stream is not charged', async () => {
    const made = await mine.create('maker/text', { prompt: 'Hello [[cut-after: 3]]' }, {}, 'wait=30')
    expect(made).toMatchObject({ status: 'failed', error: expect.any(String), output: expect.stringMatching(/./) })
    expect(await recordOf(made.id)).toMatchObject({ bill: 0n, ending: 'failed' })
  })

  test('an empty response fails and costs nothing', async () => {
    for (const [model, says] of [
      ['maker/image', 'a body that is not a response'],
      ['maker/text', 'ended before its answer was complete'],
    ] as const) {
      const made = await mine.create(model, { prompt: 'Hello [[raw: {"a":1}]]' }, {}, 'wait=30')
      expect(made).toMatchObject({ status: 'failed', error: expect.stringContaining(says) })
      expect(await recordOf(made.id)).toMatchObject({ bill: 0n, ending: 'failed' })
    }
  })

  test.each(['maker/image', 'maker/drawing'])(
    'an image model receives a prompt, and URLs of its images are the output: %s',
    async (model) => {
      const made = await mine.create(model, { prompt: 'A lighthouse', size: '128x64', n: 2 }, {}, 'wait=30')
      expect(made.status).toBe('succeeded')
      const urls = made.output as string[]
      expect(urls.length).toBe(2)
      for (const url of urls) expect((await fetch(url)).headers.get('content-type')).toBe('image/png')
      expect(await recordOf(made.id)).toMatchObject({ bill: 100_000_000n, usage: { images: 2 } })
    },
  )
})

describe('waiting', () => {
  test('waiting ends with the prediction or after the requested time, without cancelling it', async () => {
    provider.onMade = stays
    const before = performance.now()
    const created = await mine.create('maker/flux', { prompt: 'Slow' }, {}, 'respond-async, wait=1')
    // It has not ended, so the official client has to poll again.
    expect(created.status).toBe('starting')
    expect(performance.now() - before).toBeGreaterThan(900)
    expect((await mine.get(created.id)).status).toBe('processing')
    provider.made.forEach(finish)
    expect((await mine.ended(created.id)).status).toBe('succeeded')
  })

  test.each(['wait=0', 'wait=61', 'wait=1.5', 'wait=-1', 'waiting', 'wait=x', 'return=minimal'])(
    'a request with Prefer: %p does not wait',
    async (prefer) => {
      provider.onMade = stays
      const created = await mine.create('maker/flux', { prompt: 'Unwaited' }, {}, prefer)
      expect(created.status).toBe('starting')
      expect((await mine.cancel(created.id)).status).toBe('canceled')
    },
  )

  test('a client that stops waiting does not change the prediction', async () => {
    provider.onMade = stays
    const gone = new AbortController()
    const request = fetch(`${gateway.url}/v1/predictions`, {
      method: 'POST',
      signal: gone.signal,
      headers: { authorization: `Bearer ${keyOf('mine')}`, prefer: 'wait' },
      body: JSON.stringify({ model: 'maker/flux', input: { prompt: 'Left' } }),
    })
    await until(() => provider.made.some(({ input }) => input.prompt === 'Left'))
    gone.abort()
    await request.catch(() => {})
    finish(provider.made.find(({ input }) => input.prompt === 'Left')!)
    const { results } = (await (await mine.send('GET', '/v1/predictions')).json()) as { results: Shown[] }
    expect((await mine.ended(results.find(({ input }) => input.prompt === 'Left')!.id)).status).toBe('succeeded')
  })
})

describe('an account', () => {
  test('an account has limits of running and queued predictions, which do not affect other accounts', async () => {
    provider.onMade = stays
    const from = provider.made.length
    const ids: string[] = []
    for (let at = 0; at < CONCURRENCY + WAITING; at++)
      ids.push((await mine.create('maker/flux', { prompt: `Queued ${at}` })).id)
    const records = async (): Promise<number> => {
      const store = await storeOf(gateway)
      try {
        return (await store.ledger.openGenerations()).length
      } finally {
        await store.close()
      }
    }
    const held = await records()
    expect(
      await errorOf(mine.send('POST', '/v1/predictions', { model: 'maker/flux', input: { prompt: 'One more' } })),
    ).toMatchObject({ status: 429, code: 'quota_exceeded' })
    expect(await records()).toBe(held)
    await until(() => provider.made.length === from + CONCURRENCY)
    const another = await theirs.create('maker/flux', { prompt: 'Theirs' })
    await until(() => provider.made.some(({ input }) => input.prompt === 'Theirs'))
    expect(provider.made.length).toBe(from + CONCURRENCY + 1)
    expect(await Promise.all(ids.map(async (id) => (await mine.get(id)).status))).toEqual([
      ...Array(CONCURRENCY).fill(expect.stringMatching(/starting|processing/)),
      ...Array(WAITING).fill('starting'),
    ])
    // A queued prediction is cancelled without a call to its provider.
    expect((await mine.cancel(ids.at(-1)!)).status).toBe('canceled')
    expect(await recordOf(ids.at(-1)!)).toMatchObject({ bill: 0n, ending: 'client-left' })
    provider.onMade = succeedsAtOnce
    provider.made.forEach(finish)
    for (const id of ids.slice(0, -1)) expect((await mine.ended(id)).status).toBe('succeeded')
    expect((await theirs.ended(another.id)).status).toBe('succeeded')
    const order = provider.made.flatMap(({ input }) => /^Queued (\d+)$/.exec(String(input.prompt))?.[1] ?? [])
    expect(order.toSorted()).toEqual(ids.slice(0, -1).map((_, at) => String(at)))
    // They begin in their order; as many as may run at once reach the provider in any.
    order.forEach((number, at) => expect(Math.abs(Number(number) - at)).toBeLessThan(CONCURRENCY))
  }, 30_000)

  test('an account without enough credit cannot create a prediction', async () => {
    expect(
      await errorOf(poor.send('POST', '/v1/predictions', { model: 'maker/dear', input: { prompt: 'Dear' } })),
    ).toMatchObject({
      status: 402,
      code: 'insufficient_credit',
      message: expect.stringContaining('The balance does not cover the fee of a request: add credit.'),
    })
    const many = { model: 'maker/flux', input: { prompt: 'Many', num_outputs: 1000 } }
    expect(await errorOf(poor.send('POST', '/v1/predictions', many))).toMatchObject({
      status: 402,
      message: expect.stringContaining('Add credit, or request fewer or smaller images.'),
    })
    expect(await (await poor.send('GET', '/v1/predictions')).json()).toEqual({
      previous: null,
      next: null,
      results: [],
    })
  })

  test('an account lists its own predictions, newest first, page by page', async () => {
    const made: string[] = []
    for (let at = 0; at < 120; at++)
      made.push((await poor.create('maker/flux', { prompt: `Page ${at}` }, {}, 'wait=30')).id)
    const seen: string[] = []
    for (let url: string | null = `${gateway.url}/v1/predictions`; url !== null; ) {
      const page = (await (await fetch(url, { headers: { authorization: `Bearer ${keyOf('poor')}` } })).json()) as {
        next: string | null
        results: Shown[]
      }
      seen.push(...page.results.map(({ id }) => id))
      url = page.next
    }
    expect(seen).toEqual(made.toReversed())
  }, 30_000)

  test('an account cannot see predictions of another account', async () => {
    const { id } = await theirs.create('maker/flux', { prompt: 'Theirs' }, {}, 'wait=30')
    const unknown = `${id.slice(0, -6)}012345`
    for (const [method, end] of [
      ['GET', ''],
      ['POST', '/cancel'],
    ] as const) {
      const [another, never] = await Promise.all(
        [id, unknown].map(async (one) => {
          const response = await mine.send(method, `/v1/predictions/${one}${end}`)
          return [response.status, (await response.text()).replaceAll(one, 'ID')]
        }),
      )
      expect(another).toEqual(never!)
      expect(another![0]).toBe(404)
    }
    const { results } = (await (await mine.send('GET', `/v1/predictions?cursor=${'f'.repeat(32)}`)).json()) as {
      results: Shown[]
    }
    expect(results.some((one) => one.id === id)).toBe(false)
  })
})

describe('cancelling', () => {
  test('cancelling a prediction at a provider cancels it there and costs its fee', async () => {
    provider.onMade = stays
    const { id } = await mine.create('maker/flux', { prompt: 'Unwanted' })
    await until(() => provider.made.some(({ input }) => input.prompt === 'Unwanted'))
    const canceled = await mine.cancel(id)
    expect(canceled).toMatchObject({ status: 'canceled', error: null, completed_at: expect.any(String) })
    expect(provider.made.find(({ input }) => input.prompt === 'Unwanted')!.canceled).toBe(1)
    expect(await recordOf(id)).toMatchObject({ bill: 10_000_000n, ending: 'client-left' })
    expect(await mine.cancel(id)).toEqual(canceled)
  })

  test('cancelling a text model stops its provider and costs the output received', async () => {
    gated.shut()
    const { id } = await mine.create('maker/gated', { prompt: 'Unwanted', max_tokens: 1000 })
    for (let looks = 0; looks < 500 && (await mine.get(id)).output === null; looks++) await Bun.sleep(10)
    const canceled = await mine.cancel(id)
    expect(canceled).toMatchObject({ status: 'canceled', output: expect.any(String) })
    const record = await recordOf(id)
    expect(record!.ending).toBe('client-left')
    expect(record!.bill).toBeGreaterThan(0n)
    gated.open()
  })

  test('cancelling an ended prediction changes nothing', async () => {
    const made = await mine.create('maker/flux', { prompt: 'Done' }, {}, 'wait=30')
    expect(await mine.cancel(made.id)).toEqual(made)
  })

  const ROUNDS = runs(30, 100)

  test(`a cancellation comes before the end or after it, never both: ${ROUNDS} times`, async () => {
    provider.onMade = stays
    const ends = new Map<string, number>()
    const round = async (at: number): Promise<void> => {
      const prompt = `Race ${at}`
      const account = racers[at % racers.length]!
      const { id } = await account.create('maker/flux', { prompt })
      await until(() => provider.made.some(({ input }) => input.prompt === prompt))
      const made = provider.made.find(({ input }) => input.prompt === prompt)!
      const jitter = (): Promise<void> => Bun.sleep(Math.random() * 700)
      const [, canceled] = await Promise.all([
        jitter().then(() => made.status === 'processing' && finish(made)),
        jitter().then(() => account.cancel(id)),
      ])
      const ended = await account.ended(id)
      // An end that a client has received does not change.
      if (['succeeded', 'canceled'].includes(canceled.status)) expect(ended).toEqual(canceled)
      const record = await recordOf(id)
      expect([prompt, ended.status, record?.ending, record?.bill]).toEqual([
        prompt,
        ...((ended.status === 'succeeded'
          ? ['succeeded', 'completed', 90_000_000n]
          : ['canceled', 'client-left', 10_000_000n]) as [string, string, bigint]),
      ])
      ends.set(ended.status, (ends.get(ended.status) ?? 0) + 1)
    }
    const atOnce = CONCURRENCY * racers.length
    for (let from = 0; from < ROUNDS; from += atOnce)
      await Promise.all(Array.from({ length: Math.min(atOnce, ROUNDS - from) }, (_, at) => round(from + at)))
    expect([...ends.keys()].sort()).toEqual(['canceled', 'succeeded'])
  }, 60_000)
})

describe('invalid requests', () => {
  const input = { prompt: 'A cat' }
  test.each<[string, unknown, number, string, string | null]>([
    ['a model that is not there', { model: 'maker/fluks', input }, 404, 'model_not_found', 'model'],
    ['no model', { input }, 400, 'invalid_request', 'model'],
    ['a model that is none', { model: 7, input }, 400, 'invalid_request', 'model'],
    [
      'a version of another model',
      { model: 'maker/flux', version: 'cd'.repeat(32), input },
      400,
      'invalid_request',
      'version',
    ],
    ['an unknown version', { version: 'cd'.repeat(31), input }, 404, 'model_not_found', 'model'],
    ['no input', { model: 'maker/flux' }, 400, 'invalid_request', 'input'],
    ['an input that is no object', { model: 'maker/flux', input: 'A cat' }, 400, 'invalid_request', 'input'],
    ['an input that is a list', { model: 'maker/flux', input: [] }, 400, 'invalid_request', 'input'],
    ['a text model without a prompt', { model: 'maker/text', input: {} }, 400, 'invalid_request', 'input.prompt'],
    [
      'a prompt that is no text',
      { model: 'maker/text', input: { prompt: {} } },
      400,
      'invalid_request',
      'input.prompt',
    ],
    [
      'a prompt beside messages',
      { model: 'maker/text', input: { prompt: 'a', messages: [] } },
      400,
      'invalid_request',
      'input.messages',
    ],
    [
      'messages that are none',
      { model: 'maker/text', input: { messages: [{ role: 'x' }] } },
      400,
      'invalid_request',
      'input.messages[0].role',
    ],
    [
      'an image without a prompt',
      { model: 'maker/image', input: { size: '64x64' } },
      400,
      'invalid_request',
      'input.prompt',
    ],
    [
      'an image of no size',
      { model: 'maker/image', input: { prompt: 'a', size: 'big' } },
      400,
      'invalid_request',
      'input.size',
    ],
    ['a webhook that is no URL', { model: 'maker/flux', input, webhook: 'nowhere' }, 400, 'invalid_request', 'webhook'],
    [
      'a webhook of our own network',
      { model: 'maker/flux', input, webhook: 'http://127.0.0.1:1/' },
      400,
      'invalid_request',
      'webhook',
    ],
    [
      'an event that is none',
      { model: 'maker/flux', input, webhook: 'https://example.com', webhook_events_filter: ['end'] },
      400,
      'invalid_request',
      'webhook_events_filter[0]',
    ],
    [
      'an unknown file',
      { model: 'maker/flux', input: { image: 'URL/v1/files/file-0123456789abcdef' } },
      404,
      'not_found',
      'input',
    ],
    ['no JSON', '{"model": ', 400, 'invalid_request', 'body'],
    ['a list', '[]', 400, 'invalid_request', 'body'],
    ['a name given twice', '{"model":"maker/flux","model":"maker/text","input":{}}', 400, 'invalid_request', 'body'],
    ['too much', { model: 'maker/flux', input: { prompt: 'x'.repeat(1_100_000) } }, 413, 'request_too_large', null],
    [
      'too deep',
      `{"model":"maker/flux","input":{"a":${'['.repeat(100)}${']'.repeat(100)}}}`,
      400,
      'invalid_request',
      'body',
    ],
  ])('the request is refused: %s', async (_, body, status, code, param) => {
    const text = (typeof body === 'string' ? body : JSON.stringify(body)).replaceAll('URL', gateway.url)
    const before = await (await poor.send('GET', '/v1/predictions')).text()
    const error = await errorOf(poor.send('POST', '/v1/predictions', text))
    expect([error.status, error.code, error.param]).toEqual([status, code, param])
    if (code === 'model_not_found' && param === 'model' && text.includes('fluks'))
      expect(error.message).toContain('maker/flux')
    expect(await (await poor.send('GET', '/v1/predictions')).text()).toBe(before)
  })

  test.each([
    '',
    'pred_',
    'pred_x',
    `pred_${'0'.repeat(31)}`,
    `pred_${'0'.repeat(32)}`,
    'F'.repeat(32),
    '%00',
    '..%2f',
  ])('the id %p is not found', async (id) => {
    const { status } = await mine.send('GET', `/v1/predictions/${id}`)
    expect(status).toBe(404)
  })

  test.each(['x', 'pred_1', '%00'])('the cursor %p is refused', async (cursor) => {
    expect((await mine.send('GET', `/v1/predictions?cursor=${cursor}`)).status).toBe(400)
  })
})
