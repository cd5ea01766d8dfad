import { describe, expect, test } from 'bun:test'
import { strictSchemas } from '../../../src/protocols/messages/schema.ts'
import { functionSchema, responseSchema } from '../../../src/protocols/schema/openai.ts'
import {
  anthropicResponse,
  anthropicTool,
  geminiResponse,
  geminiTool,
  newTranslation,
  openaiTool,
  reasonsOf,
  TARGETS,
  toolWith,
} from './targets.ts'

/** Schemas of every dialect as each provider accepts them. */

test.each(['__proto__', 'constructor', 'toString'])('a schema of the type %s is written for every provider', (type) => {
  const schema = { type: 'object', properties: { a: { type, minLength: 1, minimum: 1 } } }
  for (const write of Object.values(TARGETS)) expect(write(schema).schema).toBeObject()
})

describe('a schema of another dialect', () => {
  test('of Google, OpenAPI or an older draft is converted to JSON Schema 2020-12', () => {
    const google = {
      type: 'OBJECT',
      properties: {
        b: { type: 'STRING', nullable: true, enum: ['x'] },
        a: { type: 'ARRAY', items: { type: 'INTEGER' } },
        type: { type: 'STRING', default: { type: 'STRING' } },
        nullable: { type: 'BOOLEAN' },
      },
      propertyOrdering: ['a', 'b'],
    }
    const plain = {
      type: 'object',
      properties: {
        a: { type: 'array', items: { type: 'integer' } },
        b: { type: ['string', 'null'], enum: ['x', null] },
        type: { type: 'string', default: { type: 'STRING' } },
        nullable: { type: 'boolean' },
      },
    }
    for (const write of [openaiTool, anthropicTool])
      expect(JSON.stringify(write(google).schema)).toBe(JSON.stringify(plain))
    expect(geminiTool(google).schema).toMatchObject({
      type: 'object',
      propertyOrdering: ['a', 'b'],
      properties: { b: { anyOf: [{ type: 'string', enum: ['x'] }, { type: 'null' }] } },
    })
    const old = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        pair: {
          type: 'array',
          items: [{ type: 'string' }, { type: 'number', minimum: 0, exclusiveMinimum: true }],
          additionalItems: false,
        },
      },
      dependencies: { pair: ['other'] },
    }
    expect(anthropicTool(old).schema).toEqual({
      type: 'object',
      properties: {
        pair: {
          type: 'array',
          prefixItems: [{ type: 'string' }, { type: 'number', exclusiveMinimum: 0 }],
          items: false,
        },
      },
      dependentRequired: { pair: ['other'] },
    })
  })

  test('has an object at the root if it is of a tool', () => {
    for (const schema of [undefined, {}, true, { type: 'object' }]) {
      expect(openaiTool(schema)).toEqual({ schema: { type: 'object', properties: {} }, losses: [] })
      expect(anthropicTool(schema).schema).toMatchObject({ type: 'object' })
    }
    for (const write of [openaiTool, anthropicTool, geminiTool])
      expect(reasonsOf(write({ type: 'string' }))).toContain('arguments of type string, which must be an object')
  })

  test('has items in every array', () => {
    expect(openaiTool({ type: 'object', properties: { list: { type: ['array', 'null'] } } }).schema).toEqual({
      type: 'object',
      properties: { list: { type: ['array', 'null'], items: {} } },
    })
  })
})

describe('a schema for Google', () => {
  test('has enums for constants, inclusive bounds for exclusive ones, and a schema for each required property', () => {
    const { schema, losses } = geminiTool({
      type: 'object',
      properties: {
        a: { const: 'x' },
        b: { enum: [1, 'y', null] },
        c: { type: 'integer', exclusiveMinimum: 0 },
        d: { enum: [true, false] },
        e: true,
        f: { type: ['string', 'null'], enum: ['x', null] },
        g: { type: ['string', 'null'], enum: ['x'] },
      },
      required: ['a', 'z'],
    })
    expect(schema).toEqual({
      type: 'object',
      properties: {
        a: { type: 'string', enum: ['x'] },
        b: { anyOf: [{ type: 'string', enum: ['y'] }, { type: 'number', enum: [1] }, { type: 'null' }] },
        c: { type: 'integer', minimum: 1 },
        d: { type: 'boolean' },
        e: {},
        f: { anyOf: [{ type: 'string', enum: ['x'] }, { type: 'null' }] },
        g: { type: 'string', enum: ['x'] },
        z: {},
      },
      required: ['a', 'z'],
    })
    expect(losses).toEqual([])
    expect(reasonsOf(geminiTool({ type: 'object', required: ['z'], additionalProperties: false }))).toContain(
      'a required property that the object may not have (the root)',
    )
    expect(
      geminiTool({ type: 'object', required: ['z'], additionalProperties: { type: 'string' } }).schema.properties,
    ).toEqual({ z: { type: 'string' } })
  })

  test('keeps keywords that it ignores, and reports their paths', () => {
    const schema = {
      type: 'object',
      properties: Object.fromEntries(
        ['a', 'b', 'c', 'd'].map((name) => [name, { type: 'string', minLength: 1, pattern: '^x' }]),
      ),
      not: { required: ['a'] },
    }
    expect(geminiResponse(schema)).toEqual({
      schema,
      losses: [
        {
          code: 'schema_adjusted',
          path: 'text.format.schema',
          effect: 'approximated',
          reason:
            'the provider does not know minLength (properties.a, properties.b, properties.c and 1 more), ' +
            'pattern (properties.a, properties.b, properties.c and 1 more), not (the root)',
        },
      ],
    })
  })
})

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

describe('a schema for OpenAI', () => {
  const closed = {
    type: 'object',
    properties: { a: { type: 'string' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
    required: ['a', 'next'],
    additionalProperties: false,
  }
  test.each<[string, object, string | undefined]>([
    ['is strict with closed objects whose properties are all required', closed, undefined],
    [
      'is strict with a tuple',
      {
        ...closed,
        properties: {
          ...closed.properties,
          a: { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'integer' } },
        },
      },
      undefined,
    ],
    ['is not strict with an optional property', { ...closed, required: ['a'] }, 'properties.next is not required'],
    [
      'is not strict with an open object',
      {
        type: 'object',
        properties: { a: { type: 'object', properties: {} } },
        required: ['a'],
        additionalProperties: false,
      },
      'properties.a allows additional properties',
    ],
    [
      'is not strict with unsupported keywords',
      { ...closed, properties: { ...closed.properties, a: { oneOf: [{ type: 'string' }] } } },
      'properties.a has oneOf',
    ],
    [
      'is not strict with a value of any type',
      { ...closed, properties: { ...closed.properties, a: {} } },
      'properties.a has no type',
    ],
  ])('%s', (_, schema, violation) => {
    const one = newTranslation()
    expect(one.schemaCache.write(functionSchema, toolWith(schema, true), one).strict).toBe(violation === undefined)
    expect(responseSchema({ type: 'schema', schema, strict: true }, one).strict).toBe(
      violation === undefined ? true : undefined,
    )
    // Without `strict` in the client's request there is none in the provider's.
    expect(responseSchema({ type: 'schema', schema }, one)).not.toHaveProperty('strict')
    const { losses } = one.report
    expect(losses.map(({ path }) => path)).toEqual(
      violation === undefined ? [] : ['tools[0].strict', 'text.format.schema'],
    )
    for (const loss of losses) expect(loss.reason).toEndWith(`here ${violation}`)
  })
})
