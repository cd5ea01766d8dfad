import { afterAll, expect, test } from 'bun:test'
import { Forwarder } from '../../src/http/forward.ts'

/** Requests that a replaced server passes on to its successor. */

let endLast: () => void
const successor = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue('begun')
          endLast = () => controller.close()
        },
      }),
    ),
})
afterAll(() => successor.stop(true))

test('a client that leaves does not end the wait for the responses of others', async () => {
  const forwarder = new Forwarder({ url: `http://127.0.0.1:${successor.port}` }, () => new Response())
  const begin = async (): Promise<{ read(): Promise<{ done: boolean }>; cancel(): Promise<void> }> => {
    const reader = (await forwarder.handle(new Request('http://sluice/'), successor)).body!.getReader()
    await reader.read()
    return reader
  }
  const left = await begin()
  const stays = await begin()
  void left.read()
  await left.cancel()
  let isFinished = false
  const stopping = Promise.withResolvers<void>()
  const server = { url: '', port: 0, stop: async () => stopping.resolve() }
  const finishing = forwarder.finish(server, 60_000).then(() => (isFinished = true))
  await stopping.promise
  await Bun.sleep(200)
  expect(isFinished).toBe(false)
  endLast()
  expect((await stays.read()).done).toBe(true)
  await finishing
})
