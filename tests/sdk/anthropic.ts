import Anthropic from '@anthropic-ai/sdk'
import { failureOf, sessionOf, type Client, type Answer, type Options } from './client.ts'

type Message = { role: 'user' | 'assistant'; content: unknown }

/** Messages of `@anthropic-ai/sdk`; streams are read by its stream helper. */
export const anthropic: Client = {
  name: 'anthropic',
  protocol: 'messages',
  failure: failureOf,
  open(at, options) {
    const { url, key } = at
    const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 })
    const messages: Message[] = []
    return sessionOf<Message>(
      messages,
      (content) => ({ role: 'user', content }),
      (results) => [
        {
          role: 'user',
          content: results.map(({ call, output }) => ({ type: 'tool_result', tool_use_id: call.id, content: output })),
        },
      ],
      async () => {
        const body = { model: at.model, messages, ...bodyOf(options) } as never
        const message = options.stream
          ? await client.messages.stream(body).finalMessage()
          : ((await client.messages.create(body)) as Anthropic.Message)
        messages.push({ role: 'assistant', content: message.content })
        return answerOf(message)
      },
    )
  },
}

const bodyOf = ({ tools, force, schema, maxTokens, stop, system, reasoning }: Options): object => ({
  max_tokens: maxTokens ?? 4096,
  ...(system === undefined ? {} : { system }),
  ...(tools === undefined
    ? {}
    : { tools: tools.map(({ name, description, schema: input_schema }) => ({ name, description, input_schema })) }),
  ...(force === undefined
    ? {}
    : { tool_choice: force === 'required' ? { type: 'any' } : { type: 'tool', name: force } }),
  ...(schema === undefined ? {} : { output_config: { format: { type: 'json_schema', schema } } }),
  ...(stop === undefined ? {} : { stop_sequences: stop }),
  ...(reasoning === true ? { thinking: { type: 'enabled', budget_tokens: 2048 } } : {}),
})

function answerOf({ id, model, content, stop_reason, usage }: Anthropic.Message): Answer {
  const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
  return {
    id,
    model,
    text: stop_reason === 'refusal' ? '' : text,
    refusal: stop_reason === 'refusal' ? text : '',
    reasoning: content.flatMap((block) => (block.type === 'thinking' ? [block.thinking] : [])).join(''),
    calls: content.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, input: block.input }] : [],
    ),
    finish: stop_reason ?? '',
    usage: {
      input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
      output: usage.output_tokens,
      cached: usage.cache_read_input_tokens ?? 0,
      reasoning: 0,
    },
  }
}
