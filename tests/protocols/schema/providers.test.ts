import { describe, expect, test } from 'bun:test'
import { functionSchema, responseSchema } from '../../../src/protocols/schema/openai.ts'
import {
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
    const odd = { ...google, propertyOrdering: ['missing', 5, ...google.propertyOrdering] }
    expect(JSON.stringify(openaiTool(odd).schema)).toBe(JSON.stringify(plain))
    for (const type of ['string', 'integer', 'number', 'boolean', 'object', 'null'])
      expect(openaiTool({ type: 'OBJECT', properties: { a: { type: type.toUpperCase() } } }).schema).toEqual({
        type: 'object',
        properties: { a: { type } },
      })
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
        open: { type: 'array', items: [{ type: 'string' }] },
        list: { type: ['ARRAY', 'NULL'], items: { type: 'STRING', nullable: false }, additionalItems: false },
        n: { type: 'number', maximum: 9, exclusiveMaximum: false, exclusiveMinimum: true },
        m: { type: 'number', maximum: 9, exclusiveMaximum: true },
        one: { dependencies: { a: ['b'] } },
        other: { dependencies: { a: { minProperties: 2 } } },
        odd: { $ref: '#/definitions/odd', nullable: true },
        any: { anyOf: [{ type: 'string' }], nullable: true },
      },
      definitions: { odd: { type: 'Thing' }, old: { type: 'STRING', nullable: false } },
      dependencies: { pair: ['other'], n: { required: ['list'] } },
    }
    expect(anthropicTool(old).schema).toEqual({
      type: 'object',
      properties: {
        pair: {
          type: 'array',
          prefixItems: [{ type: 'string' }, { type: 'number', exclusiveMinimum: 0 }],
          items: false,
        },
        open: { type: 'array', prefixItems: [{ type: 'string' }] },
        list: { type: ['array', 'null'], items: { type: 'string' } },
        n: { type: 'number', maximum: 9 },
        m: { type: 'number', exclusiveMaximum: 9 },
        one: { dependentRequired: { a: ['b'] } },
        other: { dependentSchemas: { a: { minProperties: 2 } } },
        odd: { anyOf: [{ $ref: '#/definitions/odd' }, { type: 'null' }] },
        any: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      },
      definitions: { odd: { type: 'Thing' }, old: { type: 'string' } },
      dependentRequired: { pair: ['other'] },
      dependentSchemas: { n: { required: ['list'] } },
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
        h: { type: 'integer', exclusiveMaximum: 5 },
        i: { type: 'integer', exclusiveMaximum: 5, maximum: 9, exclusiveMinimum: 2, minimum: 1 },
        j: { type: 'integer', exclusiveMaximum: 5, maximum: 3, exclusiveMinimum: 0, minimum: 2 },
        k: { type: 'integer', enum: [1, 2.5, 3] },
        l: { type: ['integer', 'number'], enum: [1, 2.5] },
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
        h: { type: 'integer', maximum: 4 },
        i: { type: 'integer', minimum: 3, maximum: 4 },
        j: { type: 'integer', minimum: 2, maximum: 3 },
        k: { type: 'integer', enum: [1, 3] },
        l: { type: 'number', enum: [1, 2.5] },
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

  test('reports enums without an exact choice, and keeps exclusive bounds of fractions', () => {
    const of = (a: object) => geminiTool({ type: 'object', properties: { a } })
    expect(of({ type: 'string', enum: [1] }).schema.properties).toEqual({ a: { type: 'string' } })
    expect(of({ type: 'integer', enum: [1.5] }).schema.properties).toEqual({ a: { type: 'integer' } })
    for (const schema of [
      { type: 'string', enum: [1] },
      { enum: ['x', 1], anyOf: [{ type: 'string' }] },
    ])
      expect(reasonsOf(of(schema))).toContain('enum (properties.a)')
    expect(reasonsOf(of({ const: true }))).toContain('true as the only value (properties.a)')
    expect(reasonsOf(of({ const: [1] }))).toContain('a choice of values of type array (properties.a)')
    expect(reasonsOf(of({ type: 'number', exclusiveMinimum: 0 }))).toContain('exclusiveMinimum (properties.a)')
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
