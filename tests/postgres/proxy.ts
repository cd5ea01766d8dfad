import { connect, createServer, type Socket } from 'node:net'

/** A proxy before PostgreSQL whose connections can be cut. */
export type Proxy = {
  /** The URL of the database through it. */
  url: string
  /** Cuts all connections at once. */
  cut(): void
  /** Cuts all connections, and lets none through from then on, or lets them through again. */
  keepAway(isAway: boolean): void
  /** Cuts all connections in place of the next answer of the server, which it has made by then. */
  dropAnswer(): void
  /** The number of answers that it dropped. */
  readonly dropped: number
  /** Holds back all that the server sends on connections which are open, until the returned function is called. */
  hold(): () => void
  /** The same from then on for each connection on which a client sends this text. */
  holdAfter(text: string): void
  /** Connections of clients that are open. */
  readonly open: number
  /** Holds back for so long what the server sends on open connections. */
  delay(ms: number): Promise<void>
  stop(): void
}

export async function startProxy(databaseUrl: string): Promise<Proxy> {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const upstreams = new Set<Socket>()
  let drops = false
  let dropped = 0
  let isAway = false
  let heldText: string | undefined
  let open = 0
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  const hold = (): (() => void) => {
    const held = [...upstreams]
    for (const upstream of held) upstream.pause()
    return () => {
      for (const upstream of held) upstream.resume()
    }
  }
  const server = createServer((client) => {
    if (isAway) return void client.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    upstreams.add(upstream)
    upstream.on('close', () => upstreams.delete(upstream))
    open += 1
    client.on('close', () => (open -= 1))
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (bytes) => {
        if (from === client && heldText !== undefined && bytes.includes(heldText)) upstream.pause()
        if (from === upstream && drops) {
          drops = false
          dropped += 1
          cut()
        } else to.write(bytes)
      })
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    cut,
    keepAway(is) {
      isAway = is
      if (is) cut()
    },
    dropAnswer: () => void (drops = true),
    get dropped() {
      return dropped
    },
    hold,
    holdAfter: (text) => void (heldText = text),
    get open() {
      return open
    },
    async delay(ms) {
      const release = hold()
      await Bun.sleep(ms)
      release()
    },
    stop() {
      cut()
      server.close()
    },
  }
}
