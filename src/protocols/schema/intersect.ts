import { isObject } from '../../json/parse.ts'
import { blank, isAnnotation, names, typesOf, type Schema, type SchemaBudget } from './schema.ts'

const LOWER: ReadonlySet<string> = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'])
const UPPER: ReadonlySet<string> = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'])
/** Keywords whose meaning depends on keywords beside them. */
const DEPENDENT: ReadonlySet<string> = new Set([
  'additionalProperties',
  'patternProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'items',
  'prefixItems',
  'if',
  'then',
  'else',
  'minContains',
  'maxContains',
  'contains',
])

/**
 * One schema for the values that both schemas accept, with the annotations of `first`; undefined if a single schema
 * cannot express it, or if the budget is used up.
 */
export function intersect(first: Schema, second: Schema, budget: SchemaBudget): Schema | undefined {
  const both = new Intersection(first, budget)
  return both.add(second) ? both.schema : undefined
}

/** The same for many schemas. */
export function intersectAll(first: Schema, others: readonly Schema[], budget: SchemaBudget): Schema | undefined {
  const all = new Intersection(first, budget)
  return others.every((other) => all.add(other)) ? all.schema : undefined
}

type Change = { of: Schema; name: string; before: unknown; existed: boolean }

/** One schema for the values that all of many schemas accept. Each costs its own size, however many came before. */
export class Intersection {
  readonly schema: Schema
  readonly #budget: SchemaBudget
  /** Copies, which may be changed. */
  readonly #owned = new Set<Schema>()
  #changes: Change[] = []

  /** `first`: has the annotations. */
  constructor(first: Schema, budget: SchemaBudget) {
    this.#budget = budget
    this.schema = this.#own(first)
  }

