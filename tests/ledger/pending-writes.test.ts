import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { PendingWrites } from '../../src/ledger/pending-writes.ts'
import { failure } from '../store/records.ts'

/** Writes of a store that may be away: each call is one attempt, which ends when the test says so. */
function startWrite() {
  const attempts: PromiseWithResolvers<void>[] = []
  const write = (): Promise<void> => {
    const attempt = Promise.withResolvers<void>()
    attempts.push(attempt)
    return attempt.promise
  }
  const refuse = (): void => attempts.at(-1)!.reject(new GatewayError('store_unavailable', 'away'))
  return { attempts, write, refuse, accept: () => attempts.at(-1)!.resolve() }
}

test('retries that are asked for while one goes on wait for it alone', async () => {
  const [pending, { attempts, write, refuse }] = [new PendingWrites(), startWrite()]
  const first = failure(pending.attempt(write, () => {}))
  refuse()
  await first
  const retries = Array.from({ length: 100 }, () => pending.retry())
  refuse()
  await Promise.all(retries)
  expect([attempts.length, pending.size]).toEqual([2, 1])
})

test('the end waits for a write under way, and retries it where the store does not take it', async () => {
  const [pending, { attempts, write, refuse, accept }] = [new PendingWrites(), startWrite()]
  const first = failure(pending.attempt(write, () => {}))
  const finished = pending.finish()
  refuse()
  await first
  while (attempts.length < 2) await new Promise(setImmediate)
  accept()
  await finished
  expect(pending.size).toBe(0)
})

test('the end of writes that the store does not take leaves them', async () => {
  const [pending, { attempts, write, refuse }] = [new PendingWrites(), startWrite()]
  const first = failure(pending.attempt(write, () => {}))
  const finished = pending.finish()
  refuse()
  await first
  while (attempts.length < 2) await new Promise(setImmediate)
  refuse()
  await finished
  expect(pending.size).toBe(1)
})
