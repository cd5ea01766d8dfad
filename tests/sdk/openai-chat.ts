import OpenAI from 'openai'
import { failureOf, inputOf, sessionOf, type Client, type Answer, type Options } from './client.ts'

type Message = Record<string, unknown>
type Detail = Record<string, unknown> & { index?: number; type?: string }

/** Chat Completions of the `openai` package; streams are read by its stream helper. */
export const openaiChat: Client = {
  name: 'openai chat',
  protocol: 'chat.completions',
  failure: failureOf,
  open(at, options) {
    const { url, key } = at
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
    const messages: Message[] = options.system === undefined ? [] : [{ role: 'system', content: options.system }]
    return sessionOf<Message>(
      messages,
      (content) => ({ role: 'user', content }),
      (results) => results.map(({ call, output }) => ({ role: 'tool', tool_call_id: call.id, content: output })),
      async () => {
        const body = { model: at.model, messages, ...bodyOf(options) }
        const completion = options.stream
          ? await streamed(client, body)
          : await client.chat.completions.create(body as never)
        const message = (completion as { choices: { message: Message }[] }).choices[0]!.message
        messages.push(message)
        return answerOf(completion as never)
      },
    )
  },
}

const bodyOf = ({ tools, force, schema, maxTokens, stop, reasoning }: Options): object => ({
  ...(tools === undefined
    ? {}
    : {
        tools: tools.map(({ name, description, schema: parameters }) => ({
          type: 'function',
          function: { name, description, parameters },
        })),
      }),
  ...(force === undefined
    ? {}
    : { tool_choice: force === 'required' ? 'required' : { type: 'function', function: { name: force } } }),
  ...(schema === undefined
    ? {}
    : { response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } } }),
  ...(maxTokens === undefined ? {} : { max_completion_tokens: maxTokens }),
  ...(stop === undefined ? {} : { stop }),
  ...(reasoning === true ? { reasoning_effort: 'low' } : {}),
})

/**
 * The stream helper keeps only the last delta of fields that it does not know. Reasoning is therefore joined here, as
 * OpenRouter's clients do.
 */
async function streamed(client: OpenAI, body: object): Promise<unknown> {
  const stream = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } } as never)
  const details: Detail[] = []
  let reasoning = ''
  for await (const chunk of stream) {
    const delta = (chunk.choices[0]?.delta ?? {}) as { reasoning?: string; reasoning_details?: Detail[] }
    reasoning += delta.reasoning ?? ''
    for (const detail of delta.reasoning_details ?? []) join(details, detail)
  }
  const completion = await stream.finalChatCompletion()
  const message = completion.choices[0]!.message as unknown as Message
  if (reasoning !== '') message['reasoning'] = reasoning
  if (details.length > 0) message['reasoning_details'] = details
  return completion
}

function join(details: Detail[], delta: Detail): void {
  const open = details.find((one) => one.index === delta.index && one.type === delta.type)
  if (open === undefined) {
    details.push({ ...delta })
    return
  }
  for (const [key, value] of Object.entries(delta)) {
    open[key] =
      ['text', 'summary', 'data', 'signature'].includes(key) && typeof value === 'string'
        ? `${(open[key] as string | undefined) ?? ''}${value}`
        : (value ?? open[key])
  }
}

function answerOf(completion: OpenAI.ChatCompletion): Answer {
  const { message, finish_reason } = completion.choices[0]!
  const { usage } = completion
  return {
    id: completion.id,
    model: completion.model,
    text: message.content ?? '',
    refusal: message.refusal ?? '',
    reasoning: (message as { reasoning?: string }).reasoning ?? '',
    calls: (message.tool_calls ?? []).map((call) =>
      call.type === 'function'
        ? { id: call.id, name: call.function.name, input: inputOf(call.function.arguments) }
        : { id: call.id, name: call.custom.name, input: { input: call.custom.input } },
    ),
    finish: finish_reason,
    usage: {
      input: usage?.prompt_tokens ?? 0,
      output: usage?.completion_tokens ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      reasoning: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
    },
  }
}
