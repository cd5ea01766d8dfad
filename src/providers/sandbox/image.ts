import { createHash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

/** Sides in pixels. */
export type ImageSize = { width: number; height: number }

export const DEFAULT_SIZE: ImageSize = { width: 1024, height: 1024 }

const MAX_SIDE = 4096

export const SIDE_LIMITS = `1 to ${MAX_SIDE} pixels a side`

export const isValidSize = ({ width, height }: ImageSize): boolean =>
  Math.min(width, height) >= 1 && Math.max(width, height) <= MAX_SIDE

/** Output tokens of an image: one for each 32 x 32 pixels. */
export const imageTokens = ({ width, height }: ImageSize): number => Math.ceil(width / 32) * Math.ceil(height / 32)

/** Limits of one response, because images are encoded on the event loop. */
export const MAX_IMAGES = 10
export const MAX_IMAGE_TOKENS = imageTokens({ width: MAX_SIDE, height: MAX_SIDE })

/** `index`: position among the images of one prompt, from 0. `transparent`: every pixel has alpha 0. */
type ImageSpec = ImageSize & { prompt: string; index: number; transparent?: boolean }

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** A PNG file of one colour, which is derived from prompt and index: the same arguments give the same bytes. */
export function solidPng({ width, height, prompt, index, transparent = false }: ImageSpec): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Bit depth 1 and colour type 3 (palette): every pixel is entry 0, so the file stays small at any size.
  header.set([1, 3, 0, 0, 0], 8)
  const rows = new Uint8Array((1 + Math.ceil(width / 8)) * height)
  const colour = createHash('sha256').update(`${index}\n${prompt}`).digest().subarray(0, 3)
  return Buffer.concat([
    PNG_SIGNATURE,
    pngChunk('IHDR', header),
    pngChunk('PLTE', colour),
    ...(transparent ? [pngChunk('tRNS', Uint8Array.of(0))] : []),
    pngChunk('IDAT', deflateSync(rows)),
    pngChunk('IEND', new Uint8Array(0)),
  ])
}

function pngChunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const chunk = Buffer.alloc(body.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  chunk.set(body, 4)
  chunk.writeUInt32BE(crc32(body), body.length + 4)
  return chunk
}
