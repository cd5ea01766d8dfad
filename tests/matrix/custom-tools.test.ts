import { written } from '../translating.ts'
import { readerFor, eventsFor } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext, Quirks } from '../../src/protocols/protocol.ts'
import type { Any } from '../recorded/response-content.ts'
import { wireOf } from './answering.ts'

/**
 * Tools of free text, which chat completions and responses know, with providers that know only functions, and the way
 * back.
 */

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
const asks: Partial<Record<ConversationName, Any>> = {
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

function exchangeOf(client: ConversationName, body: Any): TranslationContext {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

function sentBy(
  client: ConversationName,
  provider: ConversationName,
  quirks: Quirks,
  body: Any = asks[client]!,
): { body: Any; losses: string[] } {
  const context = exchangeOf(client, body)
  const { body: sent, losses } = written(
    provider,
    context.request,
    { provider: 'p', model: 'm', quirks, capabilities: {} },
    context.rawRequest.body,
  )
  return {
    body: JSON.parse(JSON.stringify(sent)) as Any,
    losses: losses.map(({ path, effect }) => `${path} ${effect}`),
  }
}

/** The tool, the call in the history and the choice, as the provider hears them. */
const heardBy: Record<ConversationName, (body: Any) => { tool: Any; call: Any; choice: Any }> = {
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
/** The same calls, of a tool of free text. */
const freely = (value: unknown): Any =>
  JSON.parse(JSON.stringify(value), (name, inner: Any) =>
    name === 'tool_calls'
      ? inner.map(({ type, function: { name: called, arguments: input }, ...call }: Any) => ({
          ...call,
          ...(type === undefined ? {} : { type: 'custom' }),
          custom: { ...(called === undefined ? {} : { name: called }), input },
        }))
      : inner,
  ) as Any

const asCustom = {
  tool: custom.chat,
  call: { type: 'custom', custom: { name: 'apply', input: INPUT } },
  choice: { type: 'custom', custom: { name: 'apply' } },
}

for (const client of ['chat.completions', 'responses'] as const)
  for (const [provider, quirks] of PROVIDERS) {
    if (client === provider) continue
    const free = provider === 'responses' || quirks.customTools === true
    describe(`${client} -> ${provider}${quirks.customTools === true ? ' that knows them' : ''}`, () => {
      test('the tool, its calls and the choice of it', () => {
        const { body, losses } = sentBy(client, provider, quirks)
        expect(heardBy[provider](body)).toMatchObject(quirks.customTools === true ? asCustom : asFunction[provider])
        expect(losses.filter((loss) => loss.includes('tools'))).toEqual(
          free ? [] : [`tools[0].${client === 'responses' ? '' : 'custom.'}format approximated`],
        )
      })

      test.each([false, true])('its input comes as text, streamed: %p', (stream) => {
        const part = {
          type: 'call' as const,
          id: 'call_up',
          name: 'apply',
          args: free ? INPUT : JSON.stringify({ input: INPUT }),
          ...(provider === 'responses' ? { free: true as const } : {}),
        }
        const rawRequest = wireOf(provider, {
          parts: [part],
          ending: 'tool-calls',
          usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
        })
        const { whole, frames } = quirks.customTools === true ? freely(rawRequest) : rawRequest
        const context = exchangeOf(client, asks[client]!)
        const reader = readerFor(provider, quirks, context.request)
        const data = (one: object | string): { data: string } => ({
          data: typeof one === 'string' ? one : JSON.stringify(one),
        })
        const events = stream
          ? [...(frames as (object | string)[]).flatMap((one) => reader.read(data(one))), ...reader.end()]
          : eventsFor(provider, JSON.parse(JSON.stringify(whole)), quirks, context.request)
        const writer = protocols[client].serve.writer(context)
        const told = events
          .flatMap((event) => writer.write(event))
          .map((frame) => frame.data)
          .filter((text) => text !== '[DONE]')
          .map((text) => JSON.parse(text) as Any)
        if (client === 'responses') {
          const deltas = told.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
          expect(deltas.map(({ delta }) => delta as string).join('')).toBe(INPUT)
          expect(told.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({
            input: INPUT,
          })
          expect(told.at(-1)).toMatchObject({
            type: 'response.completed',
            response: { output: [{ type: 'custom_tool_call', name: 'apply', input: INPUT, status: 'completed' }] },
          })
        } else {
          const calls = told.flatMap(({ choices }) => (choices?.[0]?.delta?.tool_calls ?? []) as Any[])
          expect(calls[0]).toMatchObject({ index: 0, type: 'custom', custom: { name: 'apply' } })
          expect(calls.map(({ custom: piece }) => piece?.input ?? '').join('')).toBe(INPUT)
        }
        const answer: Any = protocols[client].serve.writeResponse(fold(events), context)
        expect(
          client === 'responses' ? answer.output[0].input : answer.choices[0].message.tool_calls[0].custom.input,
        ).toBe(INPUT)
        expect(context.losses!.losses).toEqual([])
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
          { type: 'function', name: 'look', parameters: {} },
        ],
      },
      { type: 'function', name: 'look', parameters: {} },
    ],
  }
  test.each(['chat.completions', 'messages', 'generateContent'] as const)(
    "are tools of %s, under names of their own, and are called by the client's",
    (provider) => {
      const { body: sent } = sentBy('responses', provider, {}, body)
      const names = ((provider === 'generateContent' ? sent.tools[0].functionDeclarations : sent.tools) as Any[]).map(
        (tool) => tool.function?.name ?? tool.name,
      )
      expect(names).toEqual(['apply', 'files__look', 'look'])
      const { whole } = wireOf(provider, {
        parts: [
          { type: 'call', id: 'c1', name: 'apply', args: '{"input":"x"}' },
          { type: 'call', id: 'c2', name: 'files__look', args: '{}' },
        ],
        ending: 'tool-calls',
        usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
      })
      const context = exchangeOf('responses', body)
      const { output } = protocols.responses.serve.writeResponse(
        fold(eventsFor(provider, JSON.parse(JSON.stringify(whole)), {}, context.request)),
        context,
      ) as Any
      expect(output).toMatchObject([
        { type: 'custom_tool_call', namespace: 'files', name: 'apply', input: 'x' },
        { type: 'function_call', namespace: 'files', name: 'look', arguments: '{}' },
      ])
    },
  )
})
