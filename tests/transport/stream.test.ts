import { afterEach, describe, expect, test } from 'bun:test'
import { listen } from '../../src/http/serve.ts'
import type { Listening } from '../../src/http/serve.ts'
import { streamBody } from '../../src/http/stream.ts'
import type { Chunk, KeepAlive, TextSource } from '../../src/http/stream.ts'
import { rawClient, until } from './raw-server.ts'
import type { RawClient } from './raw-server.ts'

const servers: Listening[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(0)
})

/** A server whose every answer streams from `source`, and a client that has asked for it. */
const ask = async (source: TextSource, keepAlive?: KeepAlive, withSignal = true): Promise<RawClient> => {
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    fetch: (request) => new Response(streamBody(source, keepAlive, withSignal ? request.signal : undefined)),
  })
  servers.push(server)
  const client = await rawClient(server.port)
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  return client
}

const texts = (list: string[], cancelled: string[] = []): TextSource => ({
  pull: async () => {
    await Bun.sleep(5)
    return list.shift()
  },
  cancel: (reason) => void cancelled.push(reason),
})
const bodyOf = (client: RawClient): string => client.text().slice(client.text().indexOf('\r\n\r\n') + 4)
const never = <T>(): Promise<T> => new Promise(() => {})

describe('a streamed body', () => {
  test('arrives in order and ends cleanly, and cancel is not called', async () => {
    const cancelled: string[] = []
    const client = await ask(texts(['one ', 'two é ', 'last'], cancelled))
    await until(() => bodyOf(client).endsWith('0\r\n\r\n'))
    expect(
      Buffer.from(bodyOf(client), 'latin1')
        .toString()
        .replace(/[0-9a-f]+\r\n|\r\n/g, ''),
    ).toBe('one two é last')
    client.close()
    await Bun.sleep(30)
    expect(cancelled).toEqual([])
  })

  test('gives each text at once, while the next is waited for', async () => {
    const client = await ask({
      pull: (
        (first) => () =>
          first ? ((first = false), Promise.resolve('hello')) : never<string>()
      )(true),
      cancel() {},
    })
    await until(() => bodyOf(client).includes('hello'))
  })

  test('that is there at once arrives whole', async () => {
    const list = ['one ', 'two ', 'three']
    const client = await ask({ pull: async () => list.shift(), cancel() {} })
    await until(() => bodyOf(client).includes('three'))
    expect(bodyOf(client)).toContain('one ')
  })

  test('waits before each write of a chunk that has a pause', async () => {
    const chunks: Chunk[] = [
      [
        { text: 'first ', pauseBefore: 0 },
        { text: 'second ', pauseBefore: 100 },
      ],
      'third',
    ]
    const client = await ask({ pull: async () => chunks.shift(), cancel() {} })
    await until(() => bodyOf(client).includes('first'))
    expect(bodyOf(client)).not.toContain('second')
    const startedAt = performance.now()
    await until(() => bodyOf(client).includes('third'))
    expect(performance.now() - startedAt).toBeGreaterThan(50)
    expect(bodyOf(client)).toMatch(/first [^]*second [^]*third/)
  })

  test('writes nothing after a pause in which the client leaves, and cancels its source once', async () => {
    const cancelled: string[] = []
    let pulls = 0
    const pull = async (): Promise<Chunk> => {
      pulls++
      return [
        { text: 'first ', pauseBefore: 0 },
        { text: 'second ', pauseBefore: 200 },
      ]
    }
    const client = await ask({ pull, cancel: (reason) => void cancelled.push(reason) })
    await until(() => bodyOf(client).includes('first'))
    client.close()
    await until(() => cancelled.length > 0)
    await Bun.sleep(250)
    expect([cancelled, pulls]).toEqual([['client-left'], 1])
  })

  test('is cut, never ended, when its source fails', async () => {
    let count = 0
    const pull = async () => {
      await Bun.sleep(10)
      if ((count += 1) > 1) throw new Error('the source failed on purpose')
      return 'data: 1\n\n'
    }
    const cancelled: string[] = []
    const client = await ask({ pull, cancel: (reason) => void cancelled.push(reason) })
    await until(() => client.closed())
    expect(bodyOf(client)).toContain('data: 1')
    expect(bodyOf(client)).not.toContain('0\r\n\r\n')
    expect(cancelled).toEqual([])
  })
})

