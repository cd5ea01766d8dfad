import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { checkJson, elements, members, replaceAt, splice, stringifyAs, type JsonPath } from '../../src/json/text.ts'

/** Prints JSON the way providers do: with spaces and line breaks where the grammar allows them. */
const spaced = (value: unknown, space: string): string => JSON.stringify(value, null, space)

const objects = fc.dictionary(fc.string(), fc.jsonValue())
const spaces = fc.constantFrom('', ' ', '  ', '\t')

describe('members', () => {
  test('finds every member of any object with its value', () => {
    fc.assert(
      fc.property(objects, spaces, (object, space) => {
        const text = spaced(object, space)
        const found = members(text)
        expect(found.map(({ key }) => key)).toEqual(Object.keys(object))
        for (const { key, start, end } of found)
          expect(JSON.parse(text.slice(start, end))).toEqual(JSON.parse(JSON.stringify(object[key])))
      }),
    )
  })

  test('finds the members of an object inside another', () => {
    const text = '{"a": [1, {"b": "}"}], "response" : {"id": "x\\"}", "n": 1}}'
    const { start } = members(text)[1]!
    expect(members(text, start).map(({ key, start, end }) => [key, text.slice(start, end)])).toEqual([
      ['id', '"x\\"}"'],
      ['n', '1'],
    ])
  })
})

test('elements finds every element of any array, and nothing in what is no array', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), spaces, (array, space) => {
      const text = spaced(array, space)
      expect(elements(text)!.map(([start, end]) => JSON.parse(text.slice(start, end)))).toEqual(
        JSON.parse(JSON.stringify(array)),
      )
    }),
  )
  expect(elements('{"a":[1]}')).toBeUndefined()
})

describe('splice', () => {
  test('equals parse, change and print for any object and any changes', () => {
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

  test('equals parse, change and print for any value and any paths that do not lead through each other', () => {
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

  test('counts the last of a name given twice, reads escapes in names, and refuses a path that leads nowhere', () => {
    expect(replaceAt('{"a":{"x" : 1,"x": 2 }}', [{ path: ['a', 'x'], value: '3' }])).toBe('{"a":{"x" : 1,"x": 3 }}')
    expect(replaceAt('{"\\u0061":[ 1 ,2]}', [{ path: ['a', 1], value: '"b"' }])).toBe('{"\\u0061":[ 1 ,"b"]}')
    expect(replaceAt(' [1] ', [{ path: [], value: '2' }])).toBe('2')
    for (const path of [['b'], ['a', 0], ['a', 'x', 'y']])
      expect(() => replaceAt('{"a":{"x":1}}', [{ path, value: '1' }])).toThrow('nothing stands')
  })
})

describe('checkJson', () => {
  test('accepts what is fine', () => {
    fc.assert(fc.property(objects, (object) => expect(checkJson(JSON.stringify(object))).toBeUndefined()))
  })

  test('refuses nesting that would exhaust a stack, in time', () => {
    expect(checkJson('['.repeat(64) + ']'.repeat(64))).toBeUndefined()
    expect(checkJson('['.repeat(65) + ']'.repeat(65))).toContain('64 levels')
    expect(checkJson('{"a":'.repeat(1_000_000))).toContain('64 levels')
    for (const text of ['{"a\\x":1}', '{"a\\', '{"\\u12":', ']]{"a":1}']) expect(checkJson(text)).toBeUndefined()
    expect(checkJson(`{"text":"${'['.repeat(100)}"}`)).toBeUndefined()
  })

  test('accepts any value, however its objects are nested and spaced', () => {
    fc.assert(
      fc.property(fc.jsonValue(), spaces, (value, space) => {
        expect(checkJson(spaced(value, space))).toBeUndefined()
      }),
    )
    for (const text of [
      '{"a":{"a":1},"x":[{"a":1},{"a":"a"}]}',
      '["a","a"]',
      '{"x":"a","y":"a","a":1}',
      '{"a":["a","a",{"a":1}],"x":{"a":1}}',
    ])
      expect(checkJson(text)).toBeUndefined()
  })

  test('refuses a name given twice in any object, also in another spelling', () => {
    for (const text of [
      '{"a":1,"a":2}',
      '[[{"x":{"y":[1,{"z":"a"}], "a" : {"a":1},"\\u0061":null}}]]',
      '{"a":{"x":[1,2]},"z":"}","a":1}',
      '{"model":{"mod\\u0065l":1,"a":"a","\\u0061":"b"}}',
    ]) {
      expect(checkJson(text)).toBe("must not name 'a' twice in one object")
    }
  })

  test('counts names, and finds one again among many', () => {
    const text = (names: number, more = ''): string =>
      `{${Array.from({ length: names }, (_, index) => `"${index}":1`).join()}${more}}`
    for (const names of [1, 14, 15, 16, 17, 100]) {
      expect(checkJson(text(names))).toBeUndefined()
      for (const again of [0, names - 1])
        expect(checkJson(`[${text(names, `,"${again}":1`)}]`)).toContain(`'${again}' twice`)
    }
    expect(checkJson(text(10_000))).toBeUndefined()
    expect(checkJson(text(10_001))).toContain('10000 members')
    expect(checkJson(`[${text(10_001)}]`)).toBeUndefined()
  })
})

test('integers that doubles round are written as their source spells them, and two that round alike as they are', () => {
  const source =
    '{"a": 12345678901234567890, "b": [-9223372036854775807], "c": "12345678901234567890", "d": 9007199254740993, "e": 9007199254740992}'
  expect(stringifyAs(source, JSON.parse(source))).toBe(
    '{"a":12345678901234567890,"b":[-9223372036854775807],"c":"12345678901234567890","d":9007199254740992,"e":9007199254740992}',
  )
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(stringifyAs(JSON.stringify(value), value)).toBe(JSON.stringify(value))
    }),
  )
})
