import { expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { Forwarder } from '../../src/http/forward.ts'
import { listen, type ListenOptions } from '../../src/http/serve.ts'
import { requestHead } from './raw-server.ts'

/** Connections that clients keep while a server is replaced. */

/** The next request of a connection: the status line of its answer, or what went wrong. */
const exchange = (socket: Socket): Promise<string> =>
  new Promise((resolve) => {
    if (socket.destroyed) return resolve('closed')
    socket.once('data', (bytes) => resolve(String(bytes).split('\r\n')[0]!))
    socket.once('error', (error) => resolve(error.message)).once('close', () => resolve('closed'))
    socket.write(requestHead('GET /'))
  })

test('the next request on a connection that a client keeps is answered by the other server, and ends it', async () => {
  const successor = listen({ host: '127.0.0.1', port: 0, fetch: () => new Response(null, { status: 201 }) })
  const forwarder = new Forwarder({ url: successor.url }, () => new Response())
  let fetch: ListenOptions['fetch'] = () => new Response()
  const server = listen({ host: '127.0.0.1', port: 0, fetch: (...args) => fetch(...args) })
  const kept = connect(server.port, '127.0.0.1')
  try {
    expect(await exchange(kept)).toBe('HTTP/1.1 200 OK')
    fetch = forwarder.handle
    const finishing = forwarder.finish(server, 60_000)
    // In the turn after this one, a server that stops has closed its idle connections.
    await Bun.sleep(50)
    const closed = new Promise((resolve) => kept.once('close', resolve))
    expect(await exchange(kept)).toBe('HTTP/1.1 201 Created')
    await closed
    await finishing
  } finally {
    kept.destroy()
    await successor.stop(0)
  }
})
