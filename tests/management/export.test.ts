import { expect, test } from 'bun:test'
import { Caller } from '../../src/accounts/caller.ts'
import type { AppContext } from '../../src/context.ts'
import { exportRequests } from '../../src/endpoints/management/export.ts'
import type { ManagementRequest } from '../../src/endpoints/management/route.ts'
import { GatewayError } from '../../src/error.ts'

test('an export ends at the next page after its caller has lost the right to read it', async () => {
  let pages = 0
  const app = {
    clock: { now: () => 0, elapsed: () => 0 },
    config: { timeouts: { clientStalledMs: 60_000 } },
    bodies: { among: () => Promise.resolve(new Set()) },
    store: {
      accounts: { list: () => Promise.resolve([]), keys: () => Promise.resolve([]) },
      reports: { requests: () => Promise.resolve({ rows: [], next: ++pages < 10 ? `page ${pages}` : null }) },
    },
  } as unknown as AppContext
  const person = { id: 'usr_1', name: 'Ann', email: null, sessionId: 'ses_1', sessionEndsAt: 0 }
  const inbound = {
    request: new Request('http://sluice/'),
    query: new URLSearchParams('format=jsonl'),
    caller: Caller.ofUser(person, [{ scope: 'installation', role: 'owner' }]),
    identifyAgain: () =>
      pages < 3 ? Promise.resolve() : Promise.reject(new GatewayError('sign_in_required', 'The session has ended.')),
  } as unknown as ManagementRequest
  const response = await exportRequests(app, inbound)
  expect(await response.text().catch((error: Error) => error.message)).toBe('The session has ended.')
  expect(pages).toBe(3)
})
