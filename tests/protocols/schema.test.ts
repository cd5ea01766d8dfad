import { describe, expect, test } from 'bun:test'
import Ajv2020 from 'ajv/dist/2020'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { GenerationRequest } from '../../src/generation/request.ts'
import { parametersSchema, responseSchema as geminiResponseSchema } from '../../src/protocols/gemini/schema.ts'
import { inputSchema, outputSchema, strictSchemas } from '../../src/protocols/messages/schema.ts'
import { functionSchema, responseSchema } from '../../src/protocols/schema/openai.ts'
import { inlined } from '../../src/protocols/schema/references.ts'
import { mapSchemas, type Schema, SchemaBudget, takesAnything } from '../../src/protocols/schema/schema.ts'
import { objectResponse } from '../../src/protocols/schema/wrapping.ts'
import type { Loss, Translation } from '../../src/protocols/translation.ts'
import { translationOf } from '../translating.ts'
import { IS_LONG, runs } from '../runs.ts'

/** Schemas of any kind as each provider is sent them: the same values are accepted, or a loss is reported. */

type Any = Record<string, any>

const tool = (parameters: unknown, strict?: boolean) => ({
  type: 'function' as const,
  name: 'f',
  parameters,
  path: 'tools[0]',
  ...(strict === undefined ? {} : { strict }),
})

const REQUEST: GenerationRequest = {
  model: 'm',
  system: [],
  turns: [],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'responses',
  extras: {},
}
const BODY = { tools: [{ parameters: {}, strict: true }], text: { format: { schema: {} } } }
const translation = (): Translation =>
  translationOf(REQUEST, { provider: 'p', model: 'm', quirks: {}, capabilities: {} }, BODY)

const reported = <T>(write: (translation: Translation) => T): { schema: T; losses: Loss[] } => {
  const one = translation()
  return { schema: write(one), losses: one.report.losses }
}
const openai = (schema: unknown, one?: Translation) =>
  reported((own) => own.schemaCache.write(functionSchema, tool(schema), one ?? own).parameters)
const anthropic = (schema: unknown) => reported((one) => one.schemaCache.write(inputSchema, tool(schema), one))
const anthropicOutput = (schema: unknown) => reported((one) => outputSchema(schema, one))
const gemini = (schema: unknown, one?: Translation) =>
  reported((own) => own.schemaCache.write(parametersSchema, tool(schema), one ?? own))
const geminiOutput = (schema: unknown) => reported((one) => geminiResponseSchema(schema, one))
const openaiOutput = (schema: unknown) => reported((one) => responseSchema({ type: 'schema', schema }, one).schema)

const TARGETS = { openai, openaiOutput, anthropic, anthropicOutput, gemini, geminiOutput }

const whyOf = ({ losses }: { losses: Loss[] }): string =>
  losses.map(({ effect, reason }) => `${effect}: ${reason}`).join('\n')

/** The message of a refusal, from the path within the schema on. */
const refusal = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'invalid_request')
      return error.message.replace(/^(tools\[0\]\.parameters|text\.format\.schema)\.?/, '')
    throw error
  }
  return 'no refusal'
}

/** Every schema in a schema. */
function* each(schema: Schema): Generator<Schema> {
  yield schema
  const below: Schema[] = []
  mapSchemas(schema, (inner) => {
    if (typeof inner === 'object') below.push(inner)
  })
  for (const inner of below) yield* each(inner)
}

// Names of properties that are words of JSON Schema, too.
const NAMES = ['a', 'b', '$ref', 'type', 'const', 'enum', 'properties', 'items', 'nullable', '__proto__']
const DEFS = ['One', 'Two', 'a/b c']
const pointerTo = (name: string): string =>
  `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`

const some = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const defined = (record: Any): Any => {
  const out: Any = Object.create(null)
  for (const [name, value] of Object.entries(record)) if (value !== undefined) out[name] = value
  return out
}
const leaf = fc.constantFrom<unknown>('x', 'yy', '', 0, 1, 2.5, -3, true, false, null)
const scalars = (type: string) =>
  fc.record({ type: fc.constant(type), description: some(fc.constantFrom('d', 'a $ref: "#"')) }).map(defined)

