import { inflateSync } from 'node:zlib'

/** A decoded picture: `rgba` has four bytes a pixel. */
export type Decoded = {
  width: number
  height: number
  depth: number
  colourType: number
  chunks: string[]
  rgba: Uint8Array
}

/**
 * Reads a PNG of a palette with 8 bits a pixel: all five filters, every checksum. Throws where the file is not what the
 * standard says.
 */
export function decodePng(file: Uint8Array): Decoded {
  const bytes = Buffer.from(file)
  if (bytes.toString('latin1', 0, 8) !== '\x89PNG\r\n\x1a\n') throw new Error('no PNG signature')
  const found: { type: string; data: Buffer }[] = []
  let at = 8
  while (at < bytes.length) {
    const length = bytes.readUInt32BE(at)
    if (at + 12 + length > bytes.length) throw new Error('a chunk goes beyond the file')
    const body = bytes.subarray(at + 4, at + 8 + length)
    if (crc(body) !== bytes.readUInt32BE(at + 8 + length))
      throw new Error(`wrong checksum of ${body.toString('latin1', 0, 4)}`)
    found.push({ type: body.toString('latin1', 0, 4), data: body.subarray(4) })
    at += 12 + length
  }
  const data = (type: string): Buffer =>
    Buffer.concat(found.filter((chunk) => chunk.type === type).map((chunk) => chunk.data))
  const header = data('IHDR')
  const [width, height, depth, colourType] = [header.readUInt32BE(0), header.readUInt32BE(4), header[8]!, header[9]!]
  if (depth !== 8 || colourType !== 3 || found[0]!.type !== 'IHDR' || found.at(-1)!.type !== 'IEND')
    throw new Error('not a PNG that is read here')
  const rows = unfiltered(inflateSync(data('IDAT')), width, height)
  const rgba = new Uint8Array(width * height * 4)
  const [palette, alpha] = [data('PLTE'), data('tRNS')]
  for (let pixel = 0; pixel < width * height; pixel++) {
    const entry = rows[pixel]!
    if (entry * 3 + 3 > palette.length) throw new Error('a pixel outside the palette')
    for (let channel = 0; channel < 3; channel++) rgba[pixel * 4 + channel] = palette[entry * 3 + channel]!
    rgba[pixel * 4 + 3] = alpha[entry] ?? 255
  }
  return { width, height, depth, colourType, chunks: found.map(({ type }) => type), rgba }
}

function unfiltered(raw: Uint8Array, stride: number, height: number): Uint8Array {
  if (raw.length !== (stride + 1) * height) throw new Error('not as many bytes as pixels')
  const rows = new Uint8Array(stride * height)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)]!
    if (filter > 4) throw new Error(`no filter ${filter}`)
    for (let x = 0; x < stride; x++) {
      const left = x === 0 ? 0 : rows[y * stride + x - 1]!
      const up = y === 0 ? 0 : rows[(y - 1) * stride + x]!
      const corner = x === 0 || y === 0 ? 0 : rows[(y - 1) * stride + x - 1]!
      const guess =
        filter === 0
          ? 0
          : filter === 1
            ? left
            : filter === 2
              ? up
              : filter === 3
                ? (left + up) >> 1
                : paeth(left, up, corner)
      rows[y * stride + x] = raw[y * (stride + 1) + 1 + x]! + guess
    }
  }
  return rows
}

function paeth(left: number, up: number, corner: number): number {
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)]
  return a <= b && a <= c ? left : b <= c ? up : corner
}

/** Bit by bit, as the standard defines it: not the encoder's own. */
function crc(bytes: Uint8Array): number {
  let sum = 0xffffffff
  for (const byte of bytes) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0)
  }
  return (sum ^ 0xffffffff) >>> 0
}
