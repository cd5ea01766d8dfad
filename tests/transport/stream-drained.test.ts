import { expect, test } from 'bun:test'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { listen } from '../../src/http/serve.ts'
import { streamBody } from '../../src/http/stream.ts'
import { rawClient, until } from './raw-server.ts'

test('a client that was slow is not counted any more once it has taken all, while its response goes on', async () => {
  const budget = new MemoryBudget(2 ** 30)
  const end = Promise.withResolvers<undefined>()
  const texts: Promise<string | undefined>[] = [Promise.resolve('x'.repeat(20_000_000)), end.promise]
  const source = { pull: () => texts.shift()!, cancel() {} }
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    fetch: ({ signal }) => new Response(streamBody(source, undefined, signal, 60_000, { budget, owner: 'a' })),
  })
  try {
    const client = await rawClient(server.port)
    client.pause()
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await until(() => budget.used > 0)
    client.resume()
    await until(() => client.bytes() > 20_000_000)
    await until(() => budget.used === 0)
    expect(client.closed()).toBe(false)
    end.resolve(undefined)
    await until(() => client.end().endsWith('0\r\n\r\n'))
  } finally {
    await server.stop(0)
  }
}, 60_000)
