import { isObject, objectOf, stringOf } from '../../json/parse.ts'
import { allDisjoint, intersect, Intersection, literals } from '../schema/intersect.ts'
import { tooLarge } from '../schema/references.ts'
import {
  blank,
  isAnnotation,
  names,
  type Schema,
  type SchemaBudget,
  joinPath,
  acceptsAnything,
  typesOf,
  UnknownKeywords,
} from '../schema/schema.ts'

const FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'])
/** Annotations that the provider accepts. */
const ANNOTATIONS = new Set(['title', 'default', 'description'])
/** Keywords that constrain only values of one type. */
const CONSTRAINTS = {
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
/** `CONSTRAINTS` by type: a schema may name any type, `constructor` too. */
const CONSTRAINTS_BY_TYPE: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(CONSTRAINTS))
const TYPED: ReadonlySet<string> = new Set(Object.values(CONSTRAINTS).flat())
/** Regular expressions that are not supported: lookaround, back references, keyword boundaries. */
const UNSUPPORTED_PATTERN = /\(\?[=!<]|\\[1-9bB]/

/**
 * Writes schemas with the keywords of Anthropic's constrained decoding; other keywords become text of the description,
 * which the model reads.
 */
export class ConstrainedSchemaWriter {
  readonly #budget: SchemaBudget
  readonly unknowns = new UnknownKeywords()
  /** Values that the client's schema allows cannot be generated. */
  narrows = false

  constructor(budget: SchemaBudget) {
    this.#budget = budget
  }

  write(schema: Schema | boolean, path: string): Schema {
    if (acceptsAnything(schema) || !isObject(schema)) return this.#anything(objectOf(schema), path)
    const all = Array.isArray(schema.allOf) ? this.#joined(schema, path) : schema
    for (const keyword of ['anyOf', 'oneOf']) if (Array.isArray(all[keyword])) return this.#union(all, keyword, path)
    const values = literals(all)
    if (values !== undefined) return this.#choice(all, values, path)
    const types = [...new Set(typesOf(all))]
    if (all.type === undefined) types.push(...impliedType(all))
    if (types.length === 0) return this.#anything(all, path)
    if (types.length > 1 && (types.includes('object') || types.includes('array'))) {
      const { type: _types, ...rest } = all
      this.#affordCopies(rest, types.length)
      return blank(notesOf(rest), {
        anyOf: types.map((type) => this.write(blank({ type }, constraintsOf(rest, type)), path)),
      })
    }
    return this.#typed(all, types, path)
  }

  /** Objects are closed, so that no schema allows any value at all. */
  #anything(schema: Schema, path: string): Schema {
    this.narrows = true
    this.unknowns.add('values of any kind: they are text, numbers, true, false or null', path)
    return this.#annotated(schema, [], { type: ['string', 'number', 'boolean', 'null'] }, path)
  }

  /** The schema with its `allOf` intersected, at any depth of them; the loss is reported where that is not exact. */
  #joined(schema: Schema, path: string): Schema {
    const { allOf, ...rest } = schema
    const joined = new Intersection(rest, this.#budget)
    for (const one of allOf as unknown[]) {
      if (one === false) this.unknowns.add('allOf with false', path)
      if (!isObject(one)) continue
      const branch = Array.isArray(one.allOf) ? this.#joined(one, path) : one
      if (joined.add(branch)) continue
      this.unknowns.add('allOf', path)
      for (const keyword of Object.keys(branch)) joined.schema[keyword] ??= branch[keyword]
    }
    return joined.schema
  }

  /** Accounts for keywords beside alternatives, which are repeated in each of them. */
  #affordCopies(schema: Schema, times: number): void {
    if (!this.#budget.affords('characters', (JSON.stringify(schema).length - '{}'.length) * (times - 1)))
      throw tooLarge()
  }

  #union(schema: Schema, keyword: string, path: string): Schema {
    const branches = (schema[keyword] as unknown[])
      .filter((branch) => branch !== false)
      .map((branch) => (isObject(branch) ? branch : blank()))
    const rest = Object.entries(schema).filter(([name]) => name !== keyword)
    const beside = blank(Object.fromEntries(rest.filter(([name]) => !isAnnotation(name))))
    this.#affordCopies(beside, branches.length)
    const joined = branches.map((branch) =>
      Object.keys(beside).length === 0 ? branch : intersect(branch, beside, this.#budget),
    )
    if (joined.some((branch) => branch === undefined)) {
      this.unknowns.add(keyword, path)
      return this.write(blank(Object.fromEntries(rest)), path)
    }
    if (keyword === 'oneOf' && !allDisjoint(joined, this.#budget)) this.unknowns.add('oneOf, which becomes anyOf', path)
    const written = joined.map((branch, index) => this.write(branch!, joinPath(path, `${keyword}[${index}]`)))
    return blank(notesOf(Object.fromEntries(rest)), { anyOf: written })
  }

  #choice(schema: Schema, values: unknown[], path: string): Schema {
    const types = typesOf(schema)
    const fitting = values.filter((value) => types === undefined || types.some((type) => isOfType(value, type)))
    if (fitting.length === 0) this.unknowns.add('a choice of nothing', path)
    if (fitting.length === 0)
      return blank(notesOf(schema), { enum: values.filter((value) => !isObject(value) && !Array.isArray(value)) })
    if (fitting.every((value) => !isObject(value) && !Array.isArray(value))) {
      const type = types?.length === 1 ? { type: types[0] } : {}
      const written = Object.hasOwn(schema, 'const') && fitting.length === 1 ? { const: fitting[0] } : { enum: fitting }
      return this.#annotated(
        schema,
        Object.keys(schema).filter(
          (keyword) => !TYPED.has(keyword) && !['not', 'if', 'then', 'else'].includes(keyword),
        ),
        { ...type, ...written },
        path,
      )
    }
    return blank(notesOf(schema), { anyOf: fitting.map((value) => this.#constant(value, path)) })
  }

  #constant(value: unknown, path: string): Schema {
    if (isObject(value)) {
      const properties = blank(
        Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.#constant(member, path)])),
      )
      return blank({ type: 'object', properties, required: Object.keys(value), additionalProperties: false })
    }
    if (!Array.isArray(value)) return blank({ const: value })
    this.unknowns.add('a list as a constant', path)
    return this.write(blank({ type: 'array', items: blank({ enum: value }) }), path)
  }

  #typed(schema: Schema, types: string[], path: string): Schema {
    const type = types.length === 1 ? types[0]! : types
    if (type === 'object') return this.#object(schema, path)
    if (type === 'array') return this.#array(schema, path)
    const known = [
      'type',
      ...(types.includes('string') && FORMATS.has(stringOf(schema.format)) ? ['format'] : []),
      ...(types.includes('string') && typeof schema.pattern === 'string' && !UNSUPPORTED_PATTERN.test(schema.pattern)
        ? ['pattern']
        : []),
    ]
    const kept = Object.fromEntries(known.slice(1).map((keyword) => [keyword, schema[keyword]]))
    // Formats of numbers only say how they are stored.
    const without = types.includes('string') ? [] : ['format']
    return this.#annotated(schema, [...known, ...without], { type, ...kept }, path, types)
  }

  #object(schema: Schema, path: string): Schema {
    const allowed = Object.entries(objectOf(schema.properties)).filter(([, inner]) => inner !== false)
    const properties = blank(
      Object.fromEntries(
        allowed.map(([name, inner]) => [name, this.write(objectOf(inner), joinPath(path, `properties.${name}`))]),
      ),
    )
    for (const name of names(schema.required))
      properties[name] ??= this.#anything({}, joinPath(path, `properties.${name}`))
    if (
      schema.additionalProperties === undefined
        ? allowed.length === 0 && schema.properties === undefined
        : schema.additionalProperties !== false || schema.patternProperties !== undefined
    ) {
      this.narrows = true
      this.unknowns.add('additionalProperties', path)
    }
    const required = schema.required === undefined ? {} : { required: schema.required }
    return this.#annotated(
      schema,
      ['type', 'properties', 'required', 'additionalProperties'],
      { type: 'object', properties, ...required, additionalProperties: false },
      path,
      ['object'],
    )
  }

  #array(schema: Schema, path: string): Schema {
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
    const minItems = schema.minItems === 0 || schema.minItems === 1 ? { minItems: schema.minItems } : {}
    return this.#annotated(
      schema,
      ['type', 'items', ...Object.keys(minItems)],
      { type: 'array', items: this.write(items, joinPath(path, 'items')), ...minItems },
      path,
      ['array'],
    )
  }

  /**
   * Adds annotations, and the keywords of `schema` that are not in `known` as text of the description. `types`: of the
   * values; keywords of other types have no effect and are left out.
   */
  #annotated(
    schema: Schema,
    known: readonly string[],
    written: Schema,
    path: string,
    types?: readonly string[],
  ): Schema {
    const rest = Object.keys(schema).filter(
      (keyword) =>
        !known.includes(keyword) && !STRUCTURE.has(keyword) && !ANNOTATIONS.has(keyword) && constrains(keyword, types),
    )
    for (const keyword of rest) if (!isAnnotation(keyword)) this.unknowns.add(keyword, path)
    const text = rest.map((keyword) => `${keyword}: ${JSON.stringify(schema[keyword])}`).join(', ')
    const description = [schema.description, text === '' ? '' : `{${text}}`]
      .filter((one) => typeof one === 'string' && one !== '')
      .join('\n\n')
    return blank(written, notesOf(schema), description === '' ? {} : { description })
  }
}

/** Keywords that are written or resolved before the others are described. */
const STRUCTURE = new Set(['type', 'const', 'enum', '$id', '$anchor', '$defs', 'definitions'])

/** False for a keyword that constrains only values of other types. */
const constrains = (keyword: string, types: readonly string[] | undefined): boolean =>
  !TYPED.has(keyword) ||
  types === undefined ||
  types.some((type) => CONSTRAINTS_BY_TYPE.get(type === 'integer' ? 'number' : type)?.includes(keyword) === true)

/** The type whose constraints a schema without `type` has, in a list; an empty list if it has none. */
function impliedType(schema: Schema): string[] {
  for (const [type, keywords] of CONSTRAINTS_BY_TYPE)
    if (keywords.some((keyword) => schema[keyword] !== undefined)) return [type]
  return []
}

const notesOf = (schema: Schema): Schema =>
  blank(Object.fromEntries(Object.entries(schema).filter(([keyword]) => ANNOTATIONS.has(keyword))))

/** The keywords that constrain values of this type. */
const constraintsOf = (schema: Schema, type: string): Schema =>
  Object.fromEntries(
    Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword) && constrains(keyword, [type])),
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
