import { prepared, readerFor, eventsFor } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { fold } from '../../src/generation/event.ts'
import { elements, members } from '../../src/json/scan.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { parseResponse } from '../../src/providers/attempt.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Any } from '../recorded/response-content.ts'

/** Tools on every route: what becomes of their schemas and names, and of the arguments they are called with. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const ROUTES = NAMES.flatMap((client) =>
  NAMES.filter((provider) => provider !== client).map((provider): [ConversationName, ConversationName] => [
    client,
    provider,
  ]),
)

const base: Record<ConversationName, Any> = {
  'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: 'hi' }] },
  responses: { model: 'a/b', input: 'hi' },
  messages: { model: 'a/b', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] },
  generateContent: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
}

type Tool = { name: string; parameters?: unknown; strict?: boolean }

const offered: Record<ConversationName, (tools: Tool[]) => object> = {
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

const formatted: Record<ConversationName, (schema: object) => object> = {
  'chat.completions': (schema) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } },
  }),
  responses: (schema) => ({ text: { format: { type: 'json_schema', name: 'n', strict: true, schema } } }),
  messages: (schema) => ({ output_config: { format: { type: 'json_schema', schema } } }),
  generateContent: (schema) => ({
    generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema },
  }),
}

/** The schemas of tools and answers as a provider reads them. */
const schemasIn: Record<ConversationName, (body: Any) => { tools: Any[]; format: Any | undefined }> = {
  'chat.completions': (body) => ({
    tools: (body.tools ?? []).map((tool: Any) => tool.function.parameters),
    format: body.response_format?.json_schema.schema,
  }),
  responses: (body) => ({
    tools: (body.tools ?? []).map((tool: Any) => tool.parameters),
    format: body.text?.format.schema,
  }),
  messages: (body) => ({
    tools: (body.tools ?? []).map((tool: Any) => tool.input_schema),
    format: body.output_config?.format.schema,
  }),
  generateContent: (body) => ({
    tools: (body.tools?.[0]?.functionDeclarations ?? []).map((tool: Any) => tool.parametersJsonSchema),
    format: body.generationConfig?.responseJsonSchema,
  }),
}

function exchangeOf(client: ConversationName, text: string, stream = false): TranslationContext {
  const rawRequest = { body: JSON.parse(text) as Any, text, model: 'a/b', stream, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1 },
    losses: new LossReport(),
  }
}

const toProvider = (provider: ConversationName, context: TranslationContext) =>
  prepared(
    {
      protocol: provider,
      baseUrl: '',
      target: { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 1000 } },
    } as unknown as Endpoint,
    context,
  )

function sent(client: ConversationName, provider: ConversationName, more: object) {
  const { body, losses } = toProvider(provider, exchangeOf(client, JSON.stringify({ ...base[client], ...more })))
  return {
    ...schemasIn[provider](JSON.parse(body) as Any),
    body,
    losses: losses.map(({ path, effect }) => `${path} ${effect}`),
  }
}

const PERSON = {
  type: 'object',
  properties: { zip: { type: 'string' }, name: { $ref: '#/$defs/Name' } },
  required: ['zip', 'name'],
  additionalProperties: false,
  $defs: { Name: { type: 'string', description: 'In full.' } },
}
const NODE = {
  type: 'object',
  properties: { next: { $ref: '#/$defs/Node' } },
  $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } }, required: ['next'] } },
}

