import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { glyphOf } from '../../src/providers/sandbox/font.ts'
import { drawPicture, pictureTokens } from '../../src/providers/sandbox/picture.ts'
import { encodePng } from '../../src/providers/sandbox/png.ts'
import { decodePng, type Decoded } from './png.ts'

const draw = (prompt: string, width: number, height: number, index = 0, transparent = false): Decoded =>
  decodePng(drawPicture({ prompt, width, height, index, transparent }))
const pixelOf = ({ width, rgba }: Decoded, x: number, y: number): number[] => [
  ...rgba.subarray((y * width + x) * 4, (y * width + x) * 4 + 4),
]

describe('encodePng', () => {
  test('every pixel comes back in its colour', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255)), { minLength: 1, maxLength: 256 }),
        fc.infiniteStream(fc.nat()),
        (width, height, palette, random) => {
          const pixels = Uint8Array.from(
            { length: width * height },
            () => (random.next().value as number) % palette.length,
          )
          const decoded = decodePng(encodePng({ width, height, palette, pixels }))
          expect([decoded.width, decoded.height, decoded.depth, decoded.colourType]).toEqual([width, height, 8, 3])
          expect([...decoded.rgba]).toEqual([...pixels].flatMap((pixel) => palette[pixel]!))
        },
      ),
      { numRuns: 50 },
    )
  })

  test('the chunks are in order, transparency only where there is some', () => {
    const one = { width: 1, height: 1, pixels: new Uint8Array(1) }
    expect(decodePng(encodePng({ ...one, palette: [[1, 2, 3]] })).chunks).toEqual(['IHDR', 'PLTE', 'IDAT', 'IEND'])
    expect(decodePng(encodePng({ ...one, palette: [[1, 2, 3, 0]] })).chunks).toEqual([
      'IHDR',
      'PLTE',
      'tRNS',
      'IDAT',
      'IEND',
    ])
  })
})

describe('drawPicture', () => {
  test('has the size that was asked for', () => {
    for (const [width, height] of [
      [1, 1],
      [16, 9],
      [1024, 1024],
      [4096, 1],
      [1, 4096],
      [301, 299],
      [1536, 1024],
    ] as const) {
      const { width: w, height: h } = draw('a red fox', width, height)
      expect([w, h]).toEqual([width, height])
    }
  })

  test('the same picture gets the same bytes, another prompt, index or size other ones', () => {
    const bytes = (prompt: string, index: number, width: number): string =>
      drawPicture({ prompt, index, width, height: 200 }).toString('base64')
    expect(bytes('a fox', 0, 200)).toBe(bytes('a fox', 0, 200))
    expect(
      new Set([bytes('a fox', 0, 200), bytes('a cat', 0, 200), bytes('a fox', 1, 200), bytes('a fox', 0, 210)]).size,
    ).toBe(4)
  })

  test('its shapes follow from prompt and index, its colours from the prompt', () => {
    const pictures = (
      [
        ['a fox', 0],
        ['a fox', 1],
        ['a cat', 0],
      ] as const
    ).map(([prompt, index]) => draw(prompt, 100, 100, index, true))
    const shapes = pictures.map(({ rgba }) => rgba.filter((_, i) => i % 4 === 3).join(''))
    const colours = pictures.map((picture) => pixelOf(picture, 0, 99).join())
    expect([new Set(shapes).size, colours[0] === colours[1], colours[0] === colours[2]]).toEqual([3, true, false])
  })

  test('says in its lower half what was asked and who drew it', () => {
    const picture = draw('A red fox', 160, 160, 2)
    expect(readable(picture)).toContain('A red fox')
    expect(readable(picture)).toContain('sandbox 160x160 #3')
  })

  test('says who drew it where there is room for no more, and nothing where there is none', () => {
    expect(readable(draw('A red fox', 60, 60))).toEqual(['A red fox', 'sandbox'])
    expect(readable(draw('A red fox', 60, 30))).toEqual(['sandbox'])
    expect(readable(draw('A red fox', 30, 30))).toEqual([])
  })

  test('a long prompt is cut at a word, what the font does not have is a box', () => {
    expect(readable(draw(`Ein schöner\0\nBerg 🎉 ${'und noch mehr '.repeat(40)}`, 160, 160))[0]).toBe(
      'Ein schoner Berg \x7f und',
    )
    expect(readable(draw('x'.repeat(1000), 160, 160))[1]).toBe(`${'x'.repeat(24)}..`)
  })

  test('without its sky the sun and the hills are left', () => {
    const [opaque, clear] = [draw('a fox', 256, 256), draw('a fox', 256, 256, 0, true)]
    const seen = (picture: Decoded): number => picture.rgba.filter((value, i) => i % 4 === 3 && value === 255).length
    expect(seen(opaque)).toBe(256 * 256)
    expect(seen(clear)).toBeGreaterThan((256 * 256) / 4)
    expect(seen(clear)).toBeLessThan(256 * 256)
    expect(pixelOf(clear, 128, 255)[3]).toBe(255)
  })

  test('any prompt and any size give a picture', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '',
        '\0\0',
        '🎉👩‍👩‍👧',
        'שלום עולם',
        'مرحبا',
        '\u202Eabc',
        '\ud83c',
        'a'.repeat(5000),
        '\u0301'.repeat(500),
      ),
    )
    fc.assert(
      fc.property(
        text,
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 1, max: 400 }),
        fc.nat(9),
        fc.boolean(),
        (prompt, width, height, index, transparent) => {
          const { width: w, height: h } = draw(prompt, width, height, index, transparent)
          expect([w, h]).toEqual([width, height])
        },
      ),
      { numRuns: 60 },
    )
  })

  test('counts a token for each 32 x 32 pixels', () => {
    expect([
      pictureTokens({ width: 1024, height: 1024 }),
      pictureTokens({ width: 1, height: 1 }),
      pictureTokens({ width: 33, height: 32 }),
    ]).toEqual([1024, 1, 2])
  })
})

/** The letters of the font by their rows. */
const LETTERS = new Map(
  Array.from({ length: 96 }, (_, i) => String.fromCharCode(32 + i)).map((letter) => [glyphOf(letter).join(), letter]),
)

/**
 * The lines of text in a picture whose blocks are single pixels: found by looking for letters in the colours of the
 * ink.
 */
function readable(picture: Decoded): string[] {
  const lines: string[] = []
  for (let top = Math.ceil(picture.height * 0.6); top + 7 <= picture.height; top++) {
    for (let left = 0; left + 5 <= picture.width; left++) {
      const text = lineAt(picture, left, top)
      if (!/\w{2}/.test(text)) continue
      lines.push(text)
      top += 7
      break
    }
  }
  return lines
}

/** Text that begins at a place: each letter has ink where the font says and ground everywhere else. */
function lineAt(picture: Decoded, left: number, top: number): string {
  let text = ''
  for (let x = left; x + 5 <= picture.width; x += 6) {
    const rows = Array.from({ length: 7 }, (_, y) =>
      [16, 8, 4, 2, 1].reduce((bits, bit, at) => bits + (isInk(picture, x + at, top + y) ? bit : 0), 0),
    )
    const letter = LETTERS.get(rows.join())
    if (letter === undefined || (text === '' && letter === ' ')) break
    text += letter
  }
  return text.trimEnd()
}

/** The captions are far brighter than the ground below them. */
function isInk({ rgba, width }: Decoded, x: number, y: number): boolean {
  const colours = rgba.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)
  return Math.max(...colours) + Math.min(...colours) > 255
}
