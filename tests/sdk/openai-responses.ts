import OpenAI from 'openai'
import { failureOf, inputOf, sessionOf, type Client, type Answer, type Options } from './client.ts'

type Item = Record<string, unknown>

/** Responses of the `openai` package; streams are read by its stream helper, which validates the order of events. */
export const openaiResponses: Client = {
  name: 'openai responses',
  protocol: 'responses',
  failure: failureOf,
  open(at, options) {
    const { url, key } = at
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
    const input: Item[] = []
    return sessionOf<Item>(
      input,
      (content) => ({ role: 'user', content }),
      (results) => results.map(({ call, output }) => ({ type: 'function_call_output', call_id: call.id, output })),
      async () => {
        const body = { model: at.model, input, ...bodyOf(options) } as never
        const response = options.stream
          ? await client.responses.stream(body).finalResponse()
          : ((await client.responses.create(body)) as OpenAI.Responses.Response)
        input.push(...(response.output as unknown as Item[]))
        return answerOf(response)
      },
    )
  },
}

const bodyOf = ({ tools, force, schema, maxTokens, system, reasoning }: Options): object => ({
  store: false,
  include: ['reasoning.encrypted_content'],
  ...(system === undefined ? {} : { instructions: system }),
  ...(tools === undefined
    ? {}
    : {
        tools: tools.map(({ name, description, schema: parameters }) => ({
          type: 'function',
          name,
          description,
          parameters,
          strict: false,
        })),
      }),
  ...(force === undefined
    ? {}
    : { tool_choice: force === 'required' ? 'required' : { type: 'function', name: force } }),
  ...(schema === undefined ? {} : { text: { format: { type: 'json_schema', name: 'answer', strict: true, schema } } }),
  ...(maxTokens === undefined ? {} : { max_output_tokens: maxTokens }),
  ...(reasoning === true ? { reasoning: { effort: 'low', summary: 'auto' } } : {}),
})

function answerOf(response: OpenAI.Responses.Response): Answer {
  const parts = response.output.flatMap((item) => (item.type === 'message' ? item.content : []))
  const { usage } = response
  return {
    id: response.id,
    model: response.model,
    text: parts.flatMap((part) => (part.type === 'output_text' ? [part.text] : [])).join(''),
    refusal: parts.flatMap((part) => (part.type === 'refusal' ? [part.refusal] : [])).join(''),
    reasoning: response.output
      .flatMap((item) => (item.type === 'reasoning' ? item.summary.map((one) => one.text) : []))
      .join(''),
    calls: response.output.flatMap((item) =>
      item.type === 'function_call'
        ? [{ id: item.call_id, name: item.name, input: inputOf(item.arguments) }]
        : item.type === 'custom_tool_call'
          ? [{ id: item.call_id, name: item.name, input: { input: item.input } }]
          : [],
    ),
    finish: response.incomplete_details?.reason ?? response.status ?? '',
    usage: {
      input: usage?.input_tokens ?? 0,
      output: usage?.output_tokens ?? 0,
      cached: usage?.input_tokens_details?.cached_tokens ?? 0,
      reasoning: usage?.output_tokens_details?.reasoning_tokens ?? 0,
    },
  }
}
