import { STATUS_BY_CODE } from '../error.ts'
import { generations, generationSchemas } from './generations.ts'
import { management, managementSchemas } from './management.ts'
import {
  anything,
  nullable,
  object,
  oneOf,
  type Operation,
  real,
  reference,
  type Schema,
  statusesOf,
  text,
} from './operation.ts'
import { objects, objectSchemas } from './objects.ts'

const CODES = Object.keys(STATUS_BY_CODE)

/** The version of the interface, whose paths begin with /v1; the program has its own. */
const INTERFACE_VERSION = '1.0.0'

const errorSchemas: Record<string, Schema> = {
  OpenAIError: object({
    '!error': object({
      '!message': text,
      '!type': text,
      param: nullable(text),
      '!code': { anyOf: [oneOf(...CODES), text, { type: 'null' }] },
      metadata: object({}),
    }),
  }),
  AnthropicError: object({
    '!type': { const: 'error' },
    '!error': object({ '!type': text, '!message': text, details: anything }),
    request_id: nullable(text),
  }),
  GoogleError: object({ '!error': object({ '!code': real, '!message': text, '!status': text }) }),
}

const operations: readonly Operation[] = [...generations, ...objects, ...management]

/** The OpenAPI 3.1 document of this server. */
export const openApiDocument = (): Record<string, unknown> => ({
  openapi: '3.1.0',
  info: {
    title: 'Sluice',
    version: INTERFACE_VERSION,
    description:
      'A model gateway. Requests are passed on as they are where the provider has the same protocol: they may have ' +
      'fields beyond those listed here.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/' }],
  tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
  paths: pathsOf(operations),
  components: {
    schemas: { ...errorSchemas, ...generationSchemas, ...objectSchemas, ...managementSchemas },
    securitySchemes: {
      key: { type: 'http', scheme: 'bearer', description: 'A key: sk-ai-v1-..., sk-ss-v1-... or sk-mg-v1-...' },
      managementKey: { type: 'http', scheme: 'bearer', description: 'A management key: sk-mg-v1-...' },
    },
  },
})

function pathsOf(all: readonly Operation[]): Record<string, Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of all) (paths[operation.path] ??= {})[operation.method] = operationOf(operation)
  return paths
}

const SECURITY = { none: [], key: [{ key: [] }], management: [{ managementKey: [] }] }

function operationOf(operation: Operation): object {
  const { method, path, tag, summary, security, body } = operation
  const parameters = parametersOf(operation)
  return {
    operationId: `${method} ${path}`.replace(/[^A-Za-z0-9]+/g, '_').replace(/_$/, ''),
    tags: [tag],
    summary,
    security: SECURITY[security],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: {
              [body.type]: { schema: body.schema, ...(body.example === undefined ? {} : { example: body.example }) },
            },
          },
        }),
    responses: responsesOf(operation),
  }
}

const parametersOf = ({ path, query = {} }: Operation): object[] => [
  ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: text,
    ...exampleOf(name!, path),
  })),
  ...Object.entries(query).map(([name, schema]) => ({ name, in: 'query', required: false, schema })),
]

/** A model that every server has. */
function exampleOf(name: string, path: string): { example?: string } {
  if (name === 'publisher') return { example: 'sandbox' }
  if (name === 'model') return { example: path.includes('{publisher}') ? 'chat' : 'sandbox/chat' }
  return {}
}

function responsesOf({ answer, codes, errors, body, hasProviderErrors }: Operation): Record<string, object> {
  const { status = 200, also, type = 'application/json', otherTypes = [], schema, description } = answer
  const content = {
    ...(schema === undefined ? {} : { [type]: type === 'text/event-stream' ? {} : { schema } }),
    ...Object.fromEntries(otherTypes.map((other) => [other, {}])),
  }
  const error = { 'application/json': { schema: reference(errors) } }
  const answered = { description, ...(Object.keys(content).length === 0 ? {} : { content }) }
  return {
    [status]: answered,
    ...(also === undefined ? {} : { [also]: answered }),
    ...Object.fromEntries(
      [...statusesOf(codes, errors, body !== undefined)].map(([status, its]) => [
        status,
        { description: its.join(', '), content: error },
      ]),
    ),
    ...(hasProviderErrors === true ? { default: { description: 'An error of the provider', content: error } } : {}),
  }
}

let written: string | undefined

/** `GET /openapi.json`. */
export const getOpenApi = (): Response =>
  new Response((written ??= JSON.stringify(openApiDocument())), {
    headers: { 'content-type': 'application/json', 'cache-control': 'no-cache' },
  })
