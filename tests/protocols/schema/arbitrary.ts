import fc from 'fast-check'
import { mapSchemas } from '../../../src/protocols/schema/schema.ts'

/** Arbitrary JSON Schemas, and values for them. */

type Json = Record<string, any>

// Property names that are also keywords of JSON Schema.
const NAMES = ['a', 'b', '$ref', 'type', 'const', 'enum', 'properties', 'items', 'nullable', '__proto__']
const DEFS = ['One', 'Two', 'a/b c']
const pointerTo = (name: string): string =>
  `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const defined = (record: Json): Json => {
  const out: Json = Object.create(null)
  for (const [name, value] of Object.entries(record)) if (value !== undefined) out[name] = value
  return out
}
const leaf = fc.constantFrom<unknown>('x', 'yy', '', 0, 1, 2.5, -3, true, false, null)
const scalars = (type: string) =>
  fc.record({ type: fc.constant(type), description: optional(fc.constantFrom('d', 'a $ref: "#"')) }).map(defined)

const { schema: anySchema } = fc.letrec<{ schema: any; object: any }>((tie) => ({
  object: fc
    .record({
      type: fc.constant('object'),
      properties: fc.dictionary(fc.constantFrom(...NAMES), tie('schema'), { maxKeys: 3 }),
      required: optional(fc.subarray(NAMES, { maxLength: 2 })),
      additionalProperties: optional(fc.oneof(fc.boolean(), tie('schema'))),
    })
    .map(({ properties, required, ...rest }: Json) =>
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
        minimum: optional(fc.integer({ min: -3, max: 3 })),
        exclusiveMaximum: optional(fc.integer({ min: -3, max: 3 })),
      })
      .map(defined),
    fc.record({ type: fc.constant('string'), minLength: optional(fc.integer({ min: 0, max: 2 })) }).map(defined),
    tie('object'),
    fc
      .record({
        type: fc.constant('array'),
        items: optional(tie('schema')),
        minItems: optional(fc.integer({ min: 0, max: 2 })),
      })
      .map(defined),
    fc
      .record({
        type: fc.constantFrom('array', 'object'),
        properties: fc.dictionary(fc.constantFrom('a', 'b'), tie('schema'), { maxKeys: 2 }),
        items: tie('schema'),
      })
      .map(({ type, ...rest }: Json) => ({ type: [type, 'null'], ...rest })),
    fc
      .constantFrom(...DEFS)
      .chain((name) =>
        optional(fc.constant('beside')).map((description) => defined({ $ref: pointerTo(name), description })),
      ),
    fc
      .tuple(fc.constantFrom('anyOf', 'oneOf', 'allOf'), fc.array(tie('schema'), { minLength: 1, maxLength: 3 }))
      .map(([keyword, branches]) => ({ [keyword as string]: branches })),
    fc
      .tuple(
        tie('object'),
        fc.array(fc.subarray(NAMES, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 2 }),
      )
      .map(([object, needs]) => ({ ...(object as Json), anyOf: needs.map((required) => ({ required })) })),
    fc.constantFrom(true, {}),
  ),
}))

/** Definitions that refer only to later ones, so that none is recursive. */
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
export const anyDocument = fc
  .tuple(anySchema, definitions)
  .map(([schema, $defs]) => (typeof schema === 'object' ? { ...schema, $defs } : { $defs }))

export const { value: anyValue } = fc.letrec<{ value: any }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 3 }),
  ),
}))
