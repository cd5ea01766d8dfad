import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import type { Template } from '../../src/telemetry/otlp-writer.ts'
import { Templates } from '../../src/telemetry/templates.ts'

const template = (): Template => ({ left: [], bytes: new Uint8Array(0), texts: [], list: undefined })
const LONG = 1_000_000

/** Names cut from long texts, as those of models are. */
const cutName = (index: number): string => `${index}${'x'.repeat(LONG)}`.slice(0, 256)

test('templates keep the names that decide them, and not the long texts that these were cut from', () => {
  const templates = new Templates()
  const added = Array.from({ length: 100 }, template)
  Bun.gc(true)
  const before = heapStats().extraMemorySize
  for (const [index, one] of added.entries()) {
    expect(templates.get([cutName(index), 1])).toBeUndefined()
    templates.add([cutName(index), 1], one)
  }
  Bun.gc(true)
  expect(heapStats().extraMemorySize - before).toBeLessThan(10 * LONG)
  for (const [index, one] of added.entries()) expect(templates.get([cutName(index), 1])).toBe(one)
})
