import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { eventsOf, streamedEventsOf, written } from '../../translating.ts'
import type { Part, Turn } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { rawRequestOf, readWithPaths, target, type Any } from './fixtures.ts'
import { call, input, lossesOf, request, result, say, text, write } from './requests.ts'

/** Conversations in requests to providers of the Responses API, and the losses of a request. */

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

  test.each([
    [undefined, ['Result of the tool call c9:', 'late']],
    [true, ['Result of the tool call c9:', 'Error:', 'late']],
  ])('sends a result without a call with its error (isError: %p)', (isError, texts) => {
    const late = { ...result('c9', text('late')), isError } as Part
    const [, item] = input([say('user', text('go')), say('tool', late)])
    expect((item!.content as Any[]).map((part) => part.text)).toEqual(texts)
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

  test.each(['assistant', 'user'] as const)(
    'has native content of its own protocol alone in a turn of the %s, and reports other',
    (role) => {
      const native = (protocol: 'messages' | 'responses'): Part => ({
        type: 'native',
        protocol,
        kind: 'k',
        value: { type: 'k' },
      })
      const turns = [say(role, native('messages'), native('responses'), text('x')), say('user', text('y'))]
      expect(input(turns).map(({ type }) => type)).toEqual(['k', 'message', 'message'])
      expect(lossesOf({ turns })).toEqual(['content_native messages'])
    },
  )
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
