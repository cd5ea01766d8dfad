import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { eventsOf, streamedEventsOf, withoutPaths, written } from '../../translating.ts'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { contextOf, rawRequestOf, readWithPaths, target, type Any } from './fixtures.ts'

/** Requests to providers of the Responses API. */

const request = (more: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'a/b',
  system: [],
  turns: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'messages',
  extras: {},
  ...more,
})
const write = (more: Partial<GenerationRequest> = {}, capabilities: Capabilities = {}) =>
  written('responses', request(more), { ...target, capabilities })
const input = (turns: Turn[]) => write({ turns }).body.input as Any[]
/** Code and path of each loss; elements without a path of their own are located at the conversation, `messages`. */
const lossesOf = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) =>
  write(more, capabilities).losses.map(({ code, path }) => `${code} ${path}`)
const say = (role: Turn['role'], ...parts: Part[]): Turn => ({ role, parts })
const text = (text: string): Part => ({ type: 'text', text })
const call = (id: string, form: 'function' | 'custom' = 'function', args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name: 'f',
  arguments: args,
  form,
})
const result = (callId: string, ...content: Any[]): Part =>
  ({ type: 'tool-result', callId, content, form: 'function' }) as Part

describe('the body of a request', () => {
  test('tells the provider to store nothing', () => {
    expect(write()).toEqual({
      body: {
        model: 'upstream',
        input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
        store: false,
      },
      losses: [],
      transforms: [],
    })
  })

  test('has one plain system text as instructions, and several as a message', () => {
    expect(write({ system: [text('A')] }).body.instructions).toBe('A')
    expect((write({ system: [text('A'), text('B')] }).body.input as Any[])[0]).toEqual({
      type: 'message',
      role: 'system',
      content: [
        { type: 'input_text', text: 'A' },
        { type: 'input_text', text: 'B' },
      ],
    })
  })

  test('declares tools as not strict unless the client made them strict', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', name: 'f' },
      {
        type: 'function',
        name: 'g',
        description: 'd',
        parameters: { type: 'object', properties: {}, additionalProperties: false },
        strict: true,
      },
      { type: 'custom', name: 'h', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
    ]
    expect(write({ tools, toolChoice: { type: 'tool', name: 'h' }, parallelTools: false }).body).toMatchObject({
      tools: [
        { type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false },
        {
          type: 'function',
          name: 'g',
          description: 'd',
          parameters: { type: 'object', properties: {}, additionalProperties: false },
          strict: true,
        },
        { type: 'custom', name: 'h', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      ],
      tool_choice: { type: 'custom', name: 'h' },
      parallel_tool_calls: false,
    })
    expect(
      write({ tools, toolChoice: { type: 'allowed', names: ['f', 'h'], required: true } }).body.tool_choice,
    ).toEqual({
      type: 'allowed_tools',
      mode: 'required',
      tools: [
        { type: 'function', name: 'f' },
        { type: 'custom', name: 'h' },
      ],
    })
  })

  test('refuses a tool of another protocol unless it is optional', () => {
    const native = (optional?: boolean) => ({
      tools: [
        {
          type: 'native' as const,
          protocol: 'messages' as const,
          kind: 'bash_20250124',
          value: {},
          ...(optional === undefined ? {} : { optional }),
        },
      ],
    })
    expect(() => write(native())).toThrow(GatewayError)
    expect(lossesOf(native(true))).toEqual(['tool_native messages'])
  })

  test('has a web search with its options', () => {
    expect(
      write({
        webSearch: { contextSize: 'high', userLocation: { type: 'approximate', approximate: { country: 'DE' } } },
      }).body.tools,
    ).toEqual([
      { type: 'web_search', search_context_size: 'high', user_location: { type: 'approximate', country: 'DE' } },
    ])
  })

  test('reports an output limit that is raised or lowered', () => {
    expect([write({ maxOutputTokens: 1 }).body.max_output_tokens, lossesOf({ maxOutputTokens: 1 })]).toEqual([
      16,
      ['value_adjusted max_tokens'],
    ])
    expect([
      write({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }).body.max_output_tokens,
      lossesOf({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }),
    ]).toEqual([50, ['value_adjusted max_tokens']])
    expect(lossesOf({ maxOutputTokens: 20 })).toEqual([])
  })

  test('reports settings that the protocol or the provider does not have', () => {
    expect(
      lossesOf({
        sampling: { topK: 1, seed: 0, stop: ['x'], frequencyPenalty: 1, presencePenalty: 1, logitBias: { 1: 2 } },
        outputModalities: ['image'],
        serviceTier: 'standard_only',
        metadata: { a: 1 },
        protocol: 'chat.completions',
      }).sort(),
    ).toEqual([
      'stop_applied_here stop',
      'unsupported_by_provider metadata',
      'unsupported_by_provider service_tier',
      'unsupported_field frequency_penalty',
      'unsupported_field logit_bias',
      'unsupported_field modalities',
      'unsupported_field presence_penalty',
      'unsupported_field seed',
      'unsupported_field top_k',
    ])
    expect(lossesOf({ sampling: { frequencyPenalty: 0, presencePenalty: 0, logitBias: {} } })).toEqual([])
    expect(write({ sampling: { temperature: 0, topP: 0 } }).body).toMatchObject({ temperature: 0, top_p: 0 })
    expect(lossesOf({ sampling: { temperature: 0, topP: 0 } }, { sampling: false })).toEqual([
      'unsupported_by_model temperature',
      'unsupported_by_model top_p',
    ])
  })

  test.each([
    [{ budgetTokens: 0 }, 'none'],
    [{ budgetTokens: 1_024 }, 'minimal'],
    [{ budgetTokens: 1_025 }, 'low'],
    [{ budgetTokens: 4_096 }, 'low'],
    [{ budgetTokens: 16_384 }, 'medium'],
    [{ budgetTokens: 16_385 }, 'high'],
    [{ budgetTokens: 100_000 }, 'xhigh'],
    [{ effort: 'max' as const, budgetTokens: 1 }, 'max'],
    [{ budgetTokens: -1 }, undefined],
    [{ adaptive: true }, undefined],
  ])('sends reasoning %j as effort %j', (reasoning, effort) => {
    expect((write({ reasoning }).body.reasoning as Any | undefined)?.effort).toBe(effort as never)
  })

  test('reports a budget that is sent as an effort, or left out beside an effort', () => {
    expect(lossesOf({ reasoning: { budgetTokens: 2_048 } })).toEqual(['budget_as_effort thinking.budget_tokens'])
    expect(lossesOf({ reasoning: { effort: 'low', budgetTokens: 2_048 } })).toEqual([
      'unsupported_combination thinking.budget_tokens',
    ])
    expect(lossesOf({ reasoning: { budgetTokens: 0 } })).toEqual([])
    expect(lossesOf({ reasoning: { adaptive: true } })).toEqual(['reasoning_adjusted thinking'])
    expect(lossesOf({ reasoning: { effort: 'low' } }, { reasoning: 'none' })).toEqual([
      'reasoning_unsupported thinking',
    ])
  })

  test('includes encrypted reasoning whenever the model may reason', () => {
    const includes = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) =>
      (write(more, capabilities).body.include as string[] | undefined)?.includes('reasoning.encrypted_content') ?? false
    expect([
      includes({}),
      includes({ reasoning: { effort: 'low' } }),
      includes({ reasoning: { effort: 'none' } }),
      includes({}, { reasoning: 'effort' }),
      includes({ reasoning: { effort: 'low' } }, { reasoning: 'none' }),
    ]).toEqual([false, true, false, true, false])
    expect(write({ reasoning: { effort: 'low', visible: true } }).body.reasoning).toEqual({
      effort: 'low',
      summary: 'auto',
    })
  })

  test('has the output format, and mentions JSON where no message does', () => {
    expect(write({ outputFormat: { type: 'schema', schema: { type: 'object' } }, verbosity: 'low' }).body.text).toEqual(
      { format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } }, verbosity: 'low' },
    )
    expect(write({ outputFormat: { type: 'json' } }).body).toMatchObject({
      instructions: 'Answer with a JSON object.',
      text: { format: { type: 'json_object' } },
    })
    const [first, second] = write({ system: [text('A')], outputFormat: { type: 'json' } }).body.input as Any[]
    expect([first, second]).toMatchObject([
      { role: 'system', content: [{ text: 'A' }, { text: 'Answer with a JSON object.' }] },
      { role: 'user' },
    ])
    expect(write({ system: [text('As JSON.')], outputFormat: { type: 'json' } }).body.instructions).toBe('As JSON.')
    expect(() => write({ outputFormat: { type: 'enum', schema: {} } })).toThrow('text/x.enum')
  })
})

