import type { Tool } from '../../generation/request.ts'
import { isObject } from '../fields.ts'
import { plainSchema } from '../schema/dialect.ts'
import { areApart, intersect, literals } from '../schema/intersect.ts'
import { inlined, tooLarge } from '../schema/references.ts'
import type { FunctionTool, SchemaLoss } from '../schema/cache.ts'
import { objectRoot } from '../schema/root.ts'
import {
  blank,
  isNote,
  names,
  refusingAt,
  type Schema,
  type SchemaBudget,
  SchemaRefusal,
  stepInto,
  takesAnything,
  typesOf,
  Unknowns,
} from '../schema/schema.ts'
import type { Translation } from '../translation.ts'

/** A tool's `input_schema`: any JSON Schema with an object at its root. */
export function inputSchema(tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void): Schema {
  const unknowns = new Unknowns()
  const schema = objectRoot(plainSchema(tool.parameters ?? true, true), unknowns, budget)
  if (unknowns.reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason: unknowns.reason })
  return schema
}

/** The schema of the response. Throws invalid_request with the path of the schema for a recursive one. */
export function outputSchema(schema: unknown, translation: Translation): Schema {
  const budget = translation.schemaBudget
  const narrower = new Narrower(budget)
  const path = translation.setting('outputFormat.schema')
  const written = refusingAt(path, () => narrower.write(wholeSchema(plainSchema(schema, true), budget), ''))
  if (narrower.unknowns.reason !== undefined) translation.lose('schema_adjusted', path, narrower.unknowns.reason)
  return written
}

const wholeSchema = (plain: Schema | boolean, budget: SchemaBudget): Schema | boolean =>
  isObject(plain) ? inlined(plain, 'none', budget) : plain

/**
 * What Anthropic takes of strict tools in one request: documented, and refused beyond (seen 2026-11). A single schema
 * with 24 optional properties was refused as too complex.
 */
const STRICT_MAX = { tools: 20, optional: 23, unions: 16 }

/** The schemas of strict tools: those that the provider can hold a call to. Why another is not strict is told. */
export function strictSchemas(tools: readonly Tool[], translation: Translation): Map<Tool, Schema> {
  const strict = new Map<Tool, Schema>()
  const left = { ...STRICT_MAX }
  for (const tool of tools) {
    if (tool.type !== 'function' || tool.strict !== true) continue
    const { schema, unknowns, why } = strictly(tool, translation.schemaBudget)
    const cost = schema === undefined ? undefined : costOf(schema)
    const beyond =
      cost === undefined
        ? undefined
        : left.tools === 0
          ? `more than ${STRICT_MAX.tools} of them`
          : cost.optional > left.optional
            ? `more than ${STRICT_MAX.optional} optional properties in all of them`
            : cost.unions > left.unions
              ? `more than ${STRICT_MAX.unions} unions in all of them`
              : undefined
    if (schema === undefined || cost === undefined || beyond !== undefined) {
      translation.lose(
        'strict_not_enforced',
        translation.at(tool, 'strict'),
        beyond === undefined
          ? `the provider cannot hold a call to its schema: ${why}`
          : `the provider takes no strict tools with ${beyond}`,
      )
      continue
    }
    if (unknowns.reason !== undefined)
      translation.lose('schema_adjusted', translation.at(tool, 'parameters'), unknowns.reason)
    left.tools--
    left.optional -= cost.optional
    left.unions -= cost.unions
    strict.set(tool, schema)
  }
  return strict
}

function strictly(
  { parameters }: FunctionTool,
  budget: SchemaBudget,
): { schema?: Schema; unknowns: Unknowns; why?: string } {
  const unknowns = new Unknowns()
  try {
    const narrower = new Narrower(budget)
    const root = objectRoot(plainSchema(parameters ?? true, true), unknowns, budget)
    const schema = narrower.write(wholeSchema(root, budget), '')
    if (unknowns.some || narrower.narrows)
      return { unknowns, why: `it does not know ${unknowns.some ? unknowns : narrower.unknowns}` }
    return { schema, unknowns: narrower.unknowns }
  } catch (error) {
    if (error instanceof SchemaRefusal) return { unknowns, why: error.message }
    throw error
  }
}

