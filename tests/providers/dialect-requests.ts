import type { ConversationName } from '../../src/generation/request.ts'
import type { Json } from './dialects.ts'

/** Requests of three client protocols that use as many fields as possible. */

export const PDF = Buffer.from('%PDF-1.4 and so on').toString('base64')
export const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
export const TOOLS = ['look', 'write', 'third']
export const USER = 'the user, named in words'

export type RequestOptions = {
  schema: boolean
  json: boolean
  tools: 'one' | 'some' | 'none'
  begun: boolean
  document: boolean
  stream: boolean
  reasons: boolean
}
export const REQUESTS: [string, Partial<RequestOptions>][] = [
  ['a tool loop with one forced tool', { tools: 'one' }],
  ['two allowed tools', { tools: 'some' }],
  ['a schema and tools in a stream', { tools: 'one', schema: true, stream: true }],
  ['a schema', { schema: true }],
  ['JSON that the conversation does not mention', { json: true }],
  ['JSON in a stream', { json: true, stream: true }],
  ['the beginning of a response', { begun: true }],
  ['a document', { document: true }],
]

/** The body for these options in each protocol, with most other fields that the protocol has. */
export const BODIES: Partial<Record<ConversationName, (options: Partial<RequestOptions>) => Json>> = {
  messages: ({ schema, tools, begun, document, stream }) => ({
    max_tokens: 2000,
    stream,
    system: [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }],
    temperature: 0.5,
    top_k: 3,
    stop_sequences: ['END'],
    metadata: { user_id: USER },
    service_tier: 'auto',
    thinking: { type: 'enabled', budget_tokens: 1024 },
    ...(schema ? { output_config: { format: { type: 'json_schema', schema: SCHEMA } } } : {}),
    ...(tools === undefined
      ? {}
      : {
          tools: TOOLS.map((name) => ({ name, description: 'D', input_schema: SCHEMA })),
          tool_choice: {
            ...(tools === 'one' ? { type: 'tool', name: 'look' } : { type: 'any' }),
            disable_parallel_tool_use: true,
          },
        }),
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'hi' },
          ...(document
            ? [
                {
                  type: 'document',
                  title: 'a.pdf',
                  source: { type: 'base64', media_type: 'application/pdf', data: PDF },
                },
              ]
            : []),
        ],
      },
      ...(tools === undefined
        ? []
        : [
            {
              role: 'assistant',
              content: [
                { type: 'text', text: 'I look.' },
                { type: 'tool_use', id: 'toolu_01ABCDEFGHIJKLMNOP', name: 'look', input: { a: 'x' } },
              ],
            },
            {
              role: 'user',
              content: [
                {
                  type: 'tool_result',
                  tool_use_id: 'toolu_01ABCDEFGHIJKLMNOP',
                  is_error: true,
                  content: [{ type: 'text', text: 'no' }],
                },
                { type: 'text', text: 'Now mind this.' },
              ],
            },
          ]),
      ...(begun ? [{ role: 'assistant', content: 'Once upon' }] : []),
    ],
  }),
  responses: ({ schema, json, tools, begun, document, stream }) => ({
    stream,
    instructions: 'Be short.',
    max_output_tokens: 2000,
    temperature: 0.5,
    top_p: 0.9,
    top_logprobs: 2,
    user: USER,
    metadata: { a: 'b' },
    service_tier: 'priority',
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
    reasoning: { effort: 'low', summary: 'auto' },
    text: {
      verbosity: 'low',
      ...(schema
        ? { format: { type: 'json_schema', name: 'n', strict: true, schema: SCHEMA } }
        : json
          ? { format: { type: 'json_object' } }
          : {}),
    },
    ...(tools === undefined
      ? {}
      : {
          tools: TOOLS.map((name) => ({ type: 'function', name, parameters: SCHEMA, strict: true })),
          parallel_tool_calls: false,
          tool_choice:
            tools === 'one'
              ? { type: 'function', name: 'look' }
              : {
                  type: 'allowed_tools',
                  mode: 'required',
                  tools: TOOLS.slice(0, 2).map((name) => ({ type: 'function', name })),
                },
        }),
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'hi' },
          ...(document
            ? [{ type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` }]
            : []),
        ],
      },
      { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'Not that.' }] },
      { role: 'developer', content: 'Mind the time.' },
      ...(tools === undefined
        ? []
        : [
            { type: 'function_call', call_id: 'call_abcdefghijklmnop', name: 'look', arguments: '{"a":"x"}' },
            { type: 'function_call_output', call_id: 'call_abcdefghijklmnop', output: 'seen' },
            { role: 'developer', content: 'Be quick.' },
          ]),
      { role: 'user', content: 'go on' },
      ...(begun ? [{ role: 'assistant', content: 'Once upon' }] : []),
    ],
  }),
  generateContent: ({ schema, json, tools, begun, document, reasons }) => ({
    systemInstruction: { parts: [{ text: 'Be short.' }] },
    generationConfig: {
      maxOutputTokens: 2000,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      seed: 7,
      presencePenalty: 0.1,
      frequencyPenalty: 0.1,
      stopSequences: ['END'],
      responseLogprobs: true,
      logprobs: 2,
      ...(reasons ? { thinkingConfig: { thinkingBudget: 1024, includeThoughts: true } } : {}),
      ...(schema
        ? { responseMimeType: 'application/json', responseJsonSchema: SCHEMA }
        : json
          ? { responseMimeType: 'application/json' }
          : {}),
    },
    ...(tools === undefined
      ? {}
      : {
          tools: [
            { functionDeclarations: TOOLS.map((name) => ({ name, description: 'D', parametersJsonSchema: SCHEMA })) },
          ],
          toolConfig: {
            functionCallingConfig: { mode: 'ANY', allowedFunctionNames: TOOLS.slice(0, tools === 'one' ? 1 : 2) },
          },
        }),
    contents: [
      {
        role: 'user',
        parts: [{ text: 'hi' }, ...(document ? [{ inlineData: { mimeType: 'application/pdf', data: PDF } }] : [])],
      },
      ...(tools === undefined
        ? []
        : [
            { role: 'model', parts: [{ functionCall: { id: 'x', name: 'look', args: { a: 'x' } } }] },
            {
              role: 'user',
              parts: [
                { functionResponse: { id: 'x', name: 'look', response: { output: 'seen' } } },
                { text: 'Now mind this.' },
              ],
            },
          ]),
      ...(begun ? [{ role: 'model', parts: [{ text: 'Once upon' }] }] : []),
    ],
  }),
}
export const CLIENTS = Object.keys(BODIES) as ConversationName[]
