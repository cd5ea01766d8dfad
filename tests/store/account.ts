import type { Account, StoredKey } from '../../src/store/store.ts'

/** An account as a store has it. */
export const accountOf = (id: string, over: Partial<Account> = {}): Account => ({
  id,
  name: `name of ${id}`,
  status: 'healthy',
  createdAt: 1,
  discount: 0,
  memberRequests: 'own',
  ...over,
})

/** A key as a store has it. */
export const keyOf = (id: string, accountId: string, fill: number, over: Partial<StoredKey> = {}): StoredKey => ({
  id,
  accountId,
  kind: 'management',
  hash: new Uint8Array(32).fill(fill),
  prefix: 'sk-mg-v1-abc',
  last4: 'wxyz',
  name: null,
  createdAt: 5,
  expiresAt: null,
  revokedAt: null,
  requestsPerMinute: 7,
  models: null,
  limit: null,
  limitPeriod: null,
  limitSince: null,
  idempotency: true,
  role: null,
  scope: null,
  createdBy: null,
  source: null,
  ...over,
})