describe('the input of a request', () => {
  test('pairs calls and results, with long ids hashed alike in both', () => {
    const long = 'x'.repeat(65)
    const [, first, second, third, fourth] = input([
      say('user', text('go')),
      say('assistant', call(long), call('c2', 'custom', 'free')),
      say('tool', result(long, text('r')), result('c2', text('a'), text('b'))),
    ])
    expect(first).toEqual({ type: 'function_call', call_id: first!.call_id, name: 'f', arguments: '{}' })
    expect(first!.call_id).toMatch(/^call_[0-9a-f]{40}$/)
    expect(third).toEqual({ type: 'function_call_output', call_id: first!.call_id, output: 'r' })
    expect(second).toEqual({ type: 'custom_tool_call', call_id: 'c2', name: 'f', input: 'free' })
    expect(fourth).toEqual({
      type: 'custom_tool_call_output',
      call_id: 'c2',
      output: [
        { type: 'input_text', text: 'a' },
        { type: 'input_text', text: 'b' },
      ],
    })
  })

  test('adds a missing result and sends a result without a call as text, and reports both', () => {
    const turns = [say('assistant', call('c1')), say('user', text('well?')), say('tool', result('c9', text('late')))]
    expect(input(turns).map((item) => [item.type, item.role ?? item.call_id])).toEqual([
      ['function_call', 'c1'],
      ['function_call_output', 'c1'],
      ['message', 'user'],
      ['message', 'user'],
    ])
    expect(lossesOf({ turns })).toEqual(['result_added messages', 'content_as_text messages'])
  })

  test('sends reasoning to its issuer only, and only before the content it led to', () => {
    const reasoning = (issuer?: { provider: string; model: string }): Part => ({
      type: 'reasoning',
      text: 't',
      form: 'summary',
      signature: { data: 's', ...(issuer === undefined ? {} : { issuer }) },
    })
    const own = { provider: 'p', model: 'upstream' }
    expect(input([say('assistant', reasoning(own), text('x'))])).toEqual([
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 't' }], encrypted_content: 's' },
      { type: 'message', role: 'assistant', content: 'x' },
    ])
    for (const turn of [
      say('assistant', reasoning({ provider: 'q', model: 'upstream' }), text('x')),
      say('assistant', reasoning(), text('x')),
      say('assistant', text('x'), reasoning(own)),
    ]) {
      expect(input([turn]).map(({ type }) => type)).toEqual(['message'])
      expect(lossesOf({ turns: [turn, say('user', text('y'))] })).toEqual(['reasoning_dropped messages'])
    }
  })

  test('has an earlier response of one text as a string, and one of several parts as parts', () => {
    expect(
      input([
        say('assistant', text('a'), { type: 'refusal', text: 'b' }),
        say('user', text('c')),
        say('assistant', text('d')),
      ]),
    ).toEqual([
      {
        type: 'message',
        role: 'assistant',
        content: [
          { type: 'output_text', text: 'a' },
          { type: 'refusal', refusal: 'b' },
        ],
      },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'c' }] },
      { type: 'message', role: 'assistant', content: 'd' },
    ])
  })

  test('has images and files, and refuses video', () => {
    const data = { type: 'data' as const, mediaType: 'application/pdf', data: 'aGk=' }
    const [message] = input([
      say(
        'user',
        { type: 'image', source: { type: 'url', url: 'https://x.y' }, detail: 'low' },
        { type: 'file', source: data },
        { type: 'file', filename: 'n.pdf', source: data },
        { type: 'file', source: { type: 'text', text: 'plain', mediaType: 'text/plain' } },
      ),
    ])
    expect(message!.content).toEqual([
      { type: 'input_image', detail: 'low', image_url: 'https://x.y' },
      { type: 'input_file', filename: 'file.pdf', file_data: 'data:application/pdf;base64,aGk=' },
      { type: 'input_file', filename: 'n.pdf', file_data: 'data:application/pdf;base64,aGk=' },
      { type: 'input_text', text: 'plain' },
    ])
    expect(() => input([say('user', { type: 'video', source: data })])).toThrow(GatewayError)
  })

  test('keeps an image in its tool result', () => {
    const turns = [
      say('assistant', call('c1')),
      say('tool', result('c1', { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'aGk=' } })),
    ]
    expect(input(turns)[1]!.output).toEqual([{ type: 'input_image', image_url: 'data:image/png;base64,aGk=' }])
  })

  test('keeps a system turn at its position, and omits empty texts of the assistant', () => {
    expect(
      input([say('user', text('a')), say('system', text('b')), say('assistant', text(''))]).map(({ role }) => role),
    ).toEqual(['user', 'system'])
  })

  test('begins the result of a failed tool with an error text', () => {
    const failed = (...content: Any[]): Turn[] => [
      say('assistant', call('c1')),
      say('tool', { ...result('c1', ...content), isError: true } as Part),
    ]
    expect(input(failed({ type: 'text', text: 'no such file' })).at(-1)!.output).toBe('Error: no such file')
    expect(input(failed()).at(-1)!.output).toBe('Error:')
    expect(
      input(failed({ type: 'text', text: 'a' }, { type: 'text', text: 'b' }))
        .at(-1)!
        .output.map((part: Any) => part.text),
    ).toEqual(['Error:', 'a', 'b'])
    expect(lossesOf({ turns: failed({ type: 'text', text: 'x' }) })).toEqual(['content_as_text messages'])
  })

  test('changes names that the provider refuses alike in tools, choice and calls, and restores them', () => {
    const long = 'find.'.repeat(20)
    const { body, losses, transforms } = write({
      tools: [
        { type: 'function', name: long, path: 'tools[0]' },
        { type: 'custom', name: 'a b', path: 'tools[1]' },
      ],
      toolChoice: { type: 'tool', name: long },
      turns: [
        say('assistant', { ...call('c1'), name: long } as Part),
        say('tool', result('c1', { type: 'text', text: 'x' })),
      ],
    }) as { body: Any } & ReturnType<typeof write>
    const [sent, custom] = body.tools.map((tool: Any) => tool.name as string)
    expect([sent, custom].every((name) => /^[\w-]{1,64}$/.test(name))).toBe(true)
    expect([body.tool_choice.name, body.input[0].name]).toEqual([sent, sent])
    expect(losses.map(({ code, path }) => `${code} ${path}`)).toEqual([
      'tool_renamed tools[0]',
      'tool_renamed tools[1]',
    ])
    const response = {
      id: 'up',
      status: 'completed',
      output: [
        { type: 'function_call', call_id: 'c2', name: sent, arguments: '{}' },
        { type: 'custom_tool_call', call_id: 'c3', name: custom, input: 'x' },
      ],
    }
    for (const events of [
      eventsOf('responses', response, { transforms }),
      streamedEventsOf('responses', [{ data: JSON.stringify({ type: 'response.completed', response }) }], {
        transforms,
      }),
    ])
      expect(
        events.flatMap((event) =>
          event.type === 'part-start' && event.head.type === 'tool-call' ? [event.head.name] : [],
        ),
      ).toEqual([long, 'a b'])
  })

  test('reports that a response the client began is not continued', () => {
    expect(lossesOf({ turns: [say('user', text('a')), say('assistant', text('Once upon'))] })).toEqual([
      'prefill_unsupported messages',
    ])
  })

  test('leaves out native content of another protocol and reports it', () => {
    const turns = [
      say('assistant', { type: 'native', protocol: 'messages', kind: 'server_tool_use', value: {} }, text('x')),
      say('user', text('y')),
    ]
    expect([input(turns).length, lossesOf({ turns })]).toEqual([2, ['content_native messages']])
  })
})

