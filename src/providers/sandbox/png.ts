import { crc32, deflateSync } from 'node:zlib'

/** An entry of a palette; alpha from 0 (not to be seen) to 255. */
export type Colour = readonly [red: number, green: number, blue: number, alpha?: number]

/** `pixels`: one byte each, row by row, an index into the palette of at most 256 colours. */
export type Bitmap = { width: number; height: number; palette: readonly Colour[]; pixels: Uint8Array }

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** A PNG file with 8 bits a pixel, colour type 3: a byte a pixel keeps a large picture quick to make and small. */
export function encodePng({ width, height, palette, pixels }: Bitmap): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3, 0, 0, 0], 8)
  // Each row begins with the number of its filter: 0, none; 2, what differs from the row above, which of a repeated row
  // is nothing, and quick to compress.
  const rows = new Uint8Array((width + 1) * height)
  let above: Uint8Array | undefined
  for (let y = 0; y < height; y++) {
    const row = pixels.subarray(y * width, (y + 1) * width)
    if (above !== undefined && Buffer.compare(row, above) === 0) rows[y * (width + 1)] = 2
    else rows.set(row, y * (width + 1) + 1)
    above = row
  }
  const alphas = palette.map(([, , , alpha = 255]) => alpha)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Uint8Array.from(palette.flatMap(([red, green, blue]) => [red, green, blue]))),
    ...(alphas.some((alpha) => alpha < 255) ? [chunk('tRNS', Uint8Array.from(alphas))] : []),
    chunk('IDAT', deflateSync(rows, { level: 1 })),
    chunk('IEND', new Uint8Array(0)),
  ])
}

function chunk(type: string, data: Uint8Array): Buffer {
  const checked = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(checked.length + 8)
  framed.writeUInt32BE(data.length, 0)
  framed.set(checked, 4)
  framed.writeUInt32BE(crc32(checked), checked.length + 4)
  return framed
}
