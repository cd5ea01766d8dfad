import { expect, test } from 'bun:test'
import { limitsOf } from '../../src/accounts/shared-limits.ts'
import type { LeaseStore } from '../../src/store/leases.ts'

test('a steady rate leases few more permits than it uses', async () => {
  let granted = 0
  const permits: LeaseStore['permits'] = async ({ most }) => {
    granted += most
    return { granted: most, at: 0, usableMs: 2_000, waitMs: 0 }
  }
  const limits = limitsOf({ leases: { permits } as LeaseStore })
  let used = 0
  for (const endsAt = performance.now() + 5_000; performance.now() < endsAt; used++) {
    await limits.checkRateLimit('k', 'chat', 1_000_000)
    await Bun.sleep(2)
  }
  expect(granted).toBeLessThan(used * 2)
}, 20_000)
