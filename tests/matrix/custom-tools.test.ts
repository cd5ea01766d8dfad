import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { eventsFor, readerFor, written } from '../translating.ts'
import { type ReplyPart, responseOf } from './provider-replies.ts'
import { codesAndPaths, contextOf, type Json } from './routes.ts'

/** Custom tools, whose input is free text: providers that have only functions are sent functions instead. */

const PROVIDERS: [ConversationName, Quirks][] = [
  ['chat.completions', {}],
  ['chat.completions', { customTools: true }],
  ['responses', {}],
  ['messages', {}],
  ['generateContent', {}],
]
const INPUT = '*** Begin "Patch"\n+ 🗼 {"a": 1}\\n\n*** End'
const grammar = { syntax: 'lark', definition: 'start: /[^x]+/' }

const custom = {
  chat: { type: 'custom', custom: { name: 'apply', description: 'Patches.', format: { type: 'grammar', grammar } } },
  responses: { type: 'custom', name: 'apply', description: 'Patches.', format: { type: 'grammar', ...grammar } },
}
/** An earlier call of the tool. */
const before = {
  chat: [
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'apply', input: INPUT } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'done' },
  ],
  responses: [
    { type: 'custom_tool_call', call_id: 'call_1', name: 'apply', input: INPUT },
    { type: 'custom_tool_call_output', call_id: 'call_1', output: 'done' },
  ],
}

type Client = 'chat.completions' | 'responses'

const REQUESTS: Record<Client, Json> = {
  'chat.completions': {
    model: 'a/b',
    messages: [{ role: 'user', content: 'hi' }, ...before.chat],
    tools: [custom.chat],
    tool_choice: { type: 'custom', custom: { name: 'apply' } },
  },
  responses: {
    model: 'a/b',
    input: [{ role: 'user', content: 'hi' }, ...before.responses],
    tools: [custom.responses],
    tool_choice: { type: 'custom', name: 'apply' },
  },
}

/** The request as the provider receives it. */
function write(
  client: Client,
  provider: ConversationName,
  quirks: Quirks,
  request: Json = REQUESTS[client],
): { body: Json; losses: string[] } {
  const target = { provider: 'p', model: 'm', quirks, capabilities: {} }
  const { body, losses } = written(provider, contextOf(client, request).request, target, request)
  return { body: JSON.parse(JSON.stringify(body)) as Json, losses: codesAndPaths(losses) }
}

/** The tool, the call in the conversation and the choice, in a provider's request. */
const toolIn: Record<ConversationName, (body: Json) => { tool: Json; call: Json; choice: Json }> = {
  'chat.completions': ({ tools, messages, tool_choice }) => ({
    tool: tools[0],
    call: messages[1].tool_calls[0],
    choice: tool_choice,
  }),
  responses: ({ tools, input, tool_choice }) => ({ tool: tools[0], call: input[1], choice: tool_choice }),
  messages: ({ tools, messages, tool_choice }) => ({
    tool: tools[0],
    call: messages[1].content[0],
    choice: tool_choice,
  }),
  generateContent: ({ tools, contents, toolConfig }) => ({
    tool: tools[0].functionDeclarations[0],
    call: contents[1].parts[0].functionCall,
    choice: toolConfig.functionCallingConfig,
  }),
}

const schema = {
  type: 'object',
  properties: {
    input: {
      type: 'string',
      description: `The whole input as free text, in this lark grammar:\n${grammar.definition}`,
    },
  },
  required: ['input'],
  additionalProperties: false,
}

/** The tool, its call and its choice, for chat completions without custom tools and for the other protocols. */
const asFunction: Record<ConversationName, { tool: object; call: object; choice: object }> = {
  'chat.completions': {
    tool: { function: { name: 'apply', parameters: schema } },
    call: { function: { name: 'apply', arguments: JSON.stringify({ input: INPUT }) } },
    choice: { type: 'function', function: { name: 'apply' } },
  },
  responses: {
    tool: custom.responses,
    call: { type: 'custom_tool_call', name: 'apply', input: INPUT },
    choice: { type: 'custom', name: 'apply' },
  },
  messages: {
    tool: { name: 'apply', input_schema: schema },
    call: { type: 'tool_use', name: 'apply', input: { input: INPUT } },
    choice: { type: 'tool', name: 'apply' },
  },
  generateContent: {
    tool: { name: 'apply', parametersJsonSchema: schema },
    call: { name: 'apply', args: { input: INPUT } },
    choice: { mode: 'ANY', allowedFunctionNames: ['apply'] },
  },
}

/** The same response with the calls as calls of a custom tool. */
const withCustomCalls = (value: unknown): Json =>
  JSON.parse(JSON.stringify(value), (name, inner: Json) =>
    name === 'tool_calls'
      ? inner.map(({ type, function: { name: called, arguments: input }, ...call }: Json) => ({
          ...call,
          ...(type === undefined ? {} : { type: 'custom' }),
          custom: { ...(called === undefined ? {} : { name: called }), input },
        }))
      : inner,
  ) as Json

const asCustom = {
  tool: custom.chat,
  call: { type: 'custom', custom: { name: 'apply', input: INPUT } },
  choice: { type: 'custom', custom: { name: 'apply' } },
}

