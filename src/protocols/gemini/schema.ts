import type { OutputFormat } from '../../generation/request.ts'
import { isObject, objectOf } from '../../json/parse.ts'
import type { FunctionTool, SchemaLoss } from '../schema/cache.ts'
import { standardSchema } from '../schema/dialect.ts'
import { allDisjoint, intersectAll, literals } from '../schema/intersect.ts'
import { withFormatNotes } from '../schema/format-notes.ts'
import { inlined } from '../schema/references.ts'
import { objectRoot } from '../schema/root.ts'
import {
  blank,
  isAnnotation,
  mapSchemas,
  names,
  refusingAt,
  type Schema,
  type SchemaBudget,
  joinPath,
  typesOf,
  UnknownKeywords,
} from '../schema/schema.ts'
import type { Translation } from '../translation.ts'

/**
 * `parametersJsonSchema`. Throws a SchemaRefusal for a reference that leads nowhere, or that recurses through required
 * members.
 */
export function parametersSchema(tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void): Schema {
  const writer = new SchemaWriter(budget)
  const root = objectRoot(standardSchema(tool.parameters ?? true, false), writer.unknowns, budget)
  const schema = writer.write(inlined(root, 'escapable', budget), '')
  const { reason } = writer.unknowns
  if (reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason })
  return schema
}

/** `responseJsonSchema`. Throws invalid_request with the path of the schema where `parametersSchema` refuses it. */
export function responseSchema(format: OutputFormat & { type: 'schema' }, translation: Translation): Schema {
  const { schema } = format
  const path = translation.setting('outputFormat.schema')
  const plain = standardSchema(schema, false)
  if (!isObject(plain)) return withFormatNotes(blank(), format, translation)
  const writer = new SchemaWriter(translation.schemaBudget)
  const written = refusingAt(path, () => writer.write(inlined(plain, 'escapable', translation.schemaBudget), ''))
  const { reason } = writer.unknowns
  if (reason !== undefined) translation.lose('schema_adjusted', path, reason)
  return withFormatNotes(written, format, translation)
}

/** Keywords that Google documents. Others are sent too: Google accepts them, and may support them later. */
const SUPPORTED = new Set([
  '$defs',
  '$ref',
  'type',
  'format',
  'enum',
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'anyOf',
  'properties',
  'additionalProperties',
  'required',
])