describe('a client that goes', () => {
  for (const withSignal of [true, false]) {
    test(`is noticed while a pull is pending${withSignal ? '' : ', by the stream alone'}`, async () => {
      const cancelled: string[] = []
      let fail = (_error: Error): void => {}
      let count = 0
      const client = await ask(
        {
          pull: () =>
            (count += 1) === 1
              ? Promise.resolve('hello')
              : new Promise((_, reject) => {
                  fail = reject
                }),
          cancel: (reason) => {
            cancelled.push(reason)
            fail(new Error('the pull was cut'))
          },
        },
        undefined,
        withSignal,
      )
      await until(() => count === 2)
      client.close()
      expect(await until(() => cancelled.length > 0)).toBeLessThan(250)
      await Bun.sleep(30)
      expect(cancelled).toEqual(['client-left'])
    })
  }

  test('is noticed while the socket is full, and nothing more is pulled', async () => {
    const cancelled: string[] = []
    let count = 0
    const client = await ask({
      pull: async () => {
        count += 1
        return 'x'.repeat(100_000)
      },
      cancel: (reason) => void cancelled.push(reason),
    })
    client.pause()
    await until(() => count > 20)
    await Bun.sleep(200)
    const before = count
    client.close()
    expect(await until(() => cancelled.length > 0)).toBeLessThan(250)
    await Bun.sleep(50)
    expect([cancelled.length, count - before]).toEqual([1, 0])
  })

  test('before the stream began cancels too', () => {
    const cancelled: string[] = []
    streamBody(texts([], cancelled), undefined, AbortSignal.abort())
    streamBody(texts([], cancelled), undefined, AbortSignal.abort('shutdown'))
    expect(cancelled).toEqual(['client-left', 'shutdown'])
  })
})

test('a slow client holds the source back, and memory stays small', async () => {
  let pulled = 0
  const text = 'x'.repeat(10_000)
  const before = process.memoryUsage.rss()
  const client = await ask({
    pull: async () => (pulled < 200_000_000 ? ((pulled += text.length), text) : undefined),
    cancel() {},
  })
  client.pause()
  await until(() => pulled > 100_000)
  let last = -1
  while (last !== pulled) {
    last = pulled
    await Bun.sleep(200)
  }
  expect(pulled).toBeLessThan(30_000_000)
  expect(process.memoryUsage.rss() - before).toBeLessThan(60_000_000)
  client.resume()
  await until(() => client.bytes() > 200_000_000)
}, 20_000)

describe('keep-alive', () => {
  const comment = { text: ': here\n\n', afterMs: 20 }

  test('is sent in silence, whole and between frames', async () => {
    let count = 0
    const client = await ask(
      {
        pull: async () => {
          await Bun.sleep(100)
          return (count += 1) < 4 ? `data: ${count}\n\n` : undefined
        },
        cancel() {},
      },
      comment,
    )
    await until(() => bodyOf(client).endsWith('0\r\n\r\n'))
    const frames = bodyOf(client)
      .replace(/[0-9a-f]+\r\n/g, '')
      .replaceAll('\r\n', '')
      .split('\n\n')
    expect(frames.filter((frame) => frame.startsWith('data'))).toEqual(['data: 1', 'data: 2', 'data: 3'])
    expect(frames.filter((frame) => frame === ': here').length).toBeGreaterThan(4)
    expect(frames.filter((frame) => frame !== '' && frame !== ': here' && !frame.startsWith('data'))).toEqual([])
  })

  test('is not sent to a client that does not read', async () => {
    let count = 0
    const client = await ask(
      { pull: () => ((count += 1) === 1 ? Promise.resolve('x'.repeat(20_000_000)) : never<string>()), cancel() {} },
      comment,
    )
    client.pause()
    await Bun.sleep(200)
    client.resume()
    await until(() => client.bytes() >= 20_000_000)
    expect(count).toBeLessThanOrEqual(2)
  })

  test('stops when the client has gone', async () => {
    const cancelled: string[] = []
    const client = await ask({ pull: () => never(), cancel: (reason) => void cancelled.push(reason) }, comment)
    await until(() => client.text().includes('here'))
    client.close()
    await until(() => cancelled.length === 1)
    await Bun.sleep(60)
    expect(cancelled).toEqual(['client-left'])
  })
})
