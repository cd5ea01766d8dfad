import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { checkJson, elements, JsonEnd, members } from '../../src/json/scan.ts'
import { objects, spaced, spaces } from './spaced.ts'

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

test('elements finds every element of an array, and is undefined for anything else', () => {
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

describe('checkJson', () => {
  test('accepts any object', () => {
    fc.assert(fc.property(objects, (object) => expect(checkJson(JSON.stringify(object))).toBeUndefined()))
  })

  test('refuses nesting deeper than 64 levels without walking the rest', () => {
    expect(checkJson('['.repeat(64) + ']'.repeat(64))).toBeUndefined()
    expect(checkJson('['.repeat(65) + ']'.repeat(65))).toContain('64 levels')
    expect(checkJson('{"a":'.repeat(1_000_000))).toContain('64 levels')
    for (const text of ['{"a\\x":1}', '{"a\\', '{"\\u12":', ']]{"a":1}']) expect(checkJson(text)).toBeUndefined()
    expect(checkJson(`{"text":"${'['.repeat(100)}"}`)).toBeUndefined()
  })

  test('accepts a name that is repeated in different objects, and any spacing', () => {
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

  test('refuses a duplicate name in any object, also if it is spelled with escapes', () => {
    for (const text of [
      '{"a":1,"a":2}',
      '[[{"x":{"y":[1,{"z":"a"}], "a" : {"a":1},"\\u0061":null}}]]',
      '{"a":{"x":[1,2]},"z":"}","a":1}',
      '{"model":{"mod\\u0065l":1,"a":"a","\\u0061":"b"}}',
    ]) {
      expect(checkJson(text)).toBe("must not contain the member 'a' twice in one object")
    }
  })

  test('finds a duplicate among many names, and limits the members of an object to 10000', () => {
    const text = (names: number, more = ''): string =>
      `{${Array.from({ length: names }, (_, index) => `"${index}":1`).join()}${more}}`
    for (const names of [1, 14, 15, 16, 17, 100]) {
      expect(checkJson(text(names))).toBeUndefined()
      for (const again of [0, names - 1])
        expect(checkJson(`[${text(names, `,"${again}":1`)}]`)).toContain(`'${again}' twice`)
    }
    expect(checkJson(text(10_000))).toBeUndefined()
    expect(checkJson(text(10_001))).toContain('10000 members')
    expect(checkJson(`[${text(10_000)},${text(10_001)}]`)).toContain('10000 members')
  })
})

describe('JsonEnd', () => {
  test('finds the end of any object or array at whatever offsets its text is cut', () => {
    const containers = fc.oneof(fc.array(fc.jsonValue()), objects)
    fc.assert(
      fc.property(
        containers,
        spaces,
        fc.array(fc.nat(), { maxLength: 5 }),
        fc.string(),
        (value, space, cuts, after) => {
          const json = ` ${spaced(value, space)}`
          const text = json + after
          const bounds = [0, ...cuts.map((cut) => cut % text.length).toSorted((a, b) => a - b), text.length]
          const end = new JsonEnd()
          let at: number | undefined
          for (const [index, from] of bounds.slice(0, -1).entries()) {
            const found = end.add(text.slice(from, bounds[index + 1]))
            if (found !== undefined) at = from + found
            expect(end.complete).toBe(at !== undefined)
          }
          expect(at).toBe(json.length)
        },
      ),
    )
  })

  test('is not complete before the last bracket, and ignores brackets in strings', () => {
    const end = new JsonEnd()
    for (const piece of ['  ', '{"a', '": "}', '\\', '"}', '"'])
      expect([end.add(piece), end.complete]).toEqual([undefined, false])
    expect([end.add(' } {'), end.complete]).toEqual([2, true])
    expect(end.add('}')).toBeUndefined()
  })

  test('may start inside an object', () => {
    const end = new JsonEnd(1)
    expect(end.add('{"x":[1]} ')).toBeUndefined()
    expect(end.add(' }')).toBe(2)
  })
})