const { schema: anySchema } = fc.letrec<{ schema: any; object: any }>((tie) => ({
  object: fc
    .record({
      type: fc.constant('object'),
      properties: fc.dictionary(fc.constantFrom(...NAMES), tie('schema'), { maxKeys: 3 }),
      required: some(fc.subarray(NAMES, { maxLength: 2 })),
      additionalProperties: some(fc.oneof(fc.boolean(), tie('schema'))),
    })
    .map(({ properties, required, ...rest }: Any) =>
      defined({ ...rest, properties, required: required?.filter((name: string) => Object.hasOwn(properties, name)) }),
    ),
  schema: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    fc.oneof(scalars('string'), scalars('integer'), scalars('number'), scalars('boolean'), scalars('null')),
    fc.subarray(['string', 'number', 'null', 'boolean'], { minLength: 1 }).map((type) => ({ type })),
    fc.uniqueArray(leaf, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
    leaf.map((value) => ({ const: value })),
    fc
      .record({
        type: fc.constant('integer'),
        minimum: some(fc.integer({ min: -3, max: 3 })),
        exclusiveMaximum: some(fc.integer({ min: -3, max: 3 })),
      })
      .map(defined),
    fc.record({ type: fc.constant('string'), minLength: some(fc.integer({ min: 0, max: 2 })) }).map(defined),
    tie('object'),
    fc
      .record({
        type: fc.constant('array'),
        items: some(tie('schema')),
        minItems: some(fc.integer({ min: 0, max: 2 })),
      })
      .map(defined),
    fc
      .record({
        type: fc.constantFrom('array', 'object'),
        properties: fc.dictionary(fc.constantFrom('a', 'b'), tie('schema'), { maxKeys: 2 }),
        items: tie('schema'),
      })
      .map(({ type, ...rest }: Any) => ({ type: [type, 'null'], ...rest })),
    fc
      .constantFrom(...DEFS)
      .chain((name) =>
        some(fc.constant('beside')).map((description) => defined({ $ref: pointerTo(name), description })),
      ),
    fc
      .tuple(fc.constantFrom('anyOf', 'oneOf', 'allOf'), fc.array(tie('schema'), { minLength: 1, maxLength: 3 }))
      .map(([word, branches]) => ({ [word as string]: branches })),
    fc
      .tuple(
        tie('object'),
        fc.array(fc.subarray(NAMES, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 2 }),
      )
      .map(([object, needs]) => ({ ...(object as Any), anyOf: needs.map((required) => ({ required })) })),
    fc.constantFrom(true, {}),
  ),
}))

/** Definitions that refer only to later ones: nothing refers to itself. */
const definitions = fc.tuple(...DEFS.map(() => anySchema)).map((schemas) => {
  const later = (schema: any, index: number): any => {
    if (typeof schema !== 'object' || schema === null) return schema
    const leads = (ref: string): boolean => DEFS.findIndex((name) => pointerTo(name) === ref) > index
    return typeof schema.$ref === 'string' && !leads(schema.$ref)
      ? { type: 'string' }
      : mapSchemas(schema, (inner) => later(inner, index))
  }
  return Object.fromEntries(schemas.map((schema, index) => [DEFS[index]!, later(schema, index)]))
})
const document = fc
  .tuple(anySchema, definitions)
  .map(([schema, $defs]) => (typeof schema === 'object' ? { ...schema, $defs } : { $defs }))

const { value: anyValue } = fc.letrec<{ value: any }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 3 }),
  ),
}))

const validator = (schema: unknown) => {
  const ajv = new Ajv2020({ strict: false, logger: false, validateFormats: false })
  return ajv.compile(JSON.parse(JSON.stringify(schema)) as object)
}