/** The call of the tool in a provider's response. */
const callOf = (provider: ConversationName, free: boolean): ReplyPart => ({
  type: 'call',
  id: 'call_up',
  name: 'apply',
  args: free ? INPUT : JSON.stringify({ input: INPUT }),
  ...(provider === 'responses' ? { free: true as const } : {}),
})

/** The input of the call in a whole response. */
const inputIn: Record<Client, (response: Json) => string> = {
  'chat.completions': ({ choices }) => choices[0].message.tool_calls[0].custom.input,
  responses: ({ output }) => output[0].input,
}

/** Asserts that the frames of a stream have the call. */
const expectStreamedCall: Record<Client, (frames: Json[]) => void> = {
  'chat.completions': (frames) => {
    const calls = frames.flatMap(({ choices }) => (choices?.[0]?.delta?.tool_calls ?? []) as Json[])
    expect(calls[0]).toMatchObject({ index: 0, type: 'custom', custom: { name: 'apply' } })
    expect(calls.map(({ custom: piece }) => piece?.input ?? '').join('')).toBe(INPUT)
  },
  responses: (frames) => {
    const deltas = frames.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
    expect(deltas.map(({ delta }) => delta as string).join('')).toBe(INPUT)
    expect(frames.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({ input: INPUT })
    expect(frames.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { output: [{ type: 'custom_tool_call', name: 'apply', input: INPUT, status: 'completed' }] },
    })
  },
}

for (const client of ['chat.completions', 'responses'] as const)
  for (const [provider, quirks] of PROVIDERS.filter(([name]) => name !== client)) {
    const hasQuirk = quirks.customTools === true
    const free = provider === 'responses' || hasQuirk
    describe(`a custom tool of ${client} for ${provider}${hasQuirk ? ' with custom tools' : ''}`, () => {
      test(`is sent with its calls and choice as a ${free ? 'custom tool' : 'function'}`, () => {
        const { body, losses } = write(client, provider, quirks)
        expect(toolIn[provider](body)).toMatchObject(hasQuirk ? asCustom : asFunction[provider])
        const format = client === 'responses' ? 'format' : 'custom.format'
        expect(losses.filter((loss) => loss.includes('tools'))).toEqual(
          free ? [] : [`tool_grammar_described tools[0].${format}`],
        )
      })

      test.each([
        ['a whole response', false],
        ['a stream', true],
      ])('is called with free text in %s', (_, stream) => {
        const response = responseOf(provider, {
          parts: [callOf(provider, free)],
          finish: 'tool-calls',
          usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
        })
        const { whole, frames } = hasQuirk ? withCustomCalls(response) : response
        const context = contextOf(client, REQUESTS[client])
        const reader = readerFor(provider, quirks, context.request)
        const data = (frames as (object | string)[]).map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
        const events = stream
          ? [...data.flatMap((one) => reader.read({ data: one })), ...reader.end()]
          : eventsFor(provider, JSON.parse(JSON.stringify(whole)), quirks, context.request)
        const writer = protocols[client].serve.writer(context)
        const sent = events
          .flatMap((event) => writer.write(event))
          .filter((frame) => frame.data !== '[DONE]')
          .map((frame) => JSON.parse(frame.data) as Json)
        expectStreamedCall[client](sent)
        expect(inputIn[client](protocols[client].serve.writeResponse(fold(events), context))).toBe(INPUT)
        expect(context.losses.losses).toEqual([])
      })
    })
  }

describe('tools in a namespace', () => {
  const body = {
    model: 'a/b',
    input: 'hi',
    tools: [
      {
        type: 'namespace',
        name: 'files',
        description: 'd',
        tools: [
          { type: 'custom', name: 'apply' },
          { type: 'function', name: 'find', parameters: {} },
        ],
      },
      { type: 'function', name: 'find', parameters: {} },
    ],
  }
  test.each(['chat.completions', 'messages', 'generateContent'] as const)(
    'have distinct names for %s and are called by the names of the client',
    (provider) => {
      const { body: sent } = write('responses', provider, {}, body)
      const names = ((provider === 'generateContent' ? sent.tools[0].functionDeclarations : sent.tools) as Json[]).map(
        (tool) => tool.function?.name ?? tool.name,
      )
      expect(names).toEqual(['apply', 'files__find', 'find'])
      const { whole } = responseOf(provider, {
        parts: [
          { type: 'call', id: 'c1', name: 'apply', args: '{"input":"x"}' },
          { type: 'call', id: 'c2', name: 'files__find', args: '{}' },
        ],
        finish: 'tool-calls',
        usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
      })
      const context = contextOf('responses', body)
      const { output } = protocols.responses.serve.writeResponse(
        fold(eventsFor(provider, JSON.parse(JSON.stringify(whole)), {}, context.request)),
        context,
      ) as Json
      expect(output).toMatchObject([
        { type: 'custom_tool_call', namespace: 'files', name: 'apply', input: 'x' },
        { type: 'function_call', namespace: 'files', name: 'find', arguments: '{}' },
      ])
    },
  )
})
