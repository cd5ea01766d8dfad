import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../server.ts'
import { framesOf } from './agents.ts'
import { chat, google, googlePath, json, messages, MODELS, sendTo, startWireGateway } from './wire-kit.ts'

/** Paths and headers that clients use. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startWireGateway()
})
afterAll(() => gateway?.stop())
const send = sendTo(() => gateway)

describe('paths and headers', () => {
  test.each(['/v1/messages', '/v1/messages?beta=true', '/relay/v1/messages'])(
    'messages are answered at %s',
    async (path) => {
      expect((await send(path, messages(MODELS[2]!, 'Hi'))).status).toBe(200)
    },
  )

  test.each([
    '/v1/publishers/sandbox/models/chat',
    '/v1beta1/publishers/sandbox/models/chat',
    '/v1beta/models/sandbox/chat',
    '/v1/models/sandbox/chat',
    '/v1/models/sandbox%2Fchat',
    '/v1/sandbox/chat',
    '/v1/projects/p/locations/l/publishers/sandbox/models/chat',
    '/v1beta1/projects/p/locations/l/publishers/sandbox/models/chat',
  ])('all methods of a model are answered below %s', async (path) => {
    expect(await json(send(`${path}:generateContent`, google('Hi')))).toMatchObject({ modelVersion: 'sandbox/chat' })
    expect(
      framesOf(await (await send(`${path}:streamGenerateContent?alt=sse`, google('Hi'))).text()).length,
    ).toBeGreaterThan(1)
    expect((await json(send(`${path}:countTokens`, { contents: google('Hi').contents }))).totalTokens).toBeGreaterThan(
      0,
    )
  })

  test('a path with the version twice is a 404 that names the correct path', async () => {
    const response = await send('/v1/v1/messages', messages(MODELS[2]!, 'Hi'))
    expect(response.status).toBe(404)
    expect(await json(response)).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error', message: expect.stringContaining('/v1/messages') },
    })
  })

  test.each(['authorization', 'x-api-key', 'x-goog-api-key'])(
    'each protocol accepts the key in %s, also together with authorization',
    async (name) => {
      for (const [path, body] of [
        ['/v1/chat/completions', chat(MODELS[0]!, 'Hi')],
        ['/v1/responses', { model: MODELS[0], input: 'Hi' }],
        ['/v1/messages', messages(MODELS[0]!, 'Hi')],
        [googlePath(MODELS[0]!, 'generateContent'), google('Hi')],
      ] as const) {
        for (const names of [[name], [name, 'authorization']]) {
          const headers = Object.fromEntries(
            names.map((one) => [one, one === 'authorization' ? `Bearer ${gateway.key}` : gateway.key]),
          )
          const response = await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
          expect(response.status).toBe(200)
        }
      }
    },
  )

  test.each(['application/json', '*/*', 'text/event-stream'])(
    'the body decides whether a response is streamed, not `accept: %s`',
    async (accept) => {
      for (const stream of [false, true]) {
        const response = await send('/v1/chat/completions', chat(MODELS[0]!, 'Hi', { stream }), { accept })
        expect(response.headers.get('content-type')).toContain(stream ? 'text/event-stream' : 'application/json')
        await response.text()
      }
    },
  )

  test('a GET may have a content type, and a preconnect needs no key', async () => {
    expect(
      (
        await fetch(`${gateway.url}/v1/models`, {
          headers: { 'x-api-key': gateway.key, 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(200)
    expect((await fetch(`${gateway.url}/api/hello`, { method: 'HEAD' })).status).toBe(200)
  })

  test('a WebSocket is refused with 426, so that clients use HTTP at once', async () => {
    const response = await fetch(`${gateway.url}/v1/responses`, {
      headers: {
        authorization: `Bearer ${gateway.key}`,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      },
    })
    expect([response.status, (await json(response)).error.code]).toEqual([426, 'upgrade_required'])
  })
})
