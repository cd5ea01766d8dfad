import { createHash } from 'node:crypto'
import { glyphOf, LETTER } from './font.ts'
import { encodePng, type Colour } from './png.ts'

/** Sides in pixels. */
export type Size = { width: number; height: number }

export const USUAL_SIZE: Size = { width: 1024, height: 1024 }

const LONGEST_SIDE = 4096

export const SIDE_LIMITS = `1 to ${LONGEST_SIDE} pixels a side`

export const isDrawable = ({ width, height }: Size): boolean =>
  Math.min(width, height) >= 1 && Math.max(width, height) <= LONGEST_SIDE

/** What a picture counts: a token for each 32 x 32 pixels. */
export const pictureTokens = ({ width, height }: Size): number => Math.ceil(width / 32) * Math.ceil(height / 32)

/** What one answer may hold: it is drawn in a fraction of a second, while everybody else waits. */
export const MOST_PICTURES = 10
export const MOST_TOKENS = pictureTokens({ width: LONGEST_SIDE, height: LONGEST_SIDE })

/** `index`: which of several pictures of one prompt, from 0. `transparent`: without its sky. */
export type Picture = Size & { prompt: string; index: number; transparent?: boolean }

/**
 * Blocks that the shorter side of a picture is made of, where it has as many pixels: a size at which letters can be
 * read.
 */
const BLOCKS = 150

const SKY = 5
const HILLS = 4
/** Places in the palette, behind the colours of the sky. */
const SUN = SKY
const HILL = SUN + 1
const TREE = HILL + HILLS
const INK = TREE + 1
const FAINT_INK = INK + 1

/** Thresholds in sixteenths, by which two colours mix to what looks like many (ordered dithering). */
const DITHER = [0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5]

/**
 * A landscape of square blocks, as a PNG file: its colours follow from the prompt, its shapes from prompt and index.
 * Its caption says what was asked,
 * and that the sandbox drew it. The same picture gets the same bytes.
 */
export function drawPicture({ width, height, prompt, index, transparent = false }: Picture): Buffer {
  const block = Math.max(1, Math.floor(Math.min(width, height) / BLOCKS))
  const scene = new Scene(Math.ceil(width / block), Math.ceil(height / block), prompt, index)
  scene.draw(caption(prompt, `${width}x${height} #${index + 1}`, scene.columns, scene.rows))
  return encodePng({
    width,
    height,
    palette: paletteOf(prompt, transparent),
    pixels: enlarged(scene, block, { width, height }),
  })
}

/** Each block as so many pixels each way; what stands over at the right and at the bottom is left out. */
function enlarged({ blocks, columns }: Scene, block: number, { width, height }: Size): Uint8Array {
  if (block === 1) return blocks
  const pixels = new Uint8Array(width * height)
  for (let top = 0; top < height; top += block) {
    const from = top * width
    for (let column = 0; column < columns; column++)
      pixels.fill(
        blocks[(top / block) * columns + column]!,
        from + column * block,
        from + Math.min((column + 1) * block, width),
      )
    for (let y = top + 1; y < Math.min(top + block, height); y++) pixels.copyWithin(y * width, from, from + width)
  }
  return pixels
}

/** Indexes into the palette, a byte a block, row by row. */
class Scene {
  readonly columns: number
  readonly rows: number
  readonly blocks: Uint8Array
  readonly #random: () => number

  constructor(columns: number, rows: number, prompt: string, index: number) {
    this.columns = columns
    this.rows = rows
    this.blocks = new Uint8Array(columns * rows)
    this.#random = randomOf(`${index}\n${prompt}`)
  }

  draw(lines: readonly Line[]): void {
    const ground = lines.length === 0 ? 0 : lines.length * LETTER.line + 4
    this.#drawSky()
    this.#drawSun()
    for (let hill = 0; hill < HILLS; hill++) this.#drawHill(hill, ground)
    lines.forEach(({ text, ink }, line) => this.#write(text, ink, this.rows - ground + 2 + line * LETTER.line))
  }

  #set(x: number, y: number, colour: number): void {
    if (x >= 0 && x < this.columns && y >= 0 && y < this.rows) this.blocks[y * this.columns + x] = colour
  }

