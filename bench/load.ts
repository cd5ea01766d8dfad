/**
 * The load generator, a process of its own: `load.ts SPEC`, SPEC = JSON of `Load`. Keep-alive connections over raw
 * sockets, one request at a time on each. Prints one line of JSON, `LoadResult`. With `hold` it opens every stream,
 * prints `open` and runs until its standard input ends.
 */
export type Load = {
  port: number
  path: string
  headers: Record<string, string>
  body: string
  connections: number
  seconds: number
  hold?: boolean
}
export type LoadResult = { requests: number; frames: number; errors: number; medianMicros: number }

const spec = JSON.parse(process.argv[2]!) as Load

const head = Object.entries(spec.headers)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('')
const request = Buffer.from(
  `POST ${spec.path} HTTP/1.1\r\nhost: 127.0.0.1:${spec.port}\r\ncontent-type: application/json\r\n${head}` +
    `content-length: ${Buffer.byteLength(spec.body)}\r\n\r\n${spec.body}`,
)

const times: number[] = []
let requests = 0
let frames = 0
let errors = 0
let opened = 0
let isStopping = false

class LoadConnection {
  #buffer: Buffer = Buffer.alloc(0)
  #length = -1
  #startedAt = 0
  #streaming = false
  #tail = ''
  #socket: import('bun').Socket<undefined> | undefined
  /** The rest of the request that the socket has not accepted yet. */
  #unsent = request.subarray(request.length)

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
    this.#unsent = request
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
        opened += 1
        if (spec.hold === true && opened === spec.connections) console.log('open')
        return this.#readStream(this.#buffer.subarray(end + 4))
      }
      this.#length = end + 4 + Number(length[1])
    }
    if (this.#buffer.length >= this.#length) this.#finish()
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
    this.#send()
  }
}

const connections = Array.from({ length: spec.connections }, () => new LoadConnection())
for (let from = 0; from < connections.length; from += 100)
  await Promise.all(connections.slice(from, from + 100).map((connection) => connection.run()))
if (spec.hold === true) {
  for await (const _ of Bun.stdin.stream()) {
    // Only the end of the input matters.
  }
} else await Bun.sleep(spec.seconds * 1000)
isStopping = true
times.sort((a, b) => a - b)
console.log(
  JSON.stringify({
    requests,
    frames,
    errors,
    medianMicros: Math.round((times[times.length >> 1] ?? 0) * 1000),
  } satisfies LoadResult),
)
process.exit(0)
