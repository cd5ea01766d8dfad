import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { applyEdits, type Edit, type JsonPath, replaceAt, splice } from '../../src/json/edit.ts'
import { objects, spaced, spaces } from './spaced.ts'

describe('splice', () => {
  test('equals parsing, changing and printing, for any object and any changes', () => {
    const changes = fc.dictionary(
      fc.constantFrom('a', 'b', 'model', 'new'),
      fc.option(fc.jsonValue(), { nil: undefined }),
    )
    const withKnown = fc
      .tuple(objects, fc.record({ a: fc.jsonValue(), b: fc.jsonValue(), model: fc.string() }, { requiredKeys: [] }))
      .map(([x, y]) => ({ ...x, ...y }))
    fc.assert(
      fc.property(withKnown, changes, spaces, (object, change, space) => {
        const expected: Record<string, unknown> = JSON.parse(JSON.stringify(object))
        for (const [key, value] of Object.entries(change)) {
          if (value === undefined) delete expected[key]
          else expected[key] = JSON.parse(JSON.stringify(value))
        }
        const texts = Object.fromEntries(
          Object.entries(change).map(([key, value]) => [key, value === undefined ? undefined : JSON.stringify(value)]),
        )
        expect(JSON.parse(splice(spaced(object, space), texts))).toEqual(expected)
      }),
      { numRuns: 500 },
    )
  })

  test('removes leading members, alone and together', () => {
    expect(splice('{"a":1,"b":2,"c":3}', { a: undefined, b: undefined })).toBe('{"c":3}')
    expect(splice('{"a":1}', { a: undefined })).toBe('{}')
    expect(splice('{ "a" : 1 , "b" : 2 }', { a: undefined, x: 'true' })).toBe('{"x":true, "b" : 2 }')
  })

  test('leaves every other byte as it was', () => {
    expect(splice('{ "seed": 9007199254740993, "model" : "a", "x":1.0 }', { model: '"b"' })).toBe(
      '{ "seed": 9007199254740993, "model" : "b", "x":1.0 }',
    )
  })
})

