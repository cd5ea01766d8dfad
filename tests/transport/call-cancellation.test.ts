import { afterEach, describe, expect, test } from 'bun:test'
import { readAll } from '../../src/http/call.ts'
import { failure, longTimeouts, plain, post, postText, serve, stopServers } from './call-kit.ts'
import { until, writeLong } from './raw-server.ts'

afterEach(stopServers)

/** Long before any timeout would close a connection, on a busy machine, too. */
const SOON_MS = 2_000

describe('cancellation', () => {
  test('the signal closes the connection in every phase', async () => {
    for (const text of ['', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc']) {
      const server = serve((socket) => {
        if (text !== '') socket.write(text)
      })
      const abort = new AbortController()
      const failed = failure(postText(server, { signal: abort.signal }))
      await until(() => server.requests.length === 1)
      await Bun.sleep(10)
      abort.abort()
      expect((await failed).code).toBe('upstream_error')
      expect(await until(() => server.open === 0)).toBeLessThan(SOON_MS)
    }
    expect((await failure(post({ url: 'http://127.0.0.1:9' }, { signal: AbortSignal.abort() }))).code).toBe(
      'upstream_error',
    )
  })

  test('chunks that come during a wait can be taken in their turn, up to the one that ends it', async () => {
    const server = serve(async (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n')
      for (const text of 'abcde') {
        await Bun.sleep(10)
        socket.write(text)
      }
    })
    const incoming = await post(server)
    const taken: string[] = []
    const consume = (chunk: Uint8Array): boolean => {
      taken.push(String(chunk))
      return taken.length % 2 === 1
    }
    expect(String(await incoming.body.read(consume))).toBe('b')
    expect(String(await incoming.body.read())).toBe('c')
    expect(String(await incoming.body.read(consume))).toBe('e')
    expect(await incoming.body.read(consume)).toBeUndefined()
    expect(taken).toEqual(['a', 'b', 'd', 'e'])
  })

  test('long chunks come in pieces of 16 KiB, and after a refused one the rest waits in order', async () => {
    const text = Array.from({ length: 500_000 }, (_, number) => String(number).padStart(8, '0')).join('')
    const server = serve((socket) => writeLong(socket, plain(text)))
    const incoming = await post(server)
    const received: string[] = []
    let taken = 0
    const consume = (chunk: Uint8Array): boolean => {
      if (++taken % 5 === 0) return false
      received.push(Buffer.from(chunk).toString())
      return true
    }
    for (let chunk = await incoming.body.read(consume); chunk; chunk = await incoming.body.read(consume))
      received.push(Buffer.from(chunk).toString())
    expect(received.join('') === text).toBe(true)
    // The first read comes with the head, before there is a consumer.
    expect(Math.max(...received.slice(1).map(({ length }) => length))).toBeLessThanOrEqual(16 * 1024)
  })

  describe('a burst that takes long to consume', () => {
    const text = Array.from({ length: 250_000 }, (_, number) => String(number).padStart(8, '0')).join('')
    /** Consumes each piece for 2 ms; gives what came, and the most that came in one turn of the event loop. */
    const consumeSlowly = (): { received: string[]; consume: (chunk: Uint8Array) => boolean; most: () => number } => {
      const received: string[] = []
      let [inTurn, most] = [0, 0]
      const consume = (chunk: Uint8Array): boolean => {
        if (inTurn++ === 0) setImmediate(() => (inTurn = 0))
        most = Math.max(most, inTurn)
        received.push(Buffer.from(chunk).toString())
        const end = performance.now() + 2
        while (performance.now() < end) continue
        return true
      }
      return { received, consume, most: () => most }
    }

    test('is consumed in several turns of the event loop, in order and to its end', async () => {
      const server = serve((socket) => writeLong(socket, plain(text)))
      const incoming = await post(server)
      const first = Buffer.from((await incoming.body.read())!).toString()
      const { received, consume, most } = consumeSlowly()
      expect(await incoming.body.read(consume)).toBeUndefined()
      expect(first + received.join('') === text).toBe(true)
      expect(most()).toBeLessThanOrEqual(8)
    })

    test('shares the time of a turn with others', async () => {
      const server = serve((socket) => writeLong(socket, plain(text.slice(0, 400_000))))
      const incoming = await Promise.all(Array.from({ length: 8 }, () => post(server)))
      const { consume, most } = consumeSlowly()
      for (const { body } of incoming) await body.read()
      await Promise.all(incoming.map(({ body }) => body.read(consume)))
      expect(most()).toBeLessThanOrEqual(20)
    })

    test('is consumed up to a broken end, which is reported after it', async () => {
      const head = `HTTP/1.1 200 OK\r\ncontent-length: ${text.length + 1}\r\n\r\n`
      const server = serve((socket) => writeLong(socket, head + text, { end: true }))
      const incoming = await post(server)
      const first = Buffer.from((await incoming.body.read())!).toString()
      const { received, consume } = consumeSlowly()
      expect((await failure(incoming.body.read(consume))).code).toBe('upstream_error')
      expect(first + received.join('') === text).toBe(true)
    })

    test('ends with cancel, also between two turns', async () => {
      const server = serve((socket) => writeLong(socket, plain(text)))
      const incoming = await post(server)
      const { received, consume } = consumeSlowly()
      await incoming.body.read()
      const pending = incoming.body.read((chunk) => {
        if (received.length === 20) setImmediate(() => incoming.body.cancel())
        return consume(chunk)
      })
      await Promise.race([pending.catch(() => {}), Bun.sleep(10_000)])
      expect(received.length).toBeGreaterThanOrEqual(20)
      expect(received.length).toBeLessThan(60)
    })
  })

  test('cancel closes the connection, and a pending read rejects', async () => {
    const server = serve((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc')
    })
    const incoming = await post(server)
    await incoming.body.read()
    const pending = failure(incoming.body.read())
    incoming.body.cancel()
    incoming.body.cancel()
    expect((await pending).message).toContain('cancelled')
    expect((await failure(incoming.body.read())).message).toContain('cancelled')
    expect(await until(() => server.open === 0)).toBeLessThan(SOON_MS)
  })

  test('cancelling after the end keeps the connection', async () => {
    const server = serve((socket) => {
      socket.write(plain('ok'))
    })
    const abort = new AbortController()
    const incoming = await post(server, { signal: abort.signal })
    expect(await readAll(incoming.body, 100)).toBe('ok')
    incoming.body.cancel()
    abort.abort()
    expect(await postText(server)).toBe('ok')
    expect(server.connections).toBe(1)
  })

  test('an unread body causes no unhandled rejection', async () => {
    const unhandled: unknown[] = []
    const onUnhandled = (error: unknown) => void unhandled.push(error)
    process.on('unhandledRejection', onUnhandled)
    const server = serve((socket, _request, count) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc')
      if (count % 2 === 0) setTimeout(() => socket.terminate(), 5)
    })
    for (let i = 0; i < 6; i += 1) {
      const incoming = await post(server, { timeouts: { ...longTimeouts, totalMs: i < 2 ? 20 : 10_000 } })
      if (i > 3) incoming.body.cancel()
    }
    await Bun.sleep(80)
    process.off('unhandledRejection', onUnhandled)
    expect(unhandled).toEqual([])
  })
})
