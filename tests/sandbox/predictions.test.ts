import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import Replicate from 'replicate'
import { encodeId, predictionAt, readCreate } from '../../src/providers/sandbox/predictions.ts'
import { sandbox, serveSandbox } from '../../src/providers/sandbox/server.ts'
import { decodePng } from './png.ts'

type Json = Record<string, any>

const CREATED_AT = Date.UTC(2026, 10, 21, 8)
const create = (input: object): string => encodeId(readCreate({ input }, 'sandbox/prediction'), CREATED_AT)
/** The prediction as JSON, `after` milliseconds after its creation. */
const at = (id: string, after: number, canceledAfter?: number): Json =>
  predictionAt(
    id,
    'http://sandbox/v1',
    CREATED_AT + after,
    ...(canceledAfter === undefined ? [] : [CREATED_AT + canceledAfter]),
  )
const time = (after: number): string => new Date(CREATED_AT + after).toISOString()

describe('predictionAt', () => {
  test('a prediction is starting, then processing, then succeeded, with its progress in the logs', () => {
    const id = create({ prompt: 'a red fox', delay: 1, duration: '2s', logs: 4 })
    const states = [0, 999, 1000, 1499, 1500, 2999, 3000, 1e9].map((after) => {
      const { status, started_at, completed_at, output, logs, metrics } = at(id, after)
      return [after, status, started_at, completed_at, output, logs.split('\n').length - 1, metrics]
    })
    const words = ['a ', 'red ', 'fox']
    expect(states).toEqual([
      [0, 'starting', null, null, null, 0, {}],
      [999, 'starting', null, null, null, 0, {}],
      [1000, 'processing', time(1000), null, null, 0, {}],
      [1499, 'processing', time(1000), null, null, 0, {}],
      [1500, 'processing', time(1000), null, null, 1, {}],
      [2999, 'processing', time(1000), null, null, 3, {}],
      [3000, 'succeeded', time(1000), time(3000), words, 4, { predict_time: 2 }],
      [1e9, 'succeeded', time(1000), time(3000), words, 4, { predict_time: 2 }],
    ])
    expect(at(id, 3000).logs).toBe(
      ' 25%|##        | 1/4\n 50%|#####     | 2/4\n 75%|#######   | 3/4\n100%|##########| 4/4\n',
    )
  })

  test('a prediction with fail ends with that message and without the last log line', () => {
    const id = create({ fail: 'out of paint', duration: 1, logs: 4 })
    expect([at(id, 999).status, at(id, 999).error]).toEqual(['processing', null])
    expect(at(id, 1000)).toMatchObject({
      status: 'failed',
      error: 'out of paint',
      output: null,
      completed_at: time(1000),
      metrics: { predict_time: 1 },
    })
    expect(at(id, 1000).logs).toEndWith(' 75%|#######   | 3/4\n')
    expect(at(create({ fail: true, duration: 0 }), 0)).toMatchObject({
      status: 'failed',
      error: 'The sandbox was asked to fail.',
    })
    expect(at(create({ fail: false, duration: 0 }), 0).status).toBe('succeeded')
    expect(at(create({ duration: 0, logs: 2 }), 0).logs).toBe(' 50%|#####     | 1/2\n100%|##########| 2/2\n')
  })

  test('a prediction that hangs ends only by cancellation', () => {
    const id = create({ hang: true, duration: 1 })
    expect([at(id, 1e10).status, at(id, 1e10).completed_at]).toEqual(['processing', null])
    expect(at(id, 1e10, 5000)).toMatchObject({
      status: 'canceled',
      completed_at: time(5000),
      metrics: { predict_time: 5 },
    })
  })

  test('a cancelled prediction keeps its logs, and an ended one cannot be cancelled', () => {
    const id = create({ delay: 1, duration: 4, logs: 4 })
    expect(at(id, 1e6, 500)).toMatchObject({
      status: 'canceled',
      started_at: null,
      completed_at: time(500),
      logs: '',
      output: null,
      metrics: { predict_time: 0 },
    })
    expect(at(id, 1e6, 3000)).toMatchObject({
      status: 'canceled',
      started_at: time(1000),
      completed_at: time(3000),
      logs: at(id, 3000).logs,
    })
    expect(at(id, 2999, 3000).status).toBe('processing')
    expect(at(id, 1e6, 5000).status).toBe('succeeded')
  })

  test('the output is the given value, an image, or the words of the prompt', () => {
    const output = (input: object): unknown => at(create({ ...input, duration: 0 }), 0).output
    expect(output({ prompt: 'one  two [[delay: 0]]' })).toEqual(['one  ', 'two'])
    expect(output({})).toEqual(['You ', 'said ', 'nothing.'])
    for (const value of [{ a: [1, null] }, 'text', 0, false, [], ''])
      expect(output({ prompt: 'x', output: value })).toEqual(value)
    const [address] = output({ prompt: 'x', image: '64x32' }) as [string]
    const { width, height } = decodePng(Buffer.from(address.replace('data:image/png;base64,', ''), 'base64'))
    expect([width, height]).toEqual([64, 32])
  })

  test('statuses come in order for any input', () => {
    const ORDER = ['starting', 'processing', 'succeeded', 'failed', 'canceled']
    const input = fc.record(
      {
        prompt: fc.string(),
        delay: fc.integer({ min: 0, max: 3 }),
        duration: fc.integer({ min: 0, max: 3 }),
        logs: fc.nat(20),
        fail: fc.boolean(),
        hang: fc.boolean(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(
        input,
        fc.array(fc.integer({ min: 0, max: 8000 }), { minLength: 2, maxLength: 20 }),
        fc.option(fc.integer({ min: 0, max: 8000 }), { nil: undefined }),
        (given, instants, canceledAfter) => {
          const id = create(given)
          const states = instants.toSorted((a, b) => a - b).map((after) => at(id, after, canceledAfter))
          for (const [i, one] of states.entries()) {
            const before = states[i - 1] ?? one
            expect(ORDER.indexOf(one['status'])).toBeGreaterThanOrEqual(ORDER.indexOf(before['status']))
            expect(one['logs']).toStartWith(before['logs'])
            expect(one['completed_at'] === null).toBe(ORDER.indexOf(one['status']) < 2)
            if (before['completed_at'] !== null) expect(one).toEqual(before)
          }
        },
      ),
    )
  })
})

describe('prediction ids', () => {
  test('an id contains its prediction, fits in a path segment and is unique', () => {
    const input = { prompt: 'é🎉\0', duration: 1, logs: 2, output: { a: 1 }, other: 'x' }
    const ids = [create(input), create(input)]
    expect(ids[0]).not.toBe(ids[1]!)
    expect(ids[0]).toMatch(/^[\w-]{1,4000}$/)
    expect(at(ids[0]!, 0)).toMatchObject({
      id: ids[0]!,
      model: 'sandbox/prediction',
      input: { prompt: 'é🎉\0', duration: 1, logs: 2, output: { a: 1 } },
      urls: {
        get: `http://sandbox/v1/predictions/${ids[0]}`,
        cancel: `http://sandbox/v1/predictions/${ids[0]}/cancel`,
      },
    })
    expect(at(ids[0]!, 0).input).not.toHaveProperty('other')
  })

  test('a long prompt is cut, and any other input that is too long is refused', () => {
    expect(at(create({ prompt: 'x'.repeat(100_000) }), 0).input.prompt).toBe('x'.repeat(256))
    expect(create({ prompt: '\u0001'.repeat(100_000) }).length).toBeLessThan(4000)
    expect(() => create({ output: 'x'.repeat(5000) })).toThrow('too long')
  })

  test('a text that is not an id is refused as not found', () => {
    const id = create({ prompt: 'x' })
    const altered = fc
      .tuple(fc.nat(id.length - 1), fc.constantFrom(...'Aa0_-.~=+/'))
      .map(([i, letter]) => id.slice(0, i) + letter + id.slice(i + 1))
    const cut = fc.tuple(fc.nat(id.length), fc.string()).map(([i, tail]) => id.slice(0, i) + tail)
    for (const text of [`${id}=`, `${id}.`, ` ${id}`, ''])
      expect(() => at(text, 0)).toThrow('There is no such prediction.')
    fc.assert(
      fc.property(fc.oneof(altered, cut, fc.string(), fc.string({ unit: 'binary' }), fc.base64String()), (text) => {
        fc.pre(text !== id)
        expect(() => at(text, 0)).toThrow('There is no such prediction.')
      }),
      { numRuns: 500 },
    )
  })
})

describe('predictions over HTTP', () => {
  let server: ReturnType<typeof serveSandbox>
  beforeAll(() => {
    server = serveSandbox({ host: '127.0.0.1', port: 0 })
  })
  afterAll(() => server.stop())

  const replicate = (auth = 'any'): Replicate =>
    new Replicate({ baseUrl: `${server.url}/v1`, auth, useFileOutput: false })
  const request = (path: string, method: string, body?: unknown): Promise<Response> =>
    sandbox(
      new Request(`http://sandbox/v1${path}`, {
        method,
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
    )

  test('the official client runs a prediction to its end', async () => {
    const progress: string[] = []
    const output = await replicate().run(
      'sandbox/prediction',
      { input: { prompt: 'a red fox', duration: '30ms', logs: 2 }, wait: { mode: 'poll', interval: 10 } },
      ({ status }) => {
        progress.push(status)
      },
    )
    expect([output, progress.at(-1)]).toEqual([['a ', 'red ', 'fox'], 'succeeded'])
  })

  test('the official client creates a prediction by version, gets it and cancels it', async () => {
    const created = await replicate().predictions.create({ version: 'abc', input: { hang: true } })
    expect([created.version, created.status]).toEqual(['abc', 'processing'])
    expect((await replicate().predictions.get(created.id)).status).toBe('processing')
    const canceled = await replicate().predictions.cancel(created.id)
    expect(canceled.status).toBe('canceled')
    expect(await replicate().predictions.get(created.id)).toEqual(canceled)
    expect(await replicate().predictions.cancel(created.id)).toEqual(canceled)
  })

  test('an ended prediction stays succeeded when it is cancelled', async () => {
    const created = (await (
      await request('/predictions', 'POST', { version: 'x', input: { duration: 0 } })
    ).json()) as Json
    expect(created['status']).toBe('succeeded')
    expect(((await (await request(`/predictions/${created['id']}/cancel`, 'POST')).json()) as Json)['status']).toBe(
      'succeeded',
    )
  })

  test('invalid input is refused with a 422 that names the field', async () => {
    for (const [input, field] of [
      [{ duration: -1 }, 'input.duration'],
      [{ duration: '2' }, 'input.duration'],
      [{ duration: 601 }, 'input.duration'],
      [{ duration: {} }, 'input.duration'],
      [{ delay: 'soon' }, 'input.delay'],
      [{ logs: 1.5 }, 'input.logs'],
      [{ logs: 1001 }, 'input.logs'],
      [{ fail: 1 }, 'input.fail'],
      [{ hang: 'yes' }, 'input.hang'],
      [{ image: '0x1' }, 'input.image'],
      [{ image: 'large' }, 'input.image'],
      [{ prompt: ['x'] }, 'input.prompt'],
      [{ prompt: '[[delay: never]]' }, '[[delay]]'],
      [{ output: 'x'.repeat(9999) }, 'input'],
      ['text', 'input'],
      [undefined, 'input'],
    ] as const) {
      const response = await request('/models/sandbox/prediction/predictions', 'POST', { input })
      expect([input, response.status, await response.json()]).toEqual([
        input,
        422,
        expect.objectContaining({
          title: 'Input validation failed',
          status: 422,
          invalid_fields: [expect.objectContaining({ field })],
        }),
      ])
    }
    expect((await request('/predictions', 'POST', { input: {} })).status).toBe(422)
    for (const body of ['', '{', '[]', 'null']) expect((await request('/predictions', 'POST', body)).status).toBe(422)
  })

  test('unknown ids and models, wrong methods and invalid keys are refused', async () => {
    const missing = await request('/predictions/nothing', 'GET')
    expect([missing.status, await missing.json()]).toEqual([
      404,
      { title: 'Not Found', detail: 'There is no such prediction.', status: 404 },
    ])
    expect((await request('/predictions/nothing/cancel', 'POST')).status).toBe(404)
    expect((await request('/models/a/missing/predictions', 'POST', { input: {} })).status).toBe(404)
    expect((await request('/predictions', 'GET')).status).toBe(405)
    await expect(replicate('wrong').predictions.create({ version: 'x', input: {} })).rejects.toThrow('401')
  })

  test('directives in the prompt apply to the response of the create', async () => {
    const create = (prompt: string): Promise<Response> =>
      request('/predictions', 'POST', { version: 'x', input: { prompt } })
    const slow = await create('[[error: 429 retry-after=2 slow down]]')
    expect([slow.status, slow.headers.get('retry-after'), await slow.json()]).toEqual([
      429,
      '2',
      { title: 'Too Many Requests', detail: 'slow down', status: 429 },
    ])
    expect((await create('[[html: 502]]')).status).toBe(502)
    expect(await (await create('[[raw: {"id":1}]]')).text()).toBe('{"id":1}')
  })
})
