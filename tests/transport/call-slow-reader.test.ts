import { afterEach, describe, expect, test } from 'bun:test'
import { packed, PackedBytes } from '../../src/http/long-reads.ts'
import { post, stopServers } from './call-kit.ts'
import { until } from './raw-server.ts'

afterEach(stopServers)

describe('long reads that wait for their reader', () => {
  const frames = Array.from({ length: 40_000 }, (_, n) => `data: {"id":"chatcmpl-1","content":"${n} é\u{1f600}"}\n\n`)
  const body = Buffer.from(frames.join(''))
  const whole = Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`), body])

  /** All connections write from one buffer, so that what this process has besides is what the calls keep. */
  const serveWhole = () => {
    type Progress = { at: number; hasStarted: boolean }
    const pump = (socket: import('bun').Socket<Progress>): void => {
      if (socket.data.hasStarted) socket.data.at += Math.max(0, socket.write(whole.subarray(socket.data.at)))
    }
    return Bun.listen<Progress>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open: (socket) => void (socket.data = { at: 0, hasStarted: false }),
        data: (socket) => {
          socket.data.hasStarted = true
          pump(socket)
        },
        drain: pump,
      },
    })
  }

  test('take little memory after a moment, and come whole and in order', async () => {
    const server = serveWhole()
    const calls = 20
    const arrays = (): number => {
      Bun.gc(true)
      return process.memoryUsage().arrayBuffers
    }
    const before = arrays()
    const received: Buffer[][] = []
    const sources = await Promise.all(
      Array.from({ length: calls }, () => post({ url: `http://127.0.0.1:${server.port}` })),
    )
    const take = async ({ body: source }: (typeof sources)[number], chunks: Buffer[]): Promise<boolean> => {
      const chunk = await source.read((consumed) => {
        chunks.push(Buffer.from(consumed))
        return false
      })
      return chunk !== undefined
    }
    for (const source of sources) await take(source, (received[received.length] = []))
    await until(() => (arrays() - before) / calls < 120_000)
    // Each piece is refused, and after some of them the rest waits for so long again.
    const [source, chunks] = [sources[0]!, received[0]!]
    while (await take(source, chunks)) if (chunks.length % 50 === 0) await Bun.sleep(700)
    expect(Buffer.concat(chunks).equals(body)).toBe(true)
    for (const other of sources) other.body.cancel()
    server.stop(true)
  }, 30_000)

  test('are compressed in pieces; shorter ones stay as they are', () => {
    const short = Buffer.from('short')
    const waiting = packed([Buffer.from(body), short])
    expect(waiting.at(-1)).toBe(short)
    const pieces = waiting.slice(0, -1) as PackedBytes[]
    expect(Buffer.concat(pieces.map((piece) => piece.unpack())).equals(body)).toBe(true)
    expect(pieces.map(({ length }) => length).reduce((sum, length) => sum + length)).toBe(body.length)
    expect(packed(waiting)).toEqual(waiting)
  })
})

test('an unread body slows a fast provider down, and memory stays bounded', async () => {
  const size = 200_000_000
  const block = Buffer.alloc(256 * 1024, 'x')
  let sent = 0
  const pump = (socket: import('bun').Socket<unknown>) => {
    while (sent < size) {
      const written = socket.write(block.subarray(0, Math.min(block.length, size - sent)))
      if (written <= 0) return
      sent += written
    }
  }
  let hasStarted = false
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket) {
        if (!hasStarted) {
          hasStarted = true
          socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`)
          pump(socket)
        }
      },
      drain(socket) {
        if (hasStarted) pump(socket)
      },
    },
  })
  const before = process.memoryUsage.rss()
  const incoming = await post({ url: `http://127.0.0.1:${server.port}` })
  await incoming.body.read()
  await Bun.sleep(300)
  // The kernel buffers of both ends take some megabytes; the other 180 MB must still be at the provider.
  expect(sent).toBeLessThan(20_000_000)
  expect(process.memoryUsage.rss() - before).toBeLessThan(40_000_000)
  let read = 0
  for (let chunk = await incoming.body.read(); chunk !== undefined; chunk = await incoming.body.read())
    read += chunk.length
  expect(read).toBeGreaterThan(size - 2_000_000)
  server.stop(true)
}, 20_000)
