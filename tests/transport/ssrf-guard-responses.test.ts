import { afterEach, describe, expect, test } from 'bun:test'
import type { GatewayError } from '../../src/error.ts'
import { guardedFetch, guardedPost, type GuardOptions } from '../../src/http/ssrf-guard.ts'
import { guard, ok, redirect, refusal, server, stopServers } from './guard-kit.ts'
import { until, type RawSocket } from './raw-server.ts'

afterEach(stopServers)

describe('responses to guarded calls', () => {
  const get = (site: { host: string }, more: Partial<GuardOptions> = {}) =>
    guardedFetch(`http://${site.host}/`, guard({ private: [site.host], ...more }))
  const shortDeadline = { totalMs: 150 }

  test.each([
    ['with content-length', 'content-length: 1001\r\n\r\n'],
    ['in chunks', `transfer-encoding: chunked\r\n\r\n3e9\r\n${'x'.repeat(1001)}\r\n`],
    ['until the connection closes', `\r\n${'x'.repeat(1001)}`],
  ])('a body over the limit is refused: %s', async (_, rest) => {
    const site = server(() => `HTTP/1.1 200 OK\r\n${rest}`)
    expect(await refusal(get(site))).toBe('cannot be used: it is larger than 1000 bytes')
    await until(() => site.open === 0)
  })

  test('a body at the limit is returned complete', async () => {
    const site = server(() => ok('x'.repeat(1000), 'content-type: Image/PNG; charset=x'))
    const { bytes, mediaType } = await get(site)
    expect([bytes.length, mediaType]).toEqual([1000, 'image/png'])
  })

  test('an empty body without a content type is returned', async () => {
    const site = server(() => ok('', 'x: y'))
    expect(await get(site)).toEqual({ bytes: Buffer.alloc(0), mediaType: undefined, url: `http://${site.host}/` })
  })

  test('an endless body is cancelled', async () => {
    let sent = 0
    const site = server((_, socket) => {
      const more = setInterval(() => {
        if (socket.write('x'.repeat(100)) > 0) sent += 100
        else clearInterval(more)
      }, 1)
      return 'HTTP/1.1 200 OK\r\n\r\n'
    })
    expect(await refusal(get(site))).toContain('larger than 1000 bytes')
    await until(() => site.open === 0)
    expect(sent).toBeLessThan(1_000_000)
  })

  test.each([
    ['a response that never starts', (): string | undefined => undefined],
    [
      'a head that drips',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('x') <= 0) clearInterval(drip)
        }, 5)
        return 'HTTP/1.1 200 OK\r\nx: '
      },
    ],
    [
      'only informational responses',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('HTTP/1.1 100 Continue\r\n\r\n') <= 0) clearInterval(drip)
        }, 5)
        return ''
      },
    ],
    [
      'a body that drips',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('x') <= 0) clearInterval(drip)
        }, 5)
        return 'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n'
      },
    ],
    ['a body that stops', (): string => 'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nx'],
  ])('%s is cancelled at the deadline', async (_, respond) => {
    const site = server((_path, socket) => respond(socket))
    expect(await refusal(get(site, shortDeadline))).toBe('cannot be used: it did not respond within 150 ms')
    await until(() => site.open === 0)
  })

  test('the deadline includes redirects', async () => {
    const site = server((_, socket) => {
      setTimeout(() => socket.write(redirect('/')), 60)
      return undefined
    })
    expect(await refusal(get(site, shortDeadline))).toContain('did not respond within 150 ms')
  })

  test('the deadline includes the DNS lookup', async () => {
    expect(
      await refusal(
        guardedFetch('http://example.com/', guard({ ...shortDeadline, resolve: () => new Promise(() => {}) })),
      ),
    ).toContain('did not respond within 150 ms')
  })

  test('a compressed response is refused unread', async () => {
    const bomb = Bun.gzipSync(Buffer.alloc(10_000_000))
    const site = server((_, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`)
      socket.write(bomb)
      return undefined
    })
    expect(await refusal(get(site, { maxBytes: 20_000_000 }))).toContain('could not be reached')
  })

  test.each([
    [404, 'it responded with status 404'],
    [204, 'it responded with status 204'],
    [206, 'it responded with status 206'],
    [401, 'it responded with status 401'],
    [500, 'it responded with status 500'],
    [304, 'it responded with status 304'],
    [302, 'it responded with status 302'],
  ])('status %p is refused', async (status, reason) => {
    const site = server(() => `HTTP/1.1 ${status} X\r\ncontent-length: 0\r\n\r\n`)
    expect(await refusal(get(site))).toBe(`cannot be used: ${reason}`)
  })

  test.each([
    ['an incomplete response', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx'],
    ['a response in another protocol', 'SSH-2.0-OpenSSH_9.6\r\n\r\n'],
    ['an empty response', ''],
    ['a response with two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx'],
  ])('%s is refused without details', async (_, text) => {
    const site = server((_path, socket) => {
      socket.write(text)
      socket.end()
      return undefined
    })
    expect(await refusal(get(site))).toBe('cannot be used: it could not be reached')
  })

  test("an aborted call closes the connection and is not the client's error", async () => {
    const site = server(() => undefined)
    const controller = new AbortController()
    const call = get(site, { signal: controller.signal }).catch((error: unknown) => error)
    await until(() => site.requests.length === 1)
    controller.abort()
    expect(((await call) as GatewayError).code).toBe('upstream_error')
    await until(() => site.open === 0)
    const early = await get(site, { signal: controller.signal }).catch((error: unknown) => error)
    expect([(early as GatewayError).code, site.connections]).toEqual(['upstream_error', 1])
  })

  test('a POST resolves with the status, whatever the body', async () => {
    const post = (text: string, then?: 'end'): Promise<number> => {
      const site = server((_, socket) => {
        socket.write(text)
        if (then === 'end') socket.end()
        return undefined
      })
      return guardedPost(`http://${site.host}/`, '{}', {}, guard({ private: [site.host], totalMs: 200 }))
    }
    expect(await post('HTTP/1.1 204 X\r\n\r\n')).toBe(204)
    expect(await post('HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n')).toBe(500)
    expect(await post(`HTTP/1.1 200 X\r\ncontent-length: 9999\r\n\r\n`)).toBe(200)
    expect(await post(`HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n${'x'.repeat(2000)}\r\n`)).toBe(201)
    expect(await post('HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx', 'end')).toBe(200)
    expect(await post('HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx')).toBe(200)
  })
})
