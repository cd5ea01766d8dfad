import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { exchangeOf, read, target, wireOf, type Any } from './wires.ts'

/** Requests to providers of responses. */

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
  responses.call.writeRequest(request(more), { ...target, capabilities })
const input = (turns: Turn[]) => write({ turns }).body.input as Any[]
const lost = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) => [
  ...new Set(
    write(more, capabilities).losses.map(
      ({ field, of, what }) => `${field} ${of === undefined ? '' : `${of} `}${what}`,
    ),
  ),
]
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

describe('the body', () => {
  test('stores nothing with the provider', () => {
    expect(write()).toEqual({
      body: {
        model: 'upstream',
        input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
        store: false,
      },
      losses: [],
    })
  })

  test('one plain system text is the instructions, more are a message', () => {
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

  test('tools say that they are not strict', () => {
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

  test('a tool of another protocol is refused unless the model can do without it', () => {
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
    expect(lost(native(true))).toEqual(['tool bash_20250124 left out'])
  })

  test('a search', () => {
    expect(
      write({
        webSearch: { contextSize: 'high', userLocation: { type: 'approximate', approximate: { country: 'DE' } } },
      }).body.tools,
    ).toEqual([
      { type: 'web_search', search_context_size: 'high', user_location: { type: 'approximate', country: 'DE' } },
    ])
  })

  test('limits are raised and lowered aloud', () => {
    expect([write({ maxOutputTokens: 1 }).body.max_output_tokens, lost({ maxOutputTokens: 1 })]).toEqual([
      16,
      ['maxOutputTokens approximated'],
    ])
    expect([
      write({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }).body.max_output_tokens,
      lost({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }),
    ]).toEqual([50, ['maxOutputTokens approximated']])
    expect(lost({ maxOutputTokens: 20 })).toEqual([])
  })

  test('what the protocol has no field for is reported', () => {
    expect(
      lost({
        sampling: { topK: 1, seed: 0, stop: ['x'], frequencyPenalty: 1, presencePenalty: 1, logitBias: { 1: 2 } },
        outputModalities: ['image'],
        serviceTier: 'standard_only',
        metadata: { a: 1 },
      }).sort(),
    ).toEqual([
      'frequencyPenalty left out',
      'logitBias left out',
      'metadata left out',
      'outputModalities left out',
      'presencePenalty left out',
      'seed left out',
      'serviceTier left out',
      'stop approximated',
      'topK left out',
    ])
    expect(lost({ sampling: { frequencyPenalty: 0, presencePenalty: 0, logitBias: {} } })).toEqual([])
    expect(write({ sampling: { temperature: 0, topP: 0 } }).body).toMatchObject({ temperature: 0, top_p: 0 })
    expect(lost({ sampling: { temperature: 0, topP: 0 } }, { sampling: false })).toEqual([
      'temperature left out',
      'topP left out',
    ])
  })

  test.each([
    [{ budgetTokens: 0 }, 'none'],
    [{ budgetTokens: 1024 }, 'low'],
    [{ budgetTokens: 8192 }, 'medium'],
    [{ budgetTokens: 8193 }, 'high'],
    [{ effort: 'max' as const, budgetTokens: 1 }, 'max'],
    [{ budgetTokens: -1 }, undefined],
    [{ adaptive: true }, undefined],
  ])('reasoning %p is effort %p', (reasoning, effort) => {
    expect((write({ reasoning }).body.reasoning as Any | undefined)?.effort).toBe(effort as never)
  })

  test('thoughts come back sealed whenever the model may think', () => {
    const seals = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) =>
      (write(more, capabilities).body.include as string[] | undefined)?.includes('reasoning.encrypted_content') ?? false
    expect([
      seals({}),
      seals({ reasoning: { effort: 'low' } }),
      seals({ reasoning: { effort: 'none' } }),
      seals({}, { reasoning: 'effort' }),
      seals({ reasoning: { effort: 'low' } }, { reasoning: 'none' }),
    ]).toEqual([false, true, false, true, false])
    expect(write({ reasoning: { effort: 'low', visible: true } }).body.reasoning).toEqual({
      effort: 'low',
      summary: 'auto',
    })
  })

  test('formats', () => {
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

describe('the conversation', () => {
  test('calls and results keep their pairs, long ids alike on both sides', () => {
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

  test('a call without a result and a result without a call are mended aloud', () => {
    const turns = [say('assistant', call('c1')), say('user', text('well?')), say('tool', result('c9', text('late')))]
    expect(input(turns).map((item) => [item.type, item.role ?? item.call_id])).toEqual([
      ['function_call', 'c1'],
      ['function_call_output', 'c1'],
      ['message', 'user'],
      ['message', 'user'],
    ])
    expect(lost({ turns })).toEqual(['call c1 approximated', 'result c9 approximated'])
  })

  test('reasoning goes back to its maker only, and only before what it led to', () => {
    const thought = (issuer?: { provider: string; model: string }): Part => ({
      type: 'reasoning',
      text: 't',
      form: 'summary',
      signature: { data: 's', ...(issuer === undefined ? {} : { issuer }) },
    })
    const own = { provider: 'p', model: 'upstream' }
    expect(input([say('assistant', thought(own), text('x'))])).toEqual([
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 't' }], encrypted_content: 's' },
      { type: 'message', role: 'assistant', content: 'x' },
    ])
    for (const turn of [
      say('assistant', thought({ provider: 'q', model: 'upstream' }), text('x')),
      say('assistant', thought(), text('x')),
      say('assistant', text('x'), thought(own)),
    ]) {
      expect(input([turn]).map(({ type }) => type)).toEqual(['message'])
      expect(lost({ turns: [turn, say('user', text('y'))] })).toEqual(['thoughts left out'])
    }
  })

  test('an earlier answer is a string, one of several parts is not', () => {
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

  test('media', () => {
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

  test('an image in a tool result stays in it', () => {
    const turns = [
      say('assistant', call('c1')),
      say('tool', result('c1', { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'aGk=' } })),
    ]
    expect(input(turns)[1]!.output).toEqual([{ type: 'input_image', image_url: 'data:image/png;base64,aGk=' }])
  })

  test('a system turn in the middle stays there; empty texts of the assistant go', () => {
    expect(
      input([say('user', text('a')), say('system', text('b')), say('assistant', text(''))]).map(({ role }) => role),
    ).toEqual(['user', 'system'])
  })

  test('a failed tool is told in words', () => {
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
    expect(lost({ turns: failed({ type: 'text', text: 'x' }) })).toEqual(['result.isError c1 approximated'])
  })

  test('names outside the grammar are rewritten alike in tools, choice and calls, and come back', () => {
    const long = 'find.'.repeat(20)
    const asked = request({
      tools: [
        { type: 'function', name: long },
        { type: 'custom', name: 'a b' },
      ],
      toolChoice: { type: 'tool', name: long },
      turns: [
        say('assistant', { ...call('c1'), name: long } as Part),
        say('tool', result('c1', { type: 'text', text: 'x' })),
      ],
    })
    const { body, losses } = responses.call.writeRequest(asked, target) as { body: Any; losses: Any[] }
    const [rawRequest, custom] = body.tools.map((tool: Any) => tool.name as string)
    expect([rawRequest, custom].every((name) => /^[\w-]{1,64}$/.test(name))).toBe(true)
    expect([body.tool_choice.name, body.input[0].name]).toEqual([rawRequest, rawRequest])
    expect(losses.map(({ field, of }) => [field, of])).toEqual([
      ['tool', long],
      ['tool', 'a b'],
    ])
    const heard = {
      id: 'up',
      status: 'completed',
      output: [
        { type: 'function_call', call_id: 'c2', name: rawRequest, arguments: '{}' },
        { type: 'custom_tool_call', call_id: 'c3', name: custom, input: 'x' },
      ],
    }
    const reader = responses.call.reader({}, asked)
    for (const events of [
      responses.call.readAnswer(heard, {}, asked),
      reader.read({ data: JSON.stringify({ type: 'response.completed', response: heard }) }),
    ]) {
      expect(
        events.flatMap((event) =>
          event.type === 'part-start' && event.head.type === 'tool-call' ? [event.head.name] : [],
        ),
      ).toEqual([long, 'a b'])
    }
  })

  test('an answer that the client began is told to begin anew', () => {
    expect(lost({ turns: [say('user', text('a')), say('assistant', text('Once upon'))] })).toEqual([
      'conversation approximated',
    ])
  })

  test('what is foreign is left out and reported', () => {
    const turns = [
      say('assistant', { type: 'native', protocol: 'messages', kind: 'server_tool_use', value: {} }, text('x')),
      say('user', text('y')),
    ]
    expect([input(turns).length, lost({ turns })]).toEqual([2, ['part server_tool_use left out']])
  })
})

test('what is written is read again', () => {
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
      const { body, losses } = responses.call.writeRequest(before, target)
      expect(losses).toEqual([])
      expect(JSON.parse(JSON.stringify(responses.serve.readRequest(wireOf(body))))).toEqual(
        JSON.parse(JSON.stringify(before)),
      )
    }),
    { numRuns: 300 },
  )
}, 60_000)

describe('forwarding', () => {
  const forward = (body: object, capabilities: Capabilities = {}) =>
    JSON.parse(responses.call.forward(exchangeOf(body), { ...target, capabilities }))

  test('changes what has to change and no other byte', () => {
    const text =
      '{ "model":"a/b" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":true, "previous_response_id":"resp_0","temperature":1.0}'
    const rawRequest = { text, body: JSON.parse(text), headers: new Headers() }
    expect(responses.call.forward({ ...exchangeOf(), rawRequest }, target)).toBe(
      '{ "model":"upstream" ,"input":"hi","metadata":{"n":"1"},\n "big": 12345678901234567890, "store":false,"temperature":1.0}',
    )
  })

  test('a response in the background is stored by the provider, which needs that', () => {
    expect(forward({ background: true }).store).toBeUndefined()
    expect(forward({}).store).toBe(false)
  })

  test('thoughts come back sealed where a later turn may need them', () => {
    expect(forward({ reasoning: { effort: 'low' }, include: ['x'] }).include).toEqual([
      'x',
      'reasoning.encrypted_content',
    ])
    expect(forward({}, { reasoning: 'effort' }).include).toEqual(['reasoning.encrypted_content'])
    for (const body of [{}, { reasoning: { effort: 'none' } }, { reasoning: { effort: 'low' }, store: false }])
      expect(forward(body).include).toBeUndefined()
  })

  test('reasoning that the provider would refuse stays behind', () => {
    const item = (more: object) => ({ type: 'reasoning', summary: [], ...more })
    const own = item({ encrypted_content: 'gAAA' }),
      raw = item({ content: [{ type: 'reasoning_text', text: 't' }] })
    const strangers = [
      item({ id: 'rs_1' }),
      item({ encrypted_content: wrapSignature('s', { provider: 'q', model: 'm' }) }),
      item({ encrypted_content: 'part\0c1\0s' }),
    ]
    expect(forward({ input: [own, ...strangers, raw] }).input).toEqual([own, raw])
    expect(
      forward({ input: [item({ encrypted_content: wrapSignature('s', { provider: 'p', model: 'upstream' }) })] }).input,
    ).toEqual([item({ encrypted_content: 's' })])
  })

  test('any request is forwarded as it is', () => {
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
          const rawRequest = wireOf({ ...body, model: 'a/b' })
          const { store, ...sent } = JSON.parse(responses.call.forward({ ...exchangeOf(), rawRequest }, target))
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
])('error %i %s', (status, body, code, ours) => {
  const error = responses.call.readError(status, body)
  expect([error.code, error.status]).toEqual([code as never, ours])
  expect(error.message + JSON.stringify(error.metadata)).not.toContain('sk-abc')
})
