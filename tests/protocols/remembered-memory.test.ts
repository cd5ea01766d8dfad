import { expect, test } from 'bun:test'
import { join } from 'node:path'

test.concurrent.each([60_000, 1_000_000])(
  'the memory that remembered conversations of %i bytes take is counted',
  async (length) => {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'remembering.ts'), String(length)])
    const { taken, counted } = (await new Response(child.stdout).json()) as { taken: number; counted: number }
    expect(counted / taken).toBeGreaterThan(0.85)
    expect(counted / taken).toBeLessThan(1.15)
  },
  60_000,
)
