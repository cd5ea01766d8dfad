import { afterAll, describe, expect, test } from 'bun:test'
import type { Server } from 'bun'
import { asGatewayError } from '../../src/error.ts'
import { BodyPieces } from '../../src/http/body-pieces.ts'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { listen, type Listening, readBody, readChunks, readText } from '../../src/http/serve.ts'
import { streamBody } from '../../src/http/stream.ts'
import { rawClient, until } from './raw-server.ts'

const servers: Listening[] = []
afterAll(async () => {
  for (const server of servers) await server.stop(0)
})

const LIMIT = 100_000

const start = (
  fetch: (request: Request, server: Server<undefined>) => Promise<Response> | Response,
  host = '127.0.0.1',
): Listening => {
  const server = listen({ host, port: 0, fetch })
  servers.push(server)
  return server
}

/** Responds with the body's length, or with the code of the error in reading it. */
const measuring = (atMostMs?: number): Listening =>
  start(async (request) => {
    try {
      return Response.json({ length: (await readText(request, LIMIT, atMostMs)).length })
    } catch (error) {
      const { status, code } = asGatewayError(error)
      return Response.json({ code }, { status })
    }
  })

const post = async (
  server: Listening,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream,
  headers: Record<string, string> = {},
): Promise<[number, unknown]> => {
  const response = await fetch(server.url, { method: 'POST', body, headers })
  return [response.status, await response.json()]
}

const chunkStream = (count: number, size: number): ReadableStream => {
  let left = count
  return new ReadableStream({
    pull(controller) {
      left -= 1
      if (left < 0) controller.close()
      else controller.enqueue(new Uint8Array(size).fill(120))
    },
  })
}

describe('readText', () => {
  test('a body is read with and without a declared length', async () => {
    const server = measuring()
    expect(await post(server, 'é'.repeat(1000))).toEqual([200, { length: 1000 }])
    expect(await post(server, '\ufeff{}')).toEqual([200, { length: 2 }])
    expect(await post(server, chunkStream(10, 1000))).toEqual([200, { length: 10_000 }])
    expect(await post(server, '')).toEqual([200, { length: 0 }])
  })

  test('a body at the limit is read, and one more byte is refused with 413', async () => {
    const server = measuring()
    expect(await post(server, 'x'.repeat(LIMIT))).toEqual([200, { length: LIMIT }])
    expect(await post(server, 'x'.repeat(LIMIT + 1))).toEqual([413, { code: 'request_too_large' }])
    expect(await post(server, chunkStream(100, LIMIT / 100))).toEqual([200, { length: LIMIT }])
    expect(await post(server, chunkStream(101, LIMIT / 100))).toEqual([413, { code: 'request_too_large' }])
  })

  test('a body that is not UTF-8 is refused with 400, a compressed one with 415', async () => {
    const server = measuring()
    expect(await post(server, Uint8Array.of(0x7b, 0xff, 0x7d))).toEqual([400, { code: 'invalid_request' }])
    expect(await post(server, Bun.gzipSync('{}'), { 'content-encoding': 'gzip' })).toEqual([
      415,
      { code: 'unsupported_media_type' },
    ])
    for (const none of ['identity', 'Identity', ''])
      expect([none, ...(await post(server, '{}', { 'content-encoding': none }))]).toEqual([none, 200, { length: 2 }])
  })

  test('a body that is too late is refused with 408, and others are not delayed', async () => {
    const server = measuring(300)
    for (const head of ['content-length: 1000', 'transfer-encoding: chunked']) {
      const client = await rawClient(server.port)
      client.write(`POST / HTTP/1.1\r\nhost: x\r\n${head}\r\n\r\n5\r\nhello\r\n`)
      expect(await post(server, 'ok')).toEqual([200, { length: 2 }])
      await until(() => client.text().startsWith('HTTP/1.1 408'))
      client.close()
    }
  })

  test('an incomplete body causes no unhandled rejection', async () => {
    const unhandled: unknown[] = []
    const onUnhandled = (error: unknown) => void unhandled.push(error)
    process.on('unhandledRejection', onUnhandled)
    const server = measuring()
    for (const head of ['content-length: 1000', 'transfer-encoding: chunked']) {
      const client = await rawClient(server.port)
      client.write(`POST / HTTP/1.1\r\nhost: x\r\n${head}\r\n\r\n5\r\nhello\r\n`)
      await Bun.sleep(20)
      client.close()
    }
    await Bun.sleep(50)
    process.off('unhandledRejection', onUnhandled)
    expect(unhandled).toEqual([])
    expect(await post(server, 'ok')).toEqual([200, { length: 2 }])
  })
})

