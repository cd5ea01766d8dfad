import { isObject } from '../fields.ts'
import { plainSchema } from '../schema/dialect.ts'
import { areApart, intersect, literals } from '../schema/intersect.ts'
import { inlined } from '../schema/references.ts'
import type { FunctionTool, SchemaLoss } from '../schema/cache.ts'
import { objectRoot } from '../schema/root.ts'
import {
  blank,
  isNote,
  mapSchemas,
  names,
  refusingAt,
  type Schema,
  type SchemaBudget,
  stepInto,
  typesOf,
  Unknowns,
} from '../schema/schema.ts'
import type { Translation } from '../translation.ts'

/**
 * `parametersJsonSchema`. Throws a SchemaRefusal where a reference leads nowhere, or recurses through what is required.
 */
export function parametersSchema(tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void): Schema {
  const unknowns = new Unknowns()
  const root = objectRoot(plainSchema(tool.parameters ?? true, false), unknowns, budget)
  const schema = rewritten(inlined(root, 'escapable', budget), '', unknowns, budget)
  if (unknowns.reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason: unknowns.reason })
  return schema
}

/** `responseJsonSchema`. Throws invalid_request with the path of the schema, as `parametersSchema` does. */
export function responseSchema(schema: unknown, translation: Translation): Schema {
  const unknowns = new Unknowns()
  const path = translation.setting('outputFormat.schema')
  const plain = plainSchema(schema, false)
  const budget = translation.schemaBudget
  const written = isObject(plain)
    ? refusingAt(path, () => rewritten(inlined(plain, 'escapable', budget), '', unknowns, budget))
    : blank()
  if (unknowns.reason !== undefined) translation.lose('schema_adjusted', path, unknowns.reason)
  return written
}

/**
 * Words that Google's document says it heeds. Others are sent as they are: it takes them, and may come to know them.
 */
const HEEDED = new Set([
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

/** Where the schemas of its words stand. */
const SUBSCHEMAS = /^(items$|additionalProperties$|(anyOf|oneOf|allOf|prefixItems)\[|(properties|\$defs)\.)/

function rewritten(schema: Schema, place: string, unknowns: Unknowns, budget: SchemaBudget): Schema {
  const whole = Array.isArray(schema.allOf) ? joined(schema, budget) : schema
  const written = mapSchemas(whole, (inner, steps) => {
    if (!SUBSCHEMAS.test(steps)) return inner
    if (isObject(inner)) return rewritten(inner, stepInto(place, steps), unknowns, budget)
    if (steps === 'additionalProperties' || inner) return steps === 'additionalProperties' ? inner : blank()
    if (steps.startsWith('properties.') && whole.additionalProperties === false) return undefined
    unknowns.add('false', stepInto(place, steps))
    return blank()
  })
  if (Array.isArray(written.oneOf) && written.anyOf === undefined) {
    if (!areApart(written.oneOf, budget)) unknowns.add('oneOf, which it reads as anyOf', place)
    written.anyOf = written.oneOf
    delete written.oneOf
  }
  wholeBounds(written)
  declareRequired(written, place, unknowns)
  const chosen = withChoices(written, place, unknowns)
  for (const word of Object.keys(chosen)) if (!HEEDED.has(word) && !isNote(word)) unknowns.add(word, place)
  return chosen
}

function joined({ allOf, ...rest }: Schema, budget: SchemaBudget): Schema {
  const exact = (allOf as unknown[]).reduce<Schema | undefined>(
    (whole, branch) =>
      whole &&
      (branch === true
        ? whole
        : isObject(branch)
          ? intersect(whole, Array.isArray(branch.allOf) ? joined(branch, budget) : branch, budget)
          : undefined),
    blank(rest),
  )
  return exact ?? blank(rest, { allOf })
}

/** Google refuses a required property that it does not find among the others. */
function declareRequired(schema: Schema, place: string, unknowns: Unknowns): void {
  const { properties, additionalProperties: others } = schema
  const missing = names(schema.required).filter((name) => !isObject(properties) || !Object.hasOwn(properties, name))
  if (missing.length === 0) return
  if (others === false) unknowns.add('a required property that the object may not have', place)
  schema.properties = blank(
    isObject(properties) ? properties : {},
    Object.fromEntries(missing.map((name) => [name, isObject(others) ? others : blank()])),
  )
}

/** Of whole numbers, the one behind an exclusive bound is an inclusive one. */
function wholeBounds(schema: Schema): void {
  if (schema.type !== 'integer') return
  for (const [exclusive, inclusive, step] of [
    ['exclusiveMinimum', 'minimum', 1],
    ['exclusiveMaximum', 'maximum', -1],
  ] as const) {
    const bound = schema[exclusive]
    if (typeof bound !== 'number' || !Number.isSafeInteger(bound + step)) continue
    const other = schema[inclusive]
    schema[inclusive] =
      typeof other !== 'number'
        ? bound + step
        : step === 1
          ? Math.max(other, bound + step)
          : Math.min(other, bound + step)
    delete schema[exclusive]
  }
}

/** Google knows lists of strings or numbers to choose from, and no constants. */
function withChoices(schema: Schema, place: string, unknowns: Unknowns): Schema {
  const values = literals(schema)
  if (values === undefined) return schema
  const { const: _const, enum: _enum, ...rest } = schema
  const types = typesOf(rest)
  const plain = values.filter((value) => typeof value === 'string' || typeof value === 'number')
  const allows = (type: string): boolean => types === undefined || types.includes(type)
  const choices: Schema[] = []
  const [strings, numbers] = [
    plain.filter((value) => typeof value === 'string'),
    plain.filter((value) => typeof value === 'number'),
  ]
  if (strings.length > 0 && allows('string')) choices.push(blank({ type: 'string', enum: strings }))
  const integers = types !== undefined && types.includes('integer') && !types.includes('number')
  const fitting = integers ? numbers.filter((value) => Number.isInteger(value)) : numbers
  if (fitting.length > 0 && (allows('number') || integers))
    choices.push(blank({ type: integers ? 'integer' : 'number', enum: fitting }))
  if (values.includes(null) && allows('null')) choices.push(blank({ type: 'null' }))
  const flags = values.filter((value) => typeof value === 'boolean')
  if (flags.length > 0 && allows('boolean')) {
    choices.push(blank({ type: 'boolean' }))
    if (new Set(flags).size === 1) unknowns.add(`${flags[0]} as the only value`, place)
  }
  for (const kind of ['object', 'array']) {
    if (!allows(kind) || !values.some((value) => (kind === 'array' ? Array.isArray(value) : isObject(value)))) continue
    choices.push(blank({ type: kind }))
    unknowns.add(`a choice of values of type ${kind}`, place)
  }
  const { type: _type, ...others } = rest
  const [only] = choices
  if (only !== undefined && choices.length === 1) return blank(only, others)
  if (choices.length === 0 || others.anyOf !== undefined) {
    unknowns.add('enum', place)
    return blank(rest)
  }
  return blank(others, { anyOf: choices })
}
