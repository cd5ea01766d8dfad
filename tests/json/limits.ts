import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { ScanMemory } from '../../src/json/scan-memory.ts'
import type { BodyLimits } from '../../src/json/weight.ts'

/** Limits for tests that are about something else. */
export const LIMITS: BodyLimits & { bodyBytes: number } = {
  bodyBytes: 1e9,
  elements: 1e9,
  depth: 64,
  parts: 1e9,
  tools: 1e9,
}

/** The arguments of `readRawRequest` for such a test. */
export const READING = {
  config: { limits: LIMITS },
  memory: new MemoryBudget(1e9),
  conversations: { scans: new ScanMemory(1e9) },
}
export const received = (request: Request) => ({ request, identity: { accountId: 'a' } })
