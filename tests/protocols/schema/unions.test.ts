import { describe, expect, test } from 'bun:test'
import { intersectAll, Intersection } from '../../../src/protocols/schema/intersect.ts'
import { SchemaBudget } from '../../../src/protocols/schema/schema.ts'
import { anthropicResponse, anthropicTool, geminiTool, openaiTool, reasonsOf, refusalOf } from './targets.ts'

/** Unions in schemas for each provider. */

describe('unions', () => {
  const many = (length: number, one: (n: number) => object): object[] => Array.from({ length }, (_, n) => one(n))

  test('with too many branches to compare or join are reported', () => {
    const inside = (schema: object) => ({ type: 'object', properties: { a: schema } })
    const all = (length: number) => inside({ allOf: many(length, (n) => ({ properties: { [`p${n}`]: {} } })) })
    const one = (length: number) =>
      inside({ oneOf: many(length, (n) => ({ type: 'object', properties: { k: { const: n } }, required: ['k'] })) })
    const constants = (length: number) => inside({ oneOf: many(length, (n) => ({ const: `c${n}` })) })
    for (const schema of [all(3_000), one(150), constants(20_000)]) expect(geminiTool(schema).losses).toEqual([])
    expect(reasonsOf(geminiTool(all(100_000)))).toContain('allOf')
    expect(reasonsOf(geminiTool(one(1500)))).toContain('oneOf, which it reads as anyOf')
    expect(reasonsOf(geminiTool(inside({ oneOf: [{ const: 1 }, { enum: [2, 1] }] })))).toContain(
      'oneOf, which it reads as anyOf',
    )
  })

  test('of an allOf are joined in time in proportion to their number', () => {
    const steps: number[] = []
    for (const length of [500, 2_000]) {
      const budget = new SchemaBudget()
      let taken = 0
      const counting = {
        affords: (unit: 'steps' | 'characters', cost: number) => ((taken += cost), budget.affords(unit, cost)),
      }
      expect(
        intersectAll({}, many(length, (n) => ({ properties: { [`p${n}`]: {} } })) as never, counting as never),
      ).toBeDefined()
      steps.push(taken)
    }
    expect(steps[1]! / steps[0]!).toBeLessThan(5)
  })

  test('that cannot be joined leave what was joined before as it was', () => {
    const known = { a: { type: 'object', minProperties: 1, properties: { b: { minimum: 1 } } } }
    const all = new Intersection({ properties: known }, new SchemaBudget())
    const properties = { c: {}, a: { minProperties: 2, properties: { b: { minimum: 3, pattern: 'x' } }, pattern: 'y' } }
    expect(all.add({ required: ['z'], properties, type: 'object' })).toBe(true)
    const joined = JSON.stringify(all.schema)
    const other = { ...properties, a: { minProperties: 5, maxProperties: 9, properties: { b: { pattern: 'z' } } } }
    expect(all.add({ required: ['y'], properties: { ...other, d: {} }, type: ['object', 'string'] })).toBe(false)
    expect(JSON.stringify(all.schema)).toBe(joined)
    expect(JSON.stringify(known)).toBe('{"a":{"type":"object","minProperties":1,"properties":{"b":{"minimum":1}}}}')
  })

  test('that repeat long keywords beside them are refused, and duplicate types are removed', () => {
    const long = {
      type: 'object',
      properties: Object.fromEntries(many(1000, () => ({})).map((_, n) => [`p${n}`, { type: 'string' }])),
      additionalProperties: false,
    }
    const beside = {
      type: 'object',
      properties: { a: { ...long, anyOf: many(1000, (n) => ({ required: [`p${n}`] })) } },
      additionalProperties: false,
      required: ['a'],
    }
    expect(refusalOf(() => anthropicResponse(beside))).toContain('must not grow beyond')
    let twice: object = { type: 'string' }
    for (let depth = 0; depth < 30; depth++)
      twice = { type: ['object', 'object'], properties: { a: twice }, additionalProperties: false }
    expect(JSON.stringify(anthropicResponse(twice).schema).length).toBeLessThan(5_000)
  })

  test('of constants at the root become one enum, and properties that all require stay required', () => {
    const shape = {
      oneOf: [
        {
          type: 'object',
          properties: { kind: { const: 'circle' }, r: { type: 'number' } },
          required: ['kind', 'r'],
          additionalProperties: false,
        },
        {
          type: 'object',
          properties: { kind: { const: 'square' }, a: { type: 'number' } },
          required: ['kind', 'a'],
          additionalProperties: false,
        },
      ],
    }
    for (const write of [openaiTool, anthropicTool, geminiTool]) {
      const { schema, losses } = write(shape)
      expect(schema).toEqual({
        type: 'object',
        properties: {
          kind: { enum: ['circle', 'square'], ...(write === geminiTool ? { type: 'string' } : {}) },
          r: { type: 'number' },
          a: { type: 'number' },
        },
        required: ['kind'],
        additionalProperties: false,
      })
      expect(losses).toMatchObject([
        {
          code: 'schema_adjusted',
          path: 'tools[0].parameters',
          effect: 'approximated',
          reason: 'the provider does not know oneOf at the root, which becomes one object (the root)',
        },
      ])
    }
    expect(
      geminiTool({
        allOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }, { properties: { b: { type: 'string' } } }],
        type: 'object',
      }),
    ).toEqual({
      schema: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } }, required: ['a'] },
      losses: [],
    })
  })

  test('at the root require what each branch requires, and are closed if each branch is', () => {
    const [one, other, root] = [{ type: 'string' }, { type: 'number' }, { type: 'object', required: ['c'] }]
    const closed = { properties: { a: one }, required: ['a', 'b'], additionalProperties: false }
    const open = { properties: { b: other }, required: ['b'] }
    const written = (...anyOf: unknown[]) => anthropicTool({ ...root, anyOf }).schema
    expect(written(closed, open)).toEqual({ type: 'object', properties: { a: one, b: other }, required: ['c', 'b'] })
    expect(written({ properties: { a: one } }, { properties: { a: other } }).properties).toEqual({
      a: { anyOf: [one, other] },
    })
    expect(written(closed, true)).toEqual({ type: 'object', properties: { a: one }, required: ['c'] })
    expect(written(open, open, false)).toEqual({ type: 'object', properties: { b: other }, required: ['c', 'b'] })
  })

  test('with disjoint branches are carried as anyOf; others are reported', () => {
    const apart = {
      type: 'object',
      properties: {
        a: {
          oneOf: [
            { type: 'object', properties: { k: { const: 1 } }, required: ['k'], additionalProperties: false },
            { type: 'object', properties: { k: { const: 2 } }, required: ['k'], additionalProperties: false },
            { type: 'null' },
          ],
        },
      },
    }
    for (const write of [geminiTool, anthropicResponse]) {
      expect(write(apart).losses).toEqual([])
      expect(
        reasonsOf(
          write({
            type: 'object',
            properties: { a: { oneOf: [{ type: 'string' }, { type: 'string', minLength: 2 }] } },
          }),
        ),
      ).toContain('oneOf')
    }
  })
})