describe('schemas', () => {
  test.each(ROUTES)(
    'of tools and answers arrive, from %s to %s, in their order and the same each time',
    (client, provider) => {
      const more = {
        ...offered[client]([{ name: 'plain' }, { name: 'person', parameters: PERSON }]),
        ...formatted[client](PERSON),
      }
      const { tools, format, body, losses } = sent(client, provider, more)
      expect(Object.keys(tools[1]!.properties)).toEqual(['zip', 'name'])
      for (const schema of [tools[1]!, format!])
        expect(schema).toMatchObject({
          type: 'object',
          required: ['zip', 'name'],
          additionalProperties: false,
          properties: {
            name: schema.properties.name.$ref === undefined ? PERSON.$defs.Name : { $ref: '#/$defs/Name' },
          },
        })
      expect(sent(client, provider, more).body).toBe(body)
      expect(losses).toEqual([])
    },
  )

  /** Where the second tool's schema, and that of the answer, stand in each protocol. */
  const PATHS: Record<ConversationName, [tool: string, answer: string]> = {
    'chat.completions': ['tools[1].function.parameters', 'response_format.json_schema.schema'],
    responses: ['tools[1].parameters', 'text.format.schema'],
    messages: ['tools[1].input_schema', 'output_config.format.schema'],
    generateContent: ['tools[0].functionDeclarations[1].parametersJsonSchema', 'generationConfig.responseJsonSchema'],
  }

  test.each(ROUTES)(
    'that never end are refused under their path, from %s to %s, or carried where they are taken',
    (client, provider) => {
      const [tool, answer] = PATHS[client]
      for (const [path, more] of [
        [tool, offered[client]([{ name: 'plain' }, { name: 'node', parameters: NODE }])],
        [answer, formatted[client](NODE)],
      ] as const) {
        // Anthropic takes recursion in tools, not in answers; Google where a value may end it; OpenAI everywhere.
        const taken =
          provider === 'chat.completions' || provider === 'responses' || (provider === 'messages' && path === tool)
        if (taken) {
          const { tools, format } = sent(client, provider, more)
          expect((path === tool ? tools[1] : format)?.$defs).toEqual(NODE.$defs)
          continue
        }
        const refused = ((): unknown => {
          try {
            return sent(client, provider, more)
          } catch (error) {
            return error
          }
        })()
        expect(refused).toBeInstanceOf(GatewayError)
        expect(refused).toMatchObject({ status: 400, code: 'invalid_request', param: `${path}.$defs.Node` })
        expect((refused as Error).message).toStartWith(`${path}.$defs.Node: must not refer to itself`)
      }
    },
  )

  test.each(ROUTES)('that lose something are told of under their path, from %s to %s', (client, provider) => {
    const either = {
      anyOf: [
        { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
        { type: 'object', properties: { b: { type: 'string' } }, required: ['b'] },
      ],
    }
    const [tool, answer] = PATHS[client]
    const { tools, losses } = sent(
      client,
      provider,
      offered[client]([{ name: 'plain' }, { name: 'either', parameters: either }]),
    )
    expect(tools[1]).toEqual({ type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } })
    expect(losses).toEqual([`${tool} approximated`])
    const bounded = {
      type: 'object',
      properties: { a: { type: 'string', minLength: 2 } },
      required: ['a'],
      additionalProperties: false,
    }
    expect(sent(client, provider, formatted[client](bounded)).losses).toEqual(
      provider === 'messages' || provider === 'generateContent' ? [`${answer} approximated`] : [],
    )
  })
})

/** Names that providers refuse, two of them alike but for their ends. */
const ODD = [`find.place/${'x'.repeat(130)}1`, `find.place/${'x'.repeat(130)}2`, '9 lives', 'plain']

