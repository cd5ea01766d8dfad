import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GenerationEvent } from '../../src/generation/event.ts'
import type { GenerationRequest, Part, Turn } from '../../src/generation/request.ts'
import { ReplayRecorder } from '../../src/generation/replay.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { ReasoningReplay } from '../../src/pipeline/reasoning-replay.ts'
import type { Store } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Signed reasoning is stored, and restored in requests of clients that left it out. */

const DAY = 86_400_000
const ISSUER = { provider: 'p', model: 'm' }

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function open(keepMs = DAY): Promise<{
  reasoning: ReasoningReplay
  store: Store
  clock: { now: number }
  again(keepMs: number): Promise<ReasoningReplay>
}> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-reasoning-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  const store = await storeIn(folder)
  cleanups.push(() => store.close())
  const clock = { now: 1_700_000_000_000 }
  const again = (ms: number): Promise<ReasoningReplay> => ReasoningReplay.open(store, ms, () => clock.now)
  return { reasoning: await again(keepMs), store, clock, again }
}

const request = (turns: Turn[]): GenerationRequest =>
  ({
    protocol: 'messages',
    model: 'x',
    stream: false,
    system: [],
    turns,
    tools: [{ type: 'function', name: 'look' }],
    sampling: {},
    extras: {},
  }) as unknown as GenerationRequest
const endpoint = (provider: string, model: string): Endpoint => ({ target: { provider, model } }) as unknown as Endpoint
const HERE = [endpoint('p', 'm')]

/** The events of an answer, each part in two deltas. */
function* eventsOf(parts: readonly Part[]): Generator<GenerationEvent> {
  yield { type: 'start', id: 'i', model: 'm' }
  for (const [part, one] of parts.entries()) {
    const { signature, ...rest } = one as Part & { type: 'reasoning' }
    const text = one.type === 'tool-call' ? one.arguments : rest.text
    const { text: _text, arguments: _arguments, ...head } = rest as unknown as Record<string, unknown>
    yield { type: 'part-start', part, head: head as never }
    const half = text.length >> 1
    for (const piece of [text.slice(0, half), text.slice(half)])
      if (piece !== '') yield { type: 'part-delta', part, text: piece }
    yield { type: 'part-end', part, ...(signature === undefined ? {} : { signature: signature.data }) }
  }
}

function recorderOf(parts: readonly Part[], issuer = ISSUER, keepsUnsigned = false): ReplayRecorder {
  const replayRecorder = new ReplayRecorder(issuer, keepsUnsigned)
  for (const event of eventsOf(parts)) replayRecorder.record([event])
  return replayRecorder
}

/** The parts as sent back by a client that keeps only texts and calls. */
const stripped = (parts: readonly Part[]): Part[] =>
  parts.flatMap((part) => {
    if (part.type === 'reasoning') return []
    const { signature: _signature, ...rest } = part as Part & { type: 'text' }
    return [rest]
  })

const call = (id: string, over: object = {}): Part => ({
  type: 'tool-call',
  id,
  name: 'look',
  arguments: '{"a":1}',
  form: 'function',
  ...over,
})
const signedReasoning = (text: string, data: string, over: object = {}): Part => ({
  type: 'reasoning',
  text,
  signature: { data, issuer: ISSUER },
  ...over,
})
const requestWith = (...answers: Part[][]): GenerationRequest =>
  request([
    { role: 'user', parts: [{ type: 'text', text: 'go' }] },
    ...answers.map((parts): Turn => ({ role: 'assistant', parts })),
  ])

const signature = fc.option(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).map((data) => ({ data, issuer: ISSUER })),
  { nil: undefined },
)
const signed = <T extends object>(part: T, mark: object | undefined): T =>
  mark === undefined ? part : { ...part, signature: mark }
const answer = fc
  .tuple(
    fc.array(
      fc.oneof(
        fc
          .tuple(
            fc.string({ unit: 'grapheme' }),
            fc.string({ minLength: 1 }),
            fc.constantFrom({}, { form: 'summary' }, { redacted: true }, { id: 'rs_1' }),
          )
          .map(([text, data, over]) => signedReasoning(text, data, over)),
        fc
          .tuple(fc.string({ minLength: 1 }), signature)
          .map(([text, mark]): Part => signed({ type: 'text', text } as Part, mark)),
      ),
      { maxLength: 4 },
    ),
    fc.array(fc.tuple(fc.json(), signature), { minLength: 1, maxLength: 4 }),
  )
  .map(([before, calls]): Part[] => [
    ...before,
    ...calls.map(([args, mark], index) => signed(call(`c${index}`, { arguments: args }), mark)),
  ])

test('restored reasoning is the original, byte for byte and in its position', async () => {
  const { reasoning } = await open()
  let cases = 0
  await fc.assert(
    fc.asyncProperty(answer, async (parts) => {
      // An account for each case, since the calls of all cases have the same ids.
      const account = `a${cases++}`
      await reasoning.keep(account, recorderOf(parts))
      const isSigned = parts.some((part) => 'signature' in part && part.signature !== undefined)
      const sent = requestWith(stripped(parts))
      const { request: back, replayStates, bytes } = await reasoning.restore(account, sent, HERE)
      expect(back.turns[1]!.parts).toEqual(isSigned ? parts : stripped(parts))
      expect([replayStates.length, bytes > 0]).toEqual(isSigned ? [1, true] : [0, false])
    }),
    { numRuns: 300 },
  )
})