/** Steps to the schemas inside supported keywords. */
const SUBSCHEMAS = /^(items$|additionalProperties$|(anyOf|oneOf|allOf|prefixItems)\[|(properties|\$defs)\.)/

const VALUE_TYPES = ['string', 'number', 'null', 'boolean', 'object', 'array'] as const
type ValueType = (typeof VALUE_TYPES)[number]

/** Writes one schema and collects what Google does not know of it. */
class SchemaWriter {
  readonly unknowns = new UnknownKeywords()
  readonly #budget: SchemaBudget

  constructor(budget: SchemaBudget) {
    this.#budget = budget
  }

  /** `path`: within the schema. */
  write(schema: Schema, path: string): Schema {
    const whole = Array.isArray(schema.allOf) ? this.#joined(schema) : schema
    const written = mapSchemas(whole, (inner, steps) => this.#writeInner(inner, steps, whole, path))
    if (Array.isArray(written.oneOf) && written.anyOf === undefined) {
      if (!allDisjoint(written.oneOf, this.#budget)) this.unknowns.add('oneOf, which it reads as anyOf', path)
      written.anyOf = written.oneOf
      delete written.oneOf
    }
    makeBoundsInclusive(written)
    this.#declareRequired(written, path)
    const chosen = this.#withChoices(written, path)
    for (const keyword of Object.keys(chosen))
      if (!SUPPORTED.has(keyword) && !isAnnotation(keyword)) this.unknowns.add(keyword, path)
    return chosen
  }

  #writeInner(inner: Schema | boolean, steps: string, whole: Schema, path: string): unknown {
    if (!SUBSCHEMAS.test(steps)) return inner
    if (isObject(inner)) return this.write(inner, joinPath(path, steps))
    if (steps === 'additionalProperties') return inner
    if (inner) return blank()
    if (steps.startsWith('properties.') && whole.additionalProperties === false) return undefined
    this.unknowns.add('false', joinPath(path, steps))
    return blank()
  }

  /** The schema with its `allOf` intersected, or unchanged where that is not exact. */
  #joined({ allOf, ...rest }: Schema): Schema {
    const branches = (allOf as unknown[]).filter((branch) => branch !== true)
    const joined = branches.every(isObject)
      ? intersectAll(
          rest,
          branches.map((branch) => (Array.isArray(branch.allOf) ? this.#joined(branch) : branch)),
          this.#budget,
        )
      : undefined
    return joined ?? blank(rest, { allOf })
  }

  /** Google refuses a required property that is not declared. */
  #declareRequired(schema: Schema, path: string): void {
    const { properties, additionalProperties: others } = schema
    const missing = names(schema.required).filter((name) => !isObject(properties) || !Object.hasOwn(properties, name))
    if (missing.length === 0) return
    if (others === false) this.unknowns.add('a required property that the object may not have', path)
    schema.properties = blank(
      objectOf(properties),
      Object.fromEntries(missing.map((name) => [name, isObject(others) ? others : blank()])),
    )
  }

  /** Google supports enums of strings or of numbers, and no constants: values of several types become an `anyOf`. */
  #withChoices(schema: Schema, path: string): Schema {
    const values = literals(schema)
    if (values === undefined) return schema
    const { const: _const, enum: _enum, ...rest } = schema
    const { type: _type, ...others } = rest
    const types = typesOf(rest)
    const byType = Map.groupBy(values, valueTypeOf)
    const choices = VALUE_TYPES.map((type) => this.#choiceOf(type, byType.get(type) ?? [], types, path)).filter(
      (choice) => choice !== undefined,
    )
    const [only] = choices
    if (only !== undefined && choices.length === 1) return blank(only, others)
    if (only !== undefined && others.anyOf === undefined) return blank(others, { anyOf: choices })
    this.unknowns.add('enum', path)
    return blank(rest)
  }

  /** The choice of values of one type; undefined where there are none or `types` does not allow it. */
  #choiceOf(
    type: ValueType,
    values: readonly unknown[],
    types: readonly string[] | undefined,
    path: string,
  ): Schema | undefined {
    const isInteger = type === 'number' && types?.includes('integer') === true && !types.includes('number')
    if (values.length === 0 || !(types === undefined || types.includes(type) || isInteger)) return undefined
    switch (type) {
      case 'string':
        return blank({ type, enum: values })
      case 'number': {
        const accepted = isInteger ? values.filter((value) => Number.isInteger(value)) : values
        return accepted.length === 0 ? undefined : blank({ type: isInteger ? 'integer' : type, enum: accepted })
      }
      case 'boolean':
        if (new Set(values).size === 1) this.unknowns.add(`${String(values[0])} as the only value`, path)
        return blank({ type })
      case 'object':
      case 'array':
        this.unknowns.add(`a choice of values of type ${type}`, path)
        return blank({ type })
      case 'null':
        return blank({ type })
    }
  }
}

const valueTypeOf = (value: unknown): ValueType =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : (typeof value as ValueType)

/** An exclusive bound of integers is the inclusive bound of the next one. */
function makeBoundsInclusive(schema: Schema): void {
  if (schema.type !== 'integer') return
  for (const [exclusive, inclusive, step, tighter] of [
    ['exclusiveMinimum', 'minimum', 1, Math.max],
    ['exclusiveMaximum', 'maximum', -1, Math.min],
  ] as const) {
    const bound = schema[exclusive]
    if (typeof bound !== 'number' || !Number.isSafeInteger(bound + step)) continue
    const other = schema[inclusive]
    schema[inclusive] = typeof other === 'number' ? tighter(other, bound + step) : bound + step
    delete schema[exclusive]
  }
}
