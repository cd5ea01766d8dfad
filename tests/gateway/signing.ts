import type { ConversationName } from '../../src/generation/request.ts'
import { protocolOf } from './scripted.ts'

/**
 * A provider that answers every request with one tool call, signed as in each protocol, and keeps the bodies that it
 * received.
 */

/** Without a signature an answer of chat completions has its reasoning in `reasoning_content`. */
export type Answer = {
  /** Absent in answers of Google's older servers. */
  callId?: string | undefined
  signature: string
  thought: string
  args: Record<string, unknown>
}

const ANSWERS: Record<ConversationName, (answer: Answer) => object> = {
  'chat.completions': ({ callId, signature, thought, args }) => ({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    choices: [
      {
        index: 0,
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: null,
          ...(signature === ''
            ? { reasoning_content: thought }
            : {
                reasoning: thought,
                reasoning_details: [{ type: 'reasoning.text', text: thought, signature, index: 0 }],
              }),
          tool_calls: [{ id: callId, type: 'function', function: { name: 'look', arguments: JSON.stringify(args) } }],
        },
      },
    ],
  }),
  responses: ({ callId, signature, thought, args }) => ({
    id: 'r',
    object: 'response',
    created_at: 1,
    model: 'm',
    status: 'completed',
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    output: [
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: thought }],
        encrypted_content: signature,
      },
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: callId,
        name: 'look',
        arguments: JSON.stringify(args),
        status: 'completed',
      },
    ],
  }),
  messages: ({ callId, signature, thought, args }) => ({
    id: 'a',
    type: 'message',
    role: 'assistant',
    model: 'm',
    stop_reason: 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
    content: [
      { type: 'thinking', thinking: thought, signature },
      { type: 'redacted_thinking', data: `${signature}hidden` },
      { type: 'tool_use', id: callId, name: 'look', input: args },
    ],
  }),
  generateContent: ({ callId, signature, args }) => ({
    responseId: 'g',
    modelVersion: 'm',
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    candidates: [
      {
        index: 0,
        finishReason: 'STOP',
        content: {
          role: 'model',
          parts: [{ functionCall: { id: callId, name: 'look', args }, thoughtSignature: signature }],
        },
      },
    ],
  }),
}

/** The signed parts of a request body that the provider checks. */
export const SIGNED: Record<ConversationName, (answer: Answer) => unknown[]> = {
  'chat.completions': ({ signature, thought }) => [{ type: 'reasoning.text', text: thought, signature, index: 0 }],
  responses: ({ signature, thought }) => [
    { type: 'reasoning', summary: [{ type: 'summary_text', text: thought }], encrypted_content: signature },
  ],
  messages: ({ signature, thought }) => [
    { type: 'thinking', thinking: thought, signature },
    { type: 'redacted_thinking', data: `${signature}hidden` },
  ],
  generateContent: ({ signature }) => [signature],
}

type Json = Record<string, any>

/** All signed parts of a request body. */
export function signedIn(text: string): unknown[] {
  const body = JSON.parse(text) as Json
  return [
    ...(body.messages ?? []).flatMap((message: Json) => [
      ...(message.reasoning_details ?? []),
      ...(Array.isArray(message.content) ? message.content.filter(({ type }: Json) => /thinking/.test(type)) : []),
    ]),
    ...(Array.isArray(body.input) ? body.input.filter(({ type }: Json) => type === 'reasoning') : []),
    ...(body.contents ?? []).flatMap(({ parts }: Json) =>
      parts.flatMap((part: Json) => (part.thoughtSignature === undefined ? [] : [part.thoughtSignature])),
    ),
  ]
}

export function signingProvider(): { url: string; next: Answer; bodies: string[]; stop(): void } {
  const bodies: string[] = []
  const state: { next: Answer } = { next: { callId: 'call_1', signature: 'c2ln', thought: 'Hm.', args: {} } }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request): Promise<Response> {
      bodies.push(await request.text())
      return Response.json(ANSWERS[protocolOf(new URL(request.url).pathname)](state.next))
    },
  })
  return Object.assign(state, { url: `http://127.0.0.1:${server.port}`, bodies, stop: () => void server.stop(true) })
}

const CHAT_TOOL = '{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}'

/**
 * Turns 1 and 2 of a client of each protocol that keeps only the call of an answer. They are texts, because each byte
 * matters.
 */
export const KEEPING_CALLS: Record<
  ConversationName,
  {
    path: (model: string) => string
    first: (model: string) => string
    second: (model: string, answer: Answer) => string
  }
> = {
  'chat.completions': {
    path: () => '/v1/chat/completions',
    first: (model) => `{"model":"${model}","messages":[{"role":"user","content":"Go"}],"tools":[${CHAT_TOOL}]}`,
    second: (model, { callId, args }) =>
      `{ "model": "${model}",\n "seed" : 12345678901234567890, "messages":[{"role":"user","content":"Go"}, ` +
      `{"role":"assistant", "content":null,"tool_calls":[ {"id":"${callId}","type":"function",` +
      `"function":{"name":"look","arguments":${JSON.stringify(JSON.stringify(args, null, 1))}}}]},` +
      `\t{"role":"tool","tool_call_id":"${callId}","content":"1.0"}],"tools":[${CHAT_TOOL}]}`,
  },
  responses: {
    path: () => '/v1/responses',
    first: (model) =>
      `{"model":"${model}","input":"Go","store":false,"reasoning":{"effort":"low"},` +
      '"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]}',
    second: (model, { callId, args }) =>
      `{ "model": "${model}",\n "store":false, "reasoning": {"effort":"low"} , ` +
      '"input":[ {"role":"user","content":"Go"}, {"type":"function_call", ' +
      `"call_id":"${callId}","name":"look","arguments":${JSON.stringify(JSON.stringify(args))}},` +
      `\t{"type":"function_call_output","call_id":"${callId}","output":"1.0"}],` +
      '"tools":[{"type":"function","name":"look","parameters":{"type":"object","x":1.0}}]}',
  },
  messages: {
    path: () => '/v1/messages',
    first: (model) =>
      `{"model":"${model}","max_tokens":3000,"thinking":{"type":"enabled","budget_tokens":1024},` +
      '"messages":[{"role":"user","content":"Go"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}',
    second: (model, { callId, args }) =>
      `{ "model": "${model}",\n "max_tokens":3000, "thinking": {"type":"enabled","budget_tokens":1024} , ` +
      '"messages":[ {"role":"user","content":"Go"}, {"role":"assistant", "content": [ {"type":"tool_use", ' +
      `"id":"${callId}","name":"look","input":${JSON.stringify(args, null, 2)}} ]},\t{"role":"user",` +
      `"content":[{"type":"tool_result","tool_use_id":"${callId}","content":"1.0"}]}],` +
      '"tools":[{"name":"look","input_schema":{"type":"object","x":1.0}}]}',
  },
  generateContent: {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    first: () =>
      '{"contents":[{"role":"user","parts":[{"text":"Go"}]}],"tools":[{"functionDeclarations":[{"name":"look"}]}]}',
    second: (_model, { callId, args }) =>
      '{ "contents":[ {"role":"user","parts":[{"text":"Go"}]}, {"role":"model", "parts" : [ {"functionCall": ' +
      `{"id":"${callId}","name":"look","args":${JSON.stringify(args, null, 2)}}} ]},\t{"role":"user","parts":` +
      `[{"functionResponse":{"id":"${callId}","name":"look","response":{"output": 1.0}}}]}],` +
      '"tools":[{"functionDeclarations":[{"name":"look"}]}]}',
  },
}
