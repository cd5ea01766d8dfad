/** Listeners on this machine that nobody may ever reach: what they were reached by fails a test. */
export type Canaries = {
  /** Of the one on 127.0.0.1 and the one on ::1, each on any port. */
  ports: { v4: number; v6: number }
  /** Names of the listeners that stand, with a line for each connection they saw. */
  listening: string[]
  reached: string[]
  stop(): void
}

/** Also on ports 80 and 443 where this process may and nobody else does, since no other port is open to URLs. */
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
        console.warn(`port ${port} of ${hostname} is not free for a canary`)
      }
    }
  return { ports, listening, reached, stop: () => servers.forEach((server) => server.stop(true)) }
}