function costOf(schema: unknown): { optional: number; unions: number } {
  if (Array.isArray(schema))
    return schema
      .map(costOf)
      .reduce((sum, cost) => ({ optional: sum.optional + cost.optional, unions: sum.unions + cost.unions }), {
        optional: 0,
        unions: 0,
      })
  if (!isObject(schema)) return { optional: 0, unions: 0 }
  const required = new Set(names(schema.required))
  const properties = isObject(schema.properties) ? schema.properties : {}
  const below = costOf([...Object.values(properties), schema.items, schema.anyOf])
  const optional = Object.keys(properties).filter((name) => !required.has(name)).length
  return {
    optional: below.optional + optional,
    unions: below.unions + (schema.anyOf !== undefined || Array.isArray(schema.type) ? 1 : 0),
  }
}

const FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'])
const KEPT_NOTES = new Set(['title', 'default', 'description'])
/** Words that ask something only of values of a type. */
const ASKS: Record<string, readonly string[]> = {
  object: [
    'properties',
    'required',
    'additionalProperties',
    'minProperties',
    'maxProperties',
    'patternProperties',
    'propertyNames',
    'dependentRequired',
    'dependentSchemas',
    'unevaluatedProperties',
  ],
  array: [
    'items',
    'prefixItems',
    'minItems',
    'maxItems',
    'uniqueItems',
    'contains',
    'minContains',
    'maxContains',
    'unevaluatedItems',
  ],
  string: ['minLength', 'maxLength', 'pattern', 'format', 'contentEncoding', 'contentMediaType', 'contentSchema'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
}
const TYPED = new Set(Object.values(ASKS).flat())
/** Regular expressions that its grammar does not know: looking around, back references, word boundaries. */
const HARD_PATTERN = /\(\?[=!<]|\\[1-9bB]/

/**
 * Writes a schema in the words of Anthropic's constrained decoding; what these cannot say stands in the description,
 * where the model reads it.
 */
class Narrower {
  readonly #budget: SchemaBudget
  readonly unknowns = new Unknowns()
  /** Values that the client would take cannot be written. */
  narrows = false

  constructor(budget: SchemaBudget) {
    this.#budget = budget
  }

  write(schema: Schema | boolean, place: string): Schema {
    if (takesAnything(schema) || !isObject(schema)) return this.#anything(isObject(schema) ? schema : {}, place)
    const all = Array.isArray(schema.allOf) ? this.#joined(schema, place) : schema
    for (const word of ['anyOf', 'oneOf']) if (Array.isArray(all[word])) return this.#union(all, word, place)
    const values = literals(all)
    if (values !== undefined) return this.#literals(all, values, place)
    const types = [...new Set(typesOf(all))]
    if (all.type === undefined)
      types.push(
        ...Object.keys(ASKS)
          .filter((type) => ASKS[type]!.some((word) => all[word] !== undefined))
          .slice(0, 1),
      )
    if (types.length === 0) return this.#anything(all, place)
    if (types.length > 1 && (types.includes('object') || types.includes('array'))) {
      const { type: _types, ...rest } = all
      this.#repeat(rest, types.length)
      return blank(notesOf(rest), {
        anyOf: types.map((type) => this.write(blank({ type }, asksOf(rest, type)), place)),
      })
    }
    return this.#typed(all, types, place)
  }

  /** Any value at all cannot be said: objects are closed. */
  #anything(schema: Schema, place: string): Schema {
    this.narrows = true
    this.unknowns.add('values of any kind: they are text, numbers, true, false or null', place)
    return this.#noted(schema, [], { type: ['string', 'number', 'boolean', 'null'] }, place)
  }

  #joined(schema: Schema, place: string): Schema {
    const { allOf, ...rest } = schema
    return (allOf as unknown[]).filter(isObject).reduce<Schema>((joined, branch) => {
      const exact = intersect(joined, branch, this.#budget)
      if (exact !== undefined) return exact
      this.unknowns.add('allOf', place)
      for (const word of Object.keys(branch)) joined[word] ??= branch[word]
      return joined
    }, blank(rest))
  }

  /** What stands beside alternatives is said in each of them. */
  #repeat(schema: Schema, times: number): void {
    if (!this.#budget.affords('characters', (JSON.stringify(schema).length - '{}'.length) * (times - 1)))
      throw tooLarge()
  }

  #union(schema: Schema, word: string, place: string): Schema {
    const branches = (schema[word] as unknown[])
      .filter((branch) => branch !== false)
      .map((branch) => (isObject(branch) ? branch : blank()))
    const rest = Object.entries(schema).filter(([name]) => name !== word)
    const beside = blank(Object.fromEntries(rest.filter(([name]) => !isNote(name))))
    this.#repeat(beside, branches.length)
    const joined = branches.map((branch) =>
      Object.keys(beside).length === 0 ? branch : intersect(branch, beside, this.#budget),
    )
    if (joined.some((branch) => branch === undefined)) {
      this.unknowns.add(word, place)
      return this.write(blank(Object.fromEntries(rest)), place)
    }
    if (word === 'oneOf' && !areApart(joined, this.#budget)) this.unknowns.add('oneOf, which becomes anyOf', place)
    const written = joined.map((branch, index) => this.write(branch!, stepInto(place, `${word}[${index}]`)))
    return blank(notesOf(Object.fromEntries(rest)), { anyOf: written })
  }

  #literals(schema: Schema, values: unknown[], place: string): Schema {
    const types = typesOf(schema)
    const fitting = values.filter((value) => types === undefined || types.some((type) => isOfType(value, type)))
    if (fitting.length === 0) this.unknowns.add('a choice of nothing', place)
    if (fitting.length === 0)
      return blank(notesOf(schema), { enum: values.filter((value) => !isObject(value) && !Array.isArray(value)) })
    if (fitting.every((value) => !isObject(value) && !Array.isArray(value))) {
      const type = types?.length === 1 ? { type: types[0] } : {}
      const written = Object.hasOwn(schema, 'const') && fitting.length === 1 ? { const: fitting[0] } : { enum: fitting }
      return this.#noted(
        schema,
        Object.keys(schema).filter((word) => !TYPED.has(word) && !['not', 'if', 'then', 'else'].includes(word)),
        { ...type, ...written },
        place,
      )
    }
    return blank(notesOf(schema), { anyOf: fitting.map((value) => this.#exactly(value, place)) })
  }

  #exactly(value: unknown, place: string): Schema {
    if (isObject(value)) {
      const properties = blank(
        Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.#exactly(member, place)])),
      )
      return blank({ type: 'object', properties, required: Object.keys(value), additionalProperties: false })
    }
    if (!Array.isArray(value)) return blank({ const: value })
    this.unknowns.add('a list as a constant', place)
    return this.write(blank({ type: 'array', items: blank({ enum: value }) }), place)
  }

  #typed(schema: Schema, types: string[], place: string): Schema {
    const type = types.length === 1 ? types[0]! : types
    if (type === 'object') return this.#object(schema, place)
    if (type === 'array') return this.#array(schema, place)
    const known = [
      'type',
      ...(types.includes('string') && FORMATS.has(String(schema.format)) ? ['format'] : []),
      ...(types.includes('string') && typeof schema.pattern === 'string' && !HARD_PATTERN.test(schema.pattern)
        ? ['pattern']
        : []),
    ]
    const kept = Object.fromEntries(known.slice(1).map((word) => [word, schema[word]]))
    // Formats of numbers only say how they are kept.
    const without = types.includes('string') ? [] : ['format']
    return this.#noted(schema, [...known, ...without], { type, ...kept }, place, types)
  }

  #object(schema: Schema, place: string): Schema {
    const given = Object.entries(isObject(schema.properties) ? schema.properties : {}).filter(
      ([, inner]) => inner !== false,
    )
    const properties = blank(
      Object.fromEntries(
        given.map(([name, inner]) => [
          name,
          this.write(isObject(inner) ? inner : true, stepInto(place, `properties.${name}`)),
        ]),
      ),
    )
    for (const name of names(schema.required))
      properties[name] ??= this.#anything({}, stepInto(place, `properties.${name}`))
    if (
      schema.additionalProperties === undefined
        ? given.length === 0 && schema.properties === undefined
        : schema.additionalProperties !== false || schema.patternProperties !== undefined
    ) {
      this.narrows = true
      this.unknowns.add('additionalProperties', place)
    }
    const required = schema.required === undefined ? {} : { required: schema.required }
    return this.#noted(
      schema,
      ['type', 'properties', 'required', 'additionalProperties'],
      { type: 'object', properties, ...required, additionalProperties: false },
      place,
      ['object'],
    )
  }

  #array(schema: Schema, place: string): Schema {
    const tuple = Array.isArray(schema.prefixItems) ? schema.prefixItems : []
    const kinds = [...tuple, ...(schema.items === undefined || schema.items === false ? [] : [schema.items])].map(
      (inner) => (isObject(inner) ? inner : true),
    )
    const items =
      kinds.length === 1
        ? kinds[0]!
        : kinds.length === 0
          ? true
          : kinds.every(isObject)
            ? blank({ anyOf: kinds })
            : true
    const few = schema.minItems === 0 || schema.minItems === 1 ? { minItems: schema.minItems } : {}
    return this.#noted(
      schema,
      ['type', 'items', ...Object.keys(few)],
      { type: 'array', items: this.write(items, stepInto(place, 'items')), ...few },
      place,
      ['array'],
    )
  }

  /**
   * `known`: words that `written` says. The others that ask something of values of these types, and notes that the
   * provider does not know, go into the description.
   */
  #noted(schema: Schema, known: readonly string[], written: Schema, place: string, types?: readonly string[]): Schema {
    const asks = (word: string): boolean =>
      !TYPED.has(word) ||
      types === undefined ||
      types.some((type) => ASKS[type === 'integer' ? 'number' : type]?.includes(word) === true)
    const left = Object.keys(schema).filter(
      (word) =>
        !known.includes(word) &&
        !KEPT_NOTES.has(word) &&
        !['type', 'const', 'enum', '$id', '$anchor', '$defs', 'definitions'].includes(word) &&
        asks(word),
    )
    for (const word of left) if (!isNote(word)) this.unknowns.add(word, place)
    const told =
      left.length === 0 ? '' : `{${left.map((word) => `${word}: ${JSON.stringify(schema[word])}`).join(', ')}}`
    const description = [schema.description, told]
      .filter((text) => typeof text === 'string' && text !== '')
      .join('\n\n')
    return blank(written, notesOf(schema), description === '' ? {} : { description })
  }
}

const notesOf = (schema: Schema): Schema =>
  blank(Object.fromEntries(Object.entries(schema).filter(([word]) => KEPT_NOTES.has(word))))

/** The words that ask something of values of this type. */
const asksOf = (schema: Schema, type: string): Schema =>
  Object.fromEntries(
    Object.entries(schema).filter(
      ([word]) =>
        !isNote(word) && (!TYPED.has(word) || ASKS[type === 'integer' ? 'number' : type]?.includes(word) === true),
    ),
  )

const isOfType = (value: unknown, type: string): boolean => {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}
