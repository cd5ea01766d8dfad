import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { codesAndPaths, contextOf, HELLO, type Json, ROUTES, sendTo } from './routes.ts'
import { outputFormatOf, toolsOf } from './tool-requests.ts'

/** The schemas of tools and output formats on every route. */

/** The schemas of tools and of the output format in a provider's request. */
const schemasIn: Record<ConversationName, (body: Json) => { tools: Json[]; format: Json | undefined }> = {
  'chat.completions': (body) => ({
    tools: (body.tools ?? []).map((tool: Json) => tool.function.parameters),
    format: body.response_format?.json_schema.schema,
  }),
  responses: (body) => ({
    tools: (body.tools ?? []).map((tool: Json) => tool.parameters),
    format: body.text?.format.schema,
  }),
  messages: (body) => ({
    tools: (body.tools ?? []).map((tool: Json) => tool.input_schema),
    format: body.output_config?.format.schema,
  }),
  generateContent: (body) => ({
    tools: (body.tools?.[0]?.functionDeclarations ?? []).map((tool: Json) => tool.parametersJsonSchema),
    format: body.generationConfig?.responseJsonSchema,
  }),
}

function send(client: ConversationName, provider: ConversationName, more: object) {
  const context = contextOf(client, { ...HELLO[client], ...more })
  const { text, body, losses } = sendTo(provider, context, { maxOutputTokens: 1000 })
  return { ...schemasIn[provider](body), text, losses: codesAndPaths(losses) }
}

const PERSON = {
  type: 'object',
  properties: { zip: { type: 'string' }, name: { $ref: '#/$defs/Name' } },
  required: ['zip', 'name'],
  additionalProperties: false,
  $defs: { Name: { type: 'string', description: 'In full.' } },
}
const NODE = {
  type: 'object',
  properties: { next: { $ref: '#/$defs/Node' } },
  $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } }, required: ['next'] } },
}

/** Paths of the schemas of the second tool and of the output format. */
const PATHS: Record<ConversationName, { tool: string; format: string }> = {
  'chat.completions': { tool: 'tools[1].function.parameters', format: 'response_format.json_schema.schema' },
  responses: { tool: 'tools[1].parameters', format: 'text.format.schema' },
  messages: { tool: 'tools[1].input_schema', format: 'output_config.format.schema' },
  generateContent: {
    tool: 'tools[0].functionDeclarations[1].parametersJsonSchema',
    format: 'generationConfig.responseJsonSchema',
  },
}

test.each(ROUTES)('schemas of %s are sent to %s in their order and the same each time', (client, provider) => {
  const more = {
    ...toolsOf[client]([{ name: 'plain' }, { name: 'person', parameters: PERSON }]),
    ...outputFormatOf[client](PERSON),
  }
  const { tools, format, text, losses } = send(client, provider, more)
  expect(Object.keys(tools[1]!.properties)).toEqual(['zip', 'name'])
  for (const schema of [tools[1]!, format!])
    expect(schema).toMatchObject({
      type: 'object',
      required: ['zip', 'name'],
      additionalProperties: false,
      properties: {
        name: schema.properties.name.$ref === undefined ? PERSON.$defs.Name : { $ref: '#/$defs/Name' },
      },
    })
  expect(send(client, provider, more).text).toBe(text)
  expect(losses).toEqual([])
})

describe('a recursive schema', () => {
  /** Anthropic accepts recursion in tools, Google only where a value may end it, OpenAI everywhere. */
  const accepts = (provider: ConversationName, kind: 'tool' | 'format'): boolean =>
    provider === 'chat.completions' || provider === 'responses' || (provider === 'messages' && kind === 'tool')

  for (const [client, provider] of ROUTES)
    for (const kind of ['tool', 'format'] as const) {
      const more =
        kind === 'tool'
          ? toolsOf[client]([{ name: 'plain' }, { name: 'node', parameters: NODE }])
          : outputFormatOf[client](NODE)

      if (accepts(provider, kind))
        test(`of a ${kind} of ${client} is sent to ${provider}`, () => {
          const { tools, format } = send(client, provider, more)
          expect((kind === 'tool' ? tools[1] : format)?.$defs).toEqual(NODE.$defs)
        })
      else
        test(`of a ${kind} of ${client} is refused with its path for ${provider}`, () => {
          const param = `${PATHS[client][kind]}.$defs.Node`
          let refusal: unknown
          try {
            send(client, provider, more)
          } catch (error) {
            refusal = error
          }
          expect(refusal).toBeInstanceOf(GatewayError)
          expect(refusal).toMatchObject({ status: 400, code: 'invalid_request', param })
          expect((refusal as Error).message).toStartWith(`${param}: must not refer to itself`)
        })
    }
})

describe('a schema that the provider does not accept as it is', () => {
  const EITHER = {
    anyOf: [
      { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
      { type: 'object', properties: { b: { type: 'string' } }, required: ['b'] },
    ],
  }
  const BOUNDED = {
    type: 'object',
    properties: { a: { type: 'string', minLength: 2 } },
    required: ['a'],
    additionalProperties: false,
  }

  test.each(ROUTES)('is reported with its path if it is of a tool of %s for %s', (client, provider) => {
    const more = toolsOf[client]([{ name: 'plain' }, { name: 'either', parameters: EITHER }])
    const { tools, losses } = send(client, provider, more)
    expect(tools[1]).toEqual({ type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } })
    expect(losses).toEqual([`schema_adjusted ${PATHS[client].tool}`])
  })

  test.each(ROUTES)('is reported with its path if it is of the output format of %s for %s', (client, provider) => {
    expect(send(client, provider, outputFormatOf[client](BOUNDED)).losses).toEqual(
      provider === 'messages' || provider === 'generateContent' ? [`schema_adjusted ${PATHS[client].format}`] : [],
    )
  })
})
