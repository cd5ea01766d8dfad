import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { HELLO, type Json, others, send, sendOrRefuse } from './routes.ts'

/**
 * Tools that a provider runs, and what they leave in a conversation: every kind of the vendors' documents, sent to
 * providers of the other protocols.
 */

const SPECS = join(import.meta.dir, '../../../shared/specs')

const document = (name: string): Json => JSON.parse(readFileSync(join(SPECS, name), 'utf8')) as Json

/** The values of a schema with `enum` or `const`. */
const valuesOf = ({ enum: values, const: value }: Json): string[] =>
  (values ?? (value === undefined ? [] : [value])) as string[]

/** The values of `type` in the variants of a union. */
const variantsOf = (schemas: Json, name: string): string[] =>
  ((schemas[name].anyOf ?? schemas[name].oneOf) as Json[]).flatMap(({ $ref }) => {
    const variant = String($ref).split('/').at(-1)!
    return schemas[variant].properties === undefined
      ? variantsOf(schemas, variant)
      : valuesOf(schemas[variant].properties.type ?? {})
  })

/** Kinds that every protocol can represent. */
const TRANSLATED_TOOLS = new Set([
  'function',
  'custom',
  'namespace',
  'web_search',
  'web_search_2025_08_26',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'web_search_20250305',
  'web_search_20260209',
  'web_search_20260318',
  'functionDeclarations',
  'googleSearch',
  'googleSearchRetrieval',
  'code_execution_20250522',
  'code_execution_20250825',
  'code_execution_20260120',
  'code_execution_20260521',
  'mcp_toolset',
  'codeExecution',
])
const TRANSLATED_ITEMS = new Set([
  'message',
  'function_call',
  'function_call_output',
  'reasoning',
  'custom_tool_call',
  'custom_tool_call_output',
  'image_generation_call',
  'item_reference',
  'additional_tools',
  'code_interpreter_call',
  'mcp_call',
])
const TRANSLATED_BLOCKS = new Set([
  'text',
  'image',
  'document',
  'thinking',
  'redacted_thinking',
  'tool_use',
  'tool_result',
  'search_result',
  'server_tool_use',
  'mcp_tool_use',
  'mcp_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
])
const TRANSLATED_PARTS = new Set([
  'text',
  'thought',
  'thoughtSignature',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
  'mediaResolution',
  'mediaProcessing',
  'videoMetadata',
  'partMetadata',
  'executableCode',
  'codeExecutionResult',
])

/** Members without which an item is not valid. */
const ITEMS: Record<string, object> = {
  web_search_call: { status: 'completed', action: { type: 'search', query: 'q' } },
  computer_call: { action: { type: 'screenshot' } },
  computer_call_output: { output: { type: 'computer_screenshot' } },
  local_shell_call: { status: 'completed', action: { type: 'exec', command: ['ls'], env: {} } },
  local_shell_call_output: { output: 'x' },
  shell_call: { action: { commands: ['ls'] } },
  shell_call_output: { output: [] },
}

/** `path`: of the tool, item, block or part of this kind in the body. */
type Table = {
  client: ConversationName
  what: string
  kinds: string[]
  path(kind: string): string
  body(kind: string): object
}

const user = { role: 'user', content: 'hi' }

function tablesOfResponses(): Table[] {
  const { schemas } = document('openai/openapi.json').components
  return [
    {
      client: 'responses',
      what: 'tools',
      kinds: variantsOf(schemas, 'Tool').filter((kind) => !TRANSLATED_TOOLS.has(kind)),
      path: () => 'tools[0]',
      body: (type) => ({
        ...HELLO.responses,
        tools: [{ type }],
      }),
    },
    {
      client: 'responses',
      what: 'items',
      kinds: [...new Set([...variantsOf(schemas, 'Item'), ...variantsOf(schemas, 'InputItem')])].filter(
        (kind) => !TRANSLATED_ITEMS.has(kind),
      ),
      path: () => 'input[1]',
      body: (type) => ({ model: 'a/b', input: [user, { type, id: 'i', call_id: 'c', ...ITEMS[type] }, user] }),
    },
  ]
}

