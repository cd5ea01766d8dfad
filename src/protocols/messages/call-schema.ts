import type { Tool } from '../../generation/request.ts'
import type { Loss } from '../protocol.ts'
import { isObject } from '../fields.ts'
import type { Json } from './shapes.ts'

/** The schema of a tool's input: Anthropic wants an object at the root, without alternatives or a reference there. */
export function inputSchema(tool: Tool & { type: 'function' }, losses: Loss[]): Json {
  const plain = plainSchema(tool.parameters)
  if (!isObject(plain)) return { type: 'object', properties: {} }
  const root = resolved(plain)
  const combined = ['anyOf', 'oneOf', 'allOf'].filter((name) => Array.isArray(root[name]))
  if (combined.length === 0) return { ...root, type: 'object' }
  losses.push({ field: 'tool.parameters', of: tool.name, what: 'approximated', why: 'alternatives at the root of a schema are merged into one object' })
  return merged(root, combined)
}

/** Follows a reference at the root into the schema's own definitions. */
function resolved(schema: Json): Json {
  const { $ref, ...rest } = schema
  if (typeof $ref !== 'string') return schema
  const steps = $ref.startsWith('#/') ? $ref.slice(2).split('/') : []
  const target = steps.reduce<unknown>((value, step) => isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined, schema)
  return isObject(target) && typeof target.$ref !== 'string' ? { ...rest, ...target } : rest
}

/** One object that takes what any branch takes; only what every branch asks for stays required. */
function merged(root: Json, combined: string[]): Json {
  const properties: Json = Object.assign(Object.create(null), isObject(root.properties) ? root.properties : {})
  const required = new Set(namesIn(root.required))
  for (const name of combined) {
    const branches = (root[name] as unknown[]).filter(isObject).map((branch) => resolved({ ...branch, $defs: root.$defs, definitions: root.definitions }))
    for (const branch of branches) for (const [key, value] of Object.entries(isObject(branch.properties) ? branch.properties : {})) properties[key] ??= value
    const needed = branches.map((branch) => namesIn(branch.required))
    const common = name === 'allOf' ? needed.flat() : (needed[0] ?? []).filter((key) => needed.every((names) => names.includes(key)))
    for (const key of common) required.add(key)
  }
  const rest = Object.fromEntries(Object.entries(root).filter(([key]) => !combined.includes(key)))
  return { ...rest, type: 'object', properties, ...(required.size === 0 ? {} : { required: [...required] }) }
}

const namesIn = (value: unknown): string[] => Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []

/** Google writes types in upper case and has `nullable`; JSON Schema has neither. Anything else stays as it is. */
function plainSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plainSchema)
  if (!isObject(schema)) return schema
  const { nullable, propertyOrdering: _order, ...rest } = schema
  const google = typeof rest.type === 'string' && /^[A-Z]+$/.test(rest.type)
  const out: Json = Object.create(null)
  for (const [key, value] of Object.entries(google ? rest : schema)) out[key] = VERBATIM.has(key) ? value : KEYED.has(key) && isObject(value) ? each(value) : plainSchema(value)
  if (google) out.type = nullable === true ? [String(rest.type).toLowerCase(), 'null'] : String(rest.type).toLowerCase()
  return out
}

/** Values of the data that a schema describes, not schemas. */
const VERBATIM = new Set(['enum', 'const', 'default', 'example', 'examples', 'required'])
/** Members whose keys are names that the author of the schema chose. */
const KEYED = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'])

const each = (schemas: Json): Json => {
  const out: Json = Object.create(null)
  for (const [key, value] of Object.entries(schemas)) out[key] = plainSchema(value)
  return out
}

/** For structured output Anthropic wants every object closed, said outright, and knows no bounds (seen 2026-11). */
export function outputSchema(schema: unknown, losses: Loss[]): unknown {
  const lost = new Set<string>()
  const written = closed(plainSchema(schema), lost)
  if (lost.size > 0) losses.push({ field: 'outputFormat.schema', what: 'approximated', why: `the provider does not know ${[...lost].join(', ')}` })
  return written
}

const UNKNOWN = new Set(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength', 'maxItems', 'uniqueItems', 'minProperties', 'maxProperties'])

function closed(schema: unknown, lost: Set<string>): unknown {
  if (Array.isArray(schema)) return schema.map((element) => closed(element, lost))
  if (!isObject(schema)) return schema
  const out: Json = Object.create(null)
  for (const [key, value] of Object.entries(schema)) {
    if (UNKNOWN.has(key)) lost.add(key)
    else if (VERBATIM.has(key)) out[key] = value
    else if (KEYED.has(key) && isObject(value)) out[key] = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, closed(inner, lost)]))
    else out[key] = closed(value, lost)
  }
  const object = out.type === 'object' || (Array.isArray(out.type) && out.type.includes('object'))
  if (object && out.additionalProperties !== false) {
    if (out.additionalProperties !== undefined) lost.add('additionalProperties')
    out.additionalProperties = false
  }
  return out
}
