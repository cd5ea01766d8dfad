import { expect, test } from 'bun:test'
import type { GenerationEvent, PartHead } from '../../src/generation/event.ts'
import {
  issuedBy,
  lacksState,
  ReplayRecorder,
  replayPositions,
  type ReplayState,
  restoreTurn,
  unsignedTurns,
} from '../../src/generation/replay.ts'
import type { Part, ToolCallPart, Turn } from '../../src/generation/request.ts'

/** The reasoning and signatures of a response, and the turn of the next request that they are restored in. */

const ISSUER = { provider: 'p', model: 'm' }
const callOf = (id: string, args = '{}'): ToolCallPart => ({
  ...{ type: 'tool-call', id, name: 'f', arguments: args, form: 'function' },
})
const head = (id: string): PartHead => ({ type: 'tool-call', id, name: 'f', form: 'function' })

type Said = [head: PartHead, text: string, signature?: string]

const stateOf = (parts: Said[], keepsUnsigned = false): ReplayState | undefined => {
  const recorder = new ReplayRecorder(ISSUER, keepsUnsigned)
  for (const [part, [of, text, signature]] of parts.entries()) {
    const events: GenerationEvent[] = [{ type: 'part-start', part, head: of }]
    // In pieces, as providers send it.
    for (const piece of text.match(/.{1,100000}/gs) ?? []) events.push({ type: 'part-delta', part, text: piece })
    recorder.record([...events, { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) }])
  }
  return recorder.replayState
}

test('the state of a response has its signed reasoning, its texts and its calls, without what the client sends', () => {
  const state = stateOf([
    [{ type: 'reasoning', form: 'summary', id: 'r' }, 'A', 'SA'],
    [{ type: 'reasoning' }, 'unsigned'],
    [{ type: 'text' }, ''],
    [{ type: 'text' }, 'said', 'ST'],
    [head('a'), '{"x":1}', 'SC'],
    [head('b'), '{}'],
  ])
  expect(state).toEqual({
    issuer: ISSUER,
    call: { id: 'a', digest: expect.any(String) },
    parts: [
      { type: 'reasoning', form: 'summary', id: 'r', text: 'A', signature: 'SA' },
      { type: 'text', signature: 'ST' },
      { type: 'tool-call', id: 'a', signature: 'SC' },
      { type: 'tool-call', id: 'b' },
    ],
  })
})

test('unsigned reasoning is kept only for a provider that requires it, and nothing without a call', () => {
  const unsigned: Said[] = [
    [{ type: 'reasoning' }, 'A'],
    [{ type: 'reasoning' }, ''],
    [head('a'), '{}'],
  ]
  expect(stateOf(unsigned)).toBeUndefined()
  expect(stateOf(unsigned, true)!.parts).toEqual([
    { type: 'reasoning', text: 'A' },
    { type: 'tool-call', id: 'a' },
  ])
  expect(stateOf([[{ type: 'reasoning' }, 'A', 'S']])).toBeUndefined()
  expect(stateOf([[head('a'), '{}', 'S']])!.parts).toEqual([{ type: 'tool-call', id: 'a', signature: 'S' }])
})

test('more than a million characters of reasoning, signatures and arguments of the first call are not kept', () => {
  const most = 1024 * 1024
  const kept = (...parts: Said[]): boolean => stateOf(parts) !== undefined
  expect(kept([{ type: 'reasoning' }, 'x'.repeat(most - 3), 'S'], [head('a'), '{}'])).toBe(true)
  expect(kept([{ type: 'reasoning' }, 'x'.repeat(most - 2), 'S'], [head('a'), '{}'])).toBe(false)
  expect(kept([{ type: 'reasoning' }, 'x', 'S'.repeat(most)], [head('a'), '{}'])).toBe(false)
  const others: Said[] = [
    [{ type: 'text' }, 'x'.repeat(most)],
    [head('b'), 'x'.repeat(most)],
  ]
  expect(kept([{ type: 'reasoning' }, 'x', 'S'], [head('a'), '{}'], ...others)).toBe(true)
})