describe('a body in pieces', () => {
  /** Responds with the number of bytes, or with 408. `wait`: awaited after each piece. */
  const inPieces = (wait: () => Promise<void> = () => Promise.resolve()): Listening =>
    start(async (request) => {
      const pieces = new BodyPieces(request.body!, 60_000, { periodMs: 200, bytes: 100 })
      while ((await pieces.next()) !== undefined) await wait()
      pieces.end()
      return new Response(`${pieces.received}`, { status: pieces.tooLate ? 408 : 200 })
    })
  const head = (length: number): string => `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n`

  test('in chunks of one byte is read in much fewer pieces', async () => {
    const most = 50_000
    const server = start(async (request) => {
      const pieces = new BodyPieces(request.body!, 60_000)
      let count = 0
      while ((await pieces.next()) !== undefined) count++
      pieces.end()
      return Response.json({ received: pieces.received, isJoined: count < most / 10 })
    })
    const client = await rawClient(server.port)
    client.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n')
    client.write('1\r\nx\r\n'.repeat(most) + '0\r\n\r\n')
    await until(() => client.text().includes('}'))
    client.close()
    expect(client.text()).toEndWith(JSON.stringify({ received: most, isJoined: true }))
  })

  test('of more than a megabyte is read whole, and cut off at the end of the connection', async () => {
    const lengths: number[] = []
    const server = start(async (request) => {
      const read = await readBody(request, 1e9).catch(asGatewayError)
      lengths.push(read instanceof Error ? read.status : read.filter((byte) => byte === 120).length)
      return new Response('ok')
    })
    expect(await (await fetch(server.url, { method: 'POST', body: 'x'.repeat(3_000_000) })).text()).toBe('ok')
    const client = await rawClient(server.port)
    client.write(head(2_000_000) + 'x'.repeat(1_500_000))
    await Bun.sleep(20)
    client.close()
    await until(() => lengths.length === 2)
    expect(lengths).toEqual([3_000_000, 400])
  })

  test('waits with its client for memory', async () => {
    const memory = new MemoryBudget(2_000_000)
    const other = new AbortController().signal
    memory.receive(other, 'a', 900_000)
    const server = start(async (request) => {
      const read = await readBody(request, 1e9, memory, 'b')
      memory.release(request.signal)
      return new Response(`${read.length}`)
    })
    const large = fetch(server.url, { method: 'POST', body: 'x'.repeat(500_000) })
    const chunked = fetch(server.url, { method: 'POST', body: chunkStream(100, 5_000) })
    expect(await (await fetch(server.url, { method: 'POST', body: 'x'.repeat(60_000) })).text()).toBe('60000')
    expect(await Promise.race([large, chunked, Bun.sleep(100)])).toBeUndefined()
    memory.release(other)
    expect(await (await large).text()).toBe('500000')
    expect(await (await chunked).text()).toBe('500000')
    expect(memory.used).toBe(0)
  })

  test.concurrent('is too late when its client stops sending, however much came before', async () => {
    const client = await rawClient(inPieces().port)
    client.write(head(100_001) + 'x'.repeat(100_000))
    await until(() => client.text().startsWith('HTTP/1.1 408'))
    client.close()
  })

  test.concurrent('is not too late while the server lets its client wait', async () => {
    const client = await rawClient(inPieces(() => Bun.sleep(700)).port)
    client.write(head(20_000) + 'x'.repeat(20_000))
    await until(() => client.text().includes('20000'))
    expect(client.text()).toStartWith('HTTP/1.1 200')
    client.close()
  })
})

describe('readChunks', () => {
  /** Responds with the number of bytes received, or the code of the error. `work` runs after each chunk. */
  const counting = (deadline: { ms: number; bytesPerSecond: number }, work?: () => Promise<void>): Listening =>
    start(async (request) => {
      let length = 0
      try {
        for await (const chunk of readChunks(request, LIMIT, deadline)) {
          length += chunk.length
          await work?.()
        }
        return Response.json({ length })
      } catch (error) {
        const { status, code } = asGatewayError(error)
        return Response.json({ code }, { status })
      }
    })

  test.concurrent('a body below the minimum rate is refused with 408, and one above it is read', async () => {
    for (const [bytesPerSecond, status] of [
      [100_000, 408],
      [50, 200],
    ] as const) {
      const server = counting({ ms: 200, bytesPerSecond })
      const client = await rawClient(server.port)
      client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n')
      for (let sent = 0; sent < 10 && client.text() === ''; sent++) {
        client.write('x'.repeat(10))
        await Bun.sleep(50)
      }
      await until(() => client.text().startsWith(`HTTP/1.1 ${status}`))
      client.close()
    }
  })

  test.concurrent('time spent on a chunk does not count towards the deadline', async () => {
    const workDone = Promise.withResolvers<void>()
    const server = counting({ ms: 1_000, bytesPerSecond: 1_000_000 }, () =>
      Bun.sleep(1_300).then(() => workDone.resolve()),
    )
    const client = await rawClient(server.port)
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhello')
    await workDone.promise
    await Bun.sleep(50)
    client.write('hello')
    await until(() => client.text().includes('{"length":10}'))
    client.close()
  })

  test('a body is read up to the limit, declared or chunked', async () => {
    const server = counting({ ms: 5_000, bytesPerSecond: 1 })
    for (const [size, expected] of [
      [LIMIT, [200, { length: LIMIT }]],
      [LIMIT + 10, [413, { code: 'request_too_large' }]],
    ] as const) {
      expect(await post(server, 'x'.repeat(size))).toEqual(expected as never)
      expect(await post(server, chunkStream(10, size / 10))).toEqual(expected as never)
    }
    expect(await post(server, '')).toEqual([200, { length: 0 }])
    expect(await post(server, Bun.gzipSync('x'), { 'content-encoding': 'gzip' })).toEqual([
      415,
      { code: 'unsupported_media_type' },
    ])
  })
})

