import { describe, expect, test } from 'bun:test'
import Ajv2020, { type Options } from 'ajv/dist/2020'
import fc from 'fast-check'
import { mapSchemas, type Schema, SchemaBudget, acceptsAnything } from '../../../src/protocols/schema/schema.ts'
import { objectResponse } from '../../../src/protocols/schema/wrapping.ts'
import { IS_LONG, runs } from '../../runs.ts'
import { anyDocument, anyValue } from './arbitrary.ts'
import { TARGETS } from './targets.ts'

/** Any schema for each provider: it accepts the same values, or a loss is reported. */

/** A schema and all its subschemas. */
function* each(schema: Schema): Generator<Schema> {
  yield schema
  const below: Schema[] = []
  mapSchemas(schema, (inner) => {
    if (typeof inner === 'object') below.push(inner)
  })
  for (const inner of below) yield* each(inner)
}

const options: Options = { strict: false, logger: false, validateFormats: false }
/** It has compiled the schema of schemas, which takes longer than compiling one of those here. */
const schemas = new Ajv2020(options)

const validator = (schema: unknown) => {
  const copy = JSON.parse(JSON.stringify(schema)) as object
  void schemas.validateSchema(copy, true)
  return new Ajv2020({ ...options, validateSchema: false }).compile(copy)
}

/** Assertions of what each provider accepts, by its documentation and its errors. */
const RULES: Record<keyof typeof TARGETS, (schema: Schema) => void> = {
  openaiTool: (schema) => {
    expect(schema).toMatchObject({ type: 'object', properties: {} })
    for (const keyword of ['anyOf', 'oneOf', 'allOf', 'enum', 'const', 'not', '$ref'])
      expect(schema).not.toHaveProperty(keyword)
    for (const one of each(schema)) if (one.type === 'array') expect(Object.hasOwn(one, 'items')).toBe(true)
  },
  openaiResponse: (schema) => {
    if (!acceptsAnything(schema)) expect(schema.type).toBe('object')
    for (const keyword of ['anyOf', 'oneOf', 'allOf', 'enum', 'const', '$ref'])
      expect(schema).not.toHaveProperty(keyword)
    for (const one of each(schema)) if (one.type === 'array') expect(Object.hasOwn(one, 'items')).toBe(true)
  },
  anthropicTool: (schema) => {
    expect(schema.type).toBe('object')
    for (const keyword of ['anyOf', 'oneOf', 'allOf', '$ref']) expect(schema).not.toHaveProperty(keyword)
  },
  anthropicResponse: (schema) => {
    const keywords = [
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
      for (const keyword of Object.keys(one)) expect(keywords).toContain(keyword)
      expect(
        one.type !== undefined || one.enum !== undefined || Object.hasOwn(one, 'const') || one.anyOf !== undefined,
      ).toBe(true)
      if (one.type === 'object') expect(one.additionalProperties).toBe(false)
      if (one.minItems !== undefined) expect(one.minItems as number).toBeLessThan(2)
      if (Array.isArray(one.type)) expect(one.type.some((type) => type === 'object' || type === 'array')).toBe(false)
      for (const value of (one.enum ?? []) as unknown[]) expect(typeof value === 'object' && value !== null).toBe(false)
    }
  },
  geminiTool: (schema) => {
    expect(schema.type).toBe('object')
    RULES.geminiResponse(schema)
  },
  geminiResponse: (schema) => {
    for (const one of each(schema)) {
      for (const keyword of ['const', '$schema', 'definitions']) expect(Object.hasOwn(one, keyword)).toBe(false)
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

const RUNS = runs(30, 3000)

describe('any schema', () => {
  test.each(Object.keys(TARGETS) as (keyof typeof TARGETS)[])(
    'is written for %s as it accepts it, and with the same meaning if no loss is reported',
    (target) => {
      let lossless = 0
      fc.assert(
        fc.property(anyDocument, fc.array(anyValue, { minLength: 20, maxLength: 40 }), (schema, values) => {
          const { schema: written, losses } = TARGETS[target](schema)
          RULES[target](written)
          expect(JSON.stringify(TARGETS[target](JSON.parse(JSON.stringify(schema))).schema)).toBe(
            JSON.stringify(written),
          )
          if (losses.length > 0) return
          lossless++
          const [before, after] = [validator(schema), validator(written)]
          const wrapped =
            target === 'openaiResponse' && objectResponse({ type: 'schema', schema }, new SchemaBudget()).wrapped
          for (const value of values) {
            // Arguments are always objects.
            if (!target.endsWith('Response') && (typeof value !== 'object' || value === null || Array.isArray(value)))
              continue
            const [isAccepted, isAcceptedThen] = [before(value), after(wrapped ? { answer: value } : value)]
            // Anthropic accepts only closed objects: the written schema may accept fewer values, but no others.
            if (target === 'anthropicResponse' ? isAcceptedThen && !isAccepted : isAccepted !== isAcceptedThen)
              throw new Error(
                `${JSON.stringify(value)}: ${isAccepted} before, ${isAcceptedThen} after\n` +
                  `${JSON.stringify(schema)}\n${JSON.stringify(written)}`,
              )
          }
        }),
        { numRuns: RUNS },
      )
      // About a fifth of the schemas lose nothing on their way to Google, fewer in a sample by chance.
      expect(lossless).toBeGreaterThan(RUNS / 30)
    },
    IS_LONG ? 600_000 : 60_000,
  )
})