/** What each target's document and its refusals say of a schema that it takes. */
const RULES: Record<keyof typeof TARGETS, (schema: Schema) => void> = {
  openai: (schema) => {
    expect(schema).toMatchObject({ type: 'object', properties: {} })
    for (const word of ['anyOf', 'oneOf', 'allOf', 'enum', 'const', 'not', '$ref'])
      expect(schema).not.toHaveProperty(word)
    for (const one of each(schema)) if (one.type === 'array') expect(Object.hasOwn(one, 'items')).toBe(true)
  },
  openaiOutput: (schema) => {
    if (!takesAnything(schema)) expect(schema.type).toBe('object')
    for (const word of ['anyOf', 'oneOf', 'allOf', 'enum', 'const', '$ref']) expect(schema).not.toHaveProperty(word)
    for (const one of each(schema)) if (one.type === 'array') expect(Object.hasOwn(one, 'items')).toBe(true)
  },
  anthropic: (schema) => {
    expect(schema.type).toBe('object')
    for (const word of ['anyOf', 'oneOf', 'allOf', '$ref']) expect(schema).not.toHaveProperty(word)
  },
  anthropicOutput: (schema) => {
    const words = [
      'type',
      'properties',
      'required',
      'additionalProperties',
      'items',
      'minItems',
      'enum',
      'const',
      'anyOf',
      'description',
      'title',
      'default',
      'format',
      'pattern',
    ]
    for (const one of each(schema)) {
      for (const word of Object.keys(one)) expect(words).toContain(word)
      expect(
        one.type !== undefined || one.enum !== undefined || Object.hasOwn(one, 'const') || one.anyOf !== undefined,
      ).toBe(true)
      if (one.type === 'object') expect(one.additionalProperties).toBe(false)
      if (one.minItems !== undefined) expect(one.minItems as number).toBeLessThan(2)
      if (Array.isArray(one.type)) expect(one.type.some((type) => type === 'object' || type === 'array')).toBe(false)
      for (const value of (one.enum ?? []) as unknown[]) expect(typeof value === 'object' && value !== null).toBe(false)
    }
  },
  gemini: (schema) => {
    expect(schema.type).toBe('object')
    RULES.geminiOutput(schema)
  },
  geminiOutput: (schema) => {
    for (const one of each(schema)) {
      for (const word of ['const', '$schema', 'definitions']) expect(Object.hasOwn(one, word)).toBe(false)
      if (one.$ref !== undefined) expect(Object.keys(one)).toEqual(['$ref'])
      const values = (one.enum ?? []) as unknown[]
      expect(
        values.every((value) => typeof value === 'string') || values.every((value) => typeof value === 'number'),
      ).toBe(true)
      for (const name of (one.required ?? []) as string[])
        expect(Object.hasOwn(one.properties as object, name)).toBe(true)
    }
  },
}

const RUNS = runs(60, 3000)

describe('any schema', () => {
  test.each(Object.keys(TARGETS) as (keyof typeof TARGETS)[])(
    '%s takes what becomes of it, and it means the same where nothing is told',
    (target) => {
      let same = 0
      fc.assert(
        fc.property(document, fc.array(anyValue, { minLength: 20, maxLength: 40 }), (schema, values) => {
          const { schema: written, losses } = TARGETS[target](schema)
          RULES[target](written)
          expect(JSON.stringify(TARGETS[target](JSON.parse(JSON.stringify(schema))).schema)).toBe(
            JSON.stringify(written),
          )
          if (losses.length > 0) return
          same++
          const [before, after] = [validator(schema), validator(written)]
          const wrapped =
            target === 'openaiOutput' && objectResponse({ type: 'schema', schema }, new SchemaBudget()).wrapped
          for (const value of values) {
            // Arguments are objects, whatever the schema says.
            if (!target.endsWith('Output') && (typeof value !== 'object' || value === null || Array.isArray(value)))
              continue
            const [was, is] = [before(value), after(wrapped ? { answer: value } : value)]
            // Closed objects are the only ones that can be asked for: what is written fits the client's schema.
            if (target === 'anthropicOutput' ? is && !was : was !== is)
              throw new Error(
                `${JSON.stringify(value)} was ${was} and is ${is}\n${JSON.stringify(schema)}\n${JSON.stringify(written)}`,
              )
          }
        }),
        { numRuns: RUNS },
      )
      // About a fifth of the schemas lose nothing on their way to Google, fewer in a sample by chance.
      expect(same).toBeGreaterThan(RUNS / 30)
    },
    IS_LONG ? 600_000 : 60_000,
  )
})

