import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import {
  cancelPath,
  createRequest,
  getPath,
  readError,
  readPrediction,
} from '../../../src/protocols/predictions/call.ts'

/** The client side of prediction providers. */

const refusal = (act: () => unknown): GatewayError => {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const HASH = '5c7d5dc6dd8bf75c1acaa8565735e7986bc5b66206b55cca93cb72c9bf15ccaa'
const input = { prompt: 'a fox' }

describe('the request for a prediction', () => {
  const CASES: [string, string | undefined, string, Record<string, unknown>][] = [
    ['black-forest-labs/flux-schnell', undefined, '/models/black-forest-labs/flux-schnell/predictions', { input }],
    [`owner/name:${HASH}`, undefined, '/predictions', { version: `owner/name:${HASH}`, input }],
    [`owner/name:${HASH}`, HASH, '/predictions', { version: `owner/name:${HASH}`, input }],
    // With its model, since the hash alone could be a version of a more expensive one.
    ['owner/name', HASH, '/predictions', { version: `owner/name:${HASH}`, input }],
    [HASH, undefined, '/predictions', { version: HASH, input }],
    [HASH, HASH, '/predictions', { version: HASH, input }],
    ['name', 'latest', '/predictions', { version: 'name:latest', input }],
    [`name:${HASH}`, undefined, '/predictions', { version: HASH, input }],
    ['owner/a@b+c', undefined, '/models/owner/a%40b%2Bc/predictions', { input }],
  ]
  test.each(CASES)('has the path and body for the name %s and the version %s', (model, version, path, body) =>
    expect(createRequest({ model }, input, version)).toEqual({ path, body }),
  )

  test.each([
    ['owner/name:old', 'new'],
    ['name:old', 'new'],
    ['owner/name', ''],
    ['owner/name', 'a/b'],
    ['owner/name', `other/model:${HASH}`],
    ['owner/name', 'a b'],
  ])('is refused for the name %s with the version %p', (model, version) => {
    expect(refusal(() => createRequest({ model }, input, version))).toMatchObject({
      code: 'invalid_request',
      param: 'version',
    })
  })

  test.each(['a/b/c', 'a/b:c:d', 'a/', '/b', ''])('is refused for the malformed name %p', (model) => {
    expect(refusal(() => createRequest({ model }, input))).toMatchObject({
      code: 'model_not_found',
      status: 404,
      param: 'model',
    })
  })
})

describe('the id of a prediction', () => {
  test('is one segment of a path', () =>
    expect([getPath('ufawqhfynnddngldkgtslldrkq'), cancelPath('a.b-c_d~e')]).toEqual([
      '/predictions/ufawqhfynnddngldkgtslldrkq',
      '/predictions/a.b-c_d~e/cancel',
    ]))

  const WRONG = ['', '.', '..', '../files', 'a/b', 'a?b', 'a#b', 'a%2fb', 'a b', 'a\r\nb', 'ä']
  test.each(WRONG)('is refused if it is %p', (id) => {
    expect(refusal(() => getPath(id)).code).toBe('upstream_error')
    expect(refusal(() => readPrediction({ id, status: 'starting' })).code).toBe('upstream_error')
  })

  test('has at most 4,096 characters', () =>
    expect([getPath('x'.repeat(4_096)).length, refusal(() => getPath('x'.repeat(4_097))).code]).toEqual([
      4_109,
      'upstream_error',
    ]))

  test('never changes the host or another part of the URL', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (id) => {
        let path: string
        try {
          path = cancelPath(id)
        } catch {
          return
        }
        const url = new URL(`https://h.example/v1${path}`)
        expect([url.host, url.pathname, url.search, url.hash]).toEqual([
          'h.example',
          `/v1/predictions/${id}/cancel`,
          '',
          '',
        ])
      }),
    )
  })
})