const called: Record<ConversationName, (calls: { name: string; args: string }[]) => object> = {
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

/** A body whose arguments are objects, spelled as the text says. */
const spelled = (body: object): string =>
  JSON.stringify(body).replace(/"@([^]*?)@"/g, (_, text: string) => JSON.parse(`"${text}"`) as string)

/** The piece of a JSON text at a path. */
function pieceAt(text: string, ...path: (string | number)[]): string {
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

const namesIn: Record<ConversationName, (body: Any) => { tools: string[]; calls: string[] }> = {
  'chat.completions': (body) => ({
    tools: body.tools.map((tool: Any) => tool.function.name),
    calls: body.messages[1].tool_calls.map((call: Any) => call.function.name),
  }),
  responses: (body) => ({
    tools: body.tools.map((tool: Any) => tool.name),
    calls: body.input.filter((item: Any) => item.type === 'function_call').map((item: Any) => item.name),
  }),
  messages: (body) => ({
    tools: body.tools.map((tool: Any) => tool.name),
    calls: body.messages[1].content.map((block: Any) => block.name),
  }),
  generateContent: (body) => ({
    tools: body.tools[0].functionDeclarations.map((tool: Any) => tool.name),
    calls: body.contents[1].parts.map((part: Any) => part.functionCall.name),
  }),
}

const GRAMMAR: Record<ConversationName, RegExp> = {
  'chat.completions': /^[\w-]{1,64}$/,
  responses: /^[\w-]{1,64}$/,
  messages: /^[\w-]{1,128}$/,
  generateContent: /^[A-Za-z_][\w.:-]{0,63}$/,
}

const chose: Record<ConversationName, (name: string) => object> = {
  'chat.completions': (name) => ({ tool_choice: { type: 'function', function: { name } } }),
  responses: (name) => ({ tool_choice: { type: 'function', name } }),
  messages: (name) => ({ tool_choice: { type: 'tool', name } }),
  generateContent: (name) => ({ toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [name] } } }),
}
const chosenIn: Record<ConversationName, (body: Any) => string> = {
  'chat.completions': (body) => body.tool_choice.function.name,
  responses: (body) => body.tool_choice.name,
  messages: (body) => body.tool_choice.name,
  generateContent: (body) => body.toolConfig.functionCallingConfig.allowedFunctionNames[0],
}

/** Calls in an answer of each provider, whole and as the data of a stream's frames, cut where the pieces are. */
const answered: Record<
  ConversationName,
  (calls: { name: string; args: string; pieces?: string[] }[]) => { whole: string; frames: string[] }
> = {
  'chat.completions': (calls) => {
    const head = '"id":"c","created":1,"model":"m"'
    const chunk = (delta: object, finish: string | null = null): string =>
      `{${head},"object":"chat.completion.chunk","choices":[${JSON.stringify({ index: 0, delta, finish_reason: finish })}]}`
    const whole = calls.map(({ name, args }, n) => ({
      id: `call_${n}`,
      type: 'function',
      function: { name, arguments: args },
    }))
    return {
      whole: `{${head},"choices":[${JSON.stringify({ index: 0, finish_reason: 'tool_calls', message: { role: 'assistant', content: null, tool_calls: whole } })}]}`,
      frames: [
        ...calls.flatMap(({ name, args, pieces = [args] }, index) => [
          chunk({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }] }),
          ...pieces.map((piece) => chunk({ tool_calls: [{ index, function: { arguments: piece } }] })),
        ]),
        chunk({}, 'tool_calls'),
        '[DONE]',
      ],
    }
  },
  responses: (calls) => {
    const items = calls.map(({ name, args }, n) => ({
      type: 'function_call',
      id: `fc_${n}`,
      call_id: `call_${n}`,
      name,
      arguments: args,
      status: 'completed',
    }))
    const response = { id: 'r', object: 'response', status: 'completed', output: items }
    return {
      whole: JSON.stringify(response),
      frames: [
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
        ...items.flatMap((item, output_index): object[] => [
          { type: 'response.output_item.added', output_index, item: { ...item, arguments: '', status: 'in_progress' } },
          ...(calls[output_index]!.pieces ?? [item.arguments]).map((delta) => ({
            type: 'response.function_call_arguments.delta',
            output_index,
            item_id: item.id,
            delta,
          })),
          { type: 'response.function_call_arguments.done', output_index, item_id: item.id, arguments: item.arguments },
          { type: 'response.output_item.done', output_index, item },
        ]),
        { type: 'response.completed', response },
      ].map((event) => JSON.stringify(event)),
    }
  },
  messages: (calls) => ({
    whole: spelled({
      type: 'message',
      content: calls.map(({ name, args }, n) => ({ type: 'tool_use', id: `call_${n}`, name, input: `@${args}@` })),
      stop_reason: 'tool_use',
    }),
    frames: [
      { type: 'message_start', message: { id: 'msg', content: [], usage: { input_tokens: 1, output_tokens: 1 } } },
      ...calls.flatMap(({ name, args, pieces = [args] }, index): object[] => [
        {
          type: 'content_block_start',
          index,
          content_block: { type: 'tool_use', id: `call_${index}`, name, input: {} },
        },
        ...pieces.map((partial_json) => ({
          type: 'content_block_delta',
          index,
          delta: { type: 'input_json_delta', partial_json },
        })),
        { type: 'content_block_stop', index },
      ]),
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ].map((event) => JSON.stringify(event)),
  }),
  generateContent: (calls) => {
    const chunk = spelled({
      candidates: [
        {
          content: {
            role: 'model',
            parts: calls.map(({ name, args }, n) => ({ functionCall: { id: `call_${n}`, name, args: `@${args}@` } })),
          },
          finishReason: 'STOP',
        },
      ],
    })
    return { whole: chunk, frames: [chunk] }
  },
}

