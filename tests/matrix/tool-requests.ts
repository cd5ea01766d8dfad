import type { ConversationName } from '../../src/generation/request.ts'
import { elements, members } from '../../src/json/scan.ts'
/** Requests with tools, output formats and calls, in each protocol. */

export type Tool = { name: string; parameters?: unknown; strict?: boolean }

export const toolsOf: Record<ConversationName, (tools: Tool[]) => object> = {
  'chat.completions': (tools) => ({ tools: tools.map((tool) => ({ type: 'function', function: tool })) }),
  responses: (tools) => ({ tools: tools.map((tool) => ({ type: 'function', ...tool })) }),
  messages: (tools) => ({
    tools: tools.map(({ name, parameters = { type: 'object' }, strict }) => ({
      name,
      input_schema: parameters,
      ...(strict === undefined ? {} : { strict }),
    })),
  }),
  generateContent: (tools) => ({
    tools: [
      {
        functionDeclarations: tools.map(({ name, parameters }) => ({
          name,
          ...(parameters === undefined ? {} : { parametersJsonSchema: parameters }),
        })),
      },
    ],
  }),
}

export const outputFormatOf: Record<ConversationName, (schema: object) => object> = {
  'chat.completions': (schema) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } },
  }),
  responses: (schema) => ({ text: { format: { type: 'json_schema', name: 'n', strict: true, schema } } }),
  messages: (schema) => ({ output_config: { format: { type: 'json_schema', schema } } }),
  generateContent: (schema) => ({
    generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema },
  }),
}

export const toolChoiceOf: Record<ConversationName, (name: string) => object> = {
  'chat.completions': (name) => ({ tool_choice: { type: 'function', function: { name } } }),
  responses: (name) => ({ tool_choice: { type: 'function', name } }),
  messages: (name) => ({ tool_choice: { type: 'tool', name } }),
  generateContent: (name) => ({ toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [name] } } }),
}

/** `args`: JSON text. */
export type Call = { name: string; args: string }

/** A conversation with calls and their results; `spelled` inserts the arguments that are objects. */
export const callsAndResultsOf: Record<ConversationName, (calls: Call[]) => object> = {
  'chat.completions': (calls) => ({
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        tool_calls: calls.map(({ name, args }, n) => ({
          id: `call_${n}`,
          type: 'function',
          function: { name, arguments: args },
        })),
      },
      ...calls.map((_, n) => ({ role: 'tool', tool_call_id: `call_${n}`, content: 'done' })),
    ],
  }),
  responses: (calls) => ({
    input: [
      { role: 'user', content: 'hi' },
      ...calls.map(({ name, args }, n) => ({ type: 'function_call', call_id: `call_${n}`, name, arguments: args })),
      ...calls.map((_, n) => ({ type: 'function_call_output', call_id: `call_${n}`, output: 'done' })),
    ],
  }),
  messages: (calls) => ({
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: calls.map(({ name, args }, n) => ({ type: 'tool_use', id: `call_${n}`, name, input: `@${args}@` })),
      },
      {
        role: 'user',
        content: calls.map((_, n) => ({ type: 'tool_result', tool_use_id: `call_${n}`, content: 'done' })),
      },
    ],
  }),
  generateContent: (calls) => ({
    contents: [
      { role: 'user', parts: [{ text: 'hi' }] },
      {
        role: 'model',
        parts: calls.map(({ name, args }, n) => ({ functionCall: { id: `call_${n}`, name, args: `@${args}@` } })),
      },
      {
        role: 'user',
        parts: calls.map(({ name }, n) => ({
          functionResponse: { id: `call_${n}`, name, response: { output: 'done' } },
        })),
      },
    ],
  }),
}

/** The text of a body, with arguments that are objects as they are spelled: `"@{...}@"` is replaced by `{...}`. */
export const spelled = (body: object): string =>
  JSON.stringify(body).replace(/"@([^]*?)@"/g, (_, text: string) => JSON.parse(`"${text}"`) as string)

/** The text at a path of a JSON text. */
export function pieceAt(text: string, ...path: (string | number)[]): string {
  let piece = text
  for (const step of path) {
    const [start, end] =
      typeof step === 'number'
        ? elements(piece)![step]!
        : (({ start: from, end: to }) => [from, to] as const)(members(piece).find(({ key }) => key === step)!)
    piece = piece.slice(start, end)
  }
  return piece
}
