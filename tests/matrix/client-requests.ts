import type { ConversationName } from '../../src/generation/request.ts'
import { TOOL } from './provider-replies.ts'

/** Requests of clients, written in each protocol as its SDKs do. */

export type Result = { id: string; text: string; image?: string; isError?: boolean }

export type Turn =
  | { user: string }
  /** An instruction within the conversation; text of the user in generateContent, which has none. */
  | { system: string }
  | { assistant: string }
  | { calls: { id: string; args: string }[] }
  | { results: Result[] }
  /** An earlier response in the client's own protocol, unchanged. */
  | { earlierResponse: unknown }

export type ClientRequest = {
  system?: string
  turns: Turn[]
  tools?: true
  schema?: object
  stop?: string[]
  maxTokens?: number
  reasoning?: true
}

export const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, id: { type: 'integer' } },
  required: ['city', 'id'],
  additionalProperties: false,
}

export const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' }, id: { type: 'integer' } },
  required: ['city'],
}

type Json = Record<string, unknown>

export const bodyOf = (protocol: ConversationName, request: ClientRequest, stream: boolean): Json =>
  ({ 'chat.completions': chatBody, responses: responsesBody, messages: messagesBody, generateContent: geminiBody })[
    protocol
  ](request, stream)

const TOOL_HEAD = { name: TOOL, description: 'Finds a place.' }

function chatBody(request: ClientRequest, stream: boolean): Json {
  const messages = request.turns.flatMap((turn): unknown[] => {
    if ('user' in turn) return [{ role: 'user', content: turn.user }]
    if ('system' in turn) return [{ role: 'system', content: turn.system }]
    if ('assistant' in turn) return [{ role: 'assistant', content: turn.assistant }]
    if ('calls' in turn)
      return [
        {
          role: 'assistant',
          content: null,
          tool_calls: turn.calls.map(({ id, args }) => ({
            id,
            type: 'function',
            function: { name: TOOL, arguments: args },
          })),
        },
      ]
    if ('earlierResponse' in turn) return [turn.earlierResponse]
    // Tool messages have only text: clients send the image in a user message.
    const images = turn.results.flatMap(({ image }) =>
      image === undefined ? [] : [{ type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } }],
    )
    return [
      ...turn.results.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: text })),
      ...(images.length === 0 ? [] : [{ role: 'user', content: images }]),
    ]
  })
  return {
    messages: [...(request.system === undefined ? [] : [{ role: 'system', content: request.system }]), ...messages],
    ...(request.tools === undefined
      ? {}
      : { tools: [{ type: 'function', function: { ...TOOL_HEAD, parameters: PARAMETERS } }] }),
    ...(request.schema === undefined
      ? {}
      : {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'place', strict: true, schema: request.schema },
          },
        }),
    ...(request.stop === undefined ? {} : { stop: request.stop }),
    ...(request.maxTokens === undefined ? {} : { max_completion_tokens: request.maxTokens }),
    ...(request.reasoning === undefined ? {} : { reasoning_effort: 'low' }),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  }
}

function responsesBody(request: ClientRequest, stream: boolean): Json {
  const input = request.turns.flatMap((turn): unknown[] => {
    if ('user' in turn) return [{ role: 'user', content: turn.user }]
    if ('system' in turn) return [{ role: 'system', content: turn.system }]
    if ('assistant' in turn) return [{ role: 'assistant', content: turn.assistant }]
    if ('calls' in turn)
      return turn.calls.map(({ id, args }) => ({ type: 'function_call', call_id: id, name: TOOL, arguments: args }))
    if ('earlierResponse' in turn) return turn.earlierResponse as unknown[]
    return turn.results.map(({ id, text, image }) => ({
      type: 'function_call_output',
      call_id: id,
      output:
        image === undefined
          ? text
          : [
              { type: 'input_text', text },
              { type: 'input_image', image_url: `data:image/png;base64,${image}`, detail: 'auto' },
            ],
    }))
  })
  return {
    input,
    ...(request.system === undefined ? {} : { instructions: request.system }),
    ...(request.tools === undefined
      ? {}
      : { tools: [{ type: 'function', ...TOOL_HEAD, parameters: PARAMETERS, strict: false }] }),
    ...(request.schema === undefined
      ? {}
      : { text: { format: { type: 'json_schema', name: 'place', strict: true, schema: request.schema } } }),
    ...(request.maxTokens === undefined ? {} : { max_output_tokens: request.maxTokens }),
    ...(request.reasoning === undefined
      ? {}
      : { reasoning: { effort: 'low', summary: 'auto' }, include: ['reasoning.encrypted_content'] }),
    store: false,
    stream,
  }
}