describe('losses of a request', () => {
  const lost = (body: object, capabilities: Capabilities = {}) => {
    const { body: sent } = rawRequestOf({ model: 'a/b', ...body })
    const { losses } = written('responses', readWithPaths(body), { ...target, capabilities }, sent)
    return losses.map(({ code, path }) => `${code} ${path}`)
  }
  const called = (call_id: string) => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })

  test('name the element of the client, each with its index', () => {
    const marked = { type: 'input_text', text: 'go', prompt_cache_breakpoint: {} }
    const cited = { type: 'output_text', text: 'x', annotations: [{ type: 'file_citation', file_id: 'f' }] }
    expect(
      lost({
        tools: [
          { type: 'function', name: 'f' },
          { type: 'function', name: 'a.b' },
        ],
        input: [
          { role: 'user', content: [{ type: 'input_text', text: 'now' }, marked] },
          { type: 'reasoning', summary: [{ type: 'summary_text', text: 't' }], encrypted_content: 's' },
          { role: 'assistant', content: [cited] },
          called('c1'),
          called('c2'),
          { type: 'function_call_output', call_id: 'c1', output: 'r' },
          { type: 'function_call_output', call_id: 'c9', output: 'late' },
        ],
      }).sort(),
    ).toEqual([
      'cache_breakpoint_dropped input[0].content[1].prompt_cache_breakpoint',
      'citations_dropped input[2].content[0].annotations',
      'content_as_text input[6]',
      'reasoning_dropped input[1]',
      'result_added input[4]',
      'tool_renamed tools[1].name',
    ])
  })

  test('name each instruction that is sent as text of the user', () => {
    const input = [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'developer', content: [{ type: 'input_text', text: 'c' }] },
    ]
    expect(lost({ instructions: 'i', input }, { system: false })).toEqual([
      'instructions_moved instructions',
      'instructions_moved input[0].content',
      'instructions_moved input[2].content[0]',
    ])
  })

  test('name the turn that the model does not continue', () => {
    const input = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: 'Once' },
    ]
    expect(lost({ input })).toEqual(['prefill_unsupported input[1]'])
  })

  test('name the error flag of a tool result', () => {
    const turns = [
      say('assistant', call('c1')),
      say('tool', { ...result('c1', text('x')), isError: true, path: 'messages[1].content[0]' } as Part),
    ]
    const body = { messages: [{}, { content: [{ is_error: true }] }] }
    const { losses } = written('responses', request({ turns }), target, body)
    expect(losses).toEqual([
      {
        code: 'content_as_text',
        effect: 'approximated',
        path: 'messages[1].content[0].is_error',
        reason: "the provider has no error flag: the result begins with 'Error:'",
      },
    ])
  })

  test('are refusals with the same path where nothing can be sent', () => {
    const content = [
      { type: 'video', source: { type: 'data', mediaType: 'video/mp4', data: 'aGk=' }, path: 'x[1].y[2]' },
    ]
    expect(() => write({ turns: [{ role: 'user', parts: content as Part[] }] })).toThrow('x[1].y[2]: video input')
  })
})

