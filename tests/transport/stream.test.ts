import { afterAll, describe, expect, test } from 'bun:test'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { listen, type Listening } from '../../src/http/serve.ts'
import { type Chunk, type KeepAlive, type SlowMemory, streamBody, type TextSource } from '../../src/http/stream.ts'
import { rawClient, type RawClient, until } from './raw-server.ts'

const servers: Listening[] = []
afterAll(async () => {
  for (const server of servers) await server.stop(0)
})

/** Looks at clients are a second apart, and memory that is short is waited for: such tests run at the same time. */
const LIMIT_MS = 60_000

/** A client that has sent a request to a server whose response streams from `source`. */
const request = async (
  source: TextSource,
  keepAlive?: KeepAlive,
  withSignal = true,
  stalledMs?: number,
  memory?: SlowMemory,
): Promise<RawClient> => {
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    fetch: ({ signal }) =>
      new Response(streamBody(source, keepAlive, withSignal ? signal : undefined, stalledMs, memory)),
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
/** A source with one text and no end. */
const stalledAfter = (text: string): (() => Promise<string>) => {
  let isFirst = true
  return () => {
    if (!isFirst) return never<string>()
    isFirst = false
    return Promise.resolve(text)
  }
}

describe('streamBody', () => {
  test('the texts arrive in order, the body ends regularly, and cancel is not called', async () => {
    const cancelled: string[] = []
    const client = await request(texts(['one ', 'two é ', 'last'], cancelled))
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

  test('texts that a source writes during a pull arrive before the one that it gives', async () => {
    const results: unknown[] = []
    let pulls = 0
    const client = await request({
      pull: async (write) => {
        if (++pulls > 2) return undefined
        for (const text of ['a', 'b']) {
          await Bun.sleep(5)
          results.push(write!(`${pulls}${text} `))
        }
        return pulls === 1 ? '' : 'last'
      },
      cancel() {},
    })
    await until(() => bodyOf(client).endsWith('0\r\n\r\n'))
    expect(bodyOf(client).replace(/[0-9a-f]+\r\n|\r\n/g, '')).toBe('1a 1b 2a 2b last')
    expect(results).toEqual(['written', 'written', 'written', 'written'])
  })

  test('each text is sent while the next pull is pending', async () => {
    const client = await request({ pull: stalledAfter('hello'), cancel() {} })
    await until(() => bodyOf(client).includes('hello'))
  })

  test('texts that are available at once arrive complete', async () => {
    const list = ['one ', 'two ', 'three']
    const client = await request({ pull: async () => list.shift(), cancel() {} })
    await until(() => bodyOf(client).includes('three'))
    expect(bodyOf(client)).toContain('one ')
  })

  test('each write of a chunk waits for its pause', async () => {
    const chunks: Chunk[] = [
      [
        { text: 'first ', pauseBefore: 0 },
        { text: 'second ', pauseBefore: 100 },
      ],
      'third',
    ]
    const startedAt = performance.now()
    const client = await request({ pull: async () => chunks.shift(), cancel() {} })
    await until(() => bodyOf(client).includes('first'))
    expect(bodyOf(client)).not.toContain('second')
    await until(() => bodyOf(client).includes('third'))
    expect(performance.now() - startedAt).toBeGreaterThan(95)
    expect(bodyOf(client)).toMatch(/first [^]*second [^]*third/)
  })

  test('a client that leaves during a pause gets no further write and cancels the source once', async () => {
    const cancelled: string[] = []
    let pulls = 0
    const pull = async (): Promise<Chunk> => {
      pulls++
      return [
        { text: 'first ', pauseBefore: 0 },
        { text: 'second ', pauseBefore: 200 },
      ]
    }
    const client = await request({ pull, cancel: (reason) => void cancelled.push(reason) })
    await until(() => bodyOf(client).includes('first'))
    client.close()
    await until(() => cancelled.length > 0)
    await Bun.sleep(250)
    expect([cancelled, pulls]).toEqual([['client-left'], 1])
  })

  test('a failing source cuts the connection', async () => {
    let count = 0
    const pull = async () => {
      await Bun.sleep(10)
      count += 1
      if (count > 1) throw new Error('the source failed on purpose')
      return 'data: 1\n\n'
    }
    const cancelled: string[] = []
    const client = await request({ pull, cancel: (reason) => void cancelled.push(reason) })
    await until(() => client.closed())
    expect(bodyOf(client)).toContain('data: 1')
    expect(bodyOf(client)).not.toContain('0\r\n\r\n')
    expect(cancelled).toEqual([])
  })
})

describe('a client that leaves', () => {
  /** Less than the interval of looks at clients. */
  const SOON_MS = 900

  for (const withSignal of [true, false]) {
    const suffix = withSignal ? '' : ', without a signal'
    test(`a leaving client cancels the source while a pull is pending${suffix}`, async () => {
      const cancelled: string[] = []
      let fail = (_error: Error): void => {}
      let count = 0
      const client = await request(
        {
          pull: () => {
            count += 1
            if (count === 1) return Promise.resolve('hello')
            return new Promise((_, reject) => {
              fail = reject
            })
          },
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
      expect(await until(() => cancelled.length > 0)).toBeLessThan(SOON_MS)
      await Bun.sleep(30)
      expect(cancelled).toEqual(['client-left'])
    })
  }

  test('a leaving client cancels the source while the socket is full, and nothing more is pulled', async () => {
    const cancelled: string[] = []
    let count = 0
    const client = await request({
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
    expect(await until(() => cancelled.length > 0)).toBeLessThan(SOON_MS)
    await Bun.sleep(50)
    expect([cancelled.length, count - before]).toEqual([1, 0])
  })

  test('a client that left before the stream started cancels the source', () => {
    const cancelled: string[] = []
    streamBody(texts([], cancelled), undefined, AbortSignal.abort())
    streamBody(texts([], cancelled), undefined, AbortSignal.abort('shutdown'))
    expect(cancelled).toEqual(['client-left', 'shutdown'])
  })
})

test(
  'a slow client slows the source down, and memory stays bounded',
  async () => {
    let pulled = 0
    const text = 'x'.repeat(10_000)
    const before = process.memoryUsage.rss()
    const client = await request({
      pull: async () => {
        if (pulled >= 200_000_000) return undefined
        pulled += text.length
        return text
      },
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
  },
  LIMIT_MS,
)

test(
  'a source that writes learns that a client is slow, and what it wrote arrives once',
  async () => {
    const size = 20_000_000
    const refused = new Set<string>()
    let written = 0
    const client = await request({
      pull: async (write) => {
        for (let result = ''; written < size; ) {
          await Bun.sleep(0)
          result = write!('x'.repeat(1_000_000))
          written += 1_000_000
          if (result === 'full') {
            refused.add(write!('y'))
            return ''
          }
        }
        return undefined
      },
      cancel() {},
    })
    client.pause()
    await until(() => refused.size > 0)
    await Bun.sleep(100)
    expect([...refused, written < size]).toEqual(['refused', true])
    client.resume()
    await until(() => client.bytes() > size)
    await Bun.sleep(100)
    expect([written, client.bytes() < size + 1_000]).toEqual([size, true])
    expect(bodyOf(client)).not.toContain('y')
  },
  LIMIT_MS,
)

describe('a client that takes nothing', () => {
  /** Texts without an end, or one text that fills the socket and then silence. */
  const SOURCES = {
    'that writes on': () => () => Promise.resolve('x'.repeat(1_000_000)),
    'that is silent': () => stalledAfter('x'.repeat(20_000_000)),
  }
  const KEEP_ALIVES = { 'with keep-alives': { text: ': here\n\n', afterMs: 50 }, without: undefined }

  for (const [kind, pull] of Object.entries(SOURCES))
    for (const [alive, keepAlive] of Object.entries(KEEP_ALIVES))
      test.concurrent(
        `is cut off after a while, and its source is cancelled: one ${kind}, ${alive}`,
        async () => {
          const cancelled: string[] = []
          const source: TextSource = { pull: pull(), cancel: (reason) => void cancelled.push(reason) }
          const client = await request(source, keepAlive, true, 300)
          client.pause()
          await until(() => cancelled.length === 1)
          client.resume()
          await until(() => client.closed())
          expect(cancelled).toEqual(['client-left'])
          expect(client.end()).not.toEndWith('0\r\n\r\n')
        },
        LIMIT_MS,
      )

  test.concurrent(
    'has its memory counted, until it takes something or leaves',
    async () => {
      const budget = new MemoryBudget(2 ** 30)
      const source: TextSource = { pull: () => Promise.resolve('x'.repeat(1_000_000)), cancel() {} }
      const client = await request(source, undefined, true, 60_000, { budget, owner: 'a' })
      client.pause()
      await until(() => budget.used > 0)
      client.resume()
      await until(() => budget.used === 0)
      client.pause()
      await until(() => budget.used > 0)
      client.close()
      await until(() => budget.used === 0)
    },
    LIMIT_MS,
  )

  test.concurrent(
    'is cut off soon where memory is short',
    async () => {
      // One such client fits into it, two do not.
      const budget = new MemoryBudget(2 ** 20)
      const cancelled: string[] = []
      const start = async (): Promise<RawClient> => {
        const source: TextSource = {
          pull: () => Promise.resolve('x'.repeat(1_000_000)),
          cancel: (reason) => void cancelled.push(reason),
        }
        const client = await request(source, undefined, true, 60_000, { budget, owner: 'a' })
        client.pause()
        return client
      }
      const clients = [await start(), await start()]
      await until(() => cancelled.length === 1)
      await Bun.sleep(2_500)
      expect([cancelled, budget.isFull]).toEqual([['client-left'], false])
      for (const client of clients) client.close()
      await until(() => budget.used === 0)
    },
    LIMIT_MS,
  )

  test.concurrent(
    'is not cut off while it takes something',
    async () => {
      const cancelled: string[] = []
      const source: TextSource = {
        pull: () => Promise.resolve('x'.repeat(100_000)),
        cancel: (reason) => void cancelled.push(reason),
      }
      const client = await request(source, undefined, true, 1_000)
      for (let round = 0; round < 20; round++) {
        client.pause()
        await Bun.sleep(100)
        client.resume()
        const before = client.bytes()
        await until(() => client.bytes() > before + 8_000_000)
      }
      expect(cancelled).toEqual([])
      client.close()
    },
    LIMIT_MS,
  )
})

describe('keep-alive', () => {
  const comment = { text: ': here\n\n', afterMs: 20 }

  test.concurrent(
    'no keep-alive is sent to a client that does not read',
    async () => {
      let pulls = 0
      const pull = stalledAfter('x'.repeat(20_000_000))
      const source: TextSource = {
        pull: () => {
          pulls += 1
          return pull()
        },
        cancel() {},
      }
      const client = await request(source, comment)
      client.pause()
      await Bun.sleep(3_000)
      client.resume()
      await until(() => client.bytes() >= 20_000_000)
      await Bun.sleep(200)
      // Had they been written all the time, 150 of them would have come with the text.
      expect(client.end().split(': here').length).toBeLessThan(75)
      expect(pulls).toBeLessThanOrEqual(2)
    },
    LIMIT_MS,
  )

  test('a keep-alive is sent during silence, between frames', async () => {
    let count = 0
    const client = await request(
      {
        pull: async () => {
          await Bun.sleep(100)
          count += 1
          return count < 4 ? `data: ${count}\n\n` : undefined
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

  test('no keep-alive is sent after the client has left', async () => {
    const cancelled: string[] = []
    const client = await request({ pull: () => never(), cancel: (reason) => void cancelled.push(reason) }, comment)
    await until(() => client.text().includes('here'))
    client.close()
    await until(() => cancelled.length === 1)
    await Bun.sleep(60)
    expect(cancelled).toEqual(['client-left'])
  })
})