describe('a response before the body is read', () => {
  for (const status of [401, 413]) {
    test(`a ${status} reaches the client complete`, async () => {
      const server = start(() => Response.json({ refused: status }, { status }))
      expect(await post(server, 'x'.repeat(5_000_000))).toEqual([status, { refused: status }])
      expect(await post(server, chunkStream(50, 100_000))).toEqual([status, { refused: status }])
    })
  }

  test('an unread body is not parsed as the next request', async () => {
    let requests = 0
    const server = start(() => {
      requests += 1
      return new Response('no', { status: 401 })
    })
    const client = await rawClient(server.port)
    const inner = 'GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n'
    client.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${inner.length}\r\n\r\n`)
    await until(() => client.text().includes('401'))
    client.write(inner)
    await Bun.sleep(50)
    expect(requests).toBe(1)
    client.close()
  })

  test('an endless body is not kept in memory', async () => {
    const server = measuring()
    const before = process.memoryUsage.rss()
    const response = await fetch(server.url, { method: 'POST', body: chunkStream(200, 1_000_000) }).catch(
      () => undefined,
    )
    expect(response?.status ?? 413).toBe(413)
    expect(process.memoryUsage.rss() - before).toBeLessThan(120_000_000)
  })
})

describe('listen', () => {
  const malformed: [string, string][] = [
    ['two lengths', 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc'],
    [
      'length and chunks at once',
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a space before the colon', 'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n'],
    ['an invalid chunk size', 'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n'],
    ['headers over 16 KB', `GET / HTTP/1.1\r\nhost: x\r\nx-a: ${'x'.repeat(40_000)}\r\n\r\n`],
    ['over 100 headers', `GET / HTTP/1.1\r\nhost: x\r\n${'x-a: 1\r\n'.repeat(300)}\r\n`],
  ]
  for (const [title, text] of malformed) {
    test(`a request with ${title} is refused and its connection closed`, async () => {
      const server = measuring()
      const client = await rawClient(server.port)
      client.write(text)
      await until(() => client.closed())
      expect(client.text()).toMatch(/^(HTTP\/1\.1 4\d\d|$)/)
    })
  }

  test('the URL has an IPv6 address in brackets', async () => {
    const server = start(() => new Response('six'), '::1')
    expect(server.url).toBe(`http://[::1]:${server.port}`)
    expect(await (await fetch(server.url)).text()).toBe('six')
  })

  test('an address in use throws', () => {
    const server = start(() => new Response())
    expect(() => listen({ host: '127.0.0.1', port: server.port, fetch: () => new Response() })).toThrow()
  })
})

test('the idle timeout does not apply to running requests and streams', async () => {
  const limits: number[] = []
  const server = start(async (request, server) => {
    // Bun applies the timeout that was set last; 0 is none. Recorded instead of waited for, which would take minutes.
    server.timeout = (_request, seconds) => void limits.push(seconds)
    return new URL(request.url).pathname === '/stream'
      ? new Response(streamBody({ pull: async () => undefined, cancel() {} }, undefined, request.signal))
      : new Response('x')
  })
  await (await fetch(server.url + '/first')).text()
  limits.length = 0
  await (await fetch(server.url + '/stream')).text()
  expect(limits).toEqual([0])
  limits.length = 0
  await (await fetch(server.url + '/plain')).text()
  expect(limits).toEqual([0, 75])
})

describe('Listening.stop', () => {
  test('stop waits for open requests', async () => {
    const begun = Promise.withResolvers<void>()
    const server = start(async () => {
      begun.resolve()
      await Bun.sleep(100)
      return new Response('done')
    })
    const response = fetch(server.url)
    await begun.promise
    await server.stop(5_000)
    expect(await (await response).text()).toBe('done')
    await expect(fetch(server.url)).rejects.toThrow()
  })

  test('stop closes open connections at the deadline', async () => {
    const begun = Promise.withResolvers<void>()
    const server = start(() => (begun.resolve(), new Promise(() => {})))
    const client = await rawClient(server.port)
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await begun.promise
    await server.stop(20)
    await until(() => client.closed())
  })

  test('stop does not wait for idle connections', async () => {
    const server = start(() => new Response('x'))
    const client = await rawClient(server.port)
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await until(() => client.text().endsWith('x'))
    const startedAt = performance.now()
    await server.stop(3_000)
    expect(performance.now() - startedAt).toBeLessThan(2_500)
  })
})
