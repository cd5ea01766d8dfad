import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BodyScan, scanBody, Watched } from '../../src/json/body-scan.ts'
import { SOURCE_SHA256 } from '../../src/json/body-scan.wasm.ts'
import { isObject, tryParse } from '../../src/json/parse.ts'
import type { BodyLimits } from '../../src/json/weight.ts'
import { checkJson, elements, members } from '../../src/json/scan.ts'
import { LIMITS } from './limits.ts'

const scan = (text: string): BodyScan | undefined => scanBody(Buffer.from(text), LIMITS) as BodyScan | undefined

/** The verdict without the scan: a JSON object without duplicate names, and not too deep. */
const isAcceptable = (text: string): boolean => checkJson(text) === undefined && isObject(tryParse(text))

/** The scan leaves names with escapes, and objects with very many names, to `checkJson`. */
const hasPlainNames = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.every(hasPlainNames)
    : !isObject(value) ||
      (Object.keys(value).length <= 64 &&
        Object.entries(value).every(([name, member]) => JSON.stringify(name) === `"${name}"` && hasPlainNames(member)))

const countOf = (value: unknown): number =>
  1 +
  (typeof value === 'object' && value !== null ? Object.values(value).reduce((sum, one) => sum + countOf(one), 0) : 0)

function expectSameVerdict(text: string): void {
  const found = scan(text)
  const acceptable = isAcceptable(text)
  if (found !== undefined && !acceptable) throw new Error(`accepted: ${text}`)
  if (!acceptable) return
  const value = JSON.parse(text) as Record<string, unknown>
  // A name may be spelled with an escape that it does not need.
  if (found === undefined && hasPlainNames(value) && !text.includes('\\')) throw new Error(`not judged: ${text}`)
  if (found === undefined) return
  expect(found.elements).toBe(countOf(value))
  const expected = members(text).map(({ key, nameAt, start, end }) => ({
    name: key,
    nameAt,
    start,
    end,
    elements: elements(text, start)?.length ?? members(text, start).length,
    first: text[start]!,
  }))
  expect(found.members as unknown).toEqual(expected)
}

/** JSON texts of all kinds, with whitespace and numbers in many spellings. */
const json = fc
  .tuple(
    fc.dictionary(fc.string({ maxLength: 20 }), fc.jsonValue({ maxDepth: 5 }), { maxKeys: 12 }),
    fc.constantFrom(undefined, 1, '\t', '\r\n  '),
  )
  .map(([value, indent]) => {
    const text = JSON.stringify(value, null, typeof indent === 'string' ? '\t' : indent)
    return indent === '\r\n  ' ? text.replaceAll('\n', '\r\n') : text
  })

/** Pieces that break a text, or nearly do. */
const PIECES = [
  '"',
  '\\',
  '\\u00e9',
  '\\u00',
  '\\x',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '0',
  '01',
  '-',
  '.',
  '1e',
  'E+5',
  ' ',
].concat([
  '\n',
  '\t',
  '\0',
  '\u007f',
  'true',
  'nul',
  'null',
  '"a":',
  '"a":1,',
  ',"a":1',
  '\\"',
  '\\\\',
  '/',
  '+',
  '\u00e9',
])

type Change = { at: number; cut: number; piece: string }
const change = fc.record({ at: fc.nat(), cut: fc.nat({ max: 3 }), piece: fc.constantFrom('', ...PIECES) })

const changed = (text: string, changes: readonly Change[]): string =>
  changes.reduce((now, { at, cut, piece }) => {
    const from = at % (now.length + 1)
    return (now.slice(0, from) + piece + now.slice(from + cut)).toWellFormed()
  }, text)

