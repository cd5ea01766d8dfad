import { expect, test } from 'bun:test'
import type { ReplayRecorder } from '../../src/generation/replay.ts'
import { ReasoningReplay } from '../../src/pipeline/reasoning-replay.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Store } from '../../src/store/store.ts'

test('reasoning that is written while expired entries are removed can be restored', async () => {
  const written = Promise.withResolvers<void>()
  const reasoning = { purge: async () => {}, usage: async () => [], save: () => written.promise }
  const replay = await ReasoningReplay.open({ reasoning } as unknown as Store, 1_000)
  const issuer = { provider: 'p', model: 'm' }
  const keeping = replay.keep('account', { replayState: { issuer, call: { id: 'call' } } } as unknown as ReplayRecorder)
  await replay.purge()
  expect(replay.mayRestore('account', [{ target: issuer }] as unknown as Endpoint[])).toBe(true)
  written.resolve()
  await keeping
  await replay.purge()
  expect(replay.mayRestore('account', [{ target: issuer }] as unknown as Endpoint[])).toBe(false)
})