function tablesOfMessages(): Table[] {
  const schemas = document('schemas/anthropic-messages-beta.schema.json').$defs
  const typesOf = (names: RegExp): string[] =>
    Object.keys(schemas)
      .filter((name) => names.test(name))
      .flatMap((name) => valuesOf(schemas[name].properties?.type ?? {}))
  const blockOf = (type: string): object => ({
    type,
    id: 'srvtoolu_1',
    name: 'code_execution',
    tool_use_id: 'srvtoolu_1',
    content: [],
  })
  return [
    {
      client: 'messages',
      what: 'tools',
      kinds: typesOf(/Tool(_\d+)?$|Toolset$|TextEditor_|ToolSearchTool/).filter(
        (kind) => !TRANSLATED_TOOLS.has(kind) && !/direct|_result$/.test(kind),
      ),
      path: () => 'tools[0]',
      body: (type) => ({ ...HELLO.messages, tools: [{ type, name: 'x' }] }),
    },
    {
      client: 'messages',
      what: 'blocks',
      kinds: typesOf(/^BetaRequest.*Block$/).filter((kind) => !TRANSLATED_BLOCKS.has(kind)),
      path: () => 'messages[1].content[0]',
      body: (type) => ({
        ...HELLO.messages,
        messages: [user, { role: 'assistant', content: [blockOf(type)] }, user],
      }),
    },
  ]
}

function tablesOfGemini(): Table[] {
  const documents = [
    'generativelanguage.v1beta',
    'aiplatform.v1.generateContent',
    'aiplatform.v1beta1.generateContent',
  ].map((name) => document(`google/${name}.discovery.json`).schemas as Json)
  const membersOf = (schema: string): string[] => {
    const name = new RegExp(`^(GoogleCloudAiplatformV1(beta1)?)?${schema}$`)
    return [
      ...new Set(
        documents.flatMap((schemas) =>
          Object.keys(schemas)
            .filter((key) => name.test(key))
            .flatMap((key) => Object.keys(schemas[key].properties)),
        ),
      ),
    ]
  }
  const turn = { role: 'user', parts: [{ text: 'hi' }] }
  return [
    {
      client: 'generateContent',
      what: 'tools',
      kinds: membersOf('Tool').filter((kind) => !TRANSLATED_TOOLS.has(kind)),
      path: (kind) => `tools[0].${kind}`,
      body: (kind) => ({ ...HELLO.generateContent, tools: [{ [kind]: {} }] }),
    },
    {
      client: 'generateContent',
      what: 'parts',
      kinds: membersOf('Part').filter((kind) => !TRANSLATED_PARTS.has(kind)),
      path: (kind) => `contents[1].parts[0].${kind}`,
      body: (kind) => ({ contents: [turn, { role: 'model', parts: [{ [kind]: {} }] }, turn] }),
    },
  ]
}

function testKinds({ client, kinds, path, body }: Table): void {
  test('the document has several kinds', () => expect(kinds.length).toBeGreaterThan(2))

  for (const provider of others(client))
    test.each(kinds)(`%s is refused by its name or reported as dropped for a provider of ${provider}`, (kind) => {
      const result = sendOrRefuse(client, provider, body(kind))
      if (result instanceof GatewayError) {
        const { code, status, param, message } = result
        expect({ code, status, param }).toEqual({ code: 'unsupported_parameter', status: 400, param: path(kind) })
        expect(message).toContain(kind)
      } else
        expect(result.losses).toContainEqual(expect.objectContaining({ path: path(kind), effect: 'dropped' }) as Loss)
    })

  test.each(kinds)(`%s is sent to a provider of ${client} unchanged`, (kind) => {
    const { model: _, ...rest } = body(kind) as Json
    expect(send(client, client, body(kind)).body).toMatchObject(rest)
  })
}

if (!existsSync(SPECS)) test.skip("the kinds of the vendors' documents (../shared/specs is missing)", () => {})
else
  for (const table of [...tablesOfResponses(), ...tablesOfMessages(), ...tablesOfGemini()])
    describe(`${table.what} of ${table.client} that only its providers have`, () => testKinds(table))
