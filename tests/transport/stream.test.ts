import { afterAll, describe, expect, test } from 'bun:test'
import { type Chunk, streamBody } from '../../src/http/stream.ts'
import { until } from './raw-server.ts'
import { bodyOf, request, stalledAfter, stopServers, texts } from './stream-kit.ts'

afterAll(stopServers)

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
