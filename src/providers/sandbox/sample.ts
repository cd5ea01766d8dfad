import { isObject } from '../../json/parse.ts'

/** Nesting depth from which optional members are left out. */
const MAX_DEPTH = 6

type Schema = Record<string, unknown>

/**
 * A value that is valid for a JSON Schema (or Google's upper-case dialect of it), the same one every time. Only common
 * values of `pattern` are met; an unsatisfiable schema gives a value that is close to it.
 */
export const sample = (schema: unknown): unknown => sampleValue(schema, schema, 'value', 0)

function sampleValue(given: unknown, root: unknown, name: string, depth: number): unknown {
  const schema = resolve(given, root)
  if (schema === undefined || depth > MAX_DEPTH * 2) return null
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum']) && schema['enum'].length > 0) return schema['enum'][0]
  if ('default' in schema) return schema['default']
  for (const key of ['anyOf', 'oneOf']) {
    const branches = schema[key]
    if (Array.isArray(branches) && branches.length > 0)
      return sampleValue(merged(schema, key, resolve(simplest(branches, root, depth), root)), root, name, depth + 1)
  }
  if (Array.isArray(schema['allOf']))
    return sampleValue(
      schema['allOf'].reduce((all: Schema, one) => merged(all, 'allOf', resolve(one, root)), schema),
      root,
      name,
      depth + 1,
    )
  switch (typeOf(schema)) {
    case 'object':
      return sampleObject(schema, root, depth)
    case 'array':
      return sampleArray(schema, root, name, depth)
    case 'integer':
      return sampleNumber(schema, 1)
    case 'number':
      return sampleNumber(schema, 0.5)
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return sampleString(schema, name)
  }
}

/** A schema with one keyword replaced by its resolved subschema; `properties` and `required` are combined. */
function merged(schema: Schema, keyword: string, other: Schema | undefined): Schema {
  const { [keyword]: _, ...rest } = schema
  if (other === undefined) return rest
  return {
    ...rest,
    ...other,
    ...(isObject(rest['properties']) && isObject(other['properties'])
      ? { properties: { ...rest['properties'], ...other['properties'] } }
      : {}),
    ...(Array.isArray(rest['required']) && Array.isArray(other['required'])
      ? { required: [...rest['required'], ...other['required']] }
      : {}),
  }
}

/** The first branch, or at MAX_DEPTH one that does not nest further. */
const simplest = (branches: unknown[], root: unknown, depth: number): unknown =>
  depth < MAX_DEPTH
    ? branches[0]
    : (branches.find((branch) => !['object', 'array'].includes(typeOf(resolve(branch, root) ?? {}))) ?? branches[0])

const MAX_REFERENCES = 20

function resolve(given: unknown, root: unknown): Schema | undefined {
  let schema = given
  for (let followed = 0; followed < MAX_REFERENCES; followed++) {
    if (!isObject(schema)) return schema === true ? {} : undefined
    const ref = schema['$ref']
    if (typeof ref !== 'string') return schema
    schema = ref === '#' ? root : ref.startsWith('#/') ? memberAt(root, ref.slice(2).split('/')) : undefined
  }
  return undefined
}

function memberAt(root: unknown, path: string[]): unknown {
  let value = root
  for (const step of path) {
    const key = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
    value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  }
  return value
}

function typeOf(schema: Schema): string {
  const type = Array.isArray(schema['type']) ? (schema['type'].find((one) => one !== 'null') ?? 'null') : schema['type']
  if (typeof type === 'string') return type.toLowerCase()
  if (isObject(schema['properties'])) return 'object'
  return schema['items'] === undefined ? 'string' : 'array'
}

function sampleObject(schema: Schema, root: unknown, depth: number): unknown {
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  const properties = isObject(schema['properties']) ? Object.entries(schema['properties']) : []
  const kept = depth < MAX_DEPTH ? properties : properties.filter(([name]) => required.includes(name))
  const value: Record<string, unknown> = Object.fromEntries(
    kept.map(([name, member]) => [name, sampleValue(member, root, name, depth + 1)]),
  )
  for (const name of required) if (typeof name === 'string' && !Object.hasOwn(value, name)) value[name] = name
  return value
}

function sampleArray(schema: Schema, root: unknown, name: string, depth: number): unknown[] {
  const first = Array.isArray(schema['prefixItems'])
    ? schema['prefixItems'].map((one, index) => sampleValue(one, root, `${name} ${index + 1}`, depth + 1))
    : []
  const min = countOf(schema['minItems']) ?? (depth < MAX_DEPTH ? 1 : 0)
  const length = Math.min(min, countOf(schema['maxItems']) ?? min, 1000)
  while (first.length < length)
    first.push(
      schema['uniqueItems'] === true
        ? `${name} ${first.length + 1}`
        : sampleValue(schema['items'] ?? {}, root, name, depth + 1),
    )
  return first
}

function sampleNumber(schema: Schema, step: number): number {
  const low =
    numeric(schema['minimum']) ??
    (numeric(schema['exclusiveMinimum']) === undefined ? undefined : (schema['exclusiveMinimum'] as number) + step)
  const high =
    numeric(schema['maximum']) ??
    (numeric(schema['exclusiveMaximum']) === undefined ? undefined : (schema['exclusiveMaximum'] as number) - step)
  let value = Math.max(low ?? -Infinity, Math.min(1, high ?? 1))
  const unit = numeric(schema['multipleOf'])
  if (unit !== undefined && unit > 0) value = Math.ceil(value / unit) * unit
  return step === 1 ? (high === undefined ? Math.ceil(value) : Math.floor(value)) : value
}

const FORMATS: ReadonlyMap<string, string> = new Map([
  ['date-time', '2026-01-01T00:00:00Z'],
  ['date', '2026-01-01'],
  ['time', '00:00:00Z'],
  ['duration', 'P1D'],
  ['email', 'sandbox@example.com'],
  ['uri', 'https://example.com/'],
  ['url', 'https://example.com/'],
  ['hostname', 'example.com'],
  ['ipv4', '192.0.2.1'],
  ['ipv6', '2001:db8::1'],
  ['uuid', '00000000-0000-4000-8000-000000000000'],
])

/** Short texts only, because an untrusted pattern may take exponential time on a long one. */
const PATTERN_CANDIDATES = [
  'a',
  'A',
  '1',
  'abc',
  'ABC',
  '123',
  'Abc',
  'a-b',
  'a_b',
  'ABC-123',
  'abc123',
  '2026-01-01',
  '12:00',
  '+15550100',
  '#ffffff',
  'a@b.co',
  '1.0.0',
  'US',
  '12345',
]
const MAX_PATTERN_LENGTH = 100

function sampleString(schema: Schema, name: string): string {
  const format = typeof schema['format'] === 'string' ? FORMATS.get(schema['format']) : undefined
  if (format !== undefined) return format
  const pattern = typeof schema['pattern'] === 'string' ? regExp(schema['pattern']) : undefined
  const matching = pattern === undefined ? undefined : PATTERN_CANDIDATES.find((one) => pattern.test(one))
  const text = matching ?? `example ${name}`
  const min = countOf(schema['minLength']) ?? 0
  return text.padEnd(Math.min(min, 100_000), '.').slice(0, countOf(schema['maxLength']) ?? undefined)
}

function regExp(pattern: string): RegExp | undefined {
  if (pattern.length > MAX_PATTERN_LENGTH) return undefined
  try {
    return new RegExp(pattern, 'u')
  } catch {
    return undefined
  }
}

const numeric = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined
/** Google writes 64-bit counts as strings. */
const countOf = (value: unknown): number | undefined =>
  numeric(typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
