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
  // The first test avoids even computing the size when the budget is used up.
  if (!budget.affords('steps', 1) || !budget.affords('steps', sizeOf(first) + sizeOf(second))) return undefined
  const both = blank(first)
  for (const keyword of DEPENDENT) {
    const isUsed = Object.hasOwn(first, keyword) || Object.hasOwn(second, keyword)
    if (isUsed && !keepsMeaning(keyword, first, second)) return undefined
  }
  // `const` of one and `enum` of the other are one list of values.
  const isMixed = isConst(first) !== isConst(second) && literals(first) !== undefined && literals(second) !== undefined
  if (isMixed) {
    const shared = sharedValues(literals(first), literals(second))
    if (shared === undefined) return undefined
    delete both.const
    both.enum = shared
  }
  for (const [keyword, value] of Object.entries(second)) {
    if (isMixed && (keyword === 'const' || keyword === 'enum')) continue
    const known = both[keyword]
    if (known === undefined) both[keyword] = value
    else if (isAnnotation(keyword) || isSame(known, value)) continue
    else {
      const joined = joinKeyword(keyword, known, value, budget)
      if (joined === undefined) return undefined
      both[keyword] = joined
    }
  }
  return both
}

/** Number of keywords and properties: the cost of joining a schema. */
const sizeOf = (schema: Schema): number =>
  Object.keys(schema).length + (isObject(schema.properties) ? Object.keys(schema.properties).length : 0)

const isSame = (a: unknown, b: unknown): boolean =>
  a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))

/** True if a dependent keyword has the same keywords beside it in the joined schema, so that it means the same. */
function keepsMeaning(keyword: string, first: Schema, second: Schema): boolean {
  const group =
    keyword === 'items' || keyword === 'prefixItems'
      ? ['items', 'prefixItems']
      : keyword.includes('roperties')
        ? ['additionalProperties', 'patternProperties', 'unevaluatedProperties', 'properties']
        : [...DEPENDENT].filter((one) => !one.includes('roperties'))
  const groupText = (schema: Schema): string =>
    JSON.stringify(
      group.map((one) =>
        one === 'properties' && isObject(schema[one]) ? Object.keys(schema[one]).sort() : schema[one],
      ),
    )
  const hasNone = (schema: Schema): boolean => group.every((one) => schema[one] === undefined)
  if (hasNone(first) || hasNone(second) || groupText(first) === groupText(second)) return true
  // `additionalProperties: true` restricts nothing.
  const isOpen = (schema: Schema): boolean =>
    group.every(
      (one) =>
        one === 'properties' || schema[one] === undefined || (one === 'additionalProperties' && schema[one] === true),
    )
  return keyword === 'additionalProperties' && isOpen(first) && isOpen(second)
}

function joinKeyword(keyword: string, first: unknown, second: unknown, budget: SchemaBudget): unknown {
  if (LOWER.has(keyword) && typeof first === 'number' && typeof second === 'number') return Math.max(first, second)
  if (UPPER.has(keyword) && typeof first === 'number' && typeof second === 'number') return Math.min(first, second)
  switch (keyword) {
    case 'required':
      return [...new Set([...names(first), ...names(second)])]
    case 'type':
      return joinTypes(typesOf({ type: first }), typesOf({ type: second }))
    case 'additionalProperties':
      return first === true ? second : second === true ? first : undefined
    case 'enum':
      return sharedValues(first, second)
    case 'properties':
      return isObject(first) && isObject(second) ? joinProperties(first, second, budget) : undefined
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

function joinProperties(first: Schema, second: Schema, budget: SchemaBudget): Schema | undefined {
  const all = blank(first)
  for (const [name, schema] of Object.entries(second)) {
    const known = all[name]
    if (known === undefined || known === true) all[name] = schema
    else if (schema === true || isSame(known, schema)) continue
    else {
      const joined = isObject(known) && isObject(schema) ? intersect(known, schema, budget) : undefined
      if (joined === undefined) return undefined
      all[name] = joined
    }
  }
  return all
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
