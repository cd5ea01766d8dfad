import { invalid } from '../../error.ts'
import type { GenerationRequest, Tool, ToolChoice } from '../../generation/request.ts'
import { isObject } from '../../json/parse.ts'
import { ReadArrays, rememberLike } from '../element-memory.ts'
import { collectExtras, describeType, type Extras, present, tryRead } from '../fields.ts'
import type { GoogleFields } from './fields.ts'
import { hostedTool } from './hosted-tools.ts'
import { readSchema } from './read-request-schema.ts'

const MODES = ['AUTO', 'ANY', 'NONE', 'VALIDATED', 'MODE_UNSPECIFIED'] as const

/** Tools that only look things up: a model can respond without them. */
const OPTIONAL: ReadonlySet<string> = new Set(['urlContext', 'googleMaps', 'enterpriseWebSearch', 'retrieval'])

type ReadTools = Pick<GenerationRequest, 'tools' | 'webSearch'>

/**
 * `tools`: each element may have declarations and any of Google's own tools. The mode VALIDATED holds calls to their
 * schemas.
 */
export function readTools(body: GoogleFields, extras: Extras): ReadTools {
  const strict = body.object('toolConfig')?.object('functionCallingConfig')?.take('mode') === 'VALIDATED'
  const source = body.take('tools')
  return readings[strict ? 'strict' : 'free'].of(source, extras, () => {
    const read = readOwnTools(body, strict, extras)
    rememberLike(source, read.tools, readings[strict ? 'strict' : 'free'])
    return read
  })
}

const readings = { strict: new ReadArrays<ReadTools>(), free: new ReadArrays<ReadTools>() }

function readOwnTools(body: GoogleFields, strict: boolean, extras: Extras): ReadTools {
  const read: ReadTools = { tools: [] }
  for (const tool of body.objects('tools') ?? []) {
    for (const declaration of tool.objects('functionDeclarations') ?? []) {
      const own = tryRead(readDeclaration, declaration, extras)
      read.tools.push(own === undefined ? unreadable(declaration) : { ...own, ...(strict ? { strict } : {}) })
    }
    for (const name of ['googleSearch', 'googleSearchRetrieval']) {
      const search = tool.object(name)
      if (search === undefined) continue
      read.webSearch = { path: search.path, ...present('blockedDomains', search.strings('excludeDomains')) }
    }
    for (const name of Object.keys(tool.rest())) read.tools.push(readNativeTool(tool, name))
    collectExtras(tool, extras)
  }
  return read
}

/** A tool that Google runs. Of one that others run too, its members are what only Google has. */
function readNativeTool(tool: GoogleFields, name: string): Tool {
  const kind = camelOf(name)
  const hosted = hostedTool(kind)
  const value = hosted !== undefined && isObject(tool.value[name]) ? tool.object(name)!.value : tool.take(name)
  return {
    type: 'native',
    protocol: 'generateContent',
    kind,
    value: { [name]: value },
    path: tool.at(name),
    ...(OPTIONAL.has(kind) ? { optional: true } : {}),
    ...present('hosted', hosted),
  }
}

const unreadable = (declaration: GoogleFields): Tool => ({
  type: 'native',
  protocol: 'generateContent',
  kind: 'functionDeclarations',
  value: declaration.whole(),
  path: declaration.path,
})

const camelOf = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

function readDeclaration(declaration: GoogleFields): Tool & { type: 'function' } {
  const name = declaration.require('name', declaration.string('name'), 'the name of the function')
  const description = declaration.string('description')
  const schema = declaration.take('parameters')
  const jsonSchema = declaration.take('parametersJsonSchema')
  if (schema !== undefined && jsonSchema !== undefined)
    throw invalid(declaration.at('parametersJsonSchema'), 'must not be combined with parameters')
  const parameters =
    schema === undefined
      ? jsonSchema && readObjectSchema(jsonSchema, declaration.at('parametersJsonSchema'))
      : readSchema(schema, declaration.at('parameters'))
  return {
    type: 'function',
    name,
    ...present('description', description),
    ...present('parameters', parameters),
    path: declaration.path,
  }
}

function readObjectSchema(schema: unknown, path: string): unknown {
  if (typeof schema !== 'object' || Array.isArray(schema))
    throw invalid(path, `must be an object, not ${describeType(schema)}`)
  return schema
}

export function readToolConfig(body: GoogleFields): ToolChoice | undefined {
  const config = body.object('toolConfig')
  const calling = config?.object('functionCallingConfig')
  const mode = calling?.oneOf('mode', MODES)
  const names = calling?.strings('allowedFunctionNames') ?? []
  const only = names[0]
  switch (mode) {
    case 'NONE':
      return { type: 'none' }
    case 'ANY':
      return only === undefined
        ? { type: 'required' }
        : names.length === 1
          ? { type: 'tool', name: only }
          : { type: 'allowed', names, required: true }
    case 'AUTO':
    case 'VALIDATED':
      return only === undefined ? { type: 'auto' } : { type: 'allowed', names, required: false }
    default:
      return only === undefined ? undefined : { type: 'allowed', names, required: false }
  }
}