  /** False, and nothing is changed, if a single schema cannot express it, or if the budget is used up. */
  add(second: Schema): boolean {
    this.#changes = []
    if (this.#join(this.schema, second)) return true
    for (const { of, name, before, existed } of this.#changes.reverse())
      if (existed) of[name] = before
      else delete of[name]
    return false
  }

  #own(schema: Schema): Schema {
    if (this.#owned.has(schema)) return schema
    this.#budget.affords('steps', sizeOf(schema))
    const copy = blank(schema)
    this.#owned.add(copy)
    return copy
  }

  #set(of: Schema, name: string, value: unknown): void {
    if (of[name] === value) return
    this.#changes.push({ of, name, before: of[name], existed: Object.hasOwn(of, name) })
    if (value === undefined) delete of[name]
    else of[name] = value
  }

  #join(both: Schema, second: Schema): boolean {
    if (!this.#budget.affords('steps', sizeOf(second))) return false
    for (const keyword of DEPENDENT) {
      const isUsed = Object.hasOwn(both, keyword) || Object.hasOwn(second, keyword)
      if (isUsed && !keepsMeaning(keyword, both, second)) return false
    }
    // `const` of one and `enum` of the other are one list of values.
    const isMixed = isConst(both) !== isConst(second) && literals(both) !== undefined && literals(second) !== undefined
    if (isMixed) {
      const shared = sharedValues(literals(both), literals(second))
      if (shared === undefined) return false
      this.#set(both, 'const', undefined)
      this.#set(both, 'enum', shared)
    }
    for (const [keyword, value] of Object.entries(second))
      if (!(isMixed && (keyword === 'const' || keyword === 'enum')) && !this.#joinKeyword(both, keyword, value))
        return false
    return true
  }

  #joinKeyword(both: Schema, keyword: string, value: unknown): boolean {
    const known = both[keyword]
    if (known === undefined) this.#set(both, keyword, value)
    else if (isAnnotation(keyword)) return true
    else if (keyword === 'properties' && isObject(known) && isObject(value))
      return this.#joinProperties(this.#ownMember(both, keyword, known), value)
    else if (!isSame(known, value)) {
      // Lists are joined by copying them.
      if (Array.isArray(known) && !this.#budget.affords('steps', known.length)) return false
      const joined = joinKeyword(keyword, known, value)
      if (joined === undefined) return false
      this.#set(both, keyword, joined)
    }
    return true
  }

  #joinProperties(all: Schema, second: Schema): boolean {
    for (const [name, schema] of Object.entries(second)) {
      const known = all[name]
      if (known === undefined || known === true) this.#set(all, name, schema)
      else if (schema === true || known === schema) continue
      else if (!isObject(known) || !isObject(schema) || !this.#join(this.#ownMember(all, name, known), schema))
        return false
    }
    return true
  }

  #ownMember(of: Schema, name: string, known: Schema): Schema {
    const owned = this.#own(known)
    this.#set(of, name, owned)
    return owned
  }
}

/** Number of keywords and properties: the cost of joining a schema. */
const sizeOf = (schema: Schema): number =>
  Object.keys(schema).length + (isObject(schema.properties) ? Object.keys(schema.properties).length : 0)

/** Reports whether two JSON values are equal, at the cost of the smaller one. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((value, index) => isSame(value, other[index]))
  return isObject(one) && isObject(other) && hasSameNames(one, other, isSame)
}

function hasSameNames(one: Schema, other: Schema, isAlike: (value: unknown, another: unknown) => boolean): boolean {
  let names = 0
  for (const name in other) {
    if (!Object.hasOwn(one, name) || !isAlike(one[name], other[name])) return false
    names++
  }
  return Object.keys(one).length === names
}

/** True if a dependent keyword has the same keywords beside it in the joined schema, so that it means the same. */
function keepsMeaning(keyword: string, first: Schema, second: Schema): boolean {
  const group =
    keyword === 'items' || keyword === 'prefixItems'
      ? ['items', 'prefixItems']
      : keyword.includes('roperties')
        ? ['additionalProperties', 'patternProperties', 'unevaluatedProperties', 'properties']
        : [...DEPENDENT].filter((one) => !one.includes('roperties'))
  const isAlike = (one: string): boolean => {
    const [value, other] = [first[one], second[one]]
    return one === 'properties' && isObject(value) && isObject(other)
      ? hasSameNames(value, other, () => true)
      : isSame(value, other)
  }
  const hasNone = (schema: Schema): boolean => group.every((one) => schema[one] === undefined)
  if (hasNone(first) || hasNone(second) || group.every(isAlike)) return true
  // `additionalProperties: true` restricts nothing.
  const isOpen = (schema: Schema): boolean =>
    group.every(
      (one) =>
        one === 'properties' || schema[one] === undefined || (one === 'additionalProperties' && schema[one] === true),
    )
  return keyword === 'additionalProperties' && isOpen(first) && isOpen(second)
}

function joinKeyword(keyword: string, first: unknown, second: unknown): unknown {
  if (LOWER.has(keyword) && typeof first === 'number' && typeof second === 'number') return Math.max(first, second)
  if (UPPER.has(keyword) && typeof first === 'number' && typeof second === 'number') return Math.min(first, second)
  switch (keyword) {
    case 'required':
      return [...new Set([...names(first), ...names(second)])]
    case 'type':
      return joinTypes(typesOf({ type: first }), typesOf({ type: second }))
    case 'enum':
      return sharedValues(first, second)
    default:
      return undefined
  }
}

const isConst = (schema: Schema): boolean => Object.hasOwn(schema, 'const')

/** The values that are in both lists; undefined if there is none. */
function sharedValues(first: unknown, second: unknown): unknown[] | undefined {
  const others = new Set(Array.isArray(second) ? second.map(comparisonKey) : [])
  const shared = Array.isArray(first) ? first.filter((one) => others.has(comparisonKey(one))) : []
  return shared.length === 0 ? undefined : shared
}

function joinTypes(first: string[] | undefined, second: string[] | undefined): string | string[] | undefined {
  if (first === undefined || second === undefined) return undefined
  const includes = (types: string[], type: string): boolean =>
    types.includes(type) || (type === 'integer' && types.includes('number'))
  const shared = [
    ...new Set([...first.filter((type) => includes(second, type)), ...second.filter((type) => includes(first, type))]),
  ]
  const narrowest = shared.filter(
    (type) =>
      type !== 'number' || !shared.includes('integer') || (first.includes('number') && second.includes('number')),
  )
  return narrowest.length === 0 ? undefined : narrowest.length === 1 ? narrowest[0] : narrowest
}

/** Text that is equal for equal JSON values. */
const comparisonKey = (value: unknown): string => JSON.stringify(value)

/**
 * True if no value matches two of these schemas, so that `oneOf` means the same as `anyOf`. False if there are too many
 * to compare within the budget.
 */
export function allDisjoint(schemas: readonly unknown[], budget: SchemaBudget): boolean {
  const valueLists = schemas.map((schema) => (isObject(schema) ? literals(schema) : undefined))
  if (valueLists.every((values) => values !== undefined)) {
    const keys = valueLists.map((values) => new Set(values.map(comparisonKey)))
    return new Set(keys.flatMap((one) => [...one])).size === keys.reduce((sum, one) => sum + one.size, 0)
  }
  return (
    budget.affords('steps', schemas.length ** 2 * STEPS_PER_PAIR) &&
    schemas.every((one, index) =>
      schemas.slice(index + 1).every((other) => isObject(one) && isObject(other) && areDisjoint(one, other, budget)),
    )
  )
}

const STEPS_PER_PAIR = 5

function areDisjoint(first: Schema, second: Schema, budget: SchemaBudget): boolean {
  const [types, otherTypes] = [typesOf(first), typesOf(second)]
  if (types !== undefined && otherTypes !== undefined && joinTypes(types, otherTypes) === undefined) return true
  const [values, others] = [literals(first), literals(second)]
  if (values !== undefined && others !== undefined) {
    if (!budget.affords('steps', values.length + others.length)) return false
    const keys = new Set(others.map(comparisonKey))
    return !values.some((value) => keys.has(comparisonKey(value)))
  }
  if (
    first.type !== 'object' ||
    second.type !== 'object' ||
    !isObject(first.properties) ||
    !isObject(second.properties)
  )
    return false
  const { properties } = first
  const { properties: otherProperties } = second
  if (!budget.affords('steps', names(first.required).length + names(second.required).length)) return false
  const required = new Set(names(second.required))
  return names(first.required).some((name) => {
    const [one, other] = [properties[name], otherProperties[name]]
    return required.has(name) && isObject(one) && isObject(other) && areDisjoint(one, other, budget)
  })
}

/** The values of `const` or `enum`; undefined if the schema has neither. */
export const literals = (schema: Schema): unknown[] | undefined =>
  Object.hasOwn(schema, 'const') ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : undefined