type Call = { name: string; args: string }

/** The calls that a client reads, their arguments as they are spelled. */
const callsOf: Record<ConversationName, { whole(text: string): Call[]; stream(frames: string[]): Call[] }> = {
  'chat.completions': {
    whole: (text) =>
      (JSON.parse(text) as Any).choices[0].message.tool_calls.map((call: Any) => ({
        name: call.function.name,
        args: call.function.arguments,
      })),
    stream: (frames) => {
      const deltas = frames
        .filter((data) => data !== '[DONE]')
        .flatMap((data) => ((JSON.parse(data) as Any).choices[0]?.delta.tool_calls ?? []) as Any[])
      return deltas
        .filter(({ id }) => id !== undefined)
        .map(({ index, function: { name } }) => ({
          name,
          args: deltas
            .filter((delta) => delta.index === index)
            .map((delta) => delta.function.arguments ?? '')
            .join(''),
        }))
    },
  },
  responses: {
    whole: (text) => ((JSON.parse(text) as Any).output as Any[]).map(({ name, arguments: args }) => ({ name, args })),
    stream: (frames) =>
      frames
        .map((data) => JSON.parse(data) as Any)
        .filter(({ type }) => type === 'response.output_item.done')
        .map(({ item }) => ({ name: item.name, args: item.arguments })),
  },
  messages: {
    whole: (text) =>
      (JSON.parse(text) as Any).content.map(({ name }: Any, index: number) => ({
        name,
        args: pieceAt(text, 'content', index, 'input'),
      })),
    stream: (frames) => {
      const all = frames.map((data) => JSON.parse(data) as Any)
      return all
        .filter(({ type }) => type === 'content_block_start')
        .map(({ index, content_block: { name } }) => ({
          name,
          args: all
            .filter((event) => event.type === 'content_block_delta' && event.index === index)
            .map(({ delta }) => delta.partial_json)
            .join(''),
        }))
    },
  },
  generateContent: {
    whole: (text) =>
      ((JSON.parse(text) as Any).candidates[0].content.parts as Any[]).flatMap(({ functionCall }, index) =>
        functionCall === undefined
          ? []
          : [
              {
                name: functionCall.name,
                args: pieceAt(text, 'candidates', 0, 'content', 'parts', index, 'functionCall', 'args'),
              },
            ],
      ),
    stream: (frames) =>
      frames.flatMap((data) =>
        callsOf.generateContent.whole(
          (JSON.parse(data) as Any).candidates?.[0]?.content?.parts === undefined
            ? '{"candidates":[{"content":{"parts":[]}}]}'
            : data,
        ),
      ),
  },
}

/** What a client hears of a provider's calls, whole and streamed. */
function heard(
  client: ConversationName,
  provider: ConversationName,
  context: TranslationContext,
  calls: { name: string; args: string; pieces?: string[] }[],
): { whole: Call[]; stream: Call[] } {
  const { whole, frames } = answered[provider](calls)
  const { call } = protocols[provider],
    { serve } = protocols[client]
  const written = serve.writer(context)
  const reader = readerFor(provider, {}, context.request)
  const events = [...frames.flatMap((data) => reader.read({ data })), ...reader.end()]
  const error = events.find((event) => event.type === 'error')
  if (error !== undefined) throw error.error
  const told = events.flatMap((event) => written.write(event)).map(({ data }) => data)
  const answer = foldAnswer(provider, whole, context)
  return {
    whole: callsOf[client].whole(JSON.stringify(serve.writeResponse(answer, context))),
    stream: callsOf[client].stream(told),
  }
}

