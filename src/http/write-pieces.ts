import { type EncodedRequest, joinPieces } from './encode-request.ts'

/** The part of a socket that is used here: `write` copies what it takes, and gives the number of bytes. */
type Writable = { write(bytes: Uint8Array | string): number }

/** Requests up to this length are joined for one write. Memory for each would be new, and cost more than the copy. */
const JOINED_BYTES = 256 * 1024
const joined = Buffer.allocUnsafeSlow(JOINED_BYTES)

/** Shorter pieces of a long request are joined with their neighbours, others are written as they are. */
const SHORT_BYTES = 16 * 1024

/** Writes a request. Returns what the socket has not taken, if anything. */
export const writeRequest = (socket: Writable, { pieces, length }: EncodedRequest): Uint8Array[] | undefined => {
  if (length > JOINED_BYTES) return writePieces(socket, withoutShort(pieces))
  joinPieces(pieces, joined)
  const written = taken(socket, joined.subarray(0, length))
  return written < length ? [Buffer.from(joined.subarray(written, length))] : undefined
}

/** Writes pieces one after the other. Returns what the socket has not taken, if anything. */
export const writePieces = (socket: Writable, pieces: readonly Uint8Array[]): Uint8Array[] | undefined => {
  for (const [i, piece] of pieces.entries()) {
    const written = taken(socket, piece)
    if (written < piece.length) return [piece.subarray(written), ...pieces.slice(i + 1)]
  }
  return undefined
}

/** A socket that is closed says -1. */
const taken = (socket: Writable, bytes: Uint8Array): number => Math.max(0, socket.write(bytes))

function withoutShort(pieces: EncodedRequest['pieces']): Uint8Array[] {
  const long: Uint8Array[] = []
  let short: Uint8Array[] = []
  for (const piece of pieces) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    short.push(bytes)
    if (bytes.length < SHORT_BYTES) continue
    short.pop()
    long.push(Buffer.concat(short), bytes)
    short = []
  }
  long.push(Buffer.concat(short))
  return long.filter(({ length }) => length > 0)
}
