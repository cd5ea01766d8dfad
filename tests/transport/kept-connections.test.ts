import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { Deadlines, deadlines } from '../../src/deadlines.ts'
import { closeIdle } from '../../src/http/connection.ts'
import { failure, plain, post, postText, serve, stopServers } from './call-kit.ts'
import { until } from './raw-server.ts'

afterEach(stopServers)

const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'

describe('a kept connection', () => {
  test('one connection serves consecutive calls', async () => {
    const server = serve((socket) => {
      socket.write(plain('ok'))
    })
    for (let i = 0; i < 20; i += 1) expect(await postText(server)).toBe('ok')
    expect(server.connections).toBe(1)
  })

  const last: [string, string][] = [
    ['with Connection: close', plain('ok', 'Connection: close\r\n')],
    ['of HTTP/1.0', plain('ok').replace('1.1', '1.0')],
    [
      'with a length and with chunks, of which the chunks count',
      plain('2\r\nok\r\n0\r\n\r\n', 'transfer-encoding: chunked\r\n'),
    ],
    ['in chunks, with bytes after the last', CHUNKED + 'poison'],
  ]
  for (const [title, text] of last)
    test(`a connection is closed after a response ${title}`, async () => {
      const server = serve((socket) => {
        socket.write(text)
      })
      expect([await postText(server), await postText(server)]).toEqual(['ok', 'ok'])
      expect(server.connections).toBe(2)
    })

  test('a connection is kept after chunks, a status without content, and HTTP/1.0 that keeps it', async () => {
    const server = serve((socket, _request, count) => {
      if (count === 1) socket.write(CHUNKED)
      else if (count === 2) socket.write('HTTP/1.1 304 Not Modified\r\n\r\n')
      else socket.write(plain('ok', 'connection: keep-alive\r\n').replace('1.1', '1.0'))
    })
    const texts = [await postText(server), await postText(server), await postText(server), await postText(server)]
    expect(texts).toEqual(['ok', '', 'ok', 'ok'])
    expect(server.connections).toBe(1)
  })

  test('an unused connection is closed after 50 seconds, and the next call opens another', async () => {
    const server = serve((socket, _request, count) => {
      // A call may take longer than that.
      if (count === 2) setTimeout(() => void socket.write(plain('ok')), 400)
      else socket.write(plain('ok'))
    })
    const set = spyOn(deadlines, 'set').mockImplementation((deadline, ms) =>
      Deadlines.prototype.set.call(deadlines, deadline, ms === 50_000 ? 300 : ms),
    )
    try {
      for (let i = 0; i < 3; i += 1) {
        expect(await postText(server)).toBe('ok')
        await Bun.sleep(100)
      }
      // Each use begins the time anew.
      expect(server.connections).toBe(1)
      await Bun.sleep(400)
      expect(await postText(server)).toBe('ok')
      expect(server.connections).toBe(2)
    } finally {
      set.mockRestore()
    }
  })

  test('all are closed at the end of the program', async () => {
    const server = serve((socket) => {
      socket.write(plain('ok'))
    })
    await Promise.all(Array.from({ length: 8 }, () => postText(server)))
    expect(server.open).toBeGreaterThan(1)
    closeIdle()
    await until(() => server.open === 0)
  })

  test('a reused connection that closes without a response is replaced once', async () => {
    const server = serve((socket, _request, count) => {
      if (count === 1 || count === 3) socket.write(plain(`response ${count}`))
      else socket.terminate()
    })
    expect(await postText(server)).toBe('response 1')
    expect(await postText(server)).toBe('response 3')
    expect([server.connections, server.requests.length]).toEqual([2, 3])
  })

  test('a request is sent at most twice', async () => {
    const server = serve((socket, _request, count) => {
      if (count === 1) socket.write(plain('ok'))
      else socket.terminate()
    })
    await postText(server)
    expect((await failure(post(server))).code).toBe('upstream_error')
    expect(server.requests.length).toBe(3)
  })

  test('a connection that closes when new, or after a first byte, is not replaced', async () => {
    const fresh = serve((socket) => socket.terminate())
    expect((await failure(post(fresh))).code).toBe('upstream_error')
    expect(fresh.requests.length).toBe(1)
    const begun = serve((socket, _request, count) => {
      if (count === 1) socket.write(plain('ok'))
      else socket.end('HTTP/1.1 2')
    })
    await postText(begun)
    expect((await failure(post(begun))).code).toBe('upstream_error')
    expect(begun.requests.length).toBe(2)
  })

  test('a connection with bytes after the end of a response is not reused', async () => {
    const poison = plain('poison')
    for (const late of [false, true]) {
      let sent = !late
      const server = serve((socket, _request, count) => {
        socket.write(plain(`response ${count}`) + (late ? '' : poison))
        if (late) setTimeout(() => (sent = socket.write(poison) > 0), 5)
      })
      expect(await postText(server)).toBe('response 1')
      while (!sent) await Bun.sleep(5)
      await Bun.sleep(late ? 50 : 0)
      expect(await postText(server)).toBe('response 2')
      expect(server.connections).toBe(2)
      server.stop()
    }
  })

  test('a connection whose response came before the request was written is not reused', async () => {
    let connections = 0
    const server = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open(socket) {
          connections += 1
          socket.write(plain('too large'))
          socket.pause()
        },
        data() {},
      },
    })
    const url = `http://127.0.0.1:${server.port}`
    for (let i = 0; i < 2; i += 1) expect(await postText({ url }, { body: 'x'.repeat(30_000_000) })).toBe('too large')
    expect(connections).toBe(2)
    server.stop(true)
  })
})