function messagesBody(request: ClientRequest, stream: boolean): Json {
  const messages = request.turns.map((turn): Json => {
    if ('user' in turn) return { role: 'user', content: turn.user }
    if ('system' in turn) return { role: 'system', content: turn.system }
    if ('assistant' in turn) return { role: 'assistant', content: turn.assistant }
    if ('calls' in turn)
      return {
        role: 'assistant',
        content: turn.calls.map(({ id, args }) => ({
          type: 'tool_use',
          id,
          name: TOOL,
          input: JSON.parse(args) as object,
        })),
      }
    if ('earlierResponse' in turn) return { role: 'assistant', content: turn.earlierResponse }
    return {
      role: 'user',
      content: turn.results.map(({ id, text, image, isError }) => ({
        type: 'tool_result',
        tool_use_id: id,
        ...(isError === true ? { is_error: true } : {}),
        content: [
          { type: 'text', text },
          ...(image === undefined
            ? []
            : [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } }]),
        ],
      })),
    }
  })
  return {
    max_tokens: request.maxTokens ?? 4096,
    messages,
    ...(request.system === undefined ? {} : { system: request.system }),
    ...(request.tools === undefined ? {} : { tools: [{ ...TOOL_HEAD, input_schema: PARAMETERS }] }),
    ...(request.schema === undefined
      ? {}
      : { output_config: { format: { type: 'json_schema', schema: request.schema } } }),
    ...(request.stop === undefined ? {} : { stop_sequences: request.stop }),
    ...(request.reasoning === undefined ? {} : { thinking: { type: 'enabled', budget_tokens: 1024 } }),
    stream,
  }
}

function geminiBody(request: ClientRequest): Json {
  const contents = request.turns.map((turn): Json => {
    if ('user' in turn) return { role: 'user', parts: [{ text: turn.user }] }
    if ('system' in turn) return { role: 'user', parts: [{ text: turn.system }] }
    if ('assistant' in turn) return { role: 'model', parts: [{ text: turn.assistant }] }
    if ('calls' in turn)
      return {
        role: 'model',
        parts: turn.calls.map(({ id, args }) => ({
          functionCall: { id, name: TOOL, args: JSON.parse(args) as object },
        })),
      }
    if ('earlierResponse' in turn) return { role: 'model', parts: turn.earlierResponse }
    return {
      role: 'user',
      parts: turn.results.map(({ id, text, image, isError }) => ({
        functionResponse: {
          id,
          name: TOOL,
          response: { [isError === true ? 'error' : 'output']: text },
          ...(image === undefined ? {} : { parts: [{ inlineData: { mimeType: 'image/png', data: image } }] }),
        },
      })),
    }
  })
  const generationConfig = {
    ...(request.schema === undefined
      ? {}
      : { responseMimeType: 'application/json', responseJsonSchema: request.schema }),
    ...(request.stop === undefined ? {} : { stopSequences: request.stop }),
    ...(request.maxTokens === undefined ? {} : { maxOutputTokens: request.maxTokens }),
    ...(request.reasoning === undefined ? {} : { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } }),
  }
  return {
    contents,
    ...(request.system === undefined ? {} : { systemInstruction: { parts: [{ text: request.system }] } }),
    ...(request.tools === undefined
      ? {}
      : { tools: [{ functionDeclarations: [{ ...TOOL_HEAD, parametersJsonSchema: PARAMETERS }] }] }),
    ...(Object.keys(generationConfig).length === 0 ? {} : { generationConfig }),
  }
}
