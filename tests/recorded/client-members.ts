import type { ConversationName } from '../../src/generation/request.ts'
import type { Json, SchemaHints } from './request-members.ts'

/** Facts about requests of a client that the request schemas do not have. */

/**
 * `file`: the vendor's schema. `conversation`: the member with the turns, of which `before` are put in front of each
 * walked one. `result`: of the call in `before`.
 */
export type Client = SchemaHints & {
  file: string
  conversation: string
  minimal: Json & { tools: Json[] }
  before: Json[]
  result: Json
}

const SCHEMA = { type: 'object', properties: { one: { type: 'string' } } }
const GOOGLE_SCHEMA = { type: 'OBJECT', properties: { one: { type: 'STRING' } } }

const SAMPLES = {
  data: 'aGVsbG8=',
  url: 'https://example.com/a.png',
  file_url: 'https://example.com/a.pdf',
  file_data: 'data:application/pdf;base64,aGVsbG8=',
  call_id: 'call_1',
  tool_call_id: 'call_1',
  tool_use_id: 'call_1',
  arguments: '{"a":1}',
  schema: SCHEMA,
  parameters: SCHEMA,
  input_schema: SCHEMA,
}

const googleRequired: [name: string, members: string[]][] = [
  ['Blob', ['mimeType', 'data']],
  ['Content', ['parts']],
  ['FileData', ['fileUri', 'mimeType']],
  ['FunctionCall', ['name']],
  ['FunctionDeclaration', ['name']],
  ['FunctionResponse', ['name', 'response']],
  ['FunctionResponseBlob', ['mimeType', 'data']],
  ['FunctionResponseFileData', ['fileUri', 'mimeType']],
  ['GenerationConfig', ['responseMimeType']],
  ['Part', ['text']],
  ['SafetySetting', ['category', 'threshold']],
]
const GOOGLE = 'GoogleCloudAiplatformV1beta1'

export const CLIENTS: Record<ConversationName, Client> = {
  'chat.completions': {
    file: 'openai-chat.schema.json',
    conversation: 'messages',
    minimal: { model: 'a/b', tools: [{ type: 'function', function: { name: 'look' } }] },
    before: [
      { role: 'user', content: 'Hello' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
      },
    ],
    result: { role: 'tool', tool_call_id: 'call_1', content: 'found' },
    samples: {
      ...SAMPLES,
      logit_bias: { 5: 1 },
      'ChatCompletionRequestMessageContentPartFile.file': { file_data: SAMPLES.file_data },
      'ChatCompletionAllowedTools.tools': [[{ type: 'function', function: { name: 'look' } }]],
      'ChatCompletionRequestAssistantMessage.content': ['one', [{ type: 'text', text: 'two' }]],
    },
    required: { ChatCompletionRequestAssistantMessage: ['content'] },
    // The deprecated role is refused.
    opaque: ['ChatCompletionRequestFunctionMessage'],
  },
  responses: {
    file: 'openai-responses.schema.json',
    conversation: 'input',
    minimal: { model: 'a/b', tools: [{ type: 'function', name: 'look' }] },
    before: [
      { role: 'user', content: 'Hello' },
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' },
    ],
    result: { type: 'function_call_output', call_id: 'call_1', output: 'found' },
    samples: {
      ...SAMPLES,
      image_url: 'https://example.com/a.png',
      'ToolChoiceAllowed.tools': [[{ type: 'function', name: 'look' }]],
      'NamespaceToolParam.name': 'space',
    },
    required: { FunctionCallOutputItemParam: ['call_id'], ComputerToolCall: ['action'] },
    // References are replaced by stored items before the request is read.
    opaque: ['ItemReferenceParam'],
  },
  messages: {
    file: 'anthropic-messages.schema.json',
    conversation: 'messages',
    minimal: { model: 'a/b', max_tokens: 5000, tools: [{ name: 'look', input_schema: { type: 'object' } }] },
    before: [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'look', input: {} }] },
    ],
    result: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'found' }] },
    samples: SAMPLES,
  },
  generateContent: {
    file: 'vertex-generate-content.schema.json',
    conversation: 'contents',
    minimal: { tools: [{ functionDeclarations: [{ name: 'look' }] }] },
    before: [
      { role: 'user', parts: [{ text: 'Hello' }] },
      { role: 'model', parts: [{ functionCall: { id: 'call_1', name: 'look', args: {} } }] },
    ],
    result: {
      role: 'user',
      parts: [{ functionResponse: { id: 'call_1', name: 'look', response: { output: 'found' } } }],
    },
    samples: {
      data: 'aGVsbG8=',
      mimeType: 'image/png',
      fileUri: 'https://example.com/a.png',
      args: { a: 1 },
      response: { a: 1 },
      responseMimeType: ['application/json', 'text/plain'],
      responseSchema: GOOGLE_SCHEMA,
      responseJsonSchema: SCHEMA,
      parametersJsonSchema: SCHEMA,
      parameters: GOOGLE_SCHEMA,
    },
    required: Object.fromEntries(googleRequired.map(([name, members]) => [GOOGLE + name, members])),
    // Each keyword has tests of its own.
    opaque: [`${GOOGLE}Schema`],
  },
}

