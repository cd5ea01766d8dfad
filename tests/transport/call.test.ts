import { afterEach, describe, expect, test } from 'bun:test'
import { readAll } from '../../src/http/call.ts'
import { ResponseParser } from '../../src/http/response-parser.ts'
import { failure, longTimeouts, plain, post, postText, serve, stopServers } from './call-kit.ts'
import { until, writeLong, type RawSocket } from './raw-server.ts'

afterEach(stopServers)

describe('an outgoing request', () => {
  test('a request is written with its length in bytes, its path and query, and without compression', async () => {
    const server = serve((socket) => socket.write(plain('ok')))
    expect(await postText(server, { headers: { 'x-a': 'b', 'accept-encoding': 'gzip', Connection: 'close' } })).toBe(
      'ok',
    )
    const [head, body] = server.requests[0]!.split('\r\n\r\n')
    expect(head!.split('\r\n')).toEqual([
      'POST /v1/x?y=1 HTTP/1.1',
      `host: 127.0.0.1:${server.port}`,
      'accept-encoding: identity',
      'x-a: b',
      'content-length: 8',
    ])
    expect(Buffer.from(body!, 'latin1').toString()).toBe('{"é":1}')
  })

  test('a header with a character that HTTP does not allow is an internal error and nothing is sent', async () => {
    const server = serve((socket) => socket.write(plain('ok')))
    for (const headers of <Record<string, string>[]>[
      { 'x-a': 'b\r\nx-c: d' },
      { 'x a': 'b' },
      { 'x-a': 'é' },
      { 'x-a': '\0' },
    ])
      expect((await failure(post(server, { headers }))).code).toBe('internal_error')
    expect(server.requests).toEqual([])
  })

  test('a body of 30 MB arrives complete', async () => {
    let length = 0
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        length = (await request.text()).length
        return new Response('ok')
      },
    })
    expect(await postText({ url: `http://127.0.0.1:${server.port}` }, { body: 'x'.repeat(30_000_000) })).toBe('ok')
    expect(length).toBe(30_000_000)
    await server.stop(true)
  })

  test('a refused connection is an upstream error whose message has no address', async () => {
    const server = serve(() => {})
    server.stop()
    const error = await failure(post(server))
    expect([error.code, error.message]).toEqual(['upstream_error', 'The provider could not be reached (ECONNREFUSED).'])
  })

  test('400 requests run at once', async () => {
    const waiting: RawSocket[] = []
    const server = serve((socket) => {
      waiting.push(socket)
      if (waiting.length === 400) for (const each of waiting) each.write(plain('ok'))
    })
    const bodies = await Promise.all(Array.from({ length: 400 }, () => postText(server)))
    expect(bodies.every((body) => body === 'ok')).toBe(true)
  })
})

