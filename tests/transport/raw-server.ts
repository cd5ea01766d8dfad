import type { Socket } from 'bun'

/** A server that says on its sockets exactly what a test wants, and tells what it saw. */
export type RawServer = {
  url: string
  port: number
  connections: number
  open: number
  requests: string[]
  stop(): void
}

export type RawSocket = Socket<{ number: number; text: string }>

/**
 * `answer` is called once per whole request (head and content-length body) with the socket, the request's number and
 * its text.
 */
export const rawServer = (answer: (socket: RawSocket, request: string, count: number) => void): RawServer => {
  const seen = { connections: 0, open: 0, requests: [] as string[] }
  const server = Bun.listen<{ number: number; text: string }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        seen.open += 1
        socket.data = { number: (seen.connections += 1), text: '' }
      },
      data(socket, bytes) {
        socket.data.text += bytes.toString('latin1')
        for (;;) {
          const { text } = socket.data
          const end = text.indexOf('\r\n\r\n')
          if (end === -1) return
          const length = end + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
          if (text.length < length) return
          socket.data.text = text.slice(length)
          seen.requests.push(text.slice(0, length))
          answer(socket, text.slice(0, length), seen.requests.length)
        }
      },
      close() {
        seen.open -= 1
      },
      error() {},
    },
  })
  return Object.assign(seen, {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port,
    stop: () => server.stop(true),
  })
}

/** Waits until `condition` holds, at most ten seconds; gives the milliseconds it took. */
export const until = async (condition: () => boolean): Promise<number> => {
  const began = performance.now()
  while (!condition()) {
    if (performance.now() - began > 10_000) throw new Error(`never happened: ${condition}`)
    await Bun.sleep(2)
  }
  return performance.now() - began
}

/** A plain client on a raw socket. `writeAll` takes Latin-1 of any length, and ends when the connection does. */
export type RawClient = {
  text(): string
  bytes(): number
  closed(): boolean
  write(text: string): void
  writeAll(text: string): Promise<void>
  pause(): void
  resume(): void
  close(): void
}

export const rawClient = async (port: number): Promise<RawClient> => {
  let text = ''
  let bytes = 0
  let closed = false
  let drained = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_socket, piece) {
        bytes += piece.length
        if (text.length < 1_000_000) text += piece.toString('latin1')
      },
      drain() {
        drained.resolve()
      },
      close() {
        closed = true
        drained.resolve()
      },
      error() {
        closed = true
      },
    },
  })
  const writeAll = async (said: string): Promise<void> => {
    for (let rest = Buffer.from(said, 'latin1'); !closed; ) {
      drained = Promise.withResolvers()
      rest = rest.subarray(Math.max(0, socket.write(rest)))
      if (rest.length === 0) return
      await drained.promise
    }
  }
  return {
    text: () => text,
    bytes: () => bytes,
    closed: () => closed,
    write: (said) => void socket.write(said),
    writeAll,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close: () => void socket.terminate(),
  }
}
