import type { ConversationName } from '../../src/generation/request.ts'

/** Requests with any number of elements of one kind. */

export type Json = Record<string, unknown>

export const times = <T>(count: number, one: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => one(index))
const named = (count: number, value: unknown): Json => Object.fromEntries(times(count, (index) => [`p${index}`, value]))

/** Schemas with many properties, required names, values, branches and definitions. */
const schemas: Record<string, (count: number) => Json> = {
  properties: (count) => ({ type: 'object', properties: named(count, {}) }),
  required: (count) => ({ type: 'object', required: times(count, (index) => `p${index}`) }),
  enum: (count) => ({ type: 'object', properties: { a: { enum: times(count, String) } } }),
  anyOf: (count) => ({ anyOf: times(count, () => ({})) }),
  const: (count) => ({ type: 'object', properties: { a: { const: named(count, 1) } } }),
  $defs: (count) => ({ type: 'object', $defs: named(count, {}) }),
}
const ofSchemas = (body: (schema: Json) => Json): Record<string, (count: number) => Json> =>
  Object.fromEntries(
    Object.entries(schemas).map(([kind, schema]) => [`a schema's ${kind}`, (count) => body(schema(count))]),
  )

const withContent = (content: unknown, more: object = {}): Json => ({ messages: [{ role: 'user', content }], ...more })
export const text = (): Json => ({ type: 'text', text: 'a' })
const ask = { role: 'user', content: 'a' }
const functionOf = (name: string, parameters?: Json): Json => ({
  type: 'function',
  function: { name, ...(parameters === undefined ? {} : { parameters }) },
})
export const callOf = (index: number): Json => ({
  id: `c${index}`,
  type: 'function',
  function: { name: 'f', arguments: '{}' },
})
export const useOf = (index: number): Json => ({ type: 'tool_use', id: `c${index}`, name: 'f', input: {} })
/** With an answer of the assistant between two turns of the user. */
const answered = (answer: object): Json => ({ messages: [ask, { role: 'assistant', ...answer }, ask] })
const imageUrl = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }
const inlineImage = { inlineData: { mimeType: 'image/png', data: 'AA==' } }
const question = { role: 'user', parts: [{ text: 'a' }] }

