import type { OutputFormat } from '../../generation/request.ts'
import { isObject } from '../../json/parse.ts'
import type { Translation } from '../translation.ts'
import { standardSchema } from './dialect.ts'
import type { FunctionTool, SchemaLoss } from './cache.ts'
import { objectRoot } from './root.ts'
import { objectResponse } from './wrapping.ts'
import {
  mapSchemas,
  names,
  refusingAt,
  type Schema,
  type SchemaBudget,
  joinPath,
  typesOf,
  UnknownKeywords,
} from './schema.ts'

/**
 * The schema of a function's arguments for OpenAI's protocols, and whether it is strict. References are kept, even
 * recursive ones. A strict function without parameters gets the closed schema that OpenAI requires. Throws
 * SchemaRefusal if the root cannot become an object because a reference has no target.
 */
export function functionSchema(
  tool: FunctionTool,
  budget: SchemaBudget,
  lose: (loss: SchemaLoss) => void,
): { parameters: Schema; strict?: boolean } {
  const unknowns = new UnknownKeywords()
  const without = tool.strict === true ? { type: 'object', additionalProperties: false } : true
  const schema = objectRoot(standardSchema(tool.parameters ?? without, true), unknowns, budget)
  const { reason } = unknowns
  if (reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason })
  if (!isObject(schema.properties)) schema.properties = {}
  const parameters = withItems(schema)
  const violation = tool.strict === true ? strictViolation(parameters) : undefined
  if (violation !== undefined) lose({ code: 'strict_not_enforced', field: 'strict', reason: notStrict(violation) })
  return { parameters, ...(tool.strict === undefined ? {} : { strict: tool.strict && violation === undefined }) }
}

/**
 * The schema of the response, and whether it is strict. A schema of anything but an object is wrapped in one, and a
 * transform unwraps the response. Throws invalid_request with the path of the schema.
 */
export function responseSchema(
  format: OutputFormat & { type: 'schema' },
  translation: Translation,
): { schema: Schema; strict?: boolean } {
  const path = translation.setting('outputFormat.schema')
  const { schema, wrapped } = refusingAt(path, () => objectResponse(format, translation.schemaBudget))
  if (wrapped) translation.undo({ type: 'unwrap' })
  const written = withItems(schema)
  const { strict } = format
  const violation = strict === true ? strictViolation(written) : undefined
  if (violation !== undefined) translation.lose('schema_not_enforced', path, notStrict(violation))
  return { schema: written, ...(strict === undefined || violation !== undefined ? {} : { strict }) }
}

const notStrict = (violation: string): string =>
  `strict schemas of the provider have only closed objects whose properties are all required; here ${violation}`

/** Adds `items: {}` to arrays without `items`, which OpenAI refuses. */
function withItems(schema: Schema): Schema {
  const written = mapSchemas(schema, (inner) => (isObject(inner) ? withItems(inner) : inner))
  if (typesOf(written)?.includes('array') === true && written.items === undefined) written.items = {}
  return written
}

/** Keywords that OpenAI refuses in a strict schema (from its SDK, 2026-11, but for `prefixItems`, which it accepts). */
const NOT_IN_STRICT = new Set([
  '$anchor',
  '$dynamicAnchor',
  '$dynamicRef',
  '$recursiveAnchor',
  '$recursiveRef',
  'allOf',
  'contains',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
  'dependentRequired',
  'dependentSchemas',
  'else',
  'if',
  'maxContains',
  'maxProperties',
  'minContains',
  'minProperties',
  'not',
  'oneOf',
  'patternProperties',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
])

/** Why OpenAI refuses the schema as a strict one; undefined if it accepts it. */
function strictViolation(schema: Schema): string | undefined {
  if (schema.type !== 'object') return 'the root is not an object'
  return violationIn(schema, '')
}

function violationIn(schema: Schema, path: string): string | undefined {
  const at = path === '' ? 'the root' : path
  const keyword = Object.keys(schema).find((name) => NOT_IN_STRICT.has(name))
  if (keyword !== undefined) return `${at} has ${keyword}`
  const types = typesOf(schema)
  if (types === undefined && ['$ref', 'anyOf', 'enum', 'const'].every((name) => schema[name] === undefined))
    return `${at} has no type`
  if (typeof schema.$ref === 'string' && !schema.$ref.startsWith('#')) return `${at} refers to another document`
  if (types?.includes('object') === true) {
    const properties = isObject(schema.properties) ? Object.keys(schema.properties) : []
    const required = new Set(names(schema.required))
    const declared = new Set(properties)
    if (schema.additionalProperties !== false) return `${at} allows additional properties`
    const optional = properties.find((name) => !required.has(name)) ?? [...required].find((name) => !declared.has(name))
    if (optional !== undefined)
      return declared.has(optional)
        ? `${joinPath(path, `properties.${optional}`)} is not required`
        : `${at} requires '${optional}', which it does not have`
  }
  let violation: string | undefined
  mapSchemas(schema, (inner, steps) => {
    if (steps === 'additionalProperties') return
    violation ??= isObject(inner)
      ? violationIn(inner, joinPath(path, steps))
      : `${joinPath(path, steps)} is true or false instead of a schema`
  })
  return violation
}
