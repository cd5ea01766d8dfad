import { describe, expect, test } from 'bun:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { sample } from '../../src/providers/sandbox/sample.ts'

const ajv = new Ajv2020({ strict: false, ownProperties: true })
;(addFormats as unknown as (ajv: Ajv2020) => void)(ajv)

const leaf = fc.oneof(
  fc.constant({ type: 'boolean' }),
  fc.constant({ type: 'null' }),
  fc.record({ type: fc.constant('string'), minLength: fc.nat(30) }, { requiredKeys: ['type'] }),
  fc.record({ type: fc.constant('string'), maxLength: fc.nat(30) }, { requiredKeys: ['type'] }),
  fc.record(
    { type: fc.constantFrom('integer', 'number'), minimum: fc.integer({ min: -1000, max: 1000 }) },
    { requiredKeys: ['type'] },
  ),
  fc.record({ type: fc.constantFrom('integer', 'number'), exclusiveMinimum: fc.integer({ min: -1000, max: 1000 }) }),
  fc.record({ type: fc.constantFrom('integer', 'number'), maximum: fc.integer({ min: -1000, max: 1000 }) }),
  fc.record({ type: fc.constantFrom('integer', 'number'), exclusiveMaximum: fc.integer({ min: -1000, max: 1000 }) }),
  fc.record({ type: fc.constant('integer'), multipleOf: fc.integer({ min: 1, max: 50 }) }),
  fc
    .constantFrom('date-time', 'date', 'email', 'uri', 'uuid', 'ipv4', 'ipv6', 'hostname', 'time', 'duration')
    .map((format) => ({ type: 'string', format })),
  fc.array(fc.jsonValue(), { minLength: 1, maxLength: 3 }).map((values) => ({ enum: values })),
  fc.jsonValue().map((value) => ({ const: value })),
)

const { schema } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.tuple(fc.dictionary(fc.string(), tie('schema'), { maxKeys: 4 }), fc.boolean()).map(([properties, closed]) => ({
      type: 'object',
      properties,
      required: Object.keys(properties).slice(0, 2),
      ...(closed ? { additionalProperties: false } : {}),
    })),
    fc.record(
      { type: fc.constant('array'), items: tie('schema'), minItems: fc.nat(3) },
      { requiredKeys: ['type', 'items'] },
    ),
    fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
  ),
})) as { schema: fc.Arbitrary<object> }

describe('sample', () => {
  test('a sample is valid for its schema', () => {
    fc.assert(
      fc.property(schema, (one) => {
        const fits = ajv.compile(one)
        const value = sample(one)
        if (!fits(value)) throw new Error(`${JSON.stringify(value)}: ${ajv.errorsText(fits.errors)}`)
      }),
    )
  })

  test.each([
    [
      'references',
      {
        $ref: '#/$defs/city',
        $defs: { city: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } },
      },
    ],
    [
      'a reference to itself',
      {
        type: 'object',
        properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
        required: ['value', 'next'],
        additionalProperties: false,
      },
    ],
    [
      'allOf',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { type: 'object', properties: { b: { type: 'number' } }, required: ['b'] },
        ],
      },
    ],
    ['type lists', { type: ['null', 'string'] }],
    ['a common pattern', { type: 'string', pattern: '^[A-Z]{3}$' }],
    ['defaults', { type: 'string', default: 'x', enum: ['x', 'y'] }],
    ['tuples', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], minItems: 2 }],
    ['unique items', { type: 'array', items: { type: 'string' }, minItems: 3, uniqueItems: true }],
    ['required without properties', { type: 'object', required: ['x'] }],
    ['no constraint (true)', true],
  ])('a sample is valid for a schema with %s', (_name, one) => {
    expect([ajv.validate(one as object, sample(one)), ajv.errorsText()]).toEqual([true, 'No errors'])
  })

  test("a sample is valid for a schema in Google's dialect", () => {
    const google = {
      type: 'OBJECT',
      properties: {
        city: { type: 'STRING' },
        days: { type: 'INTEGER', minimum: 2 },
        tags: { type: 'ARRAY', items: { type: 'STRING', enum: ['a', 'b'] }, minItems: '2' },
      },
      required: ['city'],
    }
    expect(sample(google)).toEqual({ city: 'example city', days: 2, tags: ['a', 'a'] })
  })

  test('no schema makes it throw', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (one) => {
        JSON.stringify(sample(one))
      }),
    )
    const endless = { type: 'object', properties: { me: { $ref: '#' } }, required: ['me'] }
    expect(JSON.stringify(sample(endless)).length).toBeLessThan(1000)
    expect(sample({ $ref: '#' })).toBeNull()
  })
})
