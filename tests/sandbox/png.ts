import { inflateSync } from 'node:zlib'

/** A decoded image: `rgba` has four bytes per pixel. */
export type Decoded = { width: number; height: number; chunks: string[]; rgba: Uint8Array }

/**
 * Decodes a palette PNG with 1 bit per pixel and no row filters, which is all that the sandbox writes, and verifies
 * every checksum. Throws if the file violates the PNG specification or is of another kind.
 */
export function decodePng(file: Uint8Array): Decoded {
  const chunks = chunksOf(Buffer.from(file))
  const data = (type: string): Buffer =>
    Buffer.concat(chunks.filter((chunk) => chunk.type === type).map((chunk) => chunk.data))
  const header = data('IHDR')
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  if (header.subarray(8).toString('hex') !== '0103000000') throw new Error('not a palette PNG with 1 bit per pixel')
  if (chunks[0]!.type !== 'IHDR' || chunks.at(-1)!.type !== 'IEND') throw new Error('chunks are out of order')
  const rowBytes = 1 + Math.ceil(width / 8)
  const rows = inflateSync(data('IDAT'))
  if (rows.length !== rowBytes * height) throw new Error('image data does not match the size')
  const [palette, alpha] = [data('PLTE'), data('tRNS')]
  const rgba = new Uint8Array(width * height * 4)
  for (let y = 0; y < height; y++) {
    const row = rows.subarray(y * rowBytes, (y + 1) * rowBytes)
    if (row[0] !== 0) throw new Error(`row filter ${row[0]} is not supported`)
    for (let x = 0; x < width; x++) {
      const entry = (row[1 + (x >> 3)]! >> (7 - (x & 7))) & 1
      if (entry * 3 + 3 > palette.length) throw new Error('pixel outside the palette')
      const at = (y * width + x) * 4
      for (let channel = 0; channel < 3; channel++) rgba[at + channel] = palette[entry * 3 + channel]!
      rgba[at + 3] = alpha[entry] ?? 255
    }
  }
  return { width, height, chunks: chunks.map(({ type }) => type), rgba }
}

function chunksOf(bytes: Buffer): { type: string; data: Buffer }[] {
  if (bytes.toString('latin1', 0, 8) !== '\x89PNG\r\n\x1a\n') throw new Error('no PNG signature')
  const chunks: { type: string; data: Buffer }[] = []
  let at = 8
  while (at < bytes.length) {
    const length = bytes.readUInt32BE(at)
    if (at + 12 + length > bytes.length) throw new Error('chunk exceeds the file')
    const body = bytes.subarray(at + 4, at + 8 + length)
    const type = body.toString('latin1', 0, 4)
    if (crc(body) !== bytes.readUInt32BE(at + 8 + length)) throw new Error(`wrong checksum in ${type}`)
    chunks.push({ type, data: body.subarray(4) })
    at += 12 + length
  }
  return chunks
}

/** Bit by bit, as the PNG specification defines it, so that it is independent of the encoder's implementation. */
function crc(bytes: Uint8Array): number {
  let sum = 0xffffffff
  for (const byte of bytes) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0)
  }
  return (sum ^ 0xffffffff) >>> 0
}