test('the shared values of a const and an enum are left of allOf', () => {
  const inside = { type: 'object', properties: { a: { allOf: [{ const: 'x' }, { enum: ['x', 'y'] }] } } }
  for (const write of [geminiTool, anthropicTool])
    expect(JSON.stringify(write(inside).schema)).toMatch(/"(enum":\["x"\]|const":"x")/)
  const none = { type: 'object', properties: { a: { allOf: [{ const: -3 }, { enum: ['x'] }] } } }
  expect(reasonsOf(geminiTool(none))).toContain('allOf')
})

test('a constraint of an allOf inside an allOf is joined, and reported where nothing is left of it', () => {
  const nested = (inner: unknown) => ({
    type: 'object',
    properties: { a: { allOf: [{ enum: ['x', 'y'] }, { allOf: [inner] }] } },
    required: ['a'],
    additionalProperties: false,
  })
  for (const write of [anthropicResponse, geminiTool]) {
    expect(write(nested({ enum: ['y', 'z'] })).schema).toMatchObject({ properties: { a: { enum: ['y'] } } })
    expect(reasonsOf(write(nested({ enum: ['z'] })))).toContain('allOf')
  }
})

test('an allOf that accepts nothing is reported where it cannot be written', () => {
  expect(reasonsOf(anthropicResponse({ allOf: [{ type: 'string' }, false] }))).toContain('allOf with false')
})