test('a recorder adopts the state that another one with its terms made', () => {
  const recorder = new ReplayRecorder(ISSUER, true)
  expect(recorder.terms).toEqual({ issuer: ISSUER, keepsUnsigned: true })
  const state = stateOf([[head('a'), '{}', 'S']])!
  recorder.adopt(state)
  expect(recorder.replayState).toBe(state)
})

test('only the model that issued a state gets it', () => {
  const state = stateOf([[head('a'), '{}', 'S']])!
  expect(issuedBy([state], ISSUER)).toEqual([state])
  expect(issuedBy([state], { ...ISSUER, model: 'other' })).toEqual([])
  expect(issuedBy([state], { ...ISSUER, provider: 'other' })).toEqual([])
  expect(issuedBy(undefined, ISSUER)).toEqual([])
})

test('turns with calls but without signatures are found, unless two begin with the same id', () => {
  const turn = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
  const signed = { ...callOf('d'), signature: { data: 'S' } }
  const text: Part = { type: 'text', text: 'x' }
  const turns = [
    turn(text),
    turn(text, callOf('a'), callOf('b')),
    { role: 'user' as const, parts: [callOf('x')] },
    turn(callOf('c')),
    turn(callOf('c')),
    turn(callOf('e'), signed),
    turn(signed),
  ]
  expect(unsignedTurns(turns)).toEqual([{ index: 1, call: callOf('a') }])
})

test('a turn lacks the state of its first call, unless its arguments differ or unsigned reasoning was sent', () => {
  const signed = stateOf([[head('a'), '{"x":1,"y":2}', 'S']])!
  const call = callOf('a', '{ "y":2, "x":1 }')
  const turn = (...parts: Part[]): Turn => ({ role: 'assistant', parts: [...parts, call] })
  const reasoning: Part = { type: 'reasoning', text: 'A' }
  expect(lacksState(signed, turn(), call)).toBe(true)
  expect(lacksState(signed, turn(reasoning), call)).toBe(true)
  expect(lacksState(signed, turn(), callOf('b', call.arguments))).toBe(false)
  expect(lacksState(signed, turn(), callOf('a', '{"x":1}'))).toBe(false)
  expect(lacksState(signed, turn(), { ...call, name: 'g' })).toBe(false)
  const unsigned = stateOf(
    [
      [{ type: 'reasoning' }, 'A'],
      [head('a'), call.arguments],
    ],
    true,
  )!
  expect(lacksState(unsigned, turn(), call)).toBe(true)
  expect(lacksState(unsigned, turn({ type: 'reasoning', text: '' }), call)).toBe(true)
  expect(lacksState(unsigned, turn(reasoning), call)).toBe(false)
})

test('texts are matched by their order among the texts of the turn', () => {
  const state = stateOf([
    [{ type: 'text' }, 'first', '1'],
    [{ type: 'reasoning' }, 'A', 'SA'],
    [{ type: 'text' }, 'second', '2'],
    [head('a'), '{}'],
  ])!
  const [text, call] = [{ type: 'text' }, { type: 'tool-call', id: 'a' }]
  const reasoning = { type: 'reasoning' as const, text: 'A', signature: 'SA' }
  expect(replayPositions(state, [text, text, call])).toEqual({
    reasoning: [{ part: reasoning, before: 1 }],
    signatures: [
      { index: 1, signature: '2' },
      { index: 0, signature: '1' },
    ],
  })
  expect(replayPositions(state, [{ type: 'image' }, text, call])).toEqual({
    reasoning: [{ part: reasoning, before: 2 }],
    signatures: [{ index: 1, signature: '1' }],
  })
})

test('restored reasoning replaces what was sent of it, and empty texts are none', () => {
  const state = stateOf(
    [
      [{ type: 'reasoning' }, 'A'],
      [{ type: 'text' }, 'x', 'S'],
      [head('a'), '{}'],
    ],
    true,
  )!
  const sent: Part[] = [
    { type: 'reasoning', text: 'sent' },
    { type: 'text', text: 'x' },
    { type: 'text', text: '' },
    callOf('a'),
  ]
  expect<unknown>(restoreTurn({ role: 'assistant', parts: sent }, state).parts).toEqual([
    { type: 'reasoning', text: 'A' },
    { ...sent[1], signature: { data: 'S', issuer: ISSUER } },
    ...sent.slice(2),
  ])
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
