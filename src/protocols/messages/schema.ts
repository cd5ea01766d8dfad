import type { OutputFormat, Tool } from '../../generation/request.ts'
import { isObject, objectOf } from '../../json/parse.ts'
import type { FunctionTool, SchemaLoss } from '../schema/cache.ts'
import { standardSchema } from '../schema/dialect.ts'
import { withFormatNotes } from '../schema/format-notes.ts'
import { inlined } from '../schema/references.ts'
import { objectRoot } from '../schema/root.ts'
import { names, refusingAt, type Schema, type SchemaBudget, SchemaRefusal, UnknownKeywords } from '../schema/schema.ts'
import type { Translation } from '../translation.ts'
import { ConstrainedSchemaWriter } from './schema-constrained.ts'

/** A tool's `input_schema`: any JSON Schema with an object at its root. */
export function inputSchema(tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void): Schema {
  const unknowns = new UnknownKeywords()
  const schema = objectRoot(standardSchema(tool.parameters ?? true, true), unknowns, budget)
  if (unknowns.reason !== undefined) lose({ code: 'schema_adjusted', field: 'parameters', reason: unknowns.reason })
  return schema
}

/** The schema of the response. Throws invalid_request with the path of the schema for a recursive one. */
export function outputSchema(format: OutputFormat & { type: 'schema' }, translation: Translation): Schema {
  const { schema } = format
  const budget = translation.schemaBudget
  const writer = new ConstrainedSchemaWriter(budget)
  const path = translation.setting('outputFormat.schema')
  const written = refusingAt(path, () => writer.write(withoutReferences(standardSchema(schema, true), budget), ''))
  if (writer.unknowns.reason !== undefined) translation.lose('schema_adjusted', path, writer.unknowns.reason)
  return withFormatNotes(written, format, translation)
}

const withoutReferences = (plain: Schema | boolean, budget: SchemaBudget): Schema | boolean =>
  isObject(plain) ? inlined(plain, 'none', budget) : plain

/**
 * Limits for all strict tools of one request together: documented, and more is refused (seen 2026-11). A single
 * schema with 24 optional properties was refused as too complex.
 */
const STRICT_MAX = { tools: 20, optional: 23, unions: 16 }

/** The schemas of the strict tools that the provider can enforce. The loss of another says why it cannot. */
export function strictSchemas(tools: readonly Tool[], translation: Translation): Map<Tool, Schema> {
  const strict = new Map<Tool, Schema>()
  const left = { ...STRICT_MAX }
  for (const tool of tools) {
    if (tool.type !== 'function' || tool.strict !== true) continue
    const written = strictSchema(tool, translation.schemaBudget)
    const problem = 'problem' in written ? written.problem : takeFrom(left, costOf(written.schema))
    if ('problem' in written || problem !== undefined) {
      translation.lose('strict_not_enforced', translation.at(tool, 'strict'), problem)
      continue
    }
    const { schema, unknowns } = written
    if (unknowns.reason !== undefined)
      translation.lose('schema_adjusted', translation.at(tool, 'parameters'), unknowns.reason)
    strict.set(tool, schema)
  }
  return strict
}

type Cost = { optional: number; unions: number }

/** Takes the cost of one more tool from what is left, or names the limit that it exceeds. */
function takeFrom(left: typeof STRICT_MAX, { optional, unions }: Cost): string | undefined {
  const exceeded =
    left.tools === 0
      ? `${STRICT_MAX.tools} of them`
      : optional > left.optional
        ? `${STRICT_MAX.optional} optional properties in all of them`
        : unions > left.unions
          ? `${STRICT_MAX.unions} unions in all of them`
          : undefined
  if (exceeded !== undefined) return `the provider takes no strict tools with more than ${exceeded}`
  left.tools--
  left.optional -= optional
  left.unions -= unions
  return undefined
}

/** The schema with the keywords that became text of descriptions, or why the provider cannot enforce it. */
function strictSchema(
  { parameters }: FunctionTool,
  budget: SchemaBudget,
): { schema: Schema; unknowns: UnknownKeywords } | { problem: string } {
  const unknowns = new UnknownKeywords()
  const writer = new ConstrainedSchemaWriter(budget)
  try {
    const root = objectRoot(standardSchema(parameters ?? true, true), unknowns, budget)
    const schema = writer.write(withoutReferences(root, budget), '')
    if (!unknowns.hasAny && !writer.narrows) return { schema, unknowns: writer.unknowns }
    return {
      problem:
        'the provider cannot enforce the schema: ' + `it does not know ${unknowns.hasAny ? unknowns : writer.unknowns}`,
    }
  } catch (error) {
    if (error instanceof SchemaRefusal) return { problem: `the provider cannot enforce the schema: ${error.message}` }
    throw error
  }
}

function costOf(schema: unknown): Cost {
  if (Array.isArray(schema)) return sumOf(schema.map(costOf))
  if (!isObject(schema)) return { optional: 0, unions: 0 }
  const required = new Set(names(schema.required))
  const properties = objectOf(schema.properties)
  const isUnion = schema.anyOf !== undefined || Array.isArray(schema.type)
  return sumOf([
    { optional: Object.keys(properties).filter((name) => !required.has(name)).length, unions: isUnion ? 1 : 0 },
    ...[...Object.values(properties), schema.items, schema.anyOf].map(costOf),
  ])
}

const sumOf = (costs: Cost[]): Cost => ({
  optional: costs.reduce((sum, { optional }) => sum + optional, 0),
  unions: costs.reduce((sum, { unions }) => sum + unions, 0),
})
