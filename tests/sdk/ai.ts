import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, Output, streamText, tool, type LanguageModel, type ModelMessage } from 'ai'
import { failureOf, sessionOf, type Client, type Answer, type Options } from './client.ts'

type Open = (at: { url: string; key: string; model: string }) => LanguageModel

/** The `ai` package with one of its providers. `reasoning`: the provider's own options that request reasoning. */
const aiOver = (
  name: string,
  protocol: Client['protocol'],
  open: Open,
  reasoning: Record<string, Record<string, unknown>>,
): Client => ({
  name,
  protocol,
  failure: failureOf,
  open(at, options) {
    const messages: ModelMessage[] = []
    return sessionOf<ModelMessage>(
      messages,
      (content) => ({ role: 'user', content }),
      (results) => [
        {
          role: 'tool',
          content: results.map(({ call, output }) => ({
            type: 'tool-result',
            toolCallId: call.id,
            toolName: call.name,
            output: { type: 'text', value: output },
          })),
        },
      ],
      async () => {
        const { result, response } = await run(open(at), messages, options, reasoning)
        messages.push(...(response.messages as ModelMessage[]))
        return answerOf(result, response)
      },
    )
  },
})

type Result = {
  text: string
  reasoningText: string | undefined
  toolCalls: { toolCallId: string; toolName: string; input: unknown }[]
  finishReason: string
  usage: any
}
type Response = { id: string; modelId: string; messages: unknown[] }

async function run(
  model: LanguageModel,
  messages: ModelMessage[],
  options: Options,
  reasoning: object,
): Promise<{ result: Result; response: Response }> {
  const request = { model, messages, maxRetries: 0, ...settingsOf(options, reasoning) } as never
  if (!options.stream) {
    const result = await generateText(request)
    return { result: result as never, response: result.response as never }
  }
  let failure: unknown
  const stream = streamText({
    ...(request as object),
    onError: ({ error }: { error: unknown }) => {
      failure ??= error
    },
  } as never)
  try {
    await stream.consumeStream()
    const [text, reasoningText, toolCalls, finishReason, usage, response] = await Promise.all([
      stream.text,
      stream.reasoningText,
      stream.toolCalls,
      stream.finishReason,
      stream.usage,
      stream.response,
    ])
    if (failure !== undefined) throw failure
    return {
      result: { text, reasoningText, toolCalls: toolCalls as never, finishReason, usage },
      response: response as never,
    }
  } catch (error) {
    throw failure ?? error
  }
}

const settingsOf = (
  { tools, force, schema, maxTokens, stop, system, reasoning }: Options,
  providerOptions: object,
): object => ({
  ...(system === undefined ? {} : { system }),
  ...(tools === undefined
    ? {}
    : {
        tools: Object.fromEntries(
          tools.map(({ name, description, schema: one }) => [
            name,
            tool({ description, inputSchema: jsonSchema(one) }),
          ]),
        ),
      }),
  ...(force === undefined ? {} : { toolChoice: force === 'required' ? 'required' : { type: 'tool', toolName: force } }),
  ...(schema === undefined ? {} : { output: Output.object({ schema: jsonSchema(schema) }) }),
  ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
  ...(stop === undefined ? {} : { stopSequences: stop }),
  ...(reasoning === true ? { providerOptions } : {}),
})

const answerOf = (
  { text, reasoningText, toolCalls, finishReason, usage }: Result,
  { id, modelId }: Response,
): Answer => ({
  id,
  model: modelId,
  text,
  reasoning: reasoningText ?? '',
  refusal: '',
  calls: toolCalls.map((call) => ({ id: call.toolCallId, name: call.toolName, input: call.input })),
  finish: finishReason,
  usage: {
    input: usage.inputTokens ?? 0,
    output: usage.outputTokens ?? 0,
    cached: usage.inputTokenDetails?.cacheReadTokens ?? 0,
    reasoning: usage.outputTokenDetails?.reasoningTokens ?? 0,
  },
})

/**
 * The OpenAI provider uses responses by default and replays earlier output by `item_reference`. `forceReasoning` makes
 * it treat any model name as a reasoning model.
 */
export const aiOpenai = aiOver(
  'ai openai',
  'responses',
  ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key })(model),
  { openai: { forceReasoning: true, reasoningEffort: 'low', reasoningSummary: 'auto' } },
)
export const aiOpenaiChat = aiOver(
  'ai openai chat',
  'chat.completions',
  ({ url, key, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model),
  { openai: { reasoningEffort: 'low' } },
)
export const aiAnthropic = aiOver(
  'ai anthropic',
  'messages',
  ({ url, key, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model),
  { anthropic: { thinking: { type: 'enabled', budgetTokens: 2048 } } },
)
export const aiGoogle = aiOver(
  'ai google',
  'generateContent',
  ({ url, key, model }) => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: key })(model),
  { google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 2048 } } },
)