describe('references', () => {
  const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } }
  const people = {
    type: 'object',
    properties: {
      a: { $ref: '#/$defs/a~1b%20c' },
      b: { $ref: '#/definitions/B', description: 'beside' },
      c: { $ref: '#there' },
      $ref: { type: 'string' },
    },
    $defs: { 'a/b c': { type: 'integer' }, C: { $anchor: 'there', type: 'null' } },
    definitions: { B: { type: 'string', description: 'inside' } },
  }

  test('are carried where they are known, and followed elsewhere', () => {
    const followed = {
      type: 'object',
      properties: {
        a: { type: 'integer' },
        b: { type: 'string', description: 'beside' },
        c: { type: 'null' },
        $ref: { type: 'string' },
      },
    }
    expect(openai(people)).toEqual({ schema: people, losses: [] })
    expect(anthropic(people)).toEqual({ schema: people, losses: [] })
    expect(gemini(people)).toEqual({ schema: followed, losses: [] })
    expect(anthropicOutput(people).schema).toEqual({ ...followed, additionalProperties: false })
  })

  test('at the root are followed, and those below still lead where they led', () => {
    const list = { $ref: '#/$defs/Node', $defs: { Node: node } }
    for (const write of [openai, anthropic])
      expect(write(list)).toEqual({ schema: { ...node, $defs: { Node: node } }, losses: [] })
    expect(gemini(list)).toEqual({ schema: { ...node, $defs: { Node: node } }, losses: [] })
    const itself = { type: 'object', properties: { list: { type: 'array', items: { $ref: '#' } } } }
    expect(openai(itself).schema).toEqual(itself)
    expect(gemini(itself).schema).toEqual({
      ...itself,
      properties: { list: { type: 'array', items: { $ref: '#/$defs/Root' } } },
      $defs: { Root: { ...itself, properties: { list: { type: 'array', items: { $ref: '#/$defs/Root' } } } } },
    })
  })

  test('that never end, or lead nowhere, are refused with their place by those who would refuse them', () => {
    const needy = {
      type: 'object',
      properties: { tree: { $ref: '#/$defs/Node' } },
      $defs: { Node: { ...node, required: ['next'] } },
    }
    const outside = { type: 'object', properties: { a: { $ref: 'https://example.com/a.json' } } }
    expect(refusal(() => gemini(needy))).toStartWith('$defs.Node: must not refer to itself through what is required')
    expect(
      refusal(() =>
        anthropicOutput({ type: 'object', properties: { tree: { $ref: '#/$defs/Node' } }, $defs: { Node: node } }),
      ),
    ).toStartWith('$defs.Node: must not refer to itself, since the provider of this model takes no recursive schemas')
    for (const schema of [needy, outside])
      for (const write of [openai, anthropic]) expect(write(schema)).toEqual({ schema, losses: [] })
    for (const write of [gemini, anthropicOutput])
      expect(refusal(() => write(outside))).toBe(
        "properties.a.$ref: must name a place within the schema (#/$defs/...), not 'https://example.com/a.json'",
      )
  })

  test('that would grow without measure are refused', () => {
    const bomb = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/D0' } },
      $defs: Object.fromEntries(
        Array.from({ length: 30 }, (_, n) => [
          `D${n}`,
          n === 29
            ? { type: 'string' }
            : { type: 'object', properties: { a: { $ref: `#/$defs/D${n + 1}` }, b: { $ref: `#/$defs/D${n + 1}` } } },
        ]),
      ),
    }
    const heavy = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`p${n}`, { $ref: '#/$defs/Long' }])),
      $defs: { Long: { enum: ['x'.repeat(100_000)] } },
    }
    const chain = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/D0' } },
      $defs: Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`D${n}`, { $ref: `#/$defs/D${n + 1}` }])),
    }
    for (const schema of [bomb, heavy, chain])
      for (const write of [gemini, anthropicOutput])
        expect(refusal(() => write(schema))).toContain('must not grow beyond')
    // What a schema copies are names and lists, too; and it is the sum of all schemas in a request that counts.
    const name = 'x'.repeat(100_000)
    for (const long of [
      { properties: { [name]: {} } },
      { required: [name] },
      { const: { a: name } },
      { unheardOf: [name] },
    ]) {
      const schema = { ...heavy, $defs: { Long: long } }
      expect(refusal(() => gemini(schema))).toContain('must not grow beyond')
    }
    const few = { type: 'object', properties: { a: { $ref: '#/$defs/Long' } }, $defs: { Long: { enum: [name] } } }
    const times = (length: number): void => {
      const one = translation()
      for (let n = 0; n < length; n++) gemini(few, one)
    }
    expect(refusal(() => times(10))).toBe('no refusal')
    expect(refusal(() => times(11))).toContain('must not grow beyond')
    expect(refusal(() => inlined({ $ref: '#' }, 'none', new SchemaBudget()))).toContain('must not refer to itself')
  })
})

