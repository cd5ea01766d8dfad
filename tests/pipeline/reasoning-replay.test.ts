import { expect, test } from 'bun:test'
import { restoreTurn, type ReplayRecorder } from '../../src/generation/replay.ts'
import type { ToolCallPart } from '../../src/generation/request.ts'
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

test('reasoning and signatures of a turn are restored around the parts that the client kept of it', () => {
  const issuer = { provider: 'p', model: 'm' }
  const call = { type: 'tool-call', id: 'a', name: 'f', arguments: '{}' } as ToolCallPart
  const text = { type: 'text' as const, text: 'Hello' }
  const reasoning = (of: string) => ({ type: 'reasoning' as const, form: 'summary' as const, text: of, signature: of })
  const { parts } = restoreTurn(
    { role: 'assistant', parts: [text, call] },
    {
      issuer,
      call: { id: 'a', digest: '' },
      parts: [
        reasoning('1'),
        { type: 'text' },
        { type: 'tool-call', id: 'a', signature: '2' },
        reasoning('3'),
        { type: 'tool-call', id: 'left out' },
      ],
    },
  )
  const signed = (data: string) => ({ signature: { data, issuer } })
  expect<unknown>(parts).toEqual([
    { ...reasoning('1'), ...signed('1') },
    text,
    { ...call, ...signed('2') },
    { ...reasoning('3'), ...signed('3') },
  ])
})