describe('no reasoning is restored', () => {
  const parts = [signedReasoning('hm', 's1'), call('c1'), call('c2')]
  const unsigned = stripped(parts)
  const unchanged = async (
    reasoning: ReasoningReplay,
    account: string,
    given: GenerationRequest,
    endpoints = HERE,
  ): Promise<void> => {
    expect((await reasoning.restore(account, given, endpoints)).request).toEqual(given)
  }
  const kept = async () => {
    const opened = await open()
    await opened.reasoning.keep('a', recorderOf(parts))
    expect((await opened.reasoning.restore('a', requestWith(unsigned), HERE)).request.turns[1]!.parts).toEqual(parts)
    return opened
  }

  test('no reasoning is restored for another account, provider or model', async () => {
    const { reasoning } = await kept()
    await unchanged(reasoning, 'b', requestWith(unsigned))
    await unchanged(reasoning, 'a', requestWith(unsigned), [endpoint('p', 'n')])
    await unchanged(reasoning, 'a', requestWith(unsigned), [endpoint('q', 'm')])
    await reasoning.keep('a', recorderOf([signedReasoning('x', 's'), call('other')], { provider: 'q', model: 'm' }))
    await unchanged(reasoning, 'a', requestWith(unsigned), [endpoint('q', 'm')])
  })

  test('no reasoning is restored if the client sent a signature, other arguments or a duplicate id', async () => {
    const { reasoning } = await kept()
    await unchanged(reasoning, 'a', requestWith([{ type: 'text', text: 't', signature: { data: 'own' } }, ...unsigned]))
    await unchanged(reasoning, 'a', requestWith([call('c1', { arguments: '{"a":2}' })]))
    await unchanged(reasoning, 'a', requestWith([call('c1', { name: 'ask' })]))
    await unchanged(reasoning, 'a', requestWith(unsigned, unsigned))
    // Arguments may be serialized differently, and unsigned reasoning may have the text of the signed one.
    const spelled = requestWith([
      { type: 'reasoning', text: 'hm' },
      call('c1', { arguments: '{ "a": 1.0 }' }),
      call('c2'),
    ])
    expect((await reasoning.restore('a', spelled, HERE)).request.turns[1]!.parts).toEqual([
      parts[0]!,
      call('c1', { arguments: '{ "a": 1.0 }' }),
      call('c2'),
    ])
  })

  test('no reasoning is restored after its expiry, also after a restart, or if none is kept', async () => {
    const { clock, again, store } = await kept()
    clock.now += DAY - 1
    const later = await again(DAY)
    expect((await later.restore('a', requestWith(unsigned), HERE)).replayStates).toHaveLength(1)
    clock.now += 1
    await unchanged(later, 'a', requestWith(unsigned))
    await later.purge()
    expect(await store.reasoning.usage()).toEqual([])
    await later.keep('a', recorderOf(parts))
    const off = await again(0)
    await unchanged(off, 'a', requestWith(unsigned))
    expect(await store.reasoning.usage()).toEqual([])
    const target = { ...ISSUER, quirks: {}, capabilities: {} }
    expect([off.replayRecorder(true, target), later.replayRecorder(false, target)]).toEqual([undefined, undefined])
    expect(later.replayRecorder(true, target)).toBeInstanceOf(ReplayRecorder)
  })

  test('no reasoning is restored that was too large to be stored', async () => {
    const { reasoning, store } = await open()
    await reasoning.keep('a', recorderOf([signedReasoning('x'.repeat(1024 * 1024 + 1), 's'), call('c1')]))
    await reasoning.keep('a', recorderOf([signedReasoning('x', 's'.repeat(1024 * 1024)), call('c1')]))
    expect(await store.reasoning.usage()).toEqual([])
  })
})

test('unsigned reasoning is restored if the provider requires it, unless the client sent some', async () => {
  const { reasoning } = await open()
  const parts: Part[] = [{ type: 'reasoning', text: 'hm' }, { type: 'text', text: 'so' }, call('c1')]
  const back = async (given: Part[]): Promise<Part[]> =>
    (await reasoning.restore('a', requestWith(given), HERE)).request.turns[1]!.parts
  await reasoning.keep('a', recorderOf(parts))
  expect(await back(stripped(parts))).toEqual(stripped(parts))
  await reasoning.keep('a', recorderOf(parts, ISSUER, true))
  expect(await back(stripped(parts))).toEqual(parts)
  const own: Part[] = [{ type: 'reasoning', text: 'mine' }, ...stripped(parts)]
  expect(await back(own)).toEqual(own)
})

test('above the limit of an account its oldest reasoning is removed, and no other account’s', async () => {
  const { reasoning, store, clock } = await open()
  const large = (id: string): Part[] => [signedReasoning('x'.repeat(1_000_000), 's'), call(id)]
  await reasoning.keep('b', recorderOf(large('c0')))
  for (let i = 0; i < 80; i++) {
    clock.now++
    await reasoning.keep('a', recorderOf(large(`c${i}`)))
  }
  const uses = new Map((await store.reasoning.usage()).map(({ accountId, bytes }) => [accountId, bytes]))
  expect(uses.get('a')!).toBeLessThanOrEqual(64 * 2 ** 20)
  const known = async (account: string, id: string): Promise<number> =>
    (await reasoning.restore(account, requestWith(stripped(large(id))), HERE)).replayStates.length
  expect([await known('a', 'c0'), await known('a', 'c79'), await known('b', 'c0')]).toEqual([0, 1, 1])
  // In a conversation with more reasoning than can be restored, that of the newest turns is restored.
  const long = requestWith(...Array.from({ length: 20 }, (_, i) => stripped(large(`c${60 + i}`))))
  const { request: back, bytes } = await reasoning.restore('a', long, HERE)
  expect(bytes).toBeLessThanOrEqual(8 * 2 ** 20)
  expect(back.turns.map(({ parts }) => parts[0]!.type === 'reasoning').lastIndexOf(false)).toBe(back.turns.length - 9)
})