test('a request that is written and read again is the same', () => {
  const word = fc.string({ minLength: 1, maxLength: 8 })
  const texts = word.map((text): Part => ({ type: 'text', text }))
  const image = fc
    .base64String({ minLength: 4 })
    .map((data): Part => ({ type: 'image', source: { type: 'data', mediaType: 'image/png', data } }))
  const round = fc.tuple(
    fc.array(fc.oneof(texts, image), { minLength: 1, maxLength: 3 }),
    fc.array(texts, { maxLength: 2 }),
    fc.array(
      fc.tuple(
        fc.uuid(),
        fc.stringMatching(/^[\w-]{1,8}$/),
        fc.constantFrom('function', 'custom') as fc.Arbitrary<'function' | 'custom'>,
        texts,
      ),
      { maxLength: 2 },
    ),
  )
  const turns = fc
    .array(round, { maxLength: 4 })
    .map((rounds): Turn[] =>
      rounds.flatMap(([asked, said, calls]): Turn[] => [
        { role: 'user', parts: asked },
        ...(said.length + calls.length === 0
          ? []
          : [
              {
                role: 'assistant' as const,
                parts: [
                  ...said,
                  ...calls.map(
                    ([id, name, form]): Part => ({ type: 'tool-call', id, name, form, arguments: '{"a":1}' }),
                  ),
                ],
              },
            ]),
        ...(calls.length === 0
          ? []
          : [
              {
                role: 'tool' as const,
                parts: calls.map(
                  ([callId, name, form, content]): Part => ({
                    type: 'tool-result',
                    callId,
                    name,
                    form,
                    content: [content as never],
                  }),
                ),
              },
            ]),
      ]),
    )
    .map((rounds) =>
      rounds.at(-1)?.role === 'assistant' ? [...rounds, { role: 'user' as const, parts: [text('go on')] }] : rounds,
    )
  const toolName = fc.stringMatching(/^[\w-]{1,64}$/)
  const made = fc.record({
    system: fc.array(texts, { maxLength: 2 }),
    turns,
    tools: fc.array(
      fc.oneof(
        toolName.map((name) => ({
          type: 'function' as const,
          name,
          parameters: { type: 'object', properties: {} },
          strict: false,
        })),
        toolName.map((name) => ({ type: 'custom' as const, name })),
      ),
      { maxLength: 3 },
    ),
    sampling: fc.record(
      { temperature: fc.double({ min: 0, max: 2, noNaN: true }).map((n) => n + 0), topP: fc.constant(0.5) },
      { requiredKeys: [] },
    ),
    maxOutputTokens: fc.integer({ min: 16, max: 1e6 }),
    verbosity: fc.constantFrom('low' as const, 'high' as const),
    stream: fc.boolean(),
    user: word,
    metadata: fc
      .dictionary(
        word.filter((name) => name !== '__proto__'),
        word,
      )
      .map((map) => ({ ...map })),
    reasoning: fc.record({ effort: fc.constantFrom('none' as const, 'low' as const, 'max' as const) }),
  })
  fc.assert(
    fc.property(made, (parts) => {
      const before = request({ ...parts, protocol: 'responses', model: 'upstream' })
      const { body, losses } = written('responses', before, target)
      expect(losses).toEqual([])
      expect(JSON.parse(JSON.stringify(withoutPaths(responses.serve.readRequest(rawRequestOf(body)))))).toEqual(
        JSON.parse(JSON.stringify(before)),
      )
    }),
    { numRuns: 300 },
  )
}, 60_000)

