import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { imageTokens, solidPng } from '../../src/providers/sandbox/image.ts'
import { decodePng } from './png.ts'

const OPAQUE_OR_TRANSPARENT = [false, true]

describe('solidPng', () => {
  test('the file has the requested size, and every pixel the same colour', () => {
    for (const [width, height] of [
      [1, 1],
      [7, 3],
      [8, 1],
      [9, 16],
      [301, 299],
      [4096, 1],
      [1, 4096],
    ] as const) {
      for (const transparent of OPAQUE_OR_TRANSPARENT) {
        const decoded = decodePng(solidPng({ prompt: 'a red fox', width, height, index: 0, transparent }))
        expect([decoded.width, decoded.height]).toEqual([width, height])
        const colour = [...decoded.rgba.subarray(0, 4)]
        expect(colour[3]).toBe(transparent ? 0 : 255)
        expect(decoded.rgba.every((value, i) => value === colour[i % 4])).toBe(true)
      }
    }
  })

  test('the largest image decodes', () => {
    const { width, height, rgba } = decodePng(solidPng({ prompt: '', width: 4096, height: 4096, index: 0 }))
    expect([width, height, rgba.length]).toEqual([4096, 4096, 4096 * 4096 * 4])
  })

  test('chunks are in order, and tRNS is present only in a transparent image', () => {
    const chunksOf = (transparent: boolean): string[] =>
      decodePng(solidPng({ prompt: 'x', width: 2, height: 2, index: 0, transparent })).chunks
    expect(chunksOf(false)).toEqual(['IHDR', 'PLTE', 'IDAT', 'IEND'])
    expect(chunksOf(true)).toEqual(['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'])
  })

  test('equal arguments give equal bytes; another prompt, index or size gives other bytes', () => {
    const bytes = (prompt: string, index: number, width: number): string =>
      solidPng({ prompt, index, width, height: 200 }).toString('base64')
    expect(bytes('a fox', 0, 200)).toBe(bytes('a fox', 0, 200))
    const all = [bytes('a fox', 0, 200), bytes('a cat', 0, 200), bytes('a fox', 1, 200), bytes('a fox', 0, 210)]
    expect(new Set(all).size).toBe(4)
  })

  test('any prompt and any size give a file that decodes', () => {
    const prompt = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '\0\0', '🎉👩‍👩‍👧', 'שלום עולם', '\u202Eabc', '\ud83c', 'a'.repeat(5000)),
    )
    const side = fc.integer({ min: 1, max: 400 })
    fc.assert(
      fc.property(prompt, side, side, fc.nat(9), fc.boolean(), (text, width, height, index, transparent) => {
        const decoded = decodePng(solidPng({ prompt: text, width, height, index, transparent }))
        expect([decoded.width, decoded.height]).toEqual([width, height])
      }),
      { numRuns: 60 },
    )
  })
})

test('an image counts one token for each 32 x 32 pixels', () => {
  expect([
    imageTokens({ width: 1024, height: 1024 }),
    imageTokens({ width: 1, height: 1 }),
    imageTokens({ width: 33, height: 32 }),
  ]).toEqual([1024, 1, 2])
})
