import { describe, expect, test } from 'bun:test'
import { strictSchemas } from '../../../src/protocols/messages/schema.ts'
import { anthropicResponse, newTranslation, reasonsOf } from './targets.ts'

/** Schemas that Anthropic holds responses and arguments to. */

describe('a strict schema for Anthropic', () => {
  test('has unsupported keywords in the description', () => {
    const { schema, losses } = anthropicResponse({
      type: 'object',
      properties: {
        age: { type: 'integer', minimum: 0, description: 'Years.', examples: [3] },
        when: { type: 'string', format: 'date' },
        code: { type: 'string', pattern: '^(?!x)', format: 'iban' },
        some: { type: 'array', items: { type: 'string' }, minItems: 3 },
      },
    })
    expect(schema.properties).toEqual({
      age: { type: 'integer', description: 'Years.\n\n{minimum: 0, examples: [3]}' },
      when: { type: 'string', format: 'date' },
      code: { type: 'string', description: '{pattern: "^(?!x)", format: "iban"}' },
      some: { type: 'array', items: { type: 'string' }, description: '{minItems: 3}' },
    })
    expect(reasonsOf({ losses })).toBe(
      'approximated: the provider does not know minimum (properties.age), pattern (properties.code), ' +
        'format (properties.code), minItems (properties.some)',
    )
  })

  test('has patterns, and alternatives with what constrains each', () => {
    const inner = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
    const [text, coded] = [{ type: 'string' }, { type: 'string', pattern: '^x' }]
    const either = (...anyOf: object[]) => ({ anyOf })
    const { schema, losses } = anthropicResponse({
      type: 'object',
      properties: {
        mixed: { ...inner, type: ['object', 'string'], pattern: '^x', title: 'T' },
        one: { oneOf: [text, inner] },
        both: { oneOf: [text, coded] },
        any: { anyOf: [text, coded, false] },
        choice: { type: 'object', enum: [{ a: 1 }, 'x'] },
        empty: { type: 'object' },
      },
    })
    const chosen = { type: 'object', properties: { a: { const: 1 } }, required: ['a'], additionalProperties: false }
    expect(schema.properties).toEqual({
      mixed: { ...either(inner, coded), title: 'T' },
      one: either(text, inner),
      both: either(text, coded),
      any: either(text, coded),
      choice: either(chosen),
      empty: { type: 'object', properties: {}, additionalProperties: false },
    })
    expect(reasonsOf({ losses })).toBe(
      'approximated: the provider does not know oneOf, which becomes anyOf (properties.both), ' +
        'additionalProperties (properties.empty)',
    )
  })

  test('has constants, choices and tuples, with what is not enforced in the report', () => {
    const { schema, losses } = anthropicResponse({
      type: 'object',
      properties: {
        list: { const: [1, 'x'] },
        fixed: { const: 'y', description: 'B' },
        whole: { type: 'integer', enum: [1, 'z', 2.5] },
        none: { type: 'string', enum: [1], title: 'E' },
        pair: { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'number' } },
        alike: { type: 'array', prefixItems: [{ type: 'string' }], items: false },
        but: { type: 'string', enum: ['x', 'y'], not: { const: 'x' } },
      },
    })
    const list = { type: 'array', items: { enum: [1, 'x'] } }
    const pair = { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } }
    expect(schema.properties).toMatchObject({
      list: { anyOf: [list] },
      fixed: { const: 'y', description: 'B' },
      whole: { type: 'integer', enum: [1] },
      none: { title: 'E', enum: [1] },
      pair,
      alike: { type: 'array', items: { type: 'string' } },
      but: { type: 'string', enum: ['x', 'y'], description: '{not: {"const":"x"}}' },
    })
    expect(reasonsOf({ losses })).toBe(
      'approximated: the provider does not know a list as a constant (properties.list), ' +
        'a choice of nothing (properties.none), prefixItems (properties.pair, properties.alike), not (properties.but)',
    )
  })

  test('has all of allOf, also behind true', () => {
    const typed = { type: 'object', properties: { a: { type: 'string' } } }
    const { schema, losses } = anthropicResponse({ allOf: [true, typed, { required: ['a'] }] })
    expect(schema).toEqual({ ...typed, required: ['a'], additionalProperties: false })
    expect(losses).toEqual([])
  })

  test('has closed objects, and reports the open ones of the client', () => {
    expect(anthropicResponse({ type: 'object', properties: { a: { type: 'string' } } })).toEqual({
      schema: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false },
      losses: [],
    })
    expect(
      reasonsOf(
        anthropicResponse({
          type: 'object',
          properties: { map: { type: 'object', additionalProperties: { type: 'string' } }, any: {} },
        }),
      ),
    ).toContain(
      'additionalProperties (properties.map), ' +
        'values of any kind: they are text, numbers, true, false or null (properties.any)',
    )
  })

  test('is written for each tool that can be strict', () => {
    const closed = {
      type: 'object',
      properties: { a: { type: 'string', minLength: 1 } },
      required: ['a'],
      additionalProperties: false,
    }
    const open = { type: 'object', properties: { a: { type: 'object', additionalProperties: true } } }
    const loop = { type: 'object', properties: { a: { $ref: '#' } } }
    const named = (name: string, parameters: unknown) => ({
      type: 'function' as const,
      name,
      parameters,
      strict: true,
      path: name,
    })
    const one = newTranslation()
    const tools = [
      named('closed', closed),
      named('open', open),
      named('loop', loop),
      { ...named('loose', closed), strict: false },
    ]
    expect(
      [...strictSchemas(tools, one)].map(([one, schema]) => [one.type === 'native' ? '' : one.name, schema]),
    ).toEqual([['closed', { ...closed, properties: { a: { type: 'string', description: '{minLength: 1}' } } }]])
    expect(one.report.losses.map(({ path, code }) => `${path} ${code}`)).toEqual([
      'closed schema_adjusted',
      'open strict_not_enforced',
      'loop strict_not_enforced',
    ])
  })

  test('is written for a limited number of tools, optional properties and unions', () => {
    const one = newTranslation()
    const many = (count: number, parameters: unknown) =>
      Array.from({ length: count }, (_, n) => ({
        type: 'function' as const,
        name: `f${n}`,
        parameters,
        strict: true,
        path: `f${n}`,
      }))
    const optional = (count: number) => ({
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, { type: 'string' }])),
      additionalProperties: false,
    })
    const unions = {
      type: 'object',
      properties: { a: { type: ['string', 'null'] }, b: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
      required: ['a', 'b'],
      additionalProperties: false,
    }
    expect(strictSchemas(many(21, { type: 'object', properties: {}, additionalProperties: false }), one).size).toBe(20)
    expect(strictSchemas(many(3, optional(10)), one).size).toBe(2)
    expect(strictSchemas(many(1, optional(24)), one).size).toBe(0)
    expect(strictSchemas(many(9, unions), one).size).toBe(8)
    expect(
      one.report.losses.map(
        ({ path, reason }) => `${path}: ${reason.replace('the provider takes no strict tools with more than ', '')}`,
      ),
    ).toEqual([
      'f20: 20 of them',
      'f2: 23 optional properties in all of them',
      'f0: 23 optional properties in all of them',
      'f8: 16 unions in all of them',
    ])
  })
})