/** Members that a translated request may lose without a report, by their paths and values. */
export const SILENT: Record<ConversationName, [path: RegExp, values: readonly unknown[] | 'any'][]> = {
  'chat.completions': [
    // They select the endpoint and its path.
    [/^(model|stream)$/, 'any'],
    // Defaults.
    [/^response_format$/, 'any'],
    [/^modalities$/, 'any'],
    [/^tools\[1\]\.custom\.format$/, 'any'],
    // A setting of the stream to the client.
    [/^stream_options(\.include_usage)?$/, 'any'],
    // Messages and generateContent hold every response to its schema.
    [/^response_format\.json_schema\.strict$/, 'any'],
    // A string and one text part are the same.
    [/^messages\[\d\]\.content$/, 'any'],
  ],
  responses: [
    [/^(model|stream)$/, 'any'],
    // State, which Sluice keeps.
    [/^(previous_response_id|store)$/, 'any'],
    [/^input\[\d\]\.(id|status|type)$/, 'any'],
    // Measurements of an earlier response.
    [/^input\[\d\]\.content\[0\]\.logprobs/, 'any'],
    // The namespace is a part of the name where names are not unique.
    [/^input\[\d\]\.namespace$/, 'any'],
    [/^(input\[\d\]\.)?tools\[\d\]\.name$/, ['space']],
    // A string and one text part are the same.
    [/^input\[\d\]\.(content|output)$/, 'any'],
    // Defaults.
    [/^text(\.format)?$/, 'any'],
    [/tools\[\d\]\.format$/, 'any'],
    [/^reasoning\.(generate_)?summary$/, ['auto']],
    // Messages and generateContent hold every response to its schema.
    [/^text\.format\.strict$/, 'any'],
  ],
  messages: [
    [/^(model|stream)$/, 'any'],
    // It is kept in the response.
    [/^thinking\.display$/, 'any'],
    [/^tools\[1\]\.type$/, ['custom']],
    [/^(messages\[\d\]|system|tools\[1\]).*\.content$/, 'any'],
  ],
  generateContent: [
    // It is kept in the response.
    [/^generationConfig\.thinkingConfig\.includeThoughts$/, 'any'],
    // Only a part of a model is signed, and only media have a resolution.
    [/\.parts\[0\]\.(thoughtSignature|mediaResolution(\.level)?)$/, 'any'],
    // Results are found by the ids of their calls.
    [/\.functionResponse\.name$/, 'any'],
    [/^systemInstruction\.role$/, 'any'],
    // Defaults.
    [/\.thinkingLevel$/, ['THINKING_LEVEL_UNSPECIFIED']],
    [/\.functionCallingConfig\.mode$/, ['MODE_UNSPECIFIED']],
    [/^tools$/, 'any'],
  ],
}
