import { afterEach, describe, expect, test } from 'bun:test'
import type { Frame } from '../../src/http/frames.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { chunkText, eventStream } from '../../src/pipeline/framing.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { PassthroughOutput, TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf } from '../matrix/routes.ts'
import { plain, post, serve, stopServers } from '../transport/call-kit.ts'
import { writeLong } from '../transport/raw-server.ts'

afterEach(stopServers)

/** Frames of 1 KB, each of which takes 0.1 ms to read. */
const FRAMES = 2_000
const FRAME_MS = 0.1

/** A stream whose frames give the client nothing before its end, and the most of them in one turn of the event loop. */
function silentStream(): { stream: MeteredStream; most: () => number } {
  let [seen, inTurn, most] = [0, 0, 0]
  let ended: 'completed' | undefined
  const take = (frames: readonly Frame[]): Frame[] => {
    for (const _ of frames) {
      if (inTurn++ === 0) setImmediate(() => (inTurn = 0))
      most = Math.max(most, inTurn)
      for (const end = performance.now() + FRAME_MS; performance.now() < end; ) continue
    }
    seen += frames.length
    if (seen < FRAMES) return []
    ended = 'completed'
    return [{ data: 'all' }]
  }
  const stream = { take, conclude: () => Promise.resolve([]), end: () => [], fail: () => [] }
  return { stream: Object.defineProperty(stream, 'ended', { get: () => ended }) as never, most: () => most }
}

test.each([
  ['an object', (error: object) => JSON.stringify(error, undefined, 2)],
  ['an array', (error: object) => JSON.stringify([error], undefined, 2)],
])('%s of an error without its frame is the error of a stream whose connection is reset', async (_, written) => {
  const chunk = { candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, index: 0 }] }
  const error = { error: { code: 429, message: 'slow down', status: 'RESOURCE_EXHAUSTED' } }
  const server = serve((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n\r\ndata: ${JSON.stringify(chunk)}\n\n${written(error)}`)
    setTimeout(() => socket.terminate(), 30)
  })
  const { body } = await post(server)
  const reader = protocols.generateContent.call.reader({}, false)
  const output = new TranslatedOutput(protocols['chat.completions'].serve.writer(contextOf('chat.completions')))
  const stream = new MeteredStream(reader, output, new Meter(() => Promise.resolve(1)))
  const relay = new Relay(body, stream, eventStream, (_outcome, last) => Promise.resolve(last))
  let text = ''
  for (let next = await relay.pull(); next !== undefined; next = await relay.pull()) text += chunkText(next)
  expect(text).toContain('Hi')
  expect(text).toContain('slow down')
  expect(stream.error?.code).toBe('upstream_rate_limited')
})

test.each([
  ['a frame that is cut is not passed on', '{"id":"c","choices":[{"ind', 'upstream_error'],
  ['a last frame counts that lacks its line ends only', '[DONE]', undefined],
])('of a stream whose connection is reset, %s', async (_, last, code) => {
  const choices = [{ index: 0, delta: { content: 'Hi' }, finish_reason: code === undefined ? 'stop' : null }]
  const chunk = { id: 'c', choices, usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }
  const server = serve((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n\r\ndata: ${JSON.stringify(chunk)}\n\ndata: ${last}`)
    setTimeout(() => socket.terminate(), 30)
  })
  const { body } = await post(server)
  const { call, passthrough } = protocols['chat.completions']
  const output = new PassthroughOutput(passthrough(contextOf('chat.completions')), false)
  const stream = new MeteredStream(call.reader({}, false), output, new Meter(() => Promise.resolve(1)))
  const relay = new Relay(body, stream, eventStream, (_outcome, frames) => Promise.resolve(frames))
  let text = ''
  for (let next = await relay.pull(); next !== undefined; next = await relay.pull()) text += chunkText(next)
  expect(text).toContain('Hi')
  expect(text.includes('"ind\n')).toBe(false)
  expect(stream.error?.code).toBe(code as never)
})

describe('frames that give the client nothing are read in several turns of the event loop', () => {
  const text = `data: ${'x'.repeat(1_016)}\n\n`.repeat(FRAMES)

  test.each([
    ['before the response begins', true, 0],
    ['after that', false, 0],
    ['where many have come meanwhile', true, 100],
  ])('%s', async (_, begins, waitMs) => {
    const server = serve((socket) => writeLong(socket, plain(text)))
    const { body } = await post(server)
    const { stream, most } = silentStream()
    const relay = new Relay(body, stream, eventStream, (_outcome, last) => Promise.resolve(last))
    await Bun.sleep(waitMs)
    if (begins) await relay.begin(60_000)
    expect(await relay.pull(() => 'written')).toBe('data: all\n\n')
    expect(most()).toBeLessThanOrEqual(200)
  })
})
