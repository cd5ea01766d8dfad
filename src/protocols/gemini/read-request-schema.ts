import { invalid } from '../../error.ts'
import { objectOf } from '../../json/parse.ts'
import { Fields, describeType } from '../fields.ts'

/**
 * Google's `Schema`, a subset of OpenAPI's. Types and member names become JSON Schema's here; the rest of the dialect
 * is rewritten by `../schema/dialect.ts`.
 */

const MAX_DEPTH = 32
const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'array', 'object', 'null'])
const TYPE_NUMBERS: Record<number, string> = {
  1: 'string',
  2: 'number',
  3: 'integer',
  4: 'boolean',
  5: 'array',
  6: 'object',
}
const TEXTS = ['format', 'description', 'pattern', 'title'] as const
const COUNTS = ['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'] as const
/** JSON Schema's names of members; Google treats oneOf as anyOf. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['ref', '$ref'],
  ['defs', '$defs'],
  ['oneOf', 'anyOf'],
])

/**
 * A `Schema` object as JSON Schema. Types are in either case and may be absent, since SDKs send `anyOf` alone. Throws
 * invalid_request with the path of a wrong type, and for more than 32 levels.
 */
export function readSchema(value: unknown, path: string, depth = 1): Record<string, unknown> {
  if (depth > MAX_DEPTH) throw invalid(path, `must not be nested deeper than ${MAX_DEPTH} levels`)
  const fields = new Fields(value, path)
  checkLeaves(fields)
  const schema: Record<string, unknown> = Object.create(null)
  for (const [name, member] of Object.entries(fields.value)) {
    if (member === null) continue
    schema[RENAMED.get(name) ?? name] = readMember(fields, name, member, depth)
  }
  return schema
}

function readMember(fields: Fields, name: string, member: unknown, depth: number): unknown {
  const path = fields.at(name)
  switch (name) {
    case 'type':
      return readType(member, path)
    case 'items':
      return readSchema(member, path, depth + 1)
    case 'additionalProperties':
      return typeof member === 'boolean' ? member : readSchema(member, path, depth + 1)
    case 'properties':
    case 'defs':
    case '$defs':
      return readMap(member, path, depth)
    case 'anyOf':
    case 'oneOf':
      return fields.array(name)!.map((element, index) => readSchema(element, `${path}[${index}]`, depth + 1))
  }
  // Clients that follow protobuf's JSON mapping send int64 members as strings.
  return (COUNTS as readonly string[]).includes(name) ? Number(member) : member
}

function readMap(member: unknown, path: string, depth: number): Record<string, unknown> {
  const map: Record<string, unknown> = Object.create(null)
  for (const [name, element] of Object.entries(new Fields(member, path).value))
    map[name] = readSchema(element, `${path}.${name}`, depth + 1)
  return map
}

function readType(value: unknown, path: string): string | string[] {
  if (Array.isArray(value)) return value.map((element, index) => readType(element, `${path}[${index}]`) as string)
  // Protobuf's JSON mapping allows the number of an enum value, and the older Python SDK sends it.
  if (typeof value === 'number' && Object.hasOwn(TYPE_NUMBERS, value)) return TYPE_NUMBERS[value]!
  if (typeof value !== 'string') throw invalid(path, `must be a string, not ${describeType(value)}`)
  const type = value.toLowerCase()
  if (!TYPES.has(type))
    throw invalid(path, `must be one of STRING, INTEGER, NUMBER, BOOLEAN, ARRAY, OBJECT, not '${value.slice(0, 64)}'`)
  return type
}

function checkLeaves(fields: Fields): void {
  fields.boolean('nullable')
  for (const name of TEXTS) fields.string(name)
  for (const name of ['enum', 'required', 'propertyOrdering']) fields.strings(name)
  for (const name of ['minimum', 'maximum']) fields.number(name)
  for (const name of COUNTS) {
    if (typeof fields.value[name] === 'string' && /^\d+$/.test(fields.value[name])) continue
    fields.integer(name, { min: 0 })
  }
}

/** A choice of strings as Google's `Schema`; Google takes JSON Schema for everything else. */
export const writeEnumSchema = (schema: unknown): Record<string, unknown> => ({
  ...objectOf(schema),
  type: 'STRING',
})