describe('reading a prediction', () => {
  test('converts all fields', () => {
    expect(
      readPrediction({
        id: 'p1',
        model: 'o/n',
        version: HASH,
        status: 'succeeded',
        input,
        output: ['https://h.example/a.png'],
        error: null,
        logs: 'one\ntwo\n',
        metrics: { predict_time: 1.5 },
        created_at: '2026-01-01T00:00:00Z',
        started_at: '2026-01-01T00:00:01.500000Z',
        completed_at: '2026-01-01T00:00:03Z',
        urls: {},
      }),
    ).toEqual({
      id: 'p1',
      status: 'succeeded',
      output: ['https://h.example/a.png'],
      error: null,
      logs: 'one\ntwo\n',
      predictSeconds: 1.5,
      startedAt: Date.UTC(2026, 0, 1, 0, 0, 1, 500),
      completedAt: Date.UTC(2026, 0, 1, 0, 0, 3),
    })
  })

  test.each([
    ['starting', 'starting'],
    ['booting', 'starting'],
    ['queued', 'starting'],
    ['processing', 'processing'],
    ['succeeded', 'succeeded'],
    ['failed', 'failed'],
    ['canceled', 'canceled'],
    ['aborted', 'canceled'],
  ] as const)('converts the status %s to %s', (reported, status) => {
    expect(readPrediction({ id: 'p', status: reported })).toEqual({
      id: 'p',
      status,
      output: null,
      error: null,
      logs: '',
    })
  })

  test.each([
    [null],
    [5],
    ['no'],
    [[]],
    [{}],
    [{ id: 'p' }],
    [{ id: 5, status: 'starting' }],
    [{ id: 'p', status: 'exploded' }],
    [{ id: 'p', status: 'toString' }],
    [{ id: 'p', status: ['starting'] }],
  ])('throws upstream_error for %j', (body: unknown) => {
    expect(refusal(() => readPrediction(body))).toMatchObject({ code: 'upstream_error', status: 502 })
  })

  test('ignores invalid values', () => {
    const invalid = {
      id: 'p',
      status: 'succeeded',
      logs: { a: 1 },
      error: '',
      metrics: { predict_time: -4 },
      started_at: 'yesterday',
      completed_at: 5,
    }
    expect(readPrediction(invalid)).toEqual({ id: 'p', status: 'succeeded', output: null, error: null, logs: '' })
    for (const predict_time of [Infinity, NaN, 1e308, '3', null])
      expect(readPrediction({ ...invalid, metrics: { predict_time } }).predictSeconds).toBeUndefined()
    for (const predict_time of [0, 0.5, 31_536_000])
      expect(readPrediction({ ...invalid, metrics: { predict_time } }).predictSeconds).toBe(predict_time)
    expect(
      readPrediction({
        ...invalid,
        metrics: null,
        started_at: '2026-01-02T00:00:00Z',
        completed_at: '2026-01-01T00:00:00Z',
      }).completedAt,
    ).toBeUndefined()
  })

  test('bounds logs, errors and the depth of the output, and hides keys', () => {
    const logs = 'line\n'.repeat(200_000)
    const read = readPrediction({
      id: 'p',
      status: 'failed',
      logs,
      error: `Bearer r8_0123456789abcdef refused ${'x'.repeat(100_000)}`,
    })
    expect([
      read.logs.length < 300_000,
      logs.startsWith(read.logs.slice(0, -6)),
      read.logs.endsWith('\n[cut]'),
    ]).toEqual([true, true, true])
    expect([read.error!.length < 5_000, read.error!.includes('0123456789')]).toEqual([true, false])
    expect(readPrediction({ id: 'p', status: 'failed', error: { detail: 'no memory' } }).error).toBe('no memory')
    expect(readPrediction({ id: 'p', status: 'failed', error: [1] }).error).toBe('The provider gave no reason.')
    const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
    expect(refusal(() => readPrediction({ id: 'p', status: 'succeeded', output: deep(50_000) })).code).toBe(
      'upstream_error',
    )
    expect(readPrediction({ id: 'p', status: 'succeeded', output: deep(60) }).output).toEqual(deep(60))
  })

  test('returns a prediction or throws upstream_error for any JSON', () => {
    const member = fc.jsonValue()
    fc.assert(
      fc.property(
        fc.record({
          id: fc.oneof(fc.constant('p'), member),
          status: fc.oneof(fc.constant('processing'), member),
          output: member,
          error: member,
          logs: member,
          metrics: fc.oneof(member, fc.record({ predict_time: fc.oneof(member, fc.double()) })),
          started_at: member,
          completed_at: member,
        }),
        (body) => {
          let read
          try {
            read = readPrediction(body)
          } catch (error) {
            expect((error as GatewayError).code).toBe('upstream_error')
            return
          }
          expect(read.predictSeconds ?? 0).toBeGreaterThanOrEqual(0)
          expect([typeof read.logs, read.error === null || typeof read.error === 'string']).toEqual(['string', true])
        },
      ),
    )
  })
})

describe('reading an error', () => {
  test.each([
    [
      422,
      {
        title: 'Input validation failed',
        detail: '- input: prompt is required\n',
        status: 422,
        invalid_fields: [{ type: 'required', field: 'input.prompt', description: 'prompt is required' }],
      },
      {
        code: 'invalid_request',
        status: 400,
        param: 'input.prompt',
        message: 'Input validation failed: - input: prompt is required',
      },
    ],
    [
      422,
      { detail: [{ loc: ['body', 'input', 'steps'], msg: 'must be at most 4' }] },
      { code: 'invalid_request', status: 400, message: 'input.steps: must be at most 4' },
    ],
    [
      400,
      { detail: 'The model is private' },
      { code: 'invalid_request', status: 400, message: 'The model is private' },
    ],
    [
      401,
      { title: 'Unauthenticated', detail: 'You did not pass a valid token r8_abcdefghijklm', status: 401 },
      { code: 'upstream_error', status: 502 },
    ],
    [
      402,
      { title: 'Insufficient credit', detail: 'Go to billing', status: 402 },
      { code: 'upstream_error', status: 502 },
    ],
    [403, { detail: 'Forbidden' }, { code: 'upstream_error', status: 502 }],
    [404, { detail: 'The requested resource could not be found.', status: 404 }, { code: 'not_found', status: 404 }],
    [
      429,
      { detail: 'Request was throttled.', status: 429, retry_after: 4.2 },
      { code: 'upstream_rate_limited', status: 429, retryAfterSeconds: 5 },
    ],
    [
      429,
      { detail: 'Request was throttled.', retry_after: -3 },
      { code: 'upstream_rate_limited', retryAfterSeconds: undefined },
    ],
    [500, { detail: 'Internal server error' }, { code: 'upstream_error', status: 502 }],
  ])('converts the status %i with %j to an error of Sluice', (status, body, error) => {
    const read = readError(status, JSON.stringify(body))
    expect(read).toMatchObject(error)
    expect(JSON.stringify([read.message, read.metadata])).not.toContain('r8_abc')
  })

  test.each(['', '<html><h1>Bad gateway</h1></html>', 'null', '[]', '"down"', '{"detail":{"a":1}}', '{"detail":[7]}'])(
    'accepts any body: %p',
    (body) => {
      const { code, status, message } = readError(503, body)
      expect([code, status, message.length > 0]).toEqual(['overloaded', 503, true])
    },
  )
})
