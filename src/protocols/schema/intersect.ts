import { isObject } from '../fields.ts'
import { blank, isNote, names, typesOf, type Schema, type SchemaBudget } from './schema.ts'

const LOWER: ReadonlySet<string> = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'])
const UPPER: ReadonlySet<string> = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'])
/** What these ask depends on words beside them. */
const WITH_NEIGHBOURS: ReadonlySet<string> = new Set([
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

/** One schema for the values that both take; undefined where its words cannot say that. The notes of `first` count. */
export function intersect(first: Schema, second: Schema, budget: SchemaBudget): Schema | undefined {
  // Once there is no room left, not even the size is asked for.
  if (!budget.affords('steps', 1) || !budget.affords('steps', sizeOf(first) + sizeOf(second))) return undefined
  const both = blank(first)
  for (const word of WITH_NEIGHBOURS) {
    if ((Object.hasOwn(first, word) || Object.hasOwn(second, word)) && !isApart(word, first, second)) return undefined
  }
  for (const [word, value] of Object.entries(second)) {
    const known = both[word]
    if (known === undefined) both[word] = value
    else if (isNote(word) || same(known, value)) continue
    else {
      const joined = joinWord(word, known, value, budget)
      if (joined === undefined) return undefined
      both[word] = joined
    }
  }
  return both
}

/** Words and properties, which are looked at and copied where two schemas are joined. */
const sizeOf = (schema: Schema): number =>
  Object.keys(schema).length + (isObject(schema.properties) ? Object.keys(schema.properties).length : 0)

const same = (a: unknown, b: unknown): boolean =>
  a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))

/** Whether a word that looks at its neighbours sees the same ones in the joined schema. */
function isApart(word: string, first: Schema, second: Schema): boolean {
  const words =
    word === 'items' || word === 'prefixItems'
      ? ['items', 'prefixItems']
      : word.includes('roperties')
        ? ['additionalProperties', 'patternProperties', 'unevaluatedProperties', 'properties']
        : [...WITH_NEIGHBOURS].filter((one) => !one.includes('roperties'))
  const told = (schema: Schema): string =>
    JSON.stringify(
      words.map((one) =>
        one === 'properties' && isObject(schema[one]) ? Object.keys(schema[one]).sort() : schema[one],
      ),
    )
  const silent = (schema: Schema): boolean => words.every((one) => schema[one] === undefined)
  if (silent(first) || silent(second) || told(first) === told(second)) return true
  // `true` asks nothing.
  const open = (schema: Schema): boolean =>
    words.every(
      (one) =>
        one === 'properties' || schema[one] === undefined || (one === 'additionalProperties' && schema[one] === true),
    )
  return word === 'additionalProperties' && open(first) && open(second)
}

function joinWord(word: string, first: unknown, second: unknown, budget: SchemaBudget): unknown {
  if (LOWER.has(word) && typeof first === 'number' && typeof second === 'number') return Math.max(first, second)
  if (UPPER.has(word) && typeof first === 'number' && typeof second === 'number') return Math.min(first, second)
  switch (word) {
    case 'required':
      return [...new Set([...names(first), ...names(second)])]
    case 'type':
      return joinTypes(typesOf({ type: first }), typesOf({ type: second }))
    case 'additionalProperties':
      return first === true ? second : second === true ? first : undefined
    case 'enum': {
      const others = new Set(Array.isArray(second) ? second.map(keyOf) : [])
      const shared = Array.isArray(first) ? first.filter((one) => others.has(keyOf(one))) : []
      return shared.length === 0 ? undefined : shared
    }
    case 'properties':
      return isObject(first) && isObject(second) ? joinProperties(first, second, budget) : undefined
    default:
      return undefined
  }
}

function joinTypes(first: string[] | undefined, second: string[] | undefined): string | string[] | undefined {
  if (first === undefined || second === undefined) return undefined
  const within = (types: string[], type: string): boolean =>
    types.includes(type) || (type === 'integer' && types.includes('number'))
  const shared = [
    ...new Set([...first.filter((type) => within(second, type)), ...second.filter((type) => within(first, type))]),
  ]
  const least = shared.filter(
    (type) =>
      type !== 'number' || !shared.includes('integer') || (first.includes('number') && second.includes('number')),
  )
  return least.length === 0 ? undefined : least.length === 1 ? least[0] : least
}

function joinProperties(first: Schema, second: Schema, budget: SchemaBudget): Schema | undefined {
  const all = blank(first)
  for (const [name, schema] of Object.entries(second)) {
    const known = all[name]
    if (known === undefined || known === true) all[name] = schema
    else if (schema === true || same(known, schema)) continue
    else {
      const joined = isObject(known) && isObject(schema) ? intersect(known, schema, budget) : undefined
      if (joined === undefined) return undefined
      all[name] = joined
    }
  }
  return all
}

/** Equal for values that are, whatever they are. */
const keyOf = (value: unknown): string => JSON.stringify(value)

/**
 * Whether no value is taken by two of these, so that "exactly one of them" says no more than "any of them". Of too many
 * to be compared, nobody knows.
 */
export function areApart(schemas: readonly unknown[], budget: SchemaBudget): boolean {
  const values = schemas.map((schema) => (isObject(schema) ? literals(schema) : undefined))
  if (values.every((some) => some !== undefined)) {
    const keys = values.map((some) => new Set(some.map(keyOf)))
    return new Set(keys.flatMap((some) => [...some])).size === keys.reduce((sum, some) => sum + some.size, 0)
  }
  return (
    budget.affords('steps', schemas.length ** 2 * STEPS_OF_PAIR) &&
    schemas.every((one, index) =>
      schemas
        .slice(index + 1)
        .every((other) => isObject(one) && isObject(other) && haveNothingInCommon(one, other, budget)),
    )
  )
}

const STEPS_OF_PAIR = 5

function haveNothingInCommon(first: Schema, second: Schema, budget: SchemaBudget): boolean {
  const [ours, theirs] = [typesOf(first), typesOf(second)]
  if (ours !== undefined && theirs !== undefined && joinTypes(ours, theirs) === undefined) return true
  const [values, others] = [literals(first), literals(second)]
  if (values !== undefined && others !== undefined) {
    if (!budget.affords('steps', values.length + others.length)) return false
    const keys = new Set(others.map(keyOf))
    return !values.some((value) => keys.has(keyOf(value)))
  }
  if (
    first.type !== 'object' ||
    second.type !== 'object' ||
    !isObject(first.properties) ||
    !isObject(second.properties)
  )
    return false
  const { properties: own } = first,
    { properties: their } = second
  if (!budget.affords('steps', names(first.required).length + names(second.required).length)) return false
  const required = new Set(names(second.required))
  return names(first.required).some((name) => {
    const [one, other] = [own[name], their[name]]
    return required.has(name) && isObject(one) && isObject(other) && haveNothingInCommon(one, other, budget)
  })
}

/** The values that a schema leaves to choose from; undefined where it names none. */
export const literals = (schema: Schema): unknown[] | undefined =>
  Object.hasOwn(schema, 'const') ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : undefined