describe('unions', () => {
  const many = (length: number, one: (n: number) => object): object[] => Array.from({ length }, (_, n) => one(n))

  test('of more than can be compared or joined for one request are told', () => {
    const inside = (schema: object) => ({ type: 'object', properties: { a: schema } })
    const all = (length: number) => inside({ allOf: many(length, (n) => ({ properties: { [`p${n}`]: {} } })) })
    const one = (length: number) =>
      inside({ oneOf: many(length, (n) => ({ type: 'object', properties: { k: { const: n } }, required: ['k'] })) })
    const constants = (length: number) => inside({ oneOf: many(length, (n) => ({ const: `c${n}` })) })
    for (const schema of [all(300), one(150), constants(20_000)]) expect(gemini(schema).losses).toEqual([])
    expect(whyOf(gemini(all(3000)))).toContain('allOf')
    expect(whyOf(gemini(one(1500)))).toContain('oneOf, which it reads as anyOf')
    expect(whyOf(gemini(inside({ oneOf: [{ const: 1 }, { enum: [2, 1] }] })))).toContain(
      'oneOf, which it reads as anyOf',
    )
  })

  test('that repeat what stands beside them are refused where that is long, and kinds that are named twice are one', () => {
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
    expect(refusal(() => anthropicOutput(beside))).toContain('must not grow beyond')
    let twice: object = { type: 'string' }
    for (let depth = 0; depth < 30; depth++)
      twice = { type: ['object', 'object'], properties: { a: twice }, additionalProperties: false }
    expect(JSON.stringify(anthropicOutput(twice).schema).length).toBeLessThan(5_000)
  })

  test('of constants at the root become one choice, what all ask for stays required', () => {
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
    for (const write of [openai, anthropic, gemini]) {
      const { schema, losses } = write(shape)
      expect(schema).toEqual({
        type: 'object',
        properties: {
          kind: { enum: ['circle', 'square'], ...(write === gemini ? { type: 'string' } : {}) },
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
      gemini({
        allOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }, { properties: { b: { type: 'string' } } }],
        type: 'object',
      }),
    ).toEqual({
      schema: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } }, required: ['a'] },
      losses: [],
    })
  })

  test('that no value fits twice are the same with oneOf and anyOf; of others it is told', () => {
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
    for (const write of [gemini, anthropicOutput]) {
      expect(write(apart).losses).toEqual([])
      expect(
        whyOf(
          write({
            type: 'object',
            properties: { a: { oneOf: [{ type: 'string' }, { type: 'string', minLength: 2 }] } },
          }),
        ),
      ).toContain('oneOf')
    }
  })
})