const foldAnswer = (provider: ConversationName, whole: string, context: TranslationContext) =>
  fold(eventsFor(provider, parseResponse(whole, protocols[provider]), {}, context.request))

describe('names', () => {
  test.each(ROUTES)(
    'that %s takes and %s does not are exchanged everywhere alike, stay different, and come back',
    (client, provider) => {
      const names = client === 'generateContent' ? [...ODD.slice(0, 2), 'a.b:c', 'plain'] : ODD
      const tools = offered[client](names.map((name) => ({ name })))
      const text = spelled({
        ...base[client],
        ...tools,
        ...called[client](names.map((name) => ({ name, args: '{}' }))),
        ...chose[client](names[1]!),
      })
      const context = exchangeOf(client, text)
      const body = JSON.parse(toProvider(provider, context).body) as Any
      const there = namesIn[provider](body)
      expect(there.calls).toEqual(there.tools)
      expect(new Set(there.tools).size).toBe(names.length)
      for (const name of there.tools) expect(name).toMatch(GRAMMAR[provider])
      expect(there.tools[3]).toBe('plain')
      expect(chosenIn[provider](body)).toBe(there.tools[1]!)
      const { whole, stream } = heard(
        client,
        provider,
        context,
        there.tools.map((name) => ({ name, args: '{}' })),
      )
      expect(whole.map(({ name }) => name)).toEqual(names)
      expect(stream.map(({ name }) => name)).toEqual(names)
    },
  )
})

/**
 * JSON with numbers that a double cannot hold or would spell in another way. Keys that look like indexes are left out:
 * objects of JavaScript put them first.
 */
const number = fc.constantFrom(
  '0',
  '-1',
  '12345678901234567890',
  '9007199254740993',
  '1.0',
  '-0',
  '1e21',
  '0.10',
  '1E+2',
  '-123456789012345678901234567890.5',
)
const word = fc
  .oneof(
    fc.constantFrom('a', 'b', 'input', 'args', '$ref', '__proto__', 'content', 'constructor'),
    fc.string({ minLength: 1, maxLength: 4, unit: 'grapheme' }),
  )
  .filter((key) => !/^\d+$/.test(key) && !key.includes('@'))