  #drawSky(): void {
    const horizon = Math.max(1, this.rows * 0.7)
    for (let y = 0; y < this.rows; y++) {
      const level = Math.min(1, y / horizon) * (SKY - 1)
      const row = this.blocks.subarray(y * this.columns, (y + 1) * this.columns)
      for (let x = 0; x < Math.min(4, this.columns); x++)
        row[x] = Math.min(SKY - 1, Math.floor(level + DITHER[(y % 4) * 4 + x]! / 16))
      for (let done = 4; done < this.columns; done *= 2) row.copyWithin(done, 0, done)
    }
    const stars = Math.round(Math.sqrt(this.columns * this.rows) / 6)
    for (let star = 0; star < stars; star++)
      this.#set(Math.floor(this.#random() * this.columns), Math.floor(this.#random() ** 2 * this.rows * 0.4), SUN)
  }

  #drawSun(): void {
    const radius = Math.min(this.columns, this.rows) * (0.1 + this.#random() * 0.08)
    const [left, top] = [this.columns * (0.15 + this.#random() * 0.7), this.rows * (0.2 + this.#random() * 0.25)]
    for (let y = Math.floor(top - radius); y <= top + radius; y++) {
      for (let x = Math.floor(left - radius); x <= left + radius; x++)
        if ((x - left) ** 2 + (y - top) ** 2 < radius ** 2) this.#set(x, y, SUN)
    }
  }

  /** `hill`: 0 is the farthest. The nearest leaves room for the caption. */
  #drawHill(hill: number, ground: number): void {
    const nearest = hill === HILLS - 1
    const swing = this.rows * (nearest ? 0.02 : 0.1 - hill * 0.02)
    const middle = nearest ? this.rows - Math.max(ground + swing, this.rows * 0.14) : this.rows * (0.5 + hill * 0.12)
    const waves = [1, 2.3, 5.1].map((frequency) => ({
      frequency: frequency * (0.6 + this.#random() * 0.8),
      phase: this.#random() * 2 * Math.PI,
    }))
    const topAt = (x: number): number =>
      Math.round(
        middle +
          (swing *
            waves.reduce(
              (sum, { frequency, phase }, i) =>
                sum + Math.sin((x / this.columns) * 2 * Math.PI * frequency + phase) / (i + 1),
              0,
            )) /
            1.5,
      )
    const tops = Int32Array.from({ length: this.columns }, (_, x) => topAt(x))
    for (
      let y = Math.max(
        0,
        tops.reduce((a, b) => Math.min(a, b)),
      );
      y < this.rows;
      y++
    ) {
      fillBelow(this.blocks.subarray(y * this.columns, (y + 1) * this.columns), y, tops, HILL + hill)
    }
    if (hill === HILLS - 2)
      for (let trees = 3 + Math.floor(this.#random() * 6); trees > 0; trees--) this.#drawTree(topAt)
  }

  #drawTree(topAt: (x: number) => number): void {
    const middle = Math.floor(this.#random() * this.columns)
    const tall = Math.round(Math.min(this.rows, this.columns) * (0.05 + this.#random() * 0.07))
    const foot = topAt(middle) + 2
    for (let up = 0; up < tall; up++) {
      const half = up < tall / 6 ? 0 : Math.floor((tall - up) / 3)
      for (let x = middle - half; x <= middle + half; x++) this.#set(x, foot - up, TREE)
    }
  }

  #write(text: string, ink: number, top: number): void {
    const left = Math.floor((this.columns - text.length * LETTER.advance + 1) / 2)
    for (let at = 0; at < text.length; at++) {
      glyphOf(text[at]!).forEach((bits, y) => {
        for (let x = 0; x < LETTER.width; x++)
          if ((bits >> (LETTER.width - 1 - x)) % 2 === 1) this.#set(left + at * LETTER.advance + x, top + y, ink)
      })
    }
  }
}

/** A loop by itself, which the runtime compiles better than one inside a method. */
function fillBelow(row: Uint8Array, y: number, tops: Int32Array, colour: number): void {
  for (let x = 0; x < row.length; x++) if (y >= tops[x]!) row[x] = colour
}

type Line = { text: string; ink: number }

/**
 * The first words of the prompt on two lines, and what the picture is: as much of that as there is room for, the last
 * first.
 */
function caption(prompt: string, numbers: string, columns: number, rows: number): Line[] {
  const letters = Math.floor((columns - 4) / LETTER.advance)
  const room = Math.floor((rows * 0.4) / LETTER.line)
  const issuer = [`sandbox ${numbers}`, 'sandbox'].find((text) => text.length <= letters)
  if (issuer === undefined || room < 1) return []
  const words = wrapped(printable(prompt), letters, Math.min(2, room - 1))
  return [...words.map((text) => ({ text, ink: INK })), { text: issuer, ink: FAINT_INK }]
}

/** The text on at most so many lines, cut where it is longer. */
function wrapped(text: string, letters: number, most: number): string[] {
  const lines: string[] = []
  for (let rest = text; rest !== ''; ) {
    if (lines.length === most)
      return [...lines.slice(0, -1), ...lines.slice(-1).map((last) => `${last.slice(0, letters - 2)}..`)]
    const space = rest.length <= letters ? rest.length : rest.lastIndexOf(' ', letters)
    const end = space > 0 ? space : letters
    lines.push(rest.slice(0, end))
    rest = rest.slice(end).trimStart()
  }
  return lines
}

/** In the letters of the font: accents fall away, what it does not have becomes a sign for which it draws a box. */
const printable = (prompt: string): string =>
  prompt
    .slice(0, 400)
    .normalize('NFKD')
    .replace(/\p{M}|\p{Cf}/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .replace(/[^ -~]/gu, '\x7f')
    .trim()

/** Colours that belong together: a sky from deep to bright, hills from hazy to dark. */
function paletteOf(prompt: string, transparent: boolean): Colour[] {
  const random = randomOf(prompt)
  // From teal over blue and violet to red, and on towards yellow at the horizon: a green sky looks like none.
  const hue = 180 + random() * 170
  const glow = Math.min(hue + 30 + random() * 90, 405)
  const land = random() * 360
  const ramp = (from: number, to: number, part: number): number => from + (to - from) * part
  const sky = Array.from({ length: SKY }, (_, i): Colour => {
    const [red, green, blue] = colour(
      ramp(hue, glow, i / (SKY - 1)),
      ramp(0.6, 0.75, i / (SKY - 1)),
      ramp(0.28, 0.78, i / (SKY - 1)),
    )
    return [red, green, blue, transparent ? 0 : 255]
  })
  const hills = Array.from({ length: HILLS }, (_, i) =>
    colour(land, ramp(0.3, 0.45, i / (HILLS - 1)), ramp(0.55, 0.13, i / (HILLS - 1))),
  )
  return [
    ...sky,
    colour(glow, 0.9, 0.93),
    ...hills,
    colour(land, 0.5, 0.2),
    colour(glow, 0.6, 0.95),
    colour(glow, 0.35, 0.68),
  ]
}

/** `hue` in degrees, saturation and lightness from 0 to 1. */
function colour(hue: number, saturation: number, lightness: number): Colour {
  const strength = saturation * Math.min(lightness, 1 - lightness)
  const channel = (shift: number): number => {
    const place = (shift + hue / 30) % 12
    return Math.round(255 * (lightness - strength * Math.max(-1, Math.min(place - 3, 9 - place, 1))))
  }
  return [channel(0), channel(8), channel(4)]
}

/** Numbers from 0 to 1, always the same ones for a text. */
function randomOf(text: string): () => number {
  let state = createHash('sha256').update(text).digest().readUInt32LE() | 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}