describe('dialects', () => {
  test("Google's and OpenAPI's words are JSON Schema's, and so are those of older drafts", () => {
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
    for (const write of [openai, anthropic]) expect(JSON.stringify(write(google).schema)).toBe(JSON.stringify(plain))
    expect(gemini(google).schema).toMatchObject({
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
    expect(anthropic(old).schema).toEqual({
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

  test('a tool takes an object, whatever its schema says', () => {
    for (const schema of [undefined, {}, true, { type: 'object' }]) {
      expect(openai(schema)).toEqual({ schema: { type: 'object', properties: {} }, losses: [] })
      expect(anthropic(schema).schema).toMatchObject({ type: 'object' })
    }
    for (const write of [openai, anthropic, gemini])
      expect(whyOf(write({ type: 'string' }))).toContain('arguments that are no object but string')
  })

  test('an array says what it holds', () => {
    expect(openai({ type: 'object', properties: { list: { type: ['array', 'null'] } } }).schema).toEqual({
      type: 'object',
      properties: { list: { type: ['array', 'null'], items: {} } },
    })
  })
})

describe('Google', () => {
  test('has choices of strings and numbers for constants, whole bounds for exclusive ones, and a place for each required property', () => {
    const { schema, losses } = gemini({
      type: 'object',
      properties: {
        a: { const: 'x' },
        b: { enum: [1, 'y', null] },
        c: { type: 'integer', exclusiveMinimum: 0 },
        d: { enum: [true, false] },
        e: true,
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
        z: {},
      },
      required: ['a', 'z'],
    })
    expect(losses).toEqual([])
    expect(whyOf(gemini({ type: 'object', required: ['z'], additionalProperties: false }))).toContain(
      'a required property that the object may not have (the root)',
    )
    expect(
      gemini({ type: 'object', required: ['z'], additionalProperties: { type: 'string' } }).schema.properties,
    ).toEqual({ z: { type: 'string' } })
  })

  test('gets what it does not heed, and the client is told where', () => {
    const schema = {
      type: 'object',
      properties: Object.fromEntries(
        ['a', 'b', 'c', 'd'].map((name) => [name, { type: 'string', minLength: 1, pattern: '^x' }]),
      ),
      not: { required: ['a'] },
    }
    expect(geminiOutput(schema)).toEqual({
      schema,
      losses: [
        {
          code: 'schema_adjusted',
          path: 'text.format.schema',
          effect: 'approximated',
          reason:
            'the provider does not know minLength (properties.a, properties.b, properties.c and 1 more), pattern (properties.a, properties.b, properties.c and 1 more), not (the root)',
        },
      ],
    })
  })
})

describe('Anthropic held to a schema', () => {
  test('reads in the description what its grammar does not know', () => {
    const { schema, losses } = anthropicOutput({
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
    expect(whyOf({ losses })).toBe(
      'approximated: the provider does not know minimum (properties.age), pattern (properties.code), format (properties.code), minItems (properties.some)',
    )
  })

  test('closes objects, and tells where the client left one open', () => {
    expect(anthropicOutput({ type: 'object', properties: { a: { type: 'string' } } })).toEqual({
      schema: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false },
      losses: [],
    })
    expect(
      whyOf(
        anthropicOutput({
          type: 'object',
          properties: { map: { type: 'object', additionalProperties: { type: 'string' } }, any: {} },
        }),
      ),
    ).toContain(
      'additionalProperties (properties.map), values of any kind: they are text, numbers, true, false or null (properties.any)',
    )
  })

  test('is strict with tools as far as it can be', () => {
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
    const one = translation()
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

  test('takes so many strict tools, optional properties and unions', () => {
    const one = translation()
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

describe('OpenAI is strict', () => {
  const closed = {
    type: 'object',
    properties: { a: { type: 'string' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
    required: ['a', 'next'],
    additionalProperties: false,
  }
  test.each<[string, object, string | undefined]>([
    ['with closed objects that require all they have', closed, undefined],
    ['not with an optional property', { ...closed, required: ['a'] }, 'properties.next is not required'],
    [
      'not with an open object',
      {
        type: 'object',
        properties: { a: { type: 'object', properties: {} } },
        required: ['a'],
        additionalProperties: false,
      },
      'properties.a takes additional properties',
    ],
    [
      'not with words that it does not know',
      { ...closed, properties: { ...closed.properties, a: { oneOf: [{ type: 'string' }] } } },
      'properties.a has oneOf',
    ],
    [
      'not with a value of any kind',
      { ...closed, properties: { ...closed.properties, a: {} } },
      'properties.a has no type',
    ],
  ])('%s', (_, schema, why) => {
    const one = translation()
    expect(one.schemaCache.write(functionSchema, tool(schema, true), one).strict).toBe(why === undefined)
    expect(responseSchema({ type: 'schema', schema, strict: true }, one).strict).toBe(
      why === undefined ? true : undefined,
    )
    // A client that does not say that the schema binds gets one that does not.
    expect(responseSchema({ type: 'schema', schema }, one)).not.toHaveProperty('strict')
    const { losses } = one.report
    expect(losses.map(({ path }) => path)).toEqual(why === undefined ? [] : ['tools[0].strict', 'text.format.schema'])
    for (const loss of losses) expect(loss.reason).toEndWith(`and here ${why}`)
  })
})
