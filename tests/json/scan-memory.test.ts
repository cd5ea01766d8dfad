import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type BodyScan, scanBody } from '../../src/json/body-scan.ts'
import { ScanMemory } from '../../src/json/scan-memory.ts'
import { LIMITS } from './limits.ts'

const FILL = 'x'.repeat(5_000)

const message = fc.oneof(
  fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.constantFrom('a', 'é"\\', FILL) }),
  fc.record({ content: fc.array(fc.record({ type: fc.constant('image_url'), image_url: fc.string() })) }),
  fc.record({ data: fc.jsonValue(), ttl: fc.constantFrom('1h', '5m'), cache_control: fc.object() }),
  fc.jsonValue({ maxDepth: 4 }),
  fc.constantFrom(1, 12345678901234567890, '', [], {}),
)

const tool = fc.record({
  type: fc.constantFrom('function', 'web_search'),
  name: fc.string(),
  parameters: fc.jsonValue(),
})

/** Texts put behind the last element that a body had: most of them are wrong, or end the array. */
const inserted = fc.constantFrom(
  '',
  ' ',
  ',',
  '3',
  'e5',
  '.5',
  ']',
  '}',
  ',1',
  ', 2 ',
  ',"file_id"',
  ',{"file_id":1}',
  ',{"a":1,"a":2}',
  ',{"\\u0061":1}',
  `,${'['.repeat(70)}${']'.repeat(70)}`,
  '],"other":[1',
  '],"model":[1',
  '],"other":{"messages":[1',
  ',{"x":[',
  '"',
  ',"',
)

/** Mostly the first of two. */
const seldom = <A, B>(usual: A, other: fc.Arbitrary<B>) =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: other })

/** A request: how much it keeps of the one before, what it adds, and a text put behind its messages. */
const step = fc.record({
  owner: seldom('a', fc.constant('b')),
  keep: seldom(50, fc.nat(6)),
  add: fc.oneof(fc.array(message, { maxLength: 4 }), fc.constantFrom([1], [])),
  insert: seldom('', inserted),
  tools: seldom(undefined, fc.array(tool, { maxLength: 3 })),
  /** Changes that keep the length. */
  file: seldom('file_id', fc.constant('file_ie')),
  stream: seldom(true, fc.constant(null)),
  system: seldom('', fc.constant(FILL)),
  space: seldom('', fc.constant(' \n')),
})

describe('ScanMemory', () => {
  test('bodies are scanned as by scanBody, whatever was remembered before', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 4, maxLength: 16 }),
        fc.constantFrom(60_000, 1e9),
        fc.constantFrom('messages', 'tools'),
        (steps, limit, name) => {
          const memory = new ScanMemory(limit)
          let messages: unknown[] = [FILL, FILL, FILL, FILL]
          let others: unknown[] = []
          for (const { owner, keep, add, insert, tools, file, stream, system, space } of steps) {
            messages = [...messages.slice(0, keep), ...add]
            others = tools ?? others
            const all = [...messages.slice(0, 1), { [file]: 1 }, ...messages.slice(1)]
            const other = name === 'tools' ? 'input' : 'tools'
            const begin = `{"model":"m","${other}":${JSON.stringify(others)},"${name}":${space}`
            const end = `${space}],"system":["${system}"],"stream":${stream}${space}}`
            const bytes = Buffer.from(begin + JSON.stringify(all).slice(0, -1) + insert + end)
            expect(memory.scan(owner, bytes, LIMITS)).toEqual(scanBody(bytes, LIMITS) as never)
            expect(memory.bytes).toBeLessThanOrEqual(limit)
          }
        },
      ),
      { numRuns: 500 },
    )
  })

  const body = (elements: number, more = ''): Buffer =>
    Buffer.from(`{"messages":[${Array.from({ length: elements }, () => '{"content":"Some text."}').join(',')}${more}]}`)

  /** The result for a body after others of the same owner. */
  const last = (bodies: readonly Buffer[], limits = LIMITS) => {
    const memory = new ScanMemory(1e9)
    return bodies.map((bytes) => memory.scan('a', bytes, limits)).at(-1)
  }

  test('of a body that grows in any of its long arrays only the new elements are scanned', () => {
    const arrayOf = (elements: number): string => JSON.stringify(Array.from({ length: elements }, () => FILL))
    const bodies = (grow: (elements: number) => string): Buffer[] => [5, 6, 7].map((n) => Buffer.from(grow(n)))
    const grown = [
      bodies((n) => `{"model":"m","messages":${arrayOf(n)},"tools":${arrayOf(9)}}`),
      bodies((n) => `{"model":"m","tools":${arrayOf(9)},"messages":${arrayOf(n)}}`),
      bodies((n) => `{"model":"m","messages":${arrayOf(n)},"tools":[]}`),
    ]
    for (const [first, second, third] of grown) {
      const memory = new ScanMemory(1e9)
      const scanned = [first!, second!, third!].map((bytes) => memory.scan('a', bytes, LIMITS) as BodyScan)
      expect(scanned[2]).toEqual(scanBody(third!, LIMITS) as BodyScan)
      // A scan of all bytes makes all members anew.
      expect(scanned[1]!.members[0]).not.toBe(scanned[0]!.members[0]!)
      expect(scanned[2]!.members[0]).toBe(scanned[1]!.members[0]!)
    }
  })

  test('a body with very many long arrays, or long names of them, is not remembered', () => {
    const filled = JSON.stringify([FILL])
    const named = (name: (index: number) => string, arrays: number): Buffer =>
      Buffer.from(`{${Array.from({ length: arrays }, (_, index) => `"${name(index)}":${filled}`)}}`)
    const remembered = (bytes: Buffer): number => {
      const memory = new ScanMemory(1e9)
      for (const owner of ['a', 'a']) memory.scan(owner, bytes, LIMITS)
      return memory.bytes
    }
    expect(remembered(named(String, 8))).toBeGreaterThan(0)
    expect(remembered(named(String, 9))).toBe(0)
    expect(remembered(named((index) => 'n'.repeat(65) + index, 4))).toBe(0)
  })

  test('limits count what was known, too', () => {
    const limits = { ...LIMITS, parts: 1_000, elements: 2_101 }
    const bodies = [990, 995, 1_000, 1_001].map((elements) => body(elements))
    expect(typeof last(bodies.slice(0, 3), limits)).toBe('object')
    expect(last(bodies, limits)).toContain('limits.parts')
    expect(last([...bodies.slice(0, 3), body(1_000, ',1'.repeat(100))], limits)).toContain('limits.elements')
  })

  test('a lower limit of depth holds for what was known', () => {
    const memory = new ScanMemory(1e9)
    const deep = (elements: number): Buffer => Buffer.from(body(elements).toString().replace('[', '[[[[[1]]]],'))
    for (const elements of [990, 995]) memory.scan('a', deep(elements), LIMITS)
    expect(memory.scan('a', deep(1_000), { ...LIMITS, depth: 4 })).toBeUndefined()
  })

  test('arrays with very many elements have no spans, as without the memory', () => {
    for (const count of [8_192, 8_193, 17_000]) {
      const bodies = [8_190, 8_191, count].map((elements) => body(elements))
      expect(last(bodies)).toEqual(scanBody(bodies.at(-1)!, LIMITS) as never)
    }
  })
})