describe('replaceAt', () => {
  type Step = string | number
  /** Every path of a value, the outermost first. */
  const pathsOf = (value: unknown, at: JsonPath = []): JsonPath[] =>
    typeof value !== 'object' || value === null
      ? [at]
      : [
          at,
          ...Object.keys(value).flatMap((key) =>
            pathsOf((value as Record<Step, unknown>)[key], [...at, Array.isArray(value) ? Number(key) : key]),
          ),
        ]
  const within = (path: JsonPath, other: JsonPath): boolean => path.every((step, index) => step === other[index])
  const put = (value: unknown, path: JsonPath, leaf: unknown): unknown => {
    if (path.length === 0) return leaf
    const copy = Array.isArray(value) ? [...value] : Object.assign(Object.create(null), value)
    copy[path[0]!] = put(copy[path[0]!], path.slice(1), leaf)
    return copy
  }
  const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
  /** Numbers that a double cannot hold, in a text: strings of a mark are printed as such numbers. */
  const withBigNumbers = (text: string): string =>
    text.replace(/"big(\d+)"/g, (_, digits: string) => `9007199254740993${digits}.10e0`)
  const value = fc.jsonValue({ maxDepth: 4 }).map(plain)

  test('equals parsing, changing and printing, for any value and any separate paths', () => {
    fc.assert(
      fc.property(
        value,
        fc.array(fc.nat(), { maxLength: 4 }),
        fc.array(value, { minLength: 4, maxLength: 4 }),
        spaces,
        (before, picks, leaves, space) => {
          const all = pathsOf(before)
          const paths = picks
            .map((pick) => all[pick % all.length]!)
            .filter(
              (path, index, chosen) =>
                !chosen.some(
                  (other, at) => at !== index && within(other, path) && (at < index || !within(path, other)),
                ),
            )
          const expected = paths.reduce((sum, path, index) => put(sum, path, leaves[index]), before)
          const after = replaceAt(
            spaced(before, space),
            paths.map((path, index) => ({ path, value: JSON.stringify(leaves[index]) })),
          )
          expect(plain(JSON.parse(after))).toEqual(plain(expected))
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('leaves every other byte as it was', () => {
    const holes = fc.array(
      fc.oneof(
        fc.constant('HOLE'),
        value,
        fc.nat().map((n) => `big${n}`),
      ),
      { minLength: 1 },
    )
    fc.assert(
      fc.property(holes, fc.dictionary(fc.string(), value), spaces, (array, object, space) => {
        const text = withBigNumbers(spaced({ ...object, 'a.b[0] "': array }, space))
        const paths = array.flatMap((element, index): JsonPath[] => (element === 'HOLE' ? [['a.b[0] "', index]] : []))
        const [head, ...rest] = text.split('"HOLE"')
        fc.pre(rest.length === paths.length)
        expect(
          replaceAt(
            text,
            paths.map((path) => ({ path, value: '{"in": 1.0}' })),
          ),
        ).toBe([head, ...rest].join('{"in": 1.0}'))
      }),
      { numRuns: 500 },
    )
  })

  test('replaces the last of a duplicate name, decodes escapes, and throws for a path that does not exist', () => {
    expect(replaceAt('{"a":{"x" : 1,"x": 2 }}', [{ path: ['a', 'x'], value: '3' }])).toBe('{"a":{"x" : 1,"x": 3 }}')
    expect(replaceAt('{"\\u0061":[ 1 ,2]}', [{ path: ['a', 1], value: '"b"' }])).toBe('{"\\u0061":[ 1 ,"b"]}')
    expect(replaceAt(' [1] ', [{ path: [], value: '2' }])).toBe('2')
    for (const path of [['b'], ['a', 0], ['a', 'x', 'y']])
      expect(() => replaceAt('{"a":{"x":1}}', [{ path, value: '1' }])).toThrow('there is nothing at')
  })
})

describe('applyEdits', () => {
  const BODY = '{"messages": [ {"content":[1, 2,3]} , {"content": []}], "n": 1.0}'

  test.each<[string, Edit[], string]>([
    ['changes nothing without edits', [], BODY],
    [
      'replaces a value',
      [{ path: ['messages', 0, 'content', 1], op: 'replace', value: '"x"' }],
      BODY.replace('2', '"x"'),
    ],
    ['replaces the whole text', [{ path: [], op: 'replace', value: 'null' }], 'null'],
    [
      'inserts a new member',
      [{ path: ['messages', 0, 'role'], op: 'insert', value: '"user"' }],
      BODY.replace('{"content":[1', '{"role":"user","content":[1'),
    ],
    ['inserts over a member that exists', [{ path: ['n'], op: 'insert', value: '2' }], BODY.replace('1.0', '2')],
    [
      'inserts before the first element',
      [{ path: ['messages', 0, 'content', 0], op: 'insert', value: '0' }],
      BODY.replace('[1', '[0,1'),
    ],
    [
      'inserts after the last element',
      [{ path: ['messages', 0, 'content', 3], op: 'insert', value: '4' }],
      BODY.replace('3]', '3,4]'),
    ],
    [
      'inserts into an empty array',
      [{ path: ['messages', 1, 'content', 0], op: 'insert', value: '4' }],
      BODY.replace('[]', '[4]'),
    ],
    ['removes the first element', [{ path: ['messages', 0, 'content', 0], op: 'remove' }], BODY.replace('1, ', '')],
    ['removes the last element', [{ path: ['messages', 0, 'content', 2], op: 'remove' }], BODY.replace(',3', '')],
    ['removes a member', [{ path: ['n'], op: 'remove' }], BODY.replace(', "n": 1.0', '')],
    ['ignores the removal of a missing member', [{ path: ['messages', 1, 'role'], op: 'remove' }], BODY],
    [
      'applies several edits at once',
      [
        { path: ['messages', 1], op: 'remove' },
        { path: ['messages', 0, 'content', 1], op: 'remove' },
        { path: ['messages', 0, 'content', 1], op: 'insert', value: '"a"' },
        { path: ['messages', 0, 'content', 1], op: 'insert', value: '"b"' },
        { path: ['messages', 0, 'content', 2], op: 'replace', value: '9' },
        { path: ['model'], op: 'insert', value: '"m"' },
      ],
      '{"model":"m","messages": [ {"content":[1, "a","b",9]}], "n": 1.0}',
    ],
  ])('%s, and leaves every other byte as it was', (_name, edits, expected) => {
    expect(applyEdits(BODY, edits)).toBe(expected)
  })

  test('equals editing the parsed array, for any array and any edits of its elements', () => {
    const edit = fc.record({
      op: fc.constantFrom('replace', 'insert', 'remove', 'inside', 'none'),
      value: fc.jsonValue(),
      more: fc.array(fc.nat(9), { maxLength: 2 }),
    })
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue()),
        fc.array(edit, { maxLength: 8 }),
        fc.array(fc.nat(9)),
        spaces,
        (plain, planned, appended, space) => {
          const array = plain.map((value) => [value])
          const edits: Edit[] = []
          const expected: unknown[] = []
          for (const [index, element] of array.entries()) {
            const { op, value, more } = planned[index] ?? { op: 'none', value: null, more: [] }
            const path = ['list', index]
            for (const one of more) edits.push({ path, op: 'insert', value: JSON.stringify(one) })
            expected.push(...more)
            if (op === 'replace') edits.push({ path, op, value: JSON.stringify(value) })
            else if (op === 'remove') edits.push({ path, op })
            else if (op === 'inside') edits.push({ path: [...path, 0], op: 'replace', value: JSON.stringify(value) })
            if (op !== 'remove') expected.push(op === 'replace' ? value : op === 'inside' ? [value] : element)
          }
          for (const one of appended) edits.push({ path: ['list', array.length], op: 'insert', value: String(one) })
          const after = applyEdits(spaced({ list: array }, space), edits)
          expect(JSON.parse(after)).toEqual(JSON.parse(JSON.stringify({ list: [...expected, ...appended] })))
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('equals splice, for any object and any members to set and to remove', () => {
    const names = fc.constantFrom('a', 'b', 'c', 'd')
    fc.assert(
      fc.property(
        fc.dictionary(names, fc.jsonValue()),
        fc.dictionary(names, fc.option(fc.jsonValue(), { nil: undefined })),
        spaces,
        (object, changes, space) => {
          const text = spaced(object, space)
          const texts = Object.entries(changes).map(
            ([name, value]) => [name, value === undefined ? undefined : JSON.stringify(value)] as const,
          )
          const edits = texts.map(
            ([name, value]): Edit =>
              value === undefined ? { path: [name], op: 'remove' } : { path: [name], op: 'insert', value },
          )
          const spliced: unknown = JSON.parse(splice(text, Object.fromEntries(texts)))
          expect(JSON.parse(applyEdits(text, edits))).toEqual(spliced)
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('removes every member of a duplicate name, and replaces the last one', () => {
    expect(applyEdits('{"a":1,"b":2,"a":3}', [{ path: ['a'], op: 'remove' }])).toBe('{"b":2}')
    expect(applyEdits('{"a":1,"b":2,"a":3}', [{ path: ['a'], op: 'replace', value: '4' }])).toBe('{"a":1,"b":2,"a":4}')
  })

  test.each<[string, Edit[], string]>([
    ['a member that does not exist', [{ path: ['x'], op: 'replace', value: '1' }], 'there is no member x'],
    ['a path through a missing member', [{ path: ['x', 0], op: 'insert', value: '1' }], 'there is no member x'],
    ['an index beyond the end', [{ path: ['messages', 3], op: 'insert', value: '1' }], 'there is no element 3'],
    ['a name in an array', [{ path: ['messages', 'x'], op: 'insert', value: '1' }], 'there is no element x'],
    ['removing the element after the last', [{ path: ['messages', 2], op: 'remove' }], 'there is no element 2'],
    ['removing the whole text', [{ path: [], op: 'remove' }], 'cannot remove the whole text'],
    [
      'an edit inside a removed value',
      [
        { path: ['messages', 0], op: 'remove' },
        { path: ['messages', 0, 'content'], op: 'replace', value: '1' },
      ],
      'has another edit at or inside it',
    ],
    [
      'an edit inside a replaced value',
      [
        { path: ['messages'], op: 'replace', value: '[]' },
        { path: ['messages', 0], op: 'remove' },
      ],
      'has another edit at or inside it',
    ],
  ])('throws for %s', (_name, edits, message) => {
    expect(() => applyEdits(BODY, edits)).toThrow(message)
  })
})
