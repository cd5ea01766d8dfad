import type { Account } from '../../src/store/store.ts'

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
