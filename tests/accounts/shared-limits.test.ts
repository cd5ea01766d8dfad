import { expect, test } from 'bun:test'
import { limitsOf } from '../../src/accounts/shared-limits.ts'
import type { LeaseStore } from '../../src/store/leases.ts'

test('a steady rate leases few more permits than it uses', async () => {
  let granted = 0
  const permits: LeaseStore['permits'] = async ({ most }) => {
    granted += most
    return { granted: most, at: 0, usableMs: 2_000, waitMs: 0 }
  }
  let now = 0
  const limits = limitsOf({ leases: { permits } as LeaseStore }, () => now)
  let used = 0
  for (; now < 5_000; now += 2, used++) {
    await limits.checkRateLimit('k', 'chat', 1_000_000)
    // The answer to a question that nothing waits for.
    await Bun.sleep(0)
  }
  expect(granted).toBeLessThan(used * 2)
})
