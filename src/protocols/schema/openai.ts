import type { OutputFormat } from '../../generation/request.ts'
import { isObject } from '../fields.ts'
import type { Translation } from '../translation.ts'
import { plainSchema } from './dialect.ts'
import type { FunctionTool, SchemaLoss } from './cache.ts'
import { objectRoot } from './root.ts'
import { objectResponse, unwrapping } from './wrapping.ts'
import { mapSchemas, names, refusingAt, type Schema, type SchemaBudget, stepInto, typesOf, Unknowns } from './schema.ts'

/**
 * The schema of a function's arguments as OpenAI's protocols take it, and whether a call is held to it. References, also
 * recursive ones, are kept. Throws a SchemaRefusal where the root cannot be made an object because a reference leads
 * nowhere.
 */
export function functionSchema(
  tool: FunctionTool,
  budget: SchemaBudget,
  lose: (loss: SchemaLoss) => void,
): { parameters: Schema; strict?: boolean } {
  const unknowns = new Unknowns()
  const schema = objectRoot(plainSchema(tool.parameters ?? true, true), unknowns, budget)
  const { reason } = unknowns
  if (reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason })
  if (!isObject(schema.properties)) schema.properties = {}
  const parameters = withItems(schema)
  const loose = tool.strict === true ? looseness(parameters) : undefined
  if (loose !== undefined) lose({ code: 'strict_not_enforced', field: 'strict', reason: whyLoose(loose) })
  return { parameters, ...(tool.strict === undefined ? {} : { strict: tool.strict && loose === undefined }) }
}

/**
 * The schema of the response, and whether the response is held to it. A schema of anything but an object is wrapped in
 * one, and the response unwrapped by a transform. Throws invalid_request with the path of the schema.
 */
export function responseSchema(
  format: OutputFormat & { type: 'schema' },
  translation: Translation,
): { schema: Schema; strict?: boolean } {
  const path = translation.setting('outputFormat.schema')
  const { schema, wrapped } = refusingAt(path, () => objectResponse(format, translation.schemaBudget))
  if (wrapped) translation.undo(unwrapping)
  const written = withItems(schema)
  const binds = format.strict
  const loose = binds === true ? looseness(written) : undefined
  if (loose !== undefined) translation.lose('schema_not_enforced', path, whyLoose(loose))
  return { schema: written, ...(binds === undefined || loose !== undefined ? {} : { strict: binds }) }
}

const whyLoose = (loose: string): string =>
  `the provider can be held only to closed objects that require all their properties, and here ${loose}`

/** OpenAI refuses an array that does not say what it holds: anything. */
function withItems(schema: Schema): Schema {
  const written = mapSchemas(schema, (inner) => (isObject(inner) ? withItems(inner) : inner))
  if (typesOf(written)?.includes('array') === true && written.items === undefined) written.items = {}
  return written
}

/** Words that OpenAI refuses in a strict schema (as its SDK knows them, 2026-11). */
const LOOSE = new Set([
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
  'prefixItems',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
])

/** Why OpenAI would refuse a schema as a strict one; undefined where it takes it. */
function looseness(schema: Schema): string | undefined {
  if (schema.type !== 'object' || schema.anyOf !== undefined) return 'the root is no object'
  return looseIn(schema, '')
}

function looseIn(schema: Schema, place: string): string | undefined {
  const at = place === '' ? 'the root' : place
  const word = Object.keys(schema).find((name) => LOOSE.has(name))
  if (word !== undefined) return `${at} has ${word}`
  const types = typesOf(schema)
  if (types === undefined && ['$ref', 'anyOf', 'enum', 'const'].every((name) => schema[name] === undefined))
    return `${at} has no type`
  if (typeof schema.$ref === 'string' && !schema.$ref.startsWith('#')) return `${at} refers to another schema`
  if (types?.includes('object') === true) {
    const properties = isObject(schema.properties) ? Object.keys(schema.properties) : []
    const required = new Set(names(schema.required))
    const declared = new Set(properties)
    if (schema.additionalProperties !== false) return `${at} takes additional properties`
    const optional = properties.find((name) => !required.has(name)) ?? [...required].find((name) => !declared.has(name))
    if (optional !== undefined)
      return declared.has(optional)
        ? `${stepInto(place, `properties.${optional}`)} is not required`
        : `${at} requires '${optional}', which it does not have`
  }
  let loose: string | undefined
  mapSchemas(schema, (inner, steps) => {
    if (steps === 'additionalProperties') return
    loose ??= isObject(inner)
      ? looseIn(inner, stepInto(place, steps))
      : `${stepInto(place, steps)} is no schema but true or false`
  })
  return loose
}