describe('a forwarded body', () => {
  const forward = (body: object, capabilities: Capabilities = {}) =>
    JSON.parse(responses.call.forward(contextOf(body), { ...target, capabilities }, new LossReport()))

  test('differs in the members that have to change and in no other byte', () => {
    const text =
      '{ "model":"a/b" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":true, "previous_response_id":"resp_0","temperature":1.0}'
    const rawRequest = { text, body: JSON.parse(text), headers: new Headers() }
    expect(responses.call.forward({ ...contextOf(), rawRequest }, target, new LossReport())).toBe(
      '{ "model":"upstream" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":false,"temperature":1.0}',
    )
  })

  test('lets the provider store a response in the background, which it requires', () => {
    expect(forward({ background: true }).store).toBeUndefined()
    expect(forward({}).store).toBe(false)
  })

  test('includes encrypted reasoning where a later turn may need it', () => {
    expect(forward({ reasoning: { effort: 'low' }, include: ['x'] }).include).toEqual([
      'x',
      'reasoning.encrypted_content',
    ])
    expect(forward({}, { reasoning: 'effort' }).include).toEqual(['reasoning.encrypted_content'])
    for (const body of [{}, { reasoning: { effort: 'none' } }, { reasoning: { effort: 'low' }, store: false }])
      expect(forward(body).include).toBeUndefined()
  })

  test('leaves out reasoning that the provider would refuse', () => {
    const item = (more: object) => ({ type: 'reasoning', summary: [], ...more })
    const own = item({ encrypted_content: 'gAAA' }),
      raw = item({ content: [{ type: 'reasoning_text', text: 't' }] })
    const unusable = [
      item({ id: 'rs_1' }),
      item({ encrypted_content: wrapSignature('s', { provider: 'q', model: 'm' }) }),
      item({ encrypted_content: 'part\0c1\0s' }),
    ]
    expect(forward({ input: [own, ...unusable, raw] }).input).toEqual([own, raw])
    expect(
      forward({ input: [item({ encrypted_content: wrapSignature('s', { provider: 'p', model: 'upstream' }) })] }).input,
    ).toEqual([item({ encrypted_content: 's' })])
  })

  test('is the body of the client for any request', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc
            .oneof(fc.constantFrom('store', 'include', 'a'), fc.string())
            .filter((name) => !['model', 'input', '__proto__', 'background', 'previous_response_id'].includes(name)),
          fc.jsonValue(),
          { maxKeys: 5 },
        ),
        (body) => {
          const rawRequest = rawRequestOf({ ...body, model: 'a/b' })
          const { store, ...sent } = JSON.parse(
            responses.call.forward({ ...contextOf(), rawRequest }, target, new LossReport()),
          )
          const { store: _asked, ...rest } = rawRequest.body
          expect(store).toBe(false)
          if (!('reasoning' in body)) expect(sent).toEqual({ ...rest, model: 'upstream' })
        },
      ),
      { numRuns: 300 },
    )
  }, 60_000)
})

test.each([
  [
    400,
    '{"error":{"message":"too long","code":"context_length_exceeded","param":"input"}}',
    'context_length_exceeded',
    400,
  ],
  [401, '{"error":{"message":"bad sk-abcdefghijk"}}', 'upstream_error', 502],
  [422, '{"error":{"message":"x"}}', 'invalid_request', 400],
  [429, '', 'upstream_rate_limited', 429],
  [500, '<html>oops</html>', 'upstream_error', 502],
  [503, 'null', 'overloaded', 503],
  [400, '{"code":"c","error":"bare"}', 'invalid_request', 400],
  [400, '[]', 'invalid_request', 400],
])('maps the error %i %s', (status, body, code, ours) => {
  const error = responses.call.readError(status, body)
  expect([error.code, error.status]).toEqual([code as never, ours])
  expect(error.message + JSON.stringify(error.metadata)).not.toContain('sk-abc')
})
