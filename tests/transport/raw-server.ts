import type { Socket } from 'bun'

/** A server that writes exactly what a test wants to its sockets, and records what it received. */
export type RawServer = {
  url: string
  port: number
  connections: number
  open: number
  requests: string[]
  stop(): void
}

/** `unsent`: what the socket has not accepted yet of a long response. */
type SocketState = { number: number; text: string; unsent: Buffer; endsThen: boolean }
export type RawSocket = Socket<SocketState>

/** Writes a text that may be longer than the buffers of the kernel, and then ends the connection if `end`. */
export function writeLong(socket: RawSocket, text: string, { end = false } = {}): void {
  socket.data.unsent = Buffer.from(text)
  socket.data.endsThen = end
  writeUnsent(socket)
}

function writeUnsent(socket: RawSocket): void {
  const { data } = socket
  if (data.unsent.length === 0) return
  data.unsent = data.unsent.subarray(Math.max(0, socket.write(data.unsent)))
  if (data.unsent.length === 0 && data.endsThen) socket.end()
}

/** `respond` is called once per complete request (head and content-length body), with its text and number from 1. */
export const rawServer = (respond: (socket: RawSocket, request: string, count: number) => void): RawServer => {
  const seen = { connections: 0, open: 0, requests: [] as string[] }
  const server = Bun.listen<SocketState>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        seen.open += 1
        seen.connections += 1
        socket.data = { number: seen.connections, text: '', unsent: Buffer.alloc(0), endsThen: false }
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
          respond(socket, text.slice(0, length), seen.requests.length)
        }
      },
      drain: writeUnsent,
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

/** The head of a request, sent byte for byte: `POST /path` and lines of headers. */
export const requestHead = (start: string, ...headers: string[]): string =>
  [`${start} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n')

/** Waits until `condition` is true, at most 30 seconds; returns the milliseconds it took. */
export const until = async (condition: () => boolean): Promise<number> => {
  const startedAt = performance.now()
  while (!condition()) {
    if (performance.now() - startedAt > 30_000) throw new Error(`timed out: ${condition}`)
    await Bun.sleep(2)
  }
  return performance.now() - startedAt
}

/** A client on a raw socket. `writeAll` writes Latin-1 of any length and stops when the connection closes. */
export type RawClient = {
  /** The first million bytes. */
  text(): string
  /** The last bytes. */
  end(): string
  bytes(): number
  closed(): boolean
  write(text: string): void
  writeAll(text: string): Promise<void>
  pause(): void
  resume(): void
  close(): void
}

const END_BYTES = 20_000

export const rawClient = async (port: number): Promise<RawClient> => {
  let text = ''
  let end = ''
  let bytes = 0
  let closed = false
  let drained = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_socket, chunk) {
        bytes += chunk.length
        if (text.length < 1_000_000) text += chunk.toString('latin1')
        end = (end + chunk.toString('latin1', Math.max(0, chunk.length - END_BYTES))).slice(-END_BYTES)
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
  const writeAll = async (data: string): Promise<void> => {
    let rest = Buffer.from(data, 'latin1')
    while (!closed) {
      drained = Promise.withResolvers()
      rest = rest.subarray(Math.max(0, socket.write(rest)))
      if (rest.length === 0) return
      await drained.promise
    }
  }
  return {
    text: () => text,
    end: () => end,
    bytes: () => bytes,
    closed: () => closed,
    write: (data) => void socket.write(data),
    writeAll,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close: () => void socket.terminate(),
  }
}
