import { isObject, objectOf } from '../../json/parse.ts'
import { blank, mapSchemas, type Schema } from './schema.ts'

const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'array', 'object', 'null'])

/**
 * Converts a schema of Google's or OpenAPI's dialect, or of an older draft, to JSON Schema 2020-12; other schemas stay
 * unchanged. `ordered`: properties are put into the order of `propertyOrdering`, for providers without this keyword.
 */
export function standardSchema(schema: unknown, ordered: boolean): Schema | boolean {
  if (!isObject(schema)) return schema !== false
  const plain = mapSchemas(schema, (inner) => standardSchema(inner, ordered))
  delete plain.$schema
  if (typeof plain.type === 'string') plain.type = lowerCaseType(plain.type)
  else if (Array.isArray(plain.type))
    plain.type = plain.type.map((type: unknown) => (typeof type === 'string' ? lowerCaseType(type) : type))
  if (ordered) orderProperties(plain)
  convertBounds(plain)
  convertTuples(plain)
  convertDependencies(plain)
  return typeof plain.nullable === 'boolean' ? withNull(plain) : plain
}

const lowerCaseType = (type: string): string => (TYPES.has(type.toLowerCase()) ? type.toLowerCase() : type)

/** Converts OpenAPI's `nullable`. */
function withNull({ nullable, ...schema }: Schema): Schema {
  const plain = blank(schema)
  if (nullable !== true) return plain
  if (typeof plain.$ref === 'string') return blank({ anyOf: [plain, { type: 'null' }] })
  if (Array.isArray(plain.anyOf)) plain.anyOf = [...plain.anyOf, { type: 'null' }]
  if (typeof plain.type === 'string') plain.type = [plain.type, 'null']
  if (Array.isArray(plain.enum) && !plain.enum.includes(null)) plain.enum = [...plain.enum, null]
  return plain
}

function orderProperties(schema: Schema): void {
  const { propertyOrdering, properties } = schema
  delete schema.propertyOrdering
  if (!Array.isArray(propertyOrdering) || !isObject(properties)) return
  const first = propertyOrdering.filter(
    (name): name is string => typeof name === 'string' && Object.hasOwn(properties, name),
  )
  schema.properties = blank(Object.fromEntries(first.map((name) => [name, properties[name]])), properties)
}

/** In draft 4 `true` makes the bound beside it exclusive. */
function convertBounds(schema: Schema): void {
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

/** Before 2020-12 `items` had the schemas of tuples. */
function convertTuples(schema: Schema): void {
  const { additionalItems } = schema
  delete schema.additionalItems
  if (!Array.isArray(schema.items)) return
  schema.prefixItems = schema.items
  if (additionalItems === undefined) delete schema.items
  else schema.items = additionalItems
}

/** Draft 7's `dependencies` became two keywords. */
function convertDependencies(schema: Schema): void {
  if (!isObject(schema.dependencies)) return
  const all = Object.entries(schema.dependencies)
  const [required, schemas] = [
    all.filter(([, value]) => Array.isArray(value)),
    all.filter(([, value]) => !Array.isArray(value)),
  ]
  delete schema.dependencies
  if (required.length > 0)
    schema.dependentRequired = blank(objectOf(schema.dependentRequired), Object.fromEntries(required))
  if (schemas.length > 0)
    schema.dependentSchemas = blank(objectOf(schema.dependentSchemas), Object.fromEntries(schemas))
}
