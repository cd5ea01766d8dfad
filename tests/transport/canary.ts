/** Listeners on this machine that no guarded call may reach. */
export type Canaries = {
  /** Ports of the listeners on 127.0.0.1 and ::1. */
  ports: { v4: number; v6: number }
  /** Names of the listeners. `reached`: one of them for each connection. */
  listening: string[]
  reached: string[]
  stop(): void
}

/** Also listens on ports 80 and 443 if they are free and permitted, because public URLs may use no other ports. */
export function canaries(): Canaries {
  const reached: string[] = []
  const listening: string[] = []
  const servers: Bun.TCPSocketListener[] = []
  const listen = (hostname: string, port: number): number => {
    const name = `${hostname} ${port === 0 ? 'any port' : port}`
    const server = Bun.listen({
      hostname,
      port,
      socket: {
        open(socket) {
          reached.push(name)
          socket.end()
        },
        data() {},
        error() {},
      },
    })
    servers.push(server)
    listening.push(name)
    return server.port
  }
  const ports = { v4: listen('127.0.0.1', 0), v6: listen('::1', 0) }
  for (const hostname of ['127.0.0.1', '::1'])
    for (const port of [80, 443]) {
      try {
        listen(hostname, port)
      } catch {
        console.warn(`port ${port} of ${hostname} is not available for a canary`)
      }
    }
  return { ports, listening, reached, stop: () => servers.forEach((server) => server.stop(true)) }
}
