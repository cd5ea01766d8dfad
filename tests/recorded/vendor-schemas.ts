import { Ajv2020 } from 'ajv/dist/2020.js'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Any } from './response-content.ts'

const FOLDER = join(import.meta.dir, '../../../shared/specs/schemas')

const FILES: Record<ConversationName, { file: string; frame: string }> = {
  'chat.completions': { file: 'openai-chat', frame: 'chunk' },
  responses: { file: 'openai-responses', frame: 'event' },
  messages: { file: 'anthropic-messages-beta', frame: 'event' },
  generateContent: { file: 'vertex-generate-content', frame: 'response' },
}

const RECENT_MEMBERS = new Set([
  'stop_details',
  'context_management',
  'container',
  'diagnostics',
  'fallback_credit',
  'inference_geo',
  'iterations',
  'output_tokens_details',
  'server_tool_use',
  'service_tier',
  'speed',
  'cache_creation',
  'citations',
  'caller',
  'estimated_tokens',
])

/** OpenAI's schema has custom tool calls only in whole responses, not in chunks. */
export const UNDOCUMENTED_FRAMES = [
  'lingua__responsesAdditionalToolsMultipleToolsParam-followup-response',
  'lingua__responsesAdditionalToolsMultipleToolsParam-followup-response-streaming',
  'lingua__responsesCustomToolCallStreamingParam-response-streaming',
  'lingua__responsesCustomToolCallStreamingParam-response',
  'agentgateway response/responses/custom-tool/responses-responses',
  'vercel-ai__openai-openai-custom-tool.1',
  'vercel-ai__openai-openai-custom-tool.1~2',
].map((id) => `chat.completions ${id}`)

/** The problem of a value, or an empty string. */
export type SchemaValidator = (what: 'request' | 'response' | 'frame', value: unknown) => string

const validators = new Map<ConversationName, SchemaValidator>()

/** A validator by the schemas that the vendors publish. Accepts every value if they are absent. */
export function schemaValidator(protocol: ConversationName): SchemaValidator {
  // Compiling the schemas takes seconds.
  const validate = validators.get(protocol) ?? newValidator(protocol)
  validators.set(protocol, validate)
  return validate
}

function newValidator(protocol: ConversationName): SchemaValidator {
  const { file, frame } = FILES[protocol]
  const path = join(FOLDER, `${file}.schema.json`)
  if (!existsSync(path)) return () => ''
  const schema = JSON.parse(readFileSync(path, 'utf8')) as Any
  // Only the Gemini API has service tiers, Google's other server has none.
  if (protocol === 'generateContent') {
    const other = JSON.parse(readFileSync(join(FOLDER, 'google-generate-content.schema.json'), 'utf8')) as Any
    const { serviceTier } = other.$defs[other.roots.request].properties
    Object.assign(schema.$defs[schema.roots.request].properties, { serviceTier })
    const { serviceTier: served } = other.$defs.UsageMetadata.properties
    const usage = Object.keys(schema.$defs).find((name) => name.endsWith('UsageMetadata'))!
    Object.assign(schema.$defs[usage].properties, { serviceTier: served })
  }
  // Google's schema lists every member; the other vendors leave their objects open.
  if (protocol === 'generateContent')
    for (const definition of Object.values<Any>(schema.$defs))
      if (definition.properties !== undefined) definition.additionalProperties = false
  // Recorded responses do not have the members that Anthropic added to its schema later.
  if (protocol === 'messages')
    for (const definition of Object.values<Any>(schema.$defs))
      definition.required = definition.required?.filter((name: string) => !RECENT_MEMBERS.has(name)) ?? []
  // OpenAI's servers accept images without it, as recorded requests show.
  if (protocol === 'responses')
    for (const definition of Object.values<Any>(schema.$defs))
      definition.required = definition.required?.filter((name: string) => name !== 'detail') ?? []
  byType(schema.$defs, schema.$defs)
  const ajv = new Ajv2020({ strict: false, validateFormats: false, discriminator: true, code: { optimize: false } })
  ajv.addSchema({ $id: file, $defs: schema.$defs })
  const compiled = new Map<string, ReturnType<Ajv2020['compile']>>()
  return (what, value) => {
    const root = schema.roots[what === 'frame' ? frame : what] as string
    const validate = compiled.get(root) ?? ajv.compile({ $ref: `${file}#/$defs/${root}` })
    compiled.set(root, validate)
    return validate(JSON.parse(JSON.stringify(value))) ? '' : ajv.errorsText(validate.errors).slice(0, 400)
  }
}

/**
 * Alternatives that differ by a `type` that each of them requires are chosen by it, so that the others are not tried:
 * they could not match. Changes the schema.
 */
function byType(value: unknown, definitions: Record<string, Any>): void {
  if (typeof value !== 'object' || value === null) return
  for (const inner of Object.values(value)) byType(inner, definitions)
  const schema = value as Any
  if (!Array.isArray(schema.anyOf) || schema.anyOf.length < 3) return
  const types = (schema.anyOf as Any[]).map((one) => typesOf(one, definitions))
  const all = types.flat()
  if (types.some(({ length }) => length === 0) || new Set(all).size < all.length) return
  const { anyOf } = schema
  delete schema.anyOf
  Object.assign(schema, { type: 'object', required: ['type'], discriminator: { propertyName: 'type' }, oneOf: anyOf })
}

/** The values of `type` of which one is required; none where it may be another one. */
function typesOf(schema: Any, definitions: Record<string, Any>): string[] {
  const named = typeof schema.$ref === 'string' ? definitions[schema.$ref.replace(/^.*\$defs\//, '')]! : schema
  if (named.required?.includes('type') !== true) return []
  const { const: only, enum: several } = named.properties?.type ?? {}
  return (several ?? [only]).filter((one: unknown) => typeof one === 'string')
}
