import { EFFORTS, type ConversationName } from '../../src/generation/request.ts'

/** Requests of every client protocol with every option, for each reasoning effort, budget and output limit. */

type Json = Record<string, any>

/** Requested reasoning and output limit. */
export type RequestedOptions = { effort?: string; budget?: number; limit?: number }
const LIMITS = [undefined, 600, 10_000_000]
/** The options of the requests from each client protocol. */
export const OPTIONS: Record<ConversationName, RequestedOptions[]> = {
  'chat.completions': [...EFFORTS, undefined].flatMap((effort) =>
    LIMITS.map((limit) => ({ ...(effort === undefined ? {} : { effort }), ...(limit === undefined ? {} : { limit }) })),
  ),
  responses: [...EFFORTS, undefined].flatMap((effort) =>
    LIMITS.map((limit) => ({ ...(effort === undefined ? {} : { effort }), ...(limit === undefined ? {} : { limit }) })),
  ),
  messages: [0, 1024, 5000, 500_000, undefined]
    .flatMap((budget) =>
      [600, 10_000_000].map((limit): RequestedOptions => ({ limit, ...(budget === undefined ? {} : { budget }) })),
    )
    .concat(EFFORTS.slice(1).map((effort) => ({ limit: 9000, effort }))),
  generateContent: [-1, 0, 400, 5000, 32_768, undefined]
    .flatMap((budget) =>
      LIMITS.map(
        (limit): RequestedOptions => ({
          ...(budget === undefined ? {} : { budget }),
          ...(limit === undefined ? {} : { limit }),
        }),
      ),
    )
    .concat(['minimal', 'low', 'medium', 'high'].map((effort) => ({ effort }))),
}

const SCHEMA = { type: 'object', properties: { at: { type: 'string' } } }
const STOPS = ['a', 'b', 'c', 'd', 'e', 'f']

/**
 * Requests with every option: all sampling parameters, stop sequences, a forced tool, instructions at the top and
 * within the conversation, and the beginning of a response.
 */
export const BODIES: { [Name in ConversationName]: (options: RequestedOptions) => Json } = {
  'chat.completions': ({ effort, limit }) => ({
    model: 'x',
    temperature: 1.7,
    top_p: 0.5,
    top_k: 7,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    stop: STOPS.slice(0, 4),
    reasoning_effort: effort,
    max_completion_tokens: limit,
    tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
    tool_choice: { type: 'function', function: { name: 'look' } },
    messages: [
      { role: 'system', content: 'S' },
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'system', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  responses: ({ effort, limit }) => ({
    model: 'x',
    temperature: 1.7,
    top_p: 0.5,
    top_logprobs: 2,
    reasoning: effort === undefined ? undefined : { effort },
    max_output_tokens: limit,
    instructions: 'S',
    tools: [{ type: 'function', name: 'look', parameters: SCHEMA }],
    tool_choice: { type: 'function', name: 'look' },
    input: [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'developer', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  messages: ({ effort, budget, limit }) => ({
    model: 'x',
    temperature: 1,
    top_p: 0.5,
    top_k: 7,
    stop_sequences: STOPS,
    max_tokens: limit,
    thinking:
      effort !== undefined
        ? { type: 'adaptive' }
        : budget === undefined
          ? undefined
          : budget === 0
            ? { type: 'disabled' }
            : { type: 'enabled', budget_tokens: budget },
    output_config: effort === undefined ? undefined : { effort },
    tools: [{ name: 'look', input_schema: SCHEMA }],
    tool_choice: { type: 'tool', name: 'look' },
    system: 'S',
    messages: [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'user', content: 'and' },
      { role: 'system', content: 'M' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'Well,' },
    ],
  }),
  generateContent: ({ effort, budget, limit }) => ({
    generationConfig: {
      temperature: 1.7,
      topP: 0.5,
      topK: 7,
      presencePenalty: 0.5,
      frequencyPenalty: 0.5,
      stopSequences: STOPS.slice(0, 5),
      maxOutputTokens: limit,
      thinkingConfig:
        effort !== undefined
          ? { thinkingLevel: effort.toUpperCase() }
          : budget === undefined
            ? undefined
            : { thinkingBudget: budget },
    },
    tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: SCHEMA }] }],
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } },
    systemInstruction: { parts: [{ text: 'S' }] },
    contents: [
      { role: 'user', parts: [{ text: 'one' }] },
      { role: 'model', parts: [{ text: 'two' }] },
      { role: 'user', parts: [{ text: 'three' }] },
      { role: 'model', parts: [{ text: 'Well,' }] },
    ],
  }),
}

/** Paths of the instructions within the conversation and of the beginning of the response in these requests. */
export const ELEMENT_PATHS: Record<ConversationName, { instructions?: string; prefill: string }> = {
  'chat.completions': { instructions: 'messages[3]', prefill: 'messages[5]' },
  responses: { instructions: 'input[2]', prefill: 'input[4]' },
  messages: { instructions: 'messages[3]', prefill: 'messages[5]' },
  generateContent: { prefill: 'contents[3]' },
}
