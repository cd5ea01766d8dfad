import { afterAll, describe, expect, test } from 'bun:test'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import type { TextSource } from '../../src/http/stream.ts'
import { type RawClient, until } from './raw-server.ts'
import { bodyOf, LIMIT_MS, never, request, stalledAfter, stopServers } from './stream-kit.ts'

afterAll(stopServers)

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