const { object } = fc.letrec<{ json: string; object: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    number,
    word.map((text) => JSON.stringify(text)),
    fc.constantFrom('true', 'null', '[]', '{}'),
    fc.array(tie('json'), { maxLength: 3 }).map((list) => `[${list.join(',')}]`),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(word, tie('json')), { selector: ([key]) => key, maxLength: 4 })
    .map((entries) => `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
}))

const argumentsIn: Record<ConversationName, (body: string) => string> = {
  'chat.completions': (body) => (JSON.parse(body) as Any).messages[1].tool_calls[0].function.arguments,
  responses: (body) =>
    ((JSON.parse(body) as Any).input as Any[]).find(({ type }) => type === 'function_call')!.arguments,
  messages: (body) => pieceAt(body, 'messages', 1, 'content', 0, 'input'),
  generateContent: (body) => pieceAt(body, 'contents', 1, 'parts', 0, 'functionCall', 'args'),
}

describe('arguments', () => {
  test.each(ROUTES)(
    'of %s go to %s and come from it as they are spelled, whole and streamed',
    (client, provider) => {
      fc.assert(
        fc.property(object, fc.array(fc.nat(40), { maxLength: 3 }), (args, cuts) => {
          const tools = offered[client]([{ name: 'f' }])
          const context = exchangeOf(
            client,
            spelled({ ...base[client], ...tools, ...called[client]([{ name: 'f', args }]) }),
          )
          expect(argumentsIn[provider](toProvider(provider, context).body)).toBe(args)
          const ends = [...new Set([0, ...cuts.filter((cut) => cut < args.length).sort((a, b) => a - b), args.length])]
          const pieces = ends.slice(1).map((end, index) => args.slice(ends[index], end))
          const { whole, stream } = heard(client, provider, context, [{ name: 'f', args, pieces }])
          expect([whole, stream]).toEqual([[{ name: 'f', args }], [{ name: 'f', args }]])
        }),
        { numRuns: 40 },
      )
    },
    60_000,
  )
})

describe('answers that are no objects', () => {
  const LIST = { type: 'array', items: { $ref: '#/$defs/Name' }, $defs: { Name: { type: 'string' } } }
  const value = fc.jsonValue().map((json) => JSON.stringify(json))
  const routes = ROUTES.filter(
    ([client, provider]) =>
      (client === 'messages' || client === 'generateContent') &&
      (provider === 'chat.completions' || provider === 'responses'),
  )

  const texts: Record<string, (text: string, pieces: string[]) => { whole: string; frames: string[] }> = {
    'chat.completions': (text, pieces) => ({
      whole: JSON.stringify({
        id: 'c',
        choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }],
      }),
      frames: [
        ...pieces.map((content) => JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content } }] })),
        JSON.stringify({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
        '[DONE]',
      ],
    }),
    responses: (text, pieces) => {
      const part = { type: 'output_text', text, annotations: [] }
      const item = { type: 'message', id: 'msg', role: 'assistant', status: 'completed', content: [part] }
      const at = { output_index: 0, item_id: 'msg', content_index: 0 }
      const response = { id: 'r', object: 'response', status: 'completed', output: [item] }
      return {
        whole: JSON.stringify(response),
        frames: [
          { type: 'response.created', response: { ...response, output: [] } },
          { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
          { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
          ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
          { type: 'response.output_text.done', ...at, text },
          { type: 'response.content_part.done', ...at, part },
          { type: 'response.output_item.done', output_index: 0, item },
          { type: 'response.completed', response },
        ].map((event) => JSON.stringify(event)),
      }
    },
  }

  const heardText = (
    provider: ConversationName,
    context: TranslationContext,
    text: string,
    pieces: string[],
  ): string[] => {
    const { whole, frames } = texts[provider]!(text, pieces)
    const reader = readerFor(provider, {}, context.request)
    const events = [...frames.flatMap((data) => reader.read({ data })), ...reader.end()]
    return [foldAnswer(provider, whole, context), fold(events)].map(({ parts }) =>
      parts.map((part) => (part.type === 'text' ? part.text : '')).join(''),
    )
  }

  test.each(routes)(
    'are asked of OpenAI as one member of an object, and unwrapped, from %s to %s',
    (client, provider) => {
      const context = exchangeOf(client, JSON.stringify({ ...base[client], ...formatted[client](LIST) }))
      const { format } = schemasIn[provider](JSON.parse(toProvider(provider, context).body) as Any)
      expect(format).toEqual({
        type: 'object',
        properties: { answer: { type: 'array', items: { type: 'string' } } },
        required: ['answer'],
        additionalProperties: false,
      })
      fc.assert(
        fc.property(
          value,
          fc.constantFrom('{"answer":@}', ' {\n  "answer" : @\n}\n', '@'),
          fc.array(fc.nat(60), { maxLength: 8 }),
          (json, frame, cuts) => {
            // What is no such object comes as it is.
            fc.pre(frame !== '@' || !/^\s*\{\s*"answer"/.test(json))
            const text = frame.replace('@', () => json)
            const ends = [
              ...new Set([0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length]),
            ]
            for (const told of heardText(
              provider,
              context,
              text,
              ends.slice(1).map((end, index) => text.slice(ends[index], end)),
            ))
              expect(told.trimEnd()).toBe(json)
          },
        ),
        { numRuns: 200 },
      )
    },
  )

  test('an object is asked for as it is', () => {
    const context = exchangeOf(
      'generateContent',
      JSON.stringify({ ...base.generateContent, ...formatted.generateContent(PERSON) }),
    )
    expect(heardText('chat.completions', context, '{"answer":[1]}', ['{"answer":[1]}'])).toEqual([
      '{"answer":[1]}',
      '{"answer":[1]}',
    ])
  })
})
