import { expect, test } from 'bun:test'
import { writePieces, writeRequest } from '../../src/http/write-pieces.ts'

/** A socket that takes at most so many bytes of each write. */
class SlowSocket {
  readonly #atMost: number
  readonly taken: Uint8Array[] = []

  constructor(atMost: number) {
    this.#atMost = atMost
  }

  write(bytes: Uint8Array | string): number {
    const part = Buffer.from(bytes as Uint8Array).subarray(0, this.#atMost)
    this.taken.push(part)
    return part.length
  }
}

/** The bytes of a request that arrive, when another one is written each time before the rest of it. */
function arrived(pieces: (Uint8Array | string)[], atMost: number): Buffer {
  const socket = new SlowSocket(atMost)
  const length = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  let unsent = writeRequest(socket, { pieces, length })
  while (unsent !== undefined) {
    writeRequest(new SlowSocket(1_000_000), { pieces: ['another request'.repeat(1_000)], length: 15_000 })
    unsent = writePieces(socket, unsent)
  }
  return Buffer.concat(socket.taken)
}

const bytes = (length: number, step: number): Buffer =>
  Buffer.alloc(length, Buffer.from(Array.from({ length: 251 }, (_, i) => (i * step) % 256)))

test.each([
  ['a short request', ['POST / HTTP/1.1\r\n\r\n', '{"é":"水"}']],
  ['short pieces', ['head', bytes(10, 3), '"水"', bytes(5_000, 7)]],
  ['a long text', ['head', '水 and more '.repeat(40_000)]],
  [
    'long and short pieces',
    ['head', bytes(12, 3), '"m"', bytes(300_000, 7), 'é', bytes(20, 5), bytes(17_000, 11), '}'],
  ],
  ['a short piece after the last long one', ['head', bytes(400_000, 7), '}']],
])('%s arrives unchanged, however much the socket takes at once', (_, pieces) => {
  const whole = Buffer.concat(pieces.map((piece) => Buffer.from(piece as string)))
  for (const atMost of [1_000_000, 70_000, 4_097]) expect(arrived(pieces, atMost).equals(whole)).toBe(true)
})

test('a closed socket takes nothing, and all of a request is left', () => {
  const left = writeRequest({ write: () => -1 }, { pieces: ['head', 'body'], length: 8 })
  expect(Buffer.concat(left!).toString()).toBe('headbody')
})
