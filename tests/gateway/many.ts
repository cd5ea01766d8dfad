import type { ConversationName } from '../../src/generation/request.ts'

/** Requests and responses with any number of elements of one kind. */

type Json = Record<string, unknown>

const times = <T>(count: number, one: (index: number) => T): T[] =>
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
const text = (): Json => ({ type: 'text', text: 'a' })
const ask = { role: 'user', content: 'a' }
const functionOf = (name: string, parameters?: Json): Json => ({
  type: 'function',
  function: { name, ...(parameters === undefined ? {} : { parameters }) },
})
const callOf = (index: number): Json => ({
  id: `c${index}`,
  type: 'function',
  function: { name: 'f', arguments: '{}' },
})
const useOf = (index: number): Json => ({ type: 'tool_use', id: `c${index}`, name: 'f', input: {} })

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
    'parts of an answer': (count) => ({ messages: [ask, { role: 'assistant', content: times(count, text) }, ask] }),
    images: (count) =>
      withContent(times(count, () => ({ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }))),
    'images of an answer': (count) => ({
      messages: [
        ask,
        {
          role: 'assistant',
          content: 'a',
          images: times(count, () => ({ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } })),
        },
        ask,
      ],
    }),
    calls: (count) => ({
      messages: [
        ask,
        { role: 'assistant', tool_calls: times(count, callOf) },
        ...times(count, (index) => ({ role: 'tool', tool_call_id: `c${index}`, content: 'a' })),
      ],
    }),
    'calls without results': (count) => ({
      messages: [ask, { role: 'assistant', tool_calls: times(count, callOf) }, ask],
    }),
    'parts of a result': (count) => ({
      messages: [
        ask,
        { role: 'assistant', tool_calls: [callOf(0)] },
        { role: 'tool', tool_call_id: 'c0', content: times(count, text) },
      ],
    }),
    annotations: (count) => ({
      messages: [
        ask,
        {
          role: 'assistant',
          content: 'a',
          annotations: times(count, () => ({
            type: 'url_citation',
            url_citation: { url: 'u', title: '', start_index: 0, end_index: 1 },
          })),
        },
        ask,
      ],
    }),
    reasoning: (count) => ({
      messages: [
        ask,
        {
          role: 'assistant',
          content: 'a',
          reasoning_details: times(count, () => ({ type: 'reasoning.text', text: 'a' })),
        },
        ask,
      ],
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
    'blocks of an answer': (count) => ({ messages: [ask, { role: 'assistant', content: times(count, text) }, ask] }),
    images: (count) =>
      withContent(
        times(count, () => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } })),
      ),
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
    'calls without results': (count) => ({ messages: [ask, { role: 'assistant', content: times(count, useOf) }, ask] }),
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
              content: times(count, () => ({
                type: 'image',
                source: { type: 'base64', media_type: 'image/png', data: 'AA==' },
              })),
            },
          ],
        },
      ],
    }),
    citations: (count) => ({
      messages: [
        ask,
        {
          role: 'assistant',
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
        },
        ask,
      ],
    }),
    reasoning: (count) => ({
      messages: [
        ask,
        {
          role: 'assistant',
          content: [...times(count, () => ({ type: 'thinking', thinking: 'a', signature: '' })), text()],
        },
        ask,
      ],
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
    contents: (count) => ({ contents: times(count, () => ({ role: 'user', parts: [{ text: 'a' }] })) }),
    'turns about': (count) => ({
      contents: times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'model', parts: [{ text: 'a' }] })),
    }),
    'contents of the model': (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        ...times(count, () => ({ role: 'model', parts: [{ text: 'a' }] })),
      ],
    }),
    parts: (count) => ({ contents: [{ role: 'user', parts: times(count, () => ({ text: 'a' })) }] }),
    'parts of instructions': (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      systemInstruction: { parts: times(count, () => ({ text: 'a' })) },
    }),
    'parts of an answer': (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        { role: 'model', parts: times(count, () => ({ text: 'a' })) },
        { role: 'user', parts: [{ text: 'a' }] },
      ],
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
      contents: [
        { role: 'user', parts: times(count, () => ({ inlineData: { mimeType: 'image/png', data: 'AA==' } })) },
      ],
    }),
    calls: (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        { role: 'model', parts: times(count, () => ({ functionCall: { name: 'f', args: {} } })) },
        { role: 'user', parts: times(count, () => ({ functionResponse: { name: 'f', response: {} } })) },
      ],
    }),
    'calls without results': (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        { role: 'model', parts: times(count, () => ({ functionCall: { name: 'f', args: {} } })) },
        { role: 'user', parts: [{ text: 'a' }] },
      ],
    }),
    'media of a result': (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }] },
        {
          role: 'user',
          parts: [
            {
              functionResponse: {
                name: 'f',
                response: {},
                parts: times(count, () => ({ inlineData: { mimeType: 'image/png', data: 'AA==' } })),
              },
            },
          ],
        },
      ],
    }),
    reasoning: (count) => ({
      contents: [
        { role: 'user', parts: [{ text: 'a' }] },
        { role: 'model', parts: times(count, () => ({ text: 'a', thought: true })) },
      ],
    }),
    tools: (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      tools: times(count, (index) => ({ functionDeclarations: [{ name: `f${index}` }] })),
    }),
    declarations: (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      tools: [{ functionDeclarations: times(count, (index) => ({ name: `f${index}` })) }],
    }),
    'native tools': (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      tools: times(count, () => ({ codeExecution: {} })),
    }),
    stops: (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      generationConfig: { stopSequences: times(count, () => 'a') },
    }),
    'safety settings': (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      safetySettings: times(count, () => ({ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' })),
    }),
    unknown: (count) => ({ contents: [{ role: 'user', parts: [{ text: 'a' }] }], ...named(count, 1) }),
    ...ofSchemas((parametersJsonSchema) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
      tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema }] }],
    })),
    'an order of properties': (count) => ({
      contents: [{ role: 'user', parts: [{ text: 'a' }] }],
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

const words = { type: 'output_text', text: 'a', annotations: [] }
const chatAnswer = (message: object, more: object = {}): Json => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a', ...message }, finish_reason: 'stop', ...more }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const response = (output: Json[]): Json => ({
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
})
const message = (content: Json[]): Json => ({
  id: 'a',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
})
const candidate = (parts: Json[], more: object = {}): Json => ({
  responseId: 'g',
  modelVersion: 'm',
  candidates: [{ content: { role: 'model', parts }, index: 0, finishReason: 'STOP', ...more }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
})

/** Complete responses of providers, by the kind of their elements. */
export const ANSWERS: Record<ConversationName, Record<string, (count: number) => Json>> = {
  'chat.completions': {
    annotations: (count) => chatAnswer({ annotations: times(count, () => ({ url: 'u' })) }),
    sources: (count) => ({ ...chatAnswer({}), citations: times(count, () => 'u') }),
    calls: (count) => chatAnswer({ tool_calls: times(count, callOf) }, { finish_reason: 'tool_calls' }),
    parts: (count) => chatAnswer({ content: times(count, text) }),
    reasoning: (count) =>
      chatAnswer({ reasoning_details: times(count, () => ({ type: 'reasoning.text', text: 'a' })) }),
    logprobs: (count) => chatAnswer({}, { logprobs: { content: times(count, () => ({ token: 'a', logprob: 0 })) } }),
  },
  responses: {
    items: (count) =>
      response(times(count, (index) => ({ type: 'message', id: `m${index}`, role: 'assistant', content: [words] }))),
    parts: (count) => response([{ type: 'message', id: 'm', role: 'assistant', content: times(count, () => words) }]),
    annotations: (count) =>
      response([
        {
          type: 'message',
          id: 'm',
          role: 'assistant',
          content: [
            {
              ...words,
              annotations: times(count, () => ({ type: 'url_citation', url: 'u', start_index: 0, end_index: 1 })),
            },
          ],
        },
      ]),
    logprobs: (count) =>
      response([
        {
          type: 'message',
          id: 'm',
          role: 'assistant',
          content: [{ ...words, logprobs: times(count, () => ({ token: 'a', logprob: 0 })) }],
        },
      ]),
    calls: (count) =>
      response(
        times(count, (index) => ({
          type: 'function_call',
          id: `f${index}`,
          call_id: `c${index}`,
          name: 'f',
          arguments: '{}',
        })),
      ),
    summaries: (count) =>
      response([
        { type: 'reasoning', id: 'r', summary: times(count, () => ({ type: 'summary_text', text: 'a' })) },
        { type: 'message', id: 'm', role: 'assistant', content: [words] },
      ]),
  },
  messages: {
    blocks: (count) => message(times(count, text)),
    calls: (count) => message(times(count, useOf)),
    reasoning: (count) => message(times(count, () => ({ type: 'thinking', thinking: 'a', signature: '' }))),
    citations: (count) =>
      message([
        { type: 'text', text: 'a', citations: times(count, () => ({ type: 'web_search_result_location', url: 'u' })) },
      ]),
  },
  generateContent: {
    parts: (count) => candidate(times(count, () => ({ text: 'a' }))),
    calls: (count) => candidate(times(count, () => ({ functionCall: { name: 'f', args: {} } }))),
    reasoning: (count) =>
      candidate(times(count, (index) => (index % 2 === 0 ? { text: 'a' } : { text: 'a', thought: true }))),
    logprobs: (count) =>
      candidate([{ text: 'a' }], {
        logprobsResult: { chosenCandidates: times(count, () => ({ token: 'a', logProbability: 0 })) },
      }),
    sources: (count) =>
      candidate([{ text: 'a' }], {
        groundingMetadata: {
          groundingChunks: times(count, () => ({ web: { uri: 'u' } })),
          groundingSupports: times(count, (index) => ({ segment: { endIndex: 1 }, groundingChunkIndices: [index] })),
        },
      }),
  },
}

/** A response of about this size in bytes. */
export function answerOf(protocol: ConversationName, kind: string, bytes: number): string {
  const build = ANSWERS[protocol][kind]!
  const each = (JSON.stringify(build(200)).length - JSON.stringify(build(100)).length) / 100
  return JSON.stringify(build(Math.floor(bytes / (each + 3))))
}
