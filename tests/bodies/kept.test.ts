import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../src/config/load.ts'
import { BodyWriter } from '../../src/pipeline/bodies/body-writer.ts'
import { PartRecorder } from '../../src/pipeline/bodies/part-recorder.ts'
import { Segments } from '../../src/pipeline/bodies/segments.ts'
import type { Piece } from '../../src/pipeline/bodies/writing-worker.ts'

/** The limits of bodies: memory while they wait, and space on the disk. */

const { capture } = readConfig('', 'sluice.yaml', {})
const MIB = 2 ** 20

const cleanings: (() => void)[] = []
afterEach(() => {
  for (const clean of cleanings.splice(0)) clean()
})

function writer(mostBytes: number): BodyWriter {
  const made = new BodyWriter(capture, mostBytes)
  cleanings.push(() => made.end())
  return made
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  cleanings.push(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const textOf = (list: readonly Piece[]): string =>
  list.map(({ data }) => (typeof data === 'string' ? data : Buffer.from(data).toString())).join('')

describe('memory', () => {
  test('a part keeps the beginning and the end of a long stream', async () => {
    const shared = writer(64 * MIB)
    const part = new PartRecorder('client_answer', {}, shared)
    for (let index = 0; index < 24; index++) part.add(String.fromCharCode(97 + index).repeat(MIB), index)
    const { bytes, cut, pieces } = await part.part()
    expect([bytes, cut]).toEqual([24 * MIB, 16 * MIB])
    const text = textOf(pieces)
    expect(text.replace(/([a-z])\1+/g, '$1')).toBe('abcd\n<16,777,216 bytes left out>\nuvwx')
    part.free()
    expect(shared.take(64 * MIB)).toBe(true)
  })

  test('what is beyond the most that may wait is left out, and says so', async () => {
    const shared = writer(3 * MIB)
    const [first, second] = [0, 1].map(() => new PartRecorder('client_answer', {}, shared))
    first!.add('a'.repeat(2 * MIB), 0)
    second!.add('b'.repeat(2 * MIB), 0)
    second!.add('c', 1)
    expect([first!.isIncomplete, second!.isIncomplete]).toEqual([false, true])
    expect(await second!.part()).toMatchObject({ bytes: 2 * MIB + 1, cut: 2 * MIB })
    first!.free()
    second!.free()
    expect(shared.take(3 * MIB)).toBe(true)
  })

  test('a long body in one piece is shortened at once', async () => {
    const part = new PartRecorder('client_request', {}, writer(64 * MIB))
    part.addWhole(Buffer.from(`begin ${'word '.repeat(MIB)} end`), 0)
    const { bytes, cut, pieces } = await part.part()
    const text = textOf(pieces)
    expect(bytes).toBe(5 * MIB + 10)
    expect(cut).toBeGreaterThan(4.7 * MIB)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(capture.bytes)
    expect([text.slice(0, 10), text.slice(-8)]).toEqual(['begin word', 'word  end'.slice(-8)])
  })
})

describe('space on the disk', () => {
  const HOUR = 3_600_000
  const NOW = Date.UTC(2026, 10, 23, 14, 20)

  function withSegments(...sizes: [hours: number, bytes: number][]): {
    segments: Segments
    names: string[]
    list(): string[]
  } {
    const data = folder()
    const segments = new Segments(data)
    const names = sizes.map(([hours, size]) => {
      const name = segments.nameFor(NOW + hours * HOUR)
      writeFileSync(segments.pathOf(name), Buffer.alloc(size))
      return name
    })
    writeFileSync(segments.pathOf('other.txt'), 'x')
    return { segments, names, list: () => readdirSync(join(data, 'bodies')).sort() }
  }

  test('a segment is removed as a whole once all of it has expired', async () => {
    const { segments, names, list } = withSegments([-2, 10], [-1, 10], [0, 10], [1, 10])
    expect(await segments.purge(NOW, Infinity)).toEqual(names.slice(0, 2))
    expect(list()).toEqual([...names.slice(2), 'other.txt'].sort())
    expect(await segments.purge(NOW, Infinity)).toEqual([])
  })

  test('beyond the quota, those that expire first are removed first', async () => {
    const { segments, names } = withSegments([5, 100], [2, 100], [9, 100])
    const [nearest, next] = [...names].sort()
    expect(await segments.purge(NOW, 200)).toEqual([nearest!])
    expect(await segments.purge(NOW, 150)).toEqual([next!])
  })
})
