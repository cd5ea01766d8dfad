import { describe, expect, test } from 'bun:test'
import { until } from '../transport/raw-server.ts'
import type { Shown } from './predicting.ts'
import { storeOf } from '../stores.ts'
import {
  CONCURRENCY,
  errorOf,
  finish,
  gateway,
  keyOf,
  mine,
  poor,
  provider,
  recordOf,
  stays,
  succeedsAtOnce,
  theirs,
  usePredictionGateway,
  WAITING,
} from './prediction-gateway.ts'

usePredictionGateway()

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
