import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../server.ts'
import { type Json } from './agents.ts'
import { chat, google, googlePath, json, LIMITED_KEY, messages, MODELS, sendTo, startWireGateway } from './wire-kit.ts'

/** Errors before the first byte of a response. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startWireGateway()
})
afterAll(() => gateway?.stop())
const send = sendTo(() => gateway)

describe('failures before the first byte', () => {
  const ROUTES = [
    [
      '/v1/chat/completions',
      chat,
      (status: number) => ({
        error: { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) },
        status,
      }),
    ],
    [
      '/v1/responses',
      (model: string, prompt: string, rest: Json = {}) => ({ model, input: prompt, ...rest }),
      (status: number) => ({
        error: { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) },
        status,
      }),
    ],
    [
      '/v1/messages',
      messages,
      (status: number) => ({
        type: 'error',
        error: {
          type: status === 400 ? 'invalid_request_error' : status === 429 ? 'rate_limit_error' : 'overloaded_error',
          message: expect.any(String),
        },
        request_id: expect.stringContaining('req_'),
        status,
      }),
    ],
  ] as const

  test.each(ROUTES)('an error of %s has the shape and status of its protocol, also for a stream', async (...route) => {
    const [path, body, shape] = route
    for (const model of MODELS)
      for (const stream of [false, true])
        for (const [status, directive] of [
          [400, '[[error: 400 no such thing]]'],
          [429, '[[error: 429 retry-after=3 slow down]]'],
          [503, '[[error: 529 too busy]]'],
        ] as const) {
          const response = await send(path, body(model, directive, { stream }))
          const error = { ...(await json(response)), status }
          expect(response.headers.get('content-type')).toContain('application/json')
          expect(status === 503 ? [503, 529] : [status]).toContain(response.status)
          // The error body of a provider of the client's own protocol is passed on unchanged.
          if (model !== `sandbox/${path.split('/')[2]!}`) expect(error).toMatchObject(shape(status) as object)
          if (status === 429) expect(response.headers.get('retry-after')).toBe('3')
          expect(response.headers.get('x-request-id')).toBe(response.headers.get('request-id')!)
        }
  })

  test('an error of generateContent has its status as a number and as a name', async () => {
    for (const model of MODELS)
      for (const method of ['generateContent', 'streamGenerateContent?alt=sse']) {
        const response = await send(googlePath(model, method), google('[[error: 429 retry-after=3 slow down]]'))
        expect(response.status).toBe(429)
        expect(await json(response)).toMatchObject({
          error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: expect.stringContaining('slow down') },
        })
      }
  })

  test('a request over the rate limit is refused with 422 and a time to wait in each protocol', async () => {
    for (const [path, body] of [
      ['/v1/chat/completions', chat(MODELS[0]!, 'Hi')],
      ['/v1/responses', { model: MODELS[0], input: 'Hi' }],
      ['/v1/messages', messages(MODELS[0]!, 'Hi')],
      [googlePath(MODELS[0]!, 'generateContent'), google('Hi')],
    ] as const) {
      const statuses: number[] = []
      for (let n = 0; n < 4; n++) {
        const response = await send(path, body, { authorization: `Bearer ${LIMITED_KEY}` })
        statuses.push(response.status)
        if (n === 0) {
          await response.text()
          continue
        }
        expect([response.headers.get('x-should-retry'), Number(response.headers.get('retry-after')) > 0]).toEqual([
          'true',
          true,
        ])
        const { error } = await json(response)
        if (path.includes('messages')) expect(error.type).toBe('rate_limit_error')
        else if (path.includes('publishers'))
          expect(error.details).toContainEqual(
            expect.objectContaining({ retryDelay: expect.stringMatching(/^[\d.]+s$/) }),
          )
        else expect(error.code).toBe('rate_limit_exceeded')
      }
      expect(statuses).toEqual([200, 422, 422, 422])
    }
  })

  test('a value of the wrong type is refused with 400 in every protocol', async () => {
    for (const model of MODELS) {
      expect((await send('/v1/chat/completions', chat(model, 'Hi', { temperature: 'hot' }))).status).toBe(400)
      expect(
        (await send('/v1/responses', { model, input: [{ type: 'message', role: 'user', content: 5 }] })).status,
      ).toBe(400)
      expect((await send('/v1/messages', messages(model, 'Hi', { max_tokens: 'many' }))).status).toBe(400)
      expect(
        (await send(googlePath(model, 'generateContent'), google('Hi', { generationConfig: { temperature: 'hot' } })))
          .status,
      ).toBe(400)
    }
  })
})
