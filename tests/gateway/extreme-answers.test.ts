import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { log } from '../../src/log/log.ts'
import { startGateway, type Gateway } from '../server.ts'
import { rawServer, type RawServer } from '../transport/raw-server.ts'
import { ask, ENDED, PROTOCOLS } from './asking.ts'
import { gatedConfig } from './gated.ts'
import { COUNTED, framed, protocolOf, RESPONSE_PIECES } from './scripted.ts'

/** Provider responses at the limits of what can be parsed and of what HTTP knows. */

const DEPTH = 100_000
const NESTED = '['.repeat(DEPTH) + ']'.repeat(DEPTH)
/** The place of the deeply nested text in a response. */
const PLACE = 'one two three'

type Head = { status: number; type: string }
let respond: (protocol: ConversationName, stream: boolean) => { head: Head; text: string }

let provider: RawServer
let gateway: Gateway
beforeAll(async () => {
  // On a raw socket, because servers refuse to send such a status.
  provider = rawServer((socket, request) => {
    const path = request.split(' ')[1]!
    const { head, text } = respond(protocolOf(path), request.includes('"stream":true') || path.includes(':stream'))
    const fields = [`content-type: ${head.type}`, `content-length: ${Buffer.byteLength(text)}`]
    socket.write(`${[`HTTP/1.1 ${head.status} X`, ...fields].join('\r\n')}\r\n\r\n${text}`)
  })
  gateway = await startGateway({ config: gatedConfig({ up: { url: `${provider.url}/v1` } }) })
})
afterAll(async () => {
  await gateway?.stop()
  provider?.stop()
})

const JSON_200: Head = { status: 200, type: 'application/json' }
const ROUTES = PROTOCOLS.flatMap((client) => PROTOCOLS.map((upstream) => [client, upstream] as const))
const askFor = (client: ConversationName, upstream: ConversationName, stream: boolean): Promise<Response> =>
  ask({ url: gateway.url, key: gateway.key, protocol: client, model: `up/${upstream}`, stream, limit: 10 })

/** The JSON of a value with a deeply nested one in place of its text, or as an unknown member of each object. */
const deep = (value: object, place: 'text' | 'member'): string =>
  place === 'text'
    ? JSON.stringify(value).replaceAll(`"${PLACE}"`, NESTED)
    : JSON.stringify(value).replaceAll('{"', `{"unknown":${NESTED},"`)

test.each(ROUTES)('%s on %s: a status outside of HTTP is a 502', async (client, upstream) => {
  using logged = spyOn(log, 'error')
  for (const status of [600, 999]) {
    respond = (protocol) => ({
      head: { status, type: 'application/json' },
      text: JSON.stringify(RESPONSE_PIECES[protocol].failure),
    })
    for (const stream of [false, true]) {
      const response = await askFor(client, upstream, stream)
      expect([status, response.status, await response.text()]).toEqual([status, 502, expect.stringContaining('failed')])
    }
  }
  expect(logged).not.toHaveBeenCalled()
})

test.each(ROUTES)('%s on %s: a response that is nested too deeply is a 502', async (client, upstream) => {
  using logged = spyOn(log, 'error')
  for (const place of ['text', 'member'] as const)
    for (const stream of [false, true]) {
      respond = (protocol) => ({ head: JSON_200, text: deep(RESPONSE_PIECES[protocol].whole(COUNTED), place) })
      const response = await askFor(client, upstream, stream)
      expect([place, stream, response.status, await response.text()]).toEqual([
        place,
        stream,
        502,
        expect.stringContaining('nested deeper than 1000 levels'),
      ])
    }
  expect(logged).not.toHaveBeenCalled()
})

test.each(ROUTES)('%s on %s: an error that is nested too deeply is one without a message', async (client, upstream) => {
  using logged = spyOn(log, 'error')
  respond = () => ({ head: { status: 400, type: 'application/json' }, text: `{"detail":${NESTED}}` })
  for (const stream of [false, true]) {
    const response = await askFor(client, upstream, stream)
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('400 and no message')])
  }
  expect(logged).not.toHaveBeenCalled()
})

test.each(ROUTES)('%s on %s: a frame that is nested too deeply is no error of Sluice', async (client, upstream) => {
  using logged = spyOn(log, 'error')
  for (const place of ['text', 'member'] as const) {
    respond = (protocol) => {
      const pieces = RESPONSE_PIECES[protocol]
      const [first, ...rest] = [...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)]
      const nested = rest.map((frame) =>
        typeof frame === 'string'
          ? framed([frame])
          : framed([frame]).replace(/^data: .*$/m, () => `data: ${deep(frame, place)}`),
      )
      const text = framed([first!]) + nested.join('')
      return { head: { status: 200, type: 'text/event-stream' }, text }
    }
    const response = await askFor(client, upstream, true)
    const text = await response.text()
    expect([place, text.includes('Internal error')]).toEqual([place, false])
    const ended = response.status === 502 || ENDED[client].whole.test(text) || ENDED[client].failed.test(text)
    expect([place, ended]).toEqual([place, true])
  }
  expect(logged).not.toHaveBeenCalled()
})
