import type { ConversationName } from '../../src/generation/request.ts'

/** Requests with as many fields and elements as possible, so that as many as possible are lost in a translation. */

type Json = Record<string, any>

const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string', minLength: 2 } },
  required: ['a'],
  anyOf: [{ type: 'object', properties: {} }],
}
/** A name or id beyond the limit of every protocol. */
export const LONG = 'x'.repeat(70)
export const IMAGE = 'data:image/png;base64,aGk='

export const REQUESTS: Record<ConversationName, Json> = {
  'chat.completions': {
    model: 'a/b',
    max_tokens: 70_000,
    temperature: 1.5,
    top_p: 0.5,
    top_k: 4,
    frequency_penalty: 2,
    presence_penalty: 2,
    seed: 2 ** 40,
    stop: [' ', '2', '3', '4'],
    logit_bias: { 5: 1 },
    logprobs: true,
    top_logprobs: 2,
    reasoning: { effort: 'max', max_tokens: 5000, exclude: true },
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA } },
    verbosity: 'low',
    web_search_options: {
      search_context_size: 'low',
      user_location: { type: 'approximate', approximate: { city: 'Rome' } },
    },
    user: 'u',
    metadata: { a: 'b' },
    service_tier: 'odd',
    prompt_cache_key: 'k',
    parallel_tool_calls: false,
    tool_choice: 'required',
    odd: 1,
    image_config: { aspect_ratio: '1:1' },
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: SCHEMA, strict: true },
        cache_control: { type: 'ephemeral' },
      },
      {
        type: 'custom',
        custom: { name: LONG, format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
      },
    ],
    messages: [
      { role: 'system', content: 's' },
      {
        role: 'user',
        name: 'Ada',
        content: [
          { type: 'text', text: 'a', cache_control: { type: 'ephemeral' } },
          { type: 'image_url', image_url: { url: IMAGE, detail: 'low' } },
          { type: 'odd_part' },
        ],
      },
      {
        role: 'assistant',
        content: 'b',
        reasoning_details: [{ type: 'reasoning.text', text: 'hm', signature: 'sig' }],
        tool_calls: [
          {
            id: LONG,
            type: 'function',
            function: { name: 'f', arguments: '{"a' },
            extra_content: { google: { thought_signature: 'sig' } },
          },
          { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: LONG, content: 'r' },
      { role: 'tool', tool_call_id: 'nobody', content: 'r' },
      { role: 'system', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun ' },
    ],
  },
  responses: {
    model: 'a/b',
    instructions: 'i',
    max_output_tokens: 70_000,
    temperature: 1.5,
    top_p: 0.5,
    include: ['message.output_text.logprobs'],
    top_logprobs: 2,
    reasoning: { effort: 'xhigh', summary: 'detailed' },
    text: { format: { type: 'json_schema', name: 'a', schema: SCHEMA }, verbosity: 'low' },
    safety_identifier: 'u',
    metadata: { a: 'b' },
    service_tier: 'odd',
    prompt_cache_key: 'k',
    parallel_tool_calls: false,
    tool_choice: 'required',
    odd: 1,
    tools: [
      { type: 'function', name: 'f', parameters: SCHEMA, strict: true },
      { type: 'custom', name: LONG, format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      { type: 'web_search', search_context_size: 'low', user_location: { type: 'approximate', city: 'Rome' } },
    ],
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'a', prompt_cache_breakpoint: {} },
          { type: 'input_image', image_url: IMAGE, detail: 'low' },
        ],
      },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'sig' },
      { type: 'function_call', call_id: LONG, name: 'f', arguments: '{"a' },
      {
        type: 'function_call_output',
        call_id: LONG,
        output: [
          { type: 'input_text', text: 'r' },
          { type: 'input_image', image_url: IMAGE },
        ],
      },
      { type: 'function_call', call_id: 'c2', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'nobody', output: 'r' },
      { role: 'developer', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun ' },
    ],
  },
  messages: {
    model: 'a/b',
    max_tokens: 70_000,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    temperature: 1,
    top_p: 0.5,
    top_k: 4,
    stop_sequences: ['1', '2', '3', '4', '5', '6'],
    thinking: { type: 'enabled', budget_tokens: 5000, display: 'omitted' },
    output_config: { format: { type: 'json_schema', schema: SCHEMA } },
    metadata: { user_id: 'u' },
    service_tier: 'standard_only',
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    odd: 1,
    tools: [
      { name: 'f', input_schema: SCHEMA, strict: true, cache_control: { type: 'ephemeral' } },
      { name: LONG, input_schema: { type: 'object' } },
      { type: 'web_search_20250305', name: 'web_search', user_location: { type: 'approximate', city: 'Rome' } },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
          { type: 'search_result', source: 'x', title: 't', content: [] },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig' },
          {
            type: 'text',
            text: 'b',
            citations: [
              {
                type: 'char_location',
                cited_text: 'x',
                document_index: 0,
                document_title: null,
                start_char_index: 0,
                end_char_index: 1,
              },
            ],
          },
          { type: 'tool_use', id: LONG, name: 'f', input: {} },
          { type: 'tool_use', id: 'c2', name: 'f', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: LONG,
            is_error: true,
            content: [
              { type: 'text', text: 'r' },
              { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
            ],
          },
          { type: 'tool_result', tool_use_id: 'nobody', content: 'r' },
        ],
      },
      { role: 'system', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun' },
    ],
  },
  generateContent: {
    systemInstruction: { parts: [{ text: 's' }] },
    cachedContent: 'cachedContents/x',
    toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    generationConfig: {
      maxOutputTokens: 70_000,
      temperature: 1.5,
      topP: 0.5,
      top_k: 4,
      frequencyPenalty: 1,
      presencePenalty: 1,
      seed: 5,
      stopSequences: ['1', '2', '3', '4', '5'],
      responseLogprobs: true,
      logprobs: 2,
      candidateCount: 2,
      thinkingConfig: { thinkingBudget: 5000, includeThoughts: false },
      responseMimeType: 'application/json',
      responseSchema: { type: 'OBJECT', properties: { a: { type: 'STRING', minLength: 2 } } },
      imageConfig: { aspectRatio: '1:1' },
    },
    tools: [
      { functionDeclarations: [{ name: 'f', parametersJsonSchema: SCHEMA }, { name: LONG }] },
      { googleSearch: {} },
    ],
    contents: [
      {
        role: 'user',
        parts: [
          { text: 'a' },
          { inlineData: { mimeType: 'image/png', data: 'aGk=' }, mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' } },
        ],
      },
      {
        role: 'model',
        parts: [
          { text: 'hm', thought: true, thoughtSignature: 'sig' },
          { executableCode: { language: 'PYTHON', code: '1' } },
          { functionCall: { id: 'c1', name: 'f', args: {} }, thoughtSignature: 'sig' },
          { functionCall: { id: 'c2', name: 'f', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          {
            functionResponse: {
              id: 'c1',
              name: 'f',
              response: { error: 'r' },
              parts: [{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }],
            },
          },
          { functionResponse: { id: 'nobody', name: 'f', response: {} } },
        ],
      },
      { role: 'user', parts: [{ text: 'c' }] },
      { role: 'model', parts: [{ text: 'begun ' }] },
    ],
  },
}