describe('an incoming response', () => {
  const chunked =
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n' +
    '3\r\nabc\r\nA;x=y\r\n0123456789\r\n1\r\n!\r\n0\r\nx-t: 1\r\n\r\n'
  const hexChunks =
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n' +
    ['ab', 'CD', 'eF', '003'].map((size) => `${size}\r\n${'x'.repeat(parseInt(size, 16))}\r\n`).join('') +
    '0\r\n\r\n'
  const readable: [string, string, string][] = [
    ['with content-length', plain('hello'), 'hello'],
    ['in chunks, with an extension and a trailer', chunked, 'abc0123456789!'],
    ['in chunks whose sizes have letters and leading zeros', hexChunks, 'x'.repeat(0xab + 0xcd + 0xef + 3)],
    ['after an informational response', 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n' + plain('hello'), 'hello'],
    ['without content', 'HTTP/1.1 204 No Content\r\n\r\n', ''],
    ['without a reason phrase', 'HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx', 'x'],
  ]
  /** The body that the parser reads from these pieces; it overwrites what it is given. */
  const parsed = (pieces: string[]): string => {
    const parser = new ResponseParser()
    const body = pieces.map((piece) => parser.push(Buffer.from(piece, 'latin1'))?.toString('latin1') ?? '').join('')
    expect([parser.complete, parser.surplus]).toEqual([true, false])
    return body
  }
  for (const [title, text, body] of readable) {
    test(`a response ${title} is read wherever it is cut`, async () => {
      const server = serve((socket) => void socket.write(text))
      expect(await postText(server)).toBe(body)
      for (let cut = 1; cut < text.length; cut += 1) expect(parsed([text.slice(0, cut), text.slice(cut)])).toBe(body)
      expect(parsed([...text])).toBe(body)
    })
  }

  test('a response without a length ends with its connection', async () => {
    const server = serve((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\nhel')
      setTimeout(() => socket.end('lo'), 10)
    })
    expect(await postText(server)).toBe('hello')
  })

  test('a response without a length whose connection is reset is an upstream error', async () => {
    const text = 'x'.repeat(1_000_000)
    for (const [body, waitMs] of [
      ['hel', 0],
      [text, 0],
      [text, 100],
    ] as const) {
      const server = serve((socket) => {
        writeLong(socket, `HTTP/1.1 200 OK\r\n\r\n${body}`)
        setTimeout(() => socket.terminate(), 30)
      })
      const { body: source } = await post(server)
      await Bun.sleep(waitMs)
      expect((await failure(readAll(source, 1e9))).message).toContain('closed before its response was complete')
    }
  })

  const CHUNKS = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const broken: [string, string][] = [
    ['a body shorter than its length', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello'],
    ['a body cut in a chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\nabc'],
    ['a body cut between chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n'],
    ['a body cut in the last chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n'],
    ['a head that is cut', 'HTTP/1.1 200 OK\r\ncontent-le'],
    ['an empty response', ''],
    ['a protocol other than HTTP', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['a status other than three digits', 'HTTP/1.1 2e2 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['a status line with a line feed', 'HTTP/1.1 200 OK\nx: y\r\ncontent-length: 5\r\n\r\nhello'],
    ['a flood of informational responses', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(5_000) + plain('hello')],
    ['an invalid chunk size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n'],
    [
      'a chunk size of more than twelve digits',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0000000000003\r\nabc\r\n0\r\n\r\n',
    ],
    ['a chunk size without its line feed', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\rxabc\r\n0\r\n\r\n'],
    [
      'a chunk size without its carriage return',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n',
    ],
    ['a chunk without its carriage return', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n'],
    ['a chunk without its line feed', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\rx0\r\n\r\n'],
    ['a chunk longer than its size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 3\r\n\r\nhello'],
    ['a length that is not a number', 'HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello'],
    ['an unknown transfer coding', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    [
      'compression that was not requested',
      'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello',
    ],
    ['a malformed header', 'HTTP/1.1 200 OK\r\ncontent length: 5\r\n\r\nhello'],
    ['an extension of a chunk without end', `${CHUNKS}3;${'x'.repeat(2_000)}\r\nabc\r\n0\r\n\r\n`],
    ['trailers without end', `${CHUNKS}3\r\nabc\r\n0\r\n${'x-a: b\r\n'.repeat(20_000)}\r\n`],
    ['a long trailer', `${CHUNKS}3\r\nabc\r\n0\r\nx-a: ${'b'.repeat(70_000)}\r\n\r\n`],
    ['a head without end', 'HTTP/1.1 200 OK\r\n' + 'x-a: b\r\n'.repeat(20_000)],
    ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n'],
  ]
  for (const [title, text] of broken) {
    test(`${title} is an upstream error`, async () => {
      const server = serve((socket) => void socket.end(text))
      expect((await failure(postText(server))).code).toBe('upstream_error')
    })
  }

  test('a redirect is not followed', async () => {
    const server = serve(
      (socket) =>
        void socket.write(
          'HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n',
        ),
    )
    const incoming = await post(server)
    expect([incoming.status, incoming.headers.get('location')]).toEqual([307, 'http://127.0.0.1:1/'])
    expect(server.requests.length).toBe(1)
  })

  test('a body over the limit is an upstream error and closes the connection', async () => {
    const server = serve((socket) => {
      writeLong(socket, plain('x'.repeat(3_000_000)))
    })
    const incoming = await post(server)
    expect((await failure(readAll(incoming.body, 1_000_000))).message).toContain('1000000 bytes')
    await until(() => server.open === 0)
  })

  test('a body is read completely if the connection closes before a slow reader is done', async () => {
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response('x'.repeat(3_000_000), { headers: { connection: 'close' } }),
    })
    const incoming = await post({ url: `http://127.0.0.1:${server.port}` })
    await Bun.sleep(100)
    expect((await readAll(incoming.body, 1e9)).length).toBe(3_000_000)
    await server.stop(true)
  })
})

describe('timeouts', () => {
  const stalls: [string, string, Partial<typeof longTimeouts>][] = [
    ['first byte', '', { firstByteMs: 40 }],
    ['first byte', 'HTTP/1.1 200', { firstByteMs: 40 }],
    ['idle', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc', { idleMs: 40 }],
    ['total', '', { totalMs: 40 }],
    ['total', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc', { totalMs: 40 }],
  ]
  for (const [phase, text, timeouts] of stalls) {
    test(`a stall after ${JSON.stringify(text)} ends with the ${phase} timeout and closes the connection`, async () => {
      const server = serve((socket) => {
        if (text !== '') socket.write(text)
      })
      const error = await failure(postText(server, { timeouts: { ...longTimeouts, ...timeouts } }))
      expect([error.code, error.message.includes(phase)]).toEqual(['upstream_timeout', true])
      await until(() => server.open === 0)
    })
  }

  test('a response in slow pieces exceeds the total timeout, not the idle timeout', async () => {
    const server = serve((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
      const timer = setInterval(() => {
        if (socket.write('1\r\nx\r\n') <= 0) clearInterval(timer)
      }, 10)
    })
    expect(
      (await failure(postText(server, { timeouts: { ...longTimeouts, idleMs: 2_000, totalMs: 300 } }))).message,
    ).toContain('total')
  })

  test('the idle timeout does not run while the body is not being read', async () => {
    const server = serve((socket) => {
      writeLong(socket, plain('x'.repeat(2_000_000)))
    })
    const incoming = await post(server, { timeouts: { ...longTimeouts, idleMs: 50 } })
    await incoming.body.read()
    await Bun.sleep(150)
    expect((await readAll(incoming.body, 1e9)).length).toBeGreaterThan(1_000_000)
  })

  test('timeouts may be longer than five minutes, or infinite', async () => {
    const server = serve((socket) => {
      setTimeout(() => void socket.write(plain('ok')), 20)
    })
    expect(
      await postText(server, { timeouts: { connectMs: 6e5, firstByteMs: 3e6, idleMs: 3e6, totalMs: Infinity } }),
    ).toBe('ok')
  })
})
