import { isObject } from '../fields.ts'
import { blank, mapSchemas, type Schema } from './schema.ts'

const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'array', 'object', 'null'])

/**
 * A schema in Google's or OpenAPI's dialect, or of an older draft, in the words of 2020-12; anything else stays as it
 * is, and where the dialect is no
 * other nothing changes. `ordered`: properties come in the order of `propertyOrdering`, for providers that have no such
 * word.
 */
export function plainSchema(schema: unknown, ordered: boolean): Schema | boolean {
  if (!isObject(schema)) return schema !== false
  const plain = mapSchemas(schema, (inner) => plainSchema(inner, ordered))
  delete plain.$schema
  if (typeof plain.type === 'string') plain.type = lower(plain.type)
  else if (Array.isArray(plain.type))
    plain.type = plain.type.map((type: unknown) => (typeof type === 'string' ? lower(type) : type))
  if (ordered) order(plain)
  bounds(plain)
  tuples(plain)
  dependencies(plain)
  return typeof plain.nullable === 'boolean' ? nullable(plain) : plain
}

const lower = (type: string): string => (TYPES.has(type.toLowerCase()) ? type.toLowerCase() : type)

function nullable({ nullable: may, ...schema }: Schema): Schema {
  const plain = blank(schema)
  if (may !== true) return plain
  if (typeof plain.$ref === 'string') return blank({ anyOf: [plain, { type: 'null' }] })
  if (Array.isArray(plain.anyOf)) plain.anyOf = [...plain.anyOf, { type: 'null' }]
  if (typeof plain.type === 'string') plain.type = [plain.type, 'null']
  if (Array.isArray(plain.enum) && !plain.enum.includes(null)) plain.enum = [...plain.enum, null]
  return plain
}

function order(schema: Schema): void {
  const { propertyOrdering, properties } = schema
  delete schema.propertyOrdering
  if (!Array.isArray(propertyOrdering) || !isObject(properties)) return
  const first = propertyOrdering.filter(
    (name): name is string => typeof name === 'string' && Object.hasOwn(properties, name),
  )
  schema.properties = blank(Object.fromEntries(first.map((name) => [name, properties[name]])), properties)
}

/** Draft 4 said with `true` that the bound beside it is exclusive. */
function bounds(schema: Schema): void {
  for (const [exclusive, inclusive] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof schema[exclusive] !== 'boolean') continue
    if (schema[exclusive] && typeof schema[inclusive] === 'number') {
      schema[exclusive] = schema[inclusive]
      delete schema[inclusive]
    } else delete schema[exclusive]
  }
}

/** Tuples stood in `items` before they had a word of their own. */
function tuples(schema: Schema): void {
  const { additionalItems } = schema
  delete schema.additionalItems
  if (!Array.isArray(schema.items)) return
  schema.prefixItems = schema.items
  if (additionalItems === undefined) delete schema.items
  else schema.items = additionalItems
}

function dependencies(schema: Schema): void {
  if (!isObject(schema.dependencies)) return
  const all = Object.entries(schema.dependencies)
  const [required, schemas] = [
    all.filter(([, value]) => Array.isArray(value)),
    all.filter(([, value]) => !Array.isArray(value)),
  ]
  delete schema.dependencies
  if (required.length > 0)
    schema.dependentRequired = blank(
      isObject(schema.dependentRequired) ? schema.dependentRequired : {},
      Object.fromEntries(required),
    )
  if (schemas.length > 0)
    schema.dependentSchemas = blank(
      isObject(schema.dependentSchemas) ? schema.dependentSchemas : {},
      Object.fromEntries(schemas),
    )
}
