/**
 * The load generator, a process of its own: `load.ts SPEC`, SPEC = JSON of `Load`. Keep-alive connections over raw
 * sockets, one request at a time on each. When each connection has a response it prints `measuring`, measures for
 * `seconds`, and prints one line of JSON, `LoadResult`. With `hold` it opens every stream, prints `open` and runs until
 * its standard input ends.
 */
import { cpuSecondsSince, cpuTimes } from './process.ts'
import { conversations, SameRequest } from './requests.ts'
import type { Agent, Requests } from './requests.ts'

export type Load = {
  port: number
  path: string
  headers: Record<string, string>
  /** The same body for each request, or an agent's conversations. */
  body: string | Agent
  connections: number
  /** Requests per second of all connections together; without it each sends its next one at once. */
  perSecond?: number
  seconds: number
  /** The process whose CPU time is measured. */
  pid?: number
  hold?: boolean
}
export type LoadResult = {
  requests: number
  frames: number
  errors: number
  medianMicros: number
  cpuSeconds: number
}

/** A connection that has no response by then is not waited for. */
const FIRST_RESPONSE_MS = 20_000

const spec = JSON.parse(process.argv[2]!) as Load

let times: number[] = []
let requests = 0
let frames = 0
let errors = 0
let responding = 0
let isStopping = false
const allResponding = Promise.withResolvers<void>()

class LoadConnection {
  readonly #requests: Requests
  #buffer: Buffer = Buffer.alloc(0)
  #length = -1
  #startedAt = 0
  /** When its next request is due, at a fixed rate. */
  #dueAt = performance.now()
  #hasResponse = false
  #streaming = false
  #tail = ''
  #socket: import('bun').Socket<undefined> | undefined
  /** The rest of the request that the socket has not accepted yet. */
  #unsent: Buffer = Buffer.alloc(0)

  constructor(requests: Requests) {
    this.#requests = requests
  }

  async run(): Promise<void> {
    this.#socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: spec.port,
      socket: {
        data: (_socket, bytes) => this.#read(bytes),
        drain: () => this.#flush(),
        close: () => this.#closed(),
        error: () => this.#closed(),
      },
    })
    this.#send()
  }

  #closed(): void {
    if (!isStopping) errors += 1
  }

  #send(): void {
    if (isStopping) return
    this.#length = -1
    this.#buffer = Buffer.alloc(0)
    this.#streaming = false
    this.#startedAt = performance.now()
    this.#unsent = this.#requests.next()
    this.#flush()
  }

  #flush(): void {
    if (this.#unsent.length > 0) this.#unsent = this.#unsent.subarray(this.#socket!.write(this.#unsent))
  }

  #read(bytes: Buffer): void {
    if (this.#streaming) return this.#readStream(bytes)
    this.#buffer = this.#buffer.length === 0 ? bytes : Buffer.concat([this.#buffer, bytes])
    if (this.#length === -1) {
      const end = this.#buffer.indexOf('\r\n\r\n')
      if (end === -1) return
      const text = this.#buffer.toString('latin1', 0, end)
      if (!text.startsWith('HTTP/1.1 200')) {
        errors += 1
        if (errors < 3) console.error(this.#buffer.toString())
      }
      const length = /content-length: *(\d+)/i.exec(text)
      if (length === null) {
        this.#streaming = true
        this.#tail = ''
        this.#responds()
        return this.#readStream(this.#buffer.subarray(end + 4))
      }
      this.#length = end + 4 + Number(length[1])
    }
    if (this.#buffer.length >= this.#length) this.#finish()
  }

  #responds(): void {
    if (this.#hasResponse) return
    this.#hasResponse = true
    responding += 1
    if (responding === spec.connections) allResponding.resolve()
  }

  #readStream(bytes: Buffer): void {
    let at = bytes.indexOf('data: ')
    while (at !== -1) {
      frames += 1
      at = bytes.indexOf('data: ', at + 6)
    }
    this.#tail = (this.#tail + bytes.toString('latin1', Math.max(0, bytes.length - 7))).slice(-7)
    if (this.#tail === '\r\n0\r\n\r\n') this.#finish()
  }

  #finish(): void {
    requests += 1
    times.push(performance.now() - this.#startedAt)
    this.#responds()
    if (spec.perSecond === undefined) return this.#send()
    // Connections begin together: the first wait of each spreads them.
    const share = requests <= spec.connections ? Math.random() : 1
    this.#dueAt = Math.max(performance.now(), this.#dueAt + share * (spec.connections / spec.perSecond) * 1000)
    setTimeout(() => this.#send(), Math.max(0, this.#dueAt - performance.now()))
  }
}

const requestsOf = ({ port, path, headers, body, connections }: Load): Requests[] => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\n${lines.join('')}`
  if (typeof body !== 'string') return conversations(head, path, body, connections)
  const same = new SameRequest(head, body)
  return Array.from({ length: connections }, () => same)
}

const connections = requestsOf(spec).map((requests) => new LoadConnection(requests))
for (let from = 0; from < connections.length; from += 100)
  await Promise.all(connections.slice(from, from + 100).map((connection) => connection.run()))
const timer = setTimeout(allResponding.reject, FIRST_RESPONSE_MS, new Error('some connections have no response'))
await allResponding.promise
clearTimeout(timer)
if (spec.hold === true) {
  console.log('open')
  for await (const _ of Bun.stdin.stream()) {
    // Only the end of the input matters.
  }
  process.exit(0)
}
console.log('measuring')
times = []
const before = { requests, frames, cpu: spec.pid === undefined ? undefined : cpuTimes(spec.pid) }
await Bun.sleep(spec.seconds * 1000)
isStopping = true
times.sort((a, b) => a - b)
console.log(
  JSON.stringify({
    requests: requests - before.requests,
    frames: frames - before.frames,
    errors,
    medianMicros: Math.round((times[times.length >> 1] ?? 0) * 1000),
    cpuSeconds: before.cpu === undefined ? 0 : cpuSecondsSince(spec.pid!, before.cpu),
  } satisfies LoadResult),
)
process.exit(0)
