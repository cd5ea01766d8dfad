import { requestHead } from '../transport/raw-server.ts'

/**
 * A client in a process of its own: `uploader.ts HOST PORT KEY MEBIBYTES (length|chunked)` uploads a file of that size
 * and prints the response.
 */
const [host = '', port = '', key = '', mebibytes = '', framing = ''] = process.argv.slice(2)

const head =
  '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n' +
  '--b\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n'
const tail = '\r\n--b--\r\n'
const block = Buffer.alloc(65_536)
for (let at = 0; at < block.length; at++) block[at] = at * 31

let blocks = Number(mebibytes) * 16
const length = head.length + blocks * block.length + tail.length
const framed = (bytes: Uint8Array): Uint8Array =>
  framing === 'chunked'
    ? Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
    : bytes

function* body(): Generator<Uint8Array> {
  yield Buffer.from(
    requestHead(
      'POST /v1/files',
      `authorization: Bearer ${key}`,
      'content-type: multipart/form-data; boundary=b',
      framing === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`,
      'connection: close',
    ),
  )
  yield framed(Buffer.from(head))
  const framedBlock = framed(block)
  for (; blocks > 0; blocks--) yield framedBlock
  yield framed(Buffer.from(tail))
  if (framing === 'chunked') yield Buffer.from('0\r\n\r\n')
}

const pieces = body()
let rest: Uint8Array = new Uint8Array()

/** Sends as much as the connection accepts. */
function send(socket: { write(bytes: Uint8Array): number }): void {
  for (;;) {
    if (rest.length === 0) {
      const next = pieces.next()
      if (next.done === true) return
      rest = next.value
    }
    const sent = Math.max(0, socket.write(rest))
    rest = rest.subarray(sent)
    if (rest.length > 0) return
  }
}

await Bun.connect({
  hostname: host,
  port: Number(port),
  socket: {
    open: send,
    drain: send,
    data: (_, bytes) => void process.stdout.write(bytes),
    close: () => process.exit(0),
    error: () => process.exit(1),
  },
})