describe('scanBody', () => {
  test('the compiled scan is that of its source', () => {
    const hash = new Bun.CryptoHasher('sha256')
    for (const name of ['body-scan', 'body-tokens'])
      hash.update(readFileSync(join(import.meta.dir, `../../src/json/${name}.as.ts`)))
    expect(hash.digest('hex')).toBe(SOURCE_SHA256)
  })

  test('100,000 texts, whole and broken, get the same verdict as from JSON.parse and checkJson', () => {
    fc.assert(
      fc.property(
        json,
        fc.array(fc.array(change, { minLength: 1, maxLength: 3 }), { minLength: 49, maxLength: 49 }),
        (text, all) => {
          // Offsets are those of ASCII text: the same in bytes and characters.
          const ascii = text.replace(/[^\x00-\x7f]/g, '?')
          expectSameVerdict(ascii)
          for (const changes of all) expectSameVerdict(changed(ascii, changes).replace(/[^\x00-\x7f]/g, '?'))
        },
      ),
      { numRuns: 2_000 },
    )
  }, 60_000)

  test('members are found by their bytes in a text that is not ASCII', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 8 }), fc.jsonValue()), (object) => {
        const value = JSON.parse(JSON.stringify(object)) as Record<string, unknown>
        const bytes = Buffer.from(JSON.stringify(value))
        const found = scanBody(bytes, LIMITS) as BodyScan | undefined
        fc.pre(found !== undefined)
        const read = found!.members.map(({ name, start, end }) => [
          name,
          JSON.parse(bytes.toString('utf8', start, end)),
        ])
        expect(Object.fromEntries(read)).toEqual(value)
      }),
    )
  })

  const refused: [string, string][] = [
    ['an empty text', ''],
    ['an array', '[]'],
    ['a string', '"a"'],
    ['a name twice', '{"a":1,"b":{"a":2},"a":3}'],
    ['a name twice, once with an escape', '{"a":1,"\\u0061":3}'],
    ['65 levels', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`],
    ['text behind the object', '{} {}'],
    ['a zero byte', '{"a":"\0"}'],
    ['an unfinished string', '{"a":"'],
    ['an unfinished escape', '{"a":"\\'],
  ]
  for (const [what, text] of refused) test(`${what} is not accepted`, () => expect(scan(text)).toBeUndefined())

  test('64 levels are accepted', () => {
    expect(scan(`{"a":${'['.repeat(63)}${']'.repeat(63)}}`)).toBeDefined()
  })

  test('a long array has the spans of its elements', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.jsonValue()), { minLength: 1, maxLength: 4 }), fc.nat(3), (arrays, long) => {
        const value = Object.fromEntries(arrays.map((array, index) => [`a${index}`, array]))
        if (long < arrays.length) arrays[long]!.push('x'.repeat(5000), [[]], { a: [1] })
        const text = JSON.stringify(value, null, 1)
        for (const { name, start, spans } of scan(text)?.members ?? []) {
          if (name !== `a${long}`) continue
          expect(spans).toEqual(new Uint32Array(elements(text, start)!.flat()))
        }
      }),
    )
  })

  test('one body after another leaves nothing behind', () => {
    expect(scan('{"messages":[{"cache_control":{"ttl":"1h"}}],"tools":[{"type":"x"}]}')).toBeDefined()
    expect(scan('{"a":1}')).toMatchObject({ elements: 2, seen: 0, seenInTools: 0, values: 0 })
  })

  test('names are watched everywhere but in the schemas of tools', () => {
    const seen = (value: object): number => scan(JSON.stringify(value))!.seen
    expect(seen({ messages: [{ content: [{ source: {} }] }] })).toBe(Watched.media)
    expect(seen({ messages: [{ content: [{ text: 'source' }] }] })).toBe(0)
    const schema = { properties: { source: { cache_control: 1 } } }
    const found = scan(JSON.stringify({ tools: [{ type: 'function', function: { name: 'f', parameters: schema } }] }))!
    expect(found.seen).toBe(Watched.tools)
    expect(found.seenInTools & (Watched.media | Watched.cacheControl)).toBe(0)
    expect(found.values).toBe(Watched.function)
  })

  test('another type or another name of a tool is reported', () => {
    const ofTool = (tool: object): BodyScan => scan(JSON.stringify({ tools: [tool] }))!
    expect(ofTool({ type: 'web_search' }).values & Watched.other).not.toBe(0)
    expect(ofTool({ type: ['function'] }).values & Watched.other).not.toBe(0)
    expect(ofTool({ googleSearch: {} }).seenInTools & Watched.other).not.toBe(0)
    expect(ofTool({ functionDeclarations: [] }).seenInTools & Watched.other).toBe(0)
  })

  test('the lifetime of a cache breakpoint is reported', () => {
    const values = (ttl: unknown): number =>
      scan(JSON.stringify({ system: [{ cache_control: { type: 'ephemeral', ttl } }] }))!.values
    expect(values('1h')).toBe(Watched.oneHour)
    expect(values('5m')).toBe(0)
  })

  const within = (text: string, limits: Partial<BodyLimits>): unknown =>
    scanBody(Buffer.from(text), { ...LIMITS, ...limits })

  test('values are counted, up to where a body is invalid or cannot be judged', () => {
    const many = Array.from({ length: 100 }, (_, index) => ({ [`n${index}`]: [] }))
    for (const text of [
      JSON.stringify({ a: many }),
      `{"\\u0061":1,"a":${JSON.stringify(many)}}`,
      JSON.stringify({ ...Object.fromEntries(many.keys().map((n) => [n, n])), a: many }),
      `{"a":${JSON.stringify(many)},"a":1}`,
      `{"a":${JSON.stringify(many)}, oops`,
    ]) {
      expect(within(text, { elements: 200 })).toMatch(/^must have at most 200 values, not \d+ \(limits.elements\)$/)
      expect(within(text, { elements: 1_000 })).not.toBeString()
    }
  })

  test('parts of a conversation are the objects in its arrays, down to the content of tool results', () => {
    const text = { type: 'text', text: 'a' }
    const result = { type: 'tool_result', content: [text, text] }
    const call = { type: 'tool_use', input: { list: [{}, {}, {}] } }
    const body = JSON.stringify({
      system: [text],
      messages: [{ content: [result, call] }, { content: 'a', tool_calls: [{ id: 'a' }] }],
      tools: [{ a: [{}] }],
    })
    expect(within(body, { parts: 7 })).toBe(
      'must have at most 7 messages, parts, items and calls together, not 8 (limits.parts)',
    )
    expect(within(body, { parts: 8 })).toBeObject()
  })

  test('commas in texts that begin like an object are counted', () => {
    const commas = fc.integer({ min: 0, max: 40 })
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('', ' ', 'x', '['), fc.string(), commas)), (texts) => {
        const written = texts.map(
          ([begin, text, count]) => `${begin}{"${text.replaceAll(',', '')}"${','.repeat(count)}}`,
        )
        const expected = texts.reduce((sum, [begin, , count]) => sum + (begin.trim() === '' ? count : 0), 0)
        expect(scan(JSON.stringify({ a: written, 'x,': '[,,,,,,,,,,]' }))?.embedded).toBe(expected)
      }),
    )
  })

  test('tools are counted with the functions in them, without their schemas', () => {
    const tool = { input_schema: { anyOf: [{}, {}, {}] } }
    const group = { functionDeclarations: [{ parameters: { anyOf: [{}, {}] } }, {}] }
    const body = JSON.stringify({ tools: [tool, group] })
    expect(within(body, { tools: 3 })).toBe('must have at most 3 tools, not 4 (limits.tools)')
    expect(within(body, { tools: 4 })).toBeObject()
    expect(within(body.replace('"tools"', '"t\\u006fols"'), { tools: 3 })).toContain('limits.tools')
  })

  test('an object with very many members is refused', () => {
    const withMembers = (count: number): string =>
      JSON.stringify({ a: [Object.fromEntries(Array.from({ length: count }, (_, n) => [n, n]))] })
    expect(within(withMembers(10_000), {})).toBeUndefined()
    expect(within(withMembers(10_001), {})).toBe('must have at most 10000 members in one object, not 10001')
  })

  test('levels are limited by the setting', () => {
    const deep = (levels: number): string => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`
    for (const depth of [16, 64, 256]) {
      expect(within(deep(depth), { depth })).toBeObject()
      expect(within(deep(depth + 1), { depth })).toBeUndefined()
      expect(checkJson(deep(depth), depth)).toBeUndefined()
      expect(checkJson(deep(depth + 1), depth)).toBe(`must not be nested deeper than ${depth} levels (limits.depth)`)
    }
  })

  test('objects with many names in many levels are left to the other check', () => {
    const names = Object.fromEntries(Array.from({ length: 127 }, (_, n) => [`n${n}`, n]))
    let value: object = {}
    for (let level = 0; level < 254; level++) value = { ...names, value }
    expect(within(JSON.stringify({ value }), { depth: 256 })).toBeUndefined()
    expect(checkJson(JSON.stringify({ value }), 256)).toBeUndefined()
  })

  test('a long body is scanned in slices between which others run, with the same result', async () => {
    const value = {
      messages: Array.from({ length: 200_000 }, (_, i) => ({ role: 'user', content: `${i} "quoted"\n` })),
    }
    const text = JSON.stringify(value)
    let turns = 0
    const timer = setInterval(() => turns++, 0)
    const scanning = scanBody(Buffer.from(text), LIMITS)
    expect(scanning).toBeInstanceOf(Promise)
    const found = (await scanning) as BodyScan
    clearInterval(timer)
    expect(turns).toBeGreaterThan(0)
    expect(found.elements).toBe(countOf(value))
    // More elements than have spans.
    expect(found.members).toEqual([
      { name: 'messages', nameAt: 1, start: 12, end: text.length - 1, elements: 200_000, first: '[' },
    ])
    expect(await scanBody(Buffer.from(text.slice(0, -1)), LIMITS)).toBeUndefined()
  })
})
