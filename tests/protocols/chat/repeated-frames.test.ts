import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { GenerationEvent } from '../../../src/generation/event.ts'
import { ChatResponseReader } from '../../../src/protocols/chat/read-response.ts'
import { RepeatedFrame } from '../../../src/protocols/repeated-frame.ts'

type Json = Record<string, unknown>

const seldom = <A, B>(usual: A, other: fc.Arbitrary<B>) =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: other })

const text = fc.oneof(
  fc.string(),
  fc.constantFrom('', ' water', '"', '\\', '\n', 'é\u2028', '\ud83d', '","logprobs":null}', '"content":"'),
)

const delta = fc.record({
  content: fc.oneof({ weight: 12, arbitrary: text }, { weight: 1, arbitrary: fc.constantFrom(null, undefined) }),
  role: seldom(undefined, fc.constant('assistant')),
  refusal: seldom(null, fc.constant('No.')),
  reasoning_content: seldom(undefined, text),
  annotations: seldom(undefined, fc.constant([{ type: 'url_citation', url_citation: { url: 'https://a.example' } }])),
  tool_calls: seldom(undefined, fc.constant([{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }])),
  audio: seldom(undefined, fc.constant({ data: 'AAAA' })),
})

const chunk = fc.record({
  id: seldom('chatcmpl-1', fc.constantFrom('', 'other')),
  created: seldom(1, fc.nat()),
  choices: seldom(undefined, fc.constant([])),
  index: seldom(0, fc.constant(1)),
  delta,
  logprobs: seldom(null, fc.constant({ content: [{ token: 'a', logprob: -1 }] })),
  finish_reason: seldom(null, fc.constantFrom('stop', 'length')),
  usage: seldom(null, fc.constant({ prompt_tokens: 1, completion_tokens: 2 })),
  error: seldom(undefined, fc.constantFrom(null, { message: 'broken' })),
  citations: seldom(undefined, fc.constant(['https://b.example'])),
})

const written = ({ choices, index, delta: of, logprobs, finish_reason, ...rest }: Json): Json => ({
  ...rest,
  choices: choices ?? [{ index, delta: of, logprobs, finish_reason }],
})

const events = (frames: readonly string[]): GenerationEvent[] => {
  const reader = new ChatResponseReader()
  return [...frames.flatMap((data) => reader.read({ data })), ...reader.end()]
}

test('a stream of chunks that are alike is read as one of chunks that are not', () => {
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 24 }), fc.constantFrom(undefined, 1), (chunks, indent) => {
      const alike = chunks.map((one) => JSON.stringify(written(one), null, indent))
      const unlike = chunks.map((one, i) => JSON.stringify({ obfuscation: `${i}`, ...written(one) }))
      expect(events(alike)).toEqual(events(unlike))
    }),
    { numRuns: 1500 },
  )
})

test('a text is identified only where it is what is read', () => {
  const of = (data: string) => RepeatedFrame.of(data, 'content', ({ content }) => content)
  expect(of('{"content":"a","n":1}')?.textOf('{"content":"b \\"c\\"\\n","n":1}')).toBe('b "c"\n')
  expect(of('{"content":"a","n":1}')?.textOf('{"content":"b","n":2}')).toBeUndefined()
  expect(of('{"content":"a","n":1}')?.textOf('{"content":"b","c":"","n":1}')).toBeUndefined()
  expect(of('{"content":"a"}')?.textOf('{"content":"a')).toBeUndefined()
  // The last one of a name counts, and a name may be within another object or text.
  expect(of('{"content":"a","content":"b"}')).toBeUndefined()
  expect(of('{"a":{"content":"b"},"content":"c"}')).toBeUndefined()
  expect(of('{"x\\"content":"a","content":"c"}')).toBeUndefined()
})

test('a frame of a long chunk does not keep the chunk in memory', () => {
  const memory = (): number => {
    Bun.gc(true)
    return heapStats().extraMemorySize
  }
  const data = '{"choices":[{"delta":{"content":"one"}}]}'
  const before = memory()
  const frames = Array.from({ length: 50 }, () => {
    const chunk = Buffer.from(`data: ${data}\n\n`.repeat(5_000)).toString()
    return RepeatedFrame.of(chunk.slice(6, 6 + data.length), 'content', () => 'a text that no provider sends')
  })
  expect((memory() - before) / frames.length).toBeLessThan(20_000)
  for (const frame of frames) expect(frame?.textOf(data.replace('one', 'two'))).toBe('two')
})