/** Bodies without a model, by the kind of their elements. */
export const REQUESTS: Record<ConversationName, Record<string, (count: number) => Json>> = {
  'chat.completions': {
    messages: (count) => ({ messages: times(count, () => ask) }),
    'turns about': (count) => ({
      messages: times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: 'a' })),
    }),
    instructions: (count) => ({ messages: [...times(count, () => ({ role: 'system', content: 'a' })), ask] }),
    'later instructions': (count) => ({ messages: [ask, ...times(count, () => ({ role: 'system', content: 'a' }))] }),
    parts: (count) => withContent(times(count, text)),
    'parts of instructions': (count) => ({ messages: [{ role: 'system', content: times(count, text) }, ask] }),
    'parts of an answer': (count) => answered({ content: times(count, text) }),
    images: (count) => withContent(times(count, () => imageUrl)),
    'images of an answer': (count) =>
      answered({
        content: 'a',
        images: times(count, () => imageUrl),
      }),
    calls: (count) => ({
      messages: [
        ask,
        { role: 'assistant', tool_calls: times(count, callOf) },
        ...times(count, (index) => ({ role: 'tool', tool_call_id: `c${index}`, content: 'a' })),
      ],
    }),
    'calls without results': (count) => answered({ tool_calls: times(count, callOf) }),
    'parts of a result': (count) => ({
      messages: [
        ask,
        { role: 'assistant', tool_calls: [callOf(0)] },
        { role: 'tool', tool_call_id: 'c0', content: times(count, text) },
      ],
    }),
    annotations: (count) =>
      answered({
        content: 'a',
        annotations: times(count, () => ({
          type: 'url_citation',
          url_citation: { url: 'u', title: '', start_index: 0, end_index: 1 },
        })),
      }),
    reasoning: (count) =>
      answered({
        content: 'a',
        reasoning_details: times(count, () => ({ type: 'reasoning.text', text: 'a' })),
      }),
    tools: (count) => withContent('a', { tools: times(count, (index) => functionOf(`f${index}`)) }),
    'equal tools': (count) => withContent('a', { tools: times(count, () => functionOf('f')) }),
    stops: (count) => withContent('a', { stop: times(count, () => 'a') }),
    biases: (count) => withContent('a', { logit_bias: Object.fromEntries(times(count, (index) => [index, 1])) }),
    metadata: (count) => withContent('a', { metadata: named(count, 'a') }),
    unknown: (count) => withContent('a', named(count, 1)),
    ...ofSchemas((parameters) => withContent('a', { tools: [functionOf('f', parameters)] })),
    'a schema of answers': (count) =>
      withContent('a', {
        response_format: {
          type: 'json_schema',
          json_schema: {
            name: 'a',
            strict: true,
            schema: {
              type: 'object',
              additionalProperties: false,
              properties: named(count, { type: 'string' }),
              required: Object.keys(named(count, 1)),
            },
          },
        },
      }),
  },
  responses: {
    items: (count) => ({ input: times(count, () => ask) }),
    'turns about': (count) => ({
      input: times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: 'a' })),
    }),
    instructions: (count) => ({ input: [...times(count, () => ({ role: 'system', content: 'a' })), ask] }),
    parts: (count) => ({ input: [{ role: 'user', content: times(count, () => ({ type: 'input_text', text: 'a' })) }] }),
    'parts of instructions': (count) => ({
      input: [{ role: 'system', content: times(count, () => ({ type: 'input_text', text: 'a' })) }, ask],
    }),
    'parts of an answer': (count) => ({
      input: [ask, { role: 'assistant', content: times(count, () => ({ type: 'output_text', text: 'a' })) }, ask],
    }),
    images: (count) => ({
      input: [
        {
          role: 'user',
          content: times(count, () => ({ type: 'input_image', image_url: 'data:image/png;base64,AA==' })),
        },
      ],
    }),
    calls: (count) => ({
      input: [
        ask,
        ...times(count, (index) => ({ type: 'function_call', call_id: `c${index}`, name: 'f', arguments: '{}' })),
        ...times(count, (index) => ({ type: 'function_call_output', call_id: `c${index}`, output: 'a' })),
      ],
    }),
    'calls without results': (count) => ({
      input: [
        ask,
        ...times(count, (index) => ({ type: 'function_call', call_id: `c${index}`, name: 'f', arguments: '{}' })),
      ],
    }),
    'parts of a result': (count) => ({
      input: [
        ask,
        { type: 'function_call', call_id: 'c0', name: 'f', arguments: '{}' },
        {
          type: 'function_call_output',
          call_id: 'c0',
          output: times(count, () => ({ type: 'input_text', text: 'a' })),
        },
      ],
    }),
    annotations: (count) => ({
      input: [
        ask,
        {
          role: 'assistant',
          content: [
            {
              type: 'output_text',
              text: 'a',
              annotations: times(count, () => ({
                type: 'url_citation',
                url: 'u',
                title: '',
                start_index: 0,
                end_index: 1,
              })),
            },
          ],
        },
        ask,
      ],
    }),
    reasoning: (count) => ({ input: [ask, ...times(count, () => ({ type: 'reasoning', summary: [] })), ask] }),
    summaries: (count) => ({
      input: [ask, { type: 'reasoning', summary: times(count, () => ({ type: 'summary_text', text: 'a' })) }, ask],
    }),
    tools: (count) => ({ input: 'a', tools: times(count, (index) => ({ type: 'function', name: `f${index}` })) }),
    'equal tools': (count) => ({ input: 'a', tools: times(count, () => ({ type: 'function', name: 'f' })) }),
    include: (count) => ({ input: 'a', include: times(count, () => 'message.output_text.logprobs') }),
    metadata: (count) => ({ input: 'a', metadata: named(count, 'a') }),
    unknown: (count) => ({ input: 'a', ...named(count, 1) }),
    ...ofSchemas((parameters) => ({ input: 'a', tools: [{ type: 'function', name: 'f', parameters }] })),
  },
  messages: {
    messages: (count) => ({ messages: times(count, () => ask) }),
    'turns about': (count) => ({
      messages: times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: 'a' })),
    }),
    blocks: (count) => withContent(times(count, text)),
    'blocks of instructions': (count) => withContent('a', { system: times(count, text) }),
    'instructions among messages': (count) => ({ messages: [{ role: 'system', content: times(count, text) }, ask] }),
    'blocks of an answer': (count) => answered({ content: times(count, text) }),
    images: (count) => withContent(times(count, () => image)),
    documents: (count) =>
      withContent(
        times(count, () => ({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a' } })),
      ),
    calls: (count) => ({
      messages: [
        ask,
        { role: 'assistant', content: times(count, useOf) },
        { role: 'user', content: times(count, (index) => ({ type: 'tool_result', tool_use_id: `c${index}` })) },
      ],
    }),
    'calls without results': (count) => answered({ content: times(count, useOf) }),
    'blocks of a result': (count) => ({
      messages: [
        ask,
        { role: 'assistant', content: [useOf(0)] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c0', content: times(count, text) }] },
      ],
    }),
    'images of a result': (count) => ({
      messages: [
        ask,
        { role: 'assistant', content: [useOf(0)] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'c0',
              content: times(count, () => image),
            },
          ],
        },
      ],
    }),
    citations: (count) =>
      answered({
        content: [
          {
            type: 'text',
            text: 'a',
            citations: times(count, () => ({
              type: 'web_search_result_location',
              url: 'u',
              title: 'a',
              cited_text: 'a',
              encrypted_index: 'a',
            })),
          },
        ],
      }),
    reasoning: (count) =>
      answered({
        content: [...times(count, () => ({ type: 'thinking', thinking: 'a', signature: '' })), text()],
      }),
    tools: (count) =>
      withContent('a', { tools: times(count, (index) => ({ name: `f${index}`, input_schema: { type: 'object' } })) }),
    'equal tools': (count) =>
      withContent('a', { tools: times(count, () => ({ name: 'f', input_schema: { type: 'object' } })) }),
    stops: (count) => withContent('a', { stop_sequences: times(count, () => 'a') }),
    unknown: (count) => withContent('a', named(count, 1)),
    ...ofSchemas((schema) => withContent('a', { tools: [{ name: 'f', input_schema: { type: 'object', ...schema } }] })),
  },
  generateContent: {
    contents: (count) => ({ contents: times(count, () => question) }),
    'turns about': (count) => ({
      contents: times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'model', parts: [{ text: 'a' }] })),
    }),
    'contents of the model': (count) => ({
      contents: [question, ...times(count, () => ({ role: 'model', parts: [{ text: 'a' }] }))],
    }),
    parts: (count) => ({ contents: [{ role: 'user', parts: times(count, () => ({ text: 'a' })) }] }),
    'parts of instructions': (count) => ({
      contents: [question],
      systemInstruction: { parts: times(count, () => ({ text: 'a' })) },
    }),
    'parts of an answer': (count) => ({
      contents: [question, { role: 'model', parts: times(count, () => ({ text: 'a' })) }, question],
    }),
    'turns in one content': (count) => ({
      contents: [
        {
          role: 'user',
          parts: times(count, (index) => (index % 2 === 0 ? { text: 'a' } : { text: 'a', thought: true })),
        },
      ],
    }),
    images: (count) => ({
      contents: [{ role: 'user', parts: times(count, () => inlineImage) }],
    }),
    calls: (count) => ({
      contents: [
        question,
        { role: 'model', parts: times(count, () => ({ functionCall: { name: 'f', args: {} } })) },
        { role: 'user', parts: times(count, () => ({ functionResponse: { name: 'f', response: {} } })) },
      ],
    }),
    'calls without results': (count) => ({
      contents: [
        question,
        { role: 'model', parts: times(count, () => ({ functionCall: { name: 'f', args: {} } })) },
        question,
      ],
    }),
    'media of a result': (count) => ({
      contents: [
        question,
        { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }] },
        {
          role: 'user',
          parts: [
            {
              functionResponse: {
                name: 'f',
                response: {},
                parts: times(count, () => inlineImage),
              },
            },
          ],
        },
      ],
    }),
    reasoning: (count) => ({
      contents: [question, { role: 'model', parts: times(count, () => ({ text: 'a', thought: true })) }],
    }),
    tools: (count) => ({
      contents: [question],
      tools: times(count, (index) => ({ functionDeclarations: [{ name: `f${index}` }] })),
    }),
    declarations: (count) => ({
      contents: [question],
      tools: [{ functionDeclarations: times(count, (index) => ({ name: `f${index}` })) }],
    }),
    'native tools': (count) => ({
      contents: [question],
      tools: times(count, () => ({ codeExecution: {} })),
    }),
    stops: (count) => ({
      contents: [question],
      generationConfig: { stopSequences: times(count, () => 'a') },
    }),
    'safety settings': (count) => ({
      contents: [question],
      safetySettings: times(count, () => ({ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' })),
    }),
    unknown: (count) => ({ contents: [question], ...named(count, 1) }),
    ...ofSchemas((parametersJsonSchema) => ({
      contents: [question],
      tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema }] }],
    })),
    'an order of properties': (count) => ({
      contents: [question],
      tools: [
        {
          functionDeclarations: [
            {
              name: 'f',
              parameters: {
                type: 'OBJECT',
                properties: named(count, {}),
                propertyOrdering: Object.keys(named(count, 1)),
              },
            },
          ],
        },
      ],
    }),
  },
}

/** A body of about this size in bytes. */
export function bodyOf(protocol: ConversationName, kind: string, bytes: number, model: string): string {
  const build = REQUESTS[protocol][kind]!
  const sizeAt = (count: number): number => JSON.stringify(build(count)).length
  const each = (sizeAt(200) - sizeAt(100)) / 100
  const body = build(Math.floor(bytes / (each + 3)))
  return JSON.stringify(
    protocol === 'generateContent'
      ? body
      : { model, max_tokens: undefined, ...(protocol === 'messages' ? { max_tokens: 100 } : {}), ...body },
  )
}
