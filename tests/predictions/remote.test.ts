import { expect, test } from 'bun:test'
import { RemotePredictions } from '../../src/endpoints/predictions/remote.ts'
import type { PredictionChange, PredictionNotice, SharedPredictions } from '../../src/store/store.ts'
import { until } from '../store/account-contract.ts'

/** Looks come too late for any test: only notifications remain. */
const NEVER_MS = 3_600_000

const change = (completedAt: number | null): PredictionChange => ({
  ...{ id: 'one', accountId: 'acc', model: 'm', createdAt: 1, startedAt: 1, completedAt, state: '{}' },
  status: completedAt === null ? 'processing' : 'succeeded',
})

test('changes by other processes are seen at their notifications', async () => {
  let notify: (notice: PredictionNotice) => void = () => {}
  let stored = change(null)
  let running = 1
  const stopping = new AbortController()
  const shared = {
    onChange: (listener) => void (notify = listener),
    findState: async () => stored,
    cancelRequests: async () => [{ accountId: 'acc', id: 'mine' }],
    takeTurn: async (_account, _id, most) => running < most,
  } as Partial<SharedPredictions> as SharedPredictions
  const remote = new RemotePredictions(shared, { concurrency: 1 } as never, stopping.signal, NEVER_MS)
  const seen: string[] = []
  remote.follow('acc', 'one', ({ status }) => void seen.push(status))
  void remote.watchCancellations(
    () => true,
    (_account, id) => void seen.push(`cancel ${id}`),
  )
  const turn = remote.takeTurn({ id: 'two', accountId: 'acc', cut: new AbortController() } as never)
  const about = { id: 'one', accountId: 'acc' }
  notify({ kind: 'changed', ...about })
  expect(await until(() => seen.length === 1)).toBe(true)
  notify({ kind: 'unwanted', id: 'mine', accountId: 'acc' })
  expect(await until(() => seen.length === 2)).toBe(true)
  await Bun.sleep(0)
  ;[stored, running] = [change(2), 0]
  notify({ kind: 'ended', ...about })
  expect(await until(() => seen.length === 3)).toBe(true)
  await turn
  expect(seen).toEqual(['processing', 'cancel mine', 'succeeded'])
  stopping.abort()
})
