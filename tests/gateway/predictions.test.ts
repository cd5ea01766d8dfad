import { describe, expect, test } from 'bun:test'
import { until } from '../transport/raw-server.ts'
import { runs } from '../runs.ts'
import type { Made, Shown } from './predicting.ts'
import {
  CONCURRENCY,
  finish,
  gated,
  gateway,
  keyOf,
  mine,
  other,
  provider,
  racers,
  recordOf,
  stays,
  usePredictionGateway,
} from './prediction-gateway.ts'

usePredictionGateway()

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
