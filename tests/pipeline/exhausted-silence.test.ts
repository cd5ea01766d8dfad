import { afterEach, expect, test } from 'bun:test'
import { Meter } from '../../src/ledger/meter.ts'
import { chunkText, eventStream } from '../../src/pipeline/framing.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf } from '../matrix/routes.ts'
import { post, serve, stopServers } from '../transport/call-kit.ts'

afterEach(stopServers)

test('a response that is exhausted while its provider is silent ends with the frames of its end alone', async () => {
  const chunk = { candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, index: 0 }] }
  const server = serve((socket) => socket.write(`HTTP/1.1 200 OK\r\n\r\ndata: ${JSON.stringify(chunk)}\n\n`))
  const { body } = await post(server)
  const reader = protocols.generateContent.call.reader({}, false)
  const output = new TranslatedOutput(protocols['chat.completions'].serve.writer(contextOf('chat.completions')))
  const meter = new Meter(() => Promise.resolve(1))
  const relay = new Relay(body, new MeteredStream(reader, output, meter), eventStream, async (_outcome, last) => last)
  expect(chunkText((await relay.pull())!)).toContain('Hi')
  const ending = relay.pull()
  meter.exhaust({ tokens: 1, candidates: 1, unseen: 0, cause: 'balance' })
  relay.exhaust()
  const frames = chunkText((await ending)!).split('\n\n')
  expect(frames.slice(-2)).toEqual(['data: [DONE]', ''])
  const data = frames.slice(0, -2).map((frame) => JSON.parse(frame.replace('data: ', '')))
  expect(data.flatMap(({ choices }) => choices.map((choice: object) => choice))).toMatchObject([
    { finish_reason: 'length' },
  ])
})
