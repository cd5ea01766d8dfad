import { expect, test } from 'bun:test'
import { functionSchema, responseSchema } from '../../../src/protocols/schema/openai.ts'
import { newTranslation, openaiResponse, toolWith } from './targets.ts'

/** Schemas that OpenAI accepts as strict ones, and why it refuses others. */

const lossesOf = (parameters: unknown): string[] => {
  const translation = newTranslation()
  translation.schemaCache.write(functionSchema, toolWith(parameters, true), translation)
  return translation.report.losses.map(({ reason }) => `${reason}`.replace(/^.*; here /, ''))
}

const closed = (properties: Record<string, unknown>, more: object = {}) => ({
  ...{ type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
  ...more,
})

test.each<[schema: object, violation: string]>([
  [closed({ a: {} }), 'properties.a has no type'],
  [closed({ a: { $ref: 'https://a.b/c' } }), 'properties.a refers to another document'],
  [closed({}, { additionalProperties: true }), 'the root allows additional properties'],
  [closed({ a: closed({}, { additionalProperties: {} }) }), 'properties.a allows additional properties'],
  [closed({ a: { type: 'string' } }, { required: [] }), 'properties.a is not required'],
  [closed({}, { required: ['b'] }), "the root requires 'b', which it does not have"],
  [closed({ a: true }), 'properties.a is true or false instead of a schema'],
  [closed({ a: { type: 'array', items: closed({}, { required: ['b'] }) } }), "properties.a.items requires 'b'"],
  [closed({ a: { type: 'string', not: {} }, b: true }), 'properties.a has not'],
  ...['$anchor', '$dynamicAnchor', '$dynamicRef', '$recursiveAnchor', '$recursiveRef', 'allOf', 'contains', 'if']
    .concat('contentEncoding', 'contentMediaType', 'contentSchema', 'dependentRequired', 'dependentSchemas', 'else')
    .concat('maxContains', 'maxProperties', 'minContains', 'minProperties', 'oneOf', 'patternProperties', 'then')
    .concat('propertyNames', 'unevaluatedItems', 'unevaluatedProperties', 'uniqueItems')
    .map((keyword): [object, string] => [
      closed({ a: { type: 'string', [keyword]: [{}] } }),
      `properties.a has ${keyword}`,
    ]),
])('%j is not strict: %s', (schema, violation) => {
  const losses = lossesOf(schema)
  expect(losses).toHaveLength(1)
  expect(losses[0]).toStartWith(violation)
})

test.each([
  closed({}),
  closed({ a: { $ref: '#' }, b: { anyOf: [{ type: 'string' }, { type: 'null' }] }, c: { enum: [1] }, d: { const: 1 } }),
  closed({ a: { type: ['array', 'null'], items: { type: 'string' }, prefixItems: [{ type: 'number' }] } }),
])('%j is strict', (schema) => {
  expect(lossesOf(schema)).toEqual([])
})

test('a response is strict where its schema is, and the loss is reported where it cannot be', () => {
  const written = (schema: object, strict?: boolean) => {
    const translation = newTranslation()
    const sent = responseSchema({ type: 'schema', schema, ...(strict === undefined ? {} : { strict }) }, translation)
    return [sent.strict, ...translation.report.losses.map(({ code, reason }) => [code, reason])]
  }
  expect(written(closed({}), true)).toEqual([true])
  expect(written({}, false)).toEqual([false])
  expect(written({})).toEqual([undefined])
  expect(written({}, true)).toEqual([
    undefined,
    ['schema_not_enforced', expect.stringMatching(/; here the root is not an object$/)],
  ])
})

test('the schema of a response without a type is one of an object', () => {
  const properties = { a: { type: 'string' } }
  expect(openaiResponse({ properties }).schema).toEqual({ type: 'object', properties } as never)
})
