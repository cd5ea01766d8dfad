import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { framed } from '../gateway/scripted.ts'
import { type Written, written } from '../translating.ts'
import { codesAndPaths, contextOf, type Json, NAMES } from './routes.ts'

/** Tool calls and results in disorder, as agents send them, and what every provider receives. */

const bodyOf: Record<ConversationName, (turns: Json[]) => Json> = {
  'chat.completions': (messages) => ({ model: 'a/b', messages }),
  responses: (input) => ({ model: 'a/b', input }),
  messages: (messages) => ({ model: 'a/b', max_tokens: 9, messages }),
  generateContent: (contents) => ({ contents }),
}

function write(client: ConversationName, turns: Json[], provider: ConversationName): Written {
  const { request, rawRequest } = contextOf(client, bodyOf[client](turns))
  return written(provider, request, { provider: 'p', model: 'm', quirks: {}, capabilities: {} }, rawRequest.body)
}

const textOf = (content: unknown): string =>
  typeof content === 'string' ? content : ((content as Json[]) ?? []).map((part) => part.text ?? '').join('|')

/** A provider's body, one line for each text, call and result, in order; `!` marks an error. */
const lines: Record<ConversationName, (body: Json) => string[]> = {
  'chat.completions': ({ messages }) =>
    (messages as Json[]).flatMap(({ role, content, tool_calls, tool_call_id }) =>
      role === 'tool'
        ? [`${tool_call_id} returned ${withErrorMark(textOf(content))}`]
        : [
            ...(textOf(content) === '' ? [] : [textOf(content)]),
            ...(tool_calls ?? []).map(({ id }: Json) => `call ${id}`),
          ],
    ),
  responses: ({ input }) =>
    (input as Json[]).map(({ type, call_id, content, output }) =>
      type === 'function_call'
        ? `call ${call_id}`
        : type === 'function_call_output'
          ? `${call_id} returned ${withErrorMark(textOf(output))}`
          : textOf(content),
    ),
  messages: ({ messages }) =>
    (messages as Json[])
      .flatMap(({ content }) => content as Json[])
      .map((block) =>
        block.type === 'tool_use'
          ? `call ${block.id}`
          : block.type === 'tool_result'
            ? `${block.tool_use_id} returned ${block.is_error === true ? '!' : ''}${textOf(block.content)}`
            : block.text,
      ),
  generateContent: ({ contents }) =>
    (contents as Json[])
      .flatMap(({ parts }) => parts as Json[])
      .map(({ functionCall: call, functionResponse: result, text }) =>
        call !== undefined
          ? `call ${call.id}`
          : result !== undefined
            ? `${result.id} returned ${result.response.output ?? `!${result.response.error}`}`
            : text,
      ),
}

/** OpenAI's protocols mark an error only by its text. */
const withErrorMark = (text: string): string => text.replace(/^Error:[ |]*/, '!')

const user = (content: unknown): Json => ({ role: 'user', content })

/** Turns, or parts of them, in each protocol. */
const chat = {
  calls: (...ids: string[]): Json => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'find', arguments: '{}' } })),
  }),
  result: (id: string, content: string): Json => ({ role: 'tool', tool_call_id: id, content }),
}
const item = {
  call: (call_id: string, args = '{}'): Json => ({ type: 'function_call', call_id, name: 'find', arguments: args }),
  result: (call_id: string, output: string): Json => ({ type: 'function_call_output', call_id, output }),
}
const block = {
  text: (text: string): Json => ({ type: 'text', text }),
  calls: (...ids: string[]): Json => ({
    role: 'assistant',
    content: ids.map((id) => ({ type: 'tool_use', id, name: 'find', input: {} })),
  }),
  result: (tool_use_id: string, content: string): Json => ({ type: 'tool_result', tool_use_id, content }),
}
const part = {
  calls: (...ids: string[]): Json => ({
    role: 'model',
    parts: ids.map((id) => ({ functionCall: { id, name: 'find', args: {} } })),
  }),
  result: (id: string, output: string): Json => ({ functionResponse: { id, name: 'find', response: { output } } }),
}

const IN_PLACE = 'results in another order than their calls'
const DISORDER: [what: string, client: ConversationName, turns: Json[]][] = [
  [
    'text before the results',
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.text('wait'), block.result('a', 'one'), block.result('b', 'two')])],
  ],
  [
    'text between the results',
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.result('a', 'one'), block.text('wait'), block.result('b', 'two')])],
  ],
  [
    'two messages of results with text between them',
    'messages',
    [
      user('q'),
      block.calls('a', 'b'),
      user([block.result('a', 'one'), block.text('wait')]),
      user([block.result('b', 'two')]),
    ],
  ],
  [
    IN_PLACE,
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.result('b', 'two'), block.result('a', 'one'), block.text('wait')])],
  ],
  [
    'a message of the user between the results',
    'responses',
    [user('q'), item.call('a'), item.call('b'), item.result('a', 'one'), user('wait'), item.result('b', 'two')],
  ],
  [
    'an instruction between the results',
    'chat.completions',
    [
      user('q'),
      chat.calls('a', 'b'),
      chat.result('a', 'one'),
      { role: 'system', content: 'wait' },
      chat.result('b', 'two'),
    ],
  ],
  [
    'text before the results of generateContent',
    'generateContent',
    [
      { role: 'user', parts: [{ text: 'q' }] },
      part.calls('a', 'b'),
      { role: 'user', parts: [{ text: 'wait' }, part.result('a', 'one')] },
      { role: 'user', parts: [part.result('b', 'two')] },
    ],
  ],
]

/** Losses that have nothing to do with the order. */
const OTHER_CODES = new Set(['limit_required', 'value_adjusted', 'instructions_moved'])

describe.each(DISORDER)('%s', (what, client, turns) => {
  test.each(NAMES)('follow their calls for %s, and the text follows the results', (provider) => {
    const { body, losses } = write(client, turns, provider)
    const sent = lines[provider](body)
    expect(sent.slice(0, 3)).toEqual(['q', 'call a', 'call b'])
    expect(sent.slice(3, 5).sort()).toEqual(['a returned one', 'b returned two'])
    expect(sent.slice(5).join('')).toContain('wait')
    const codes = losses.map(({ code }) => code).filter((code) => !OTHER_CODES.has(code))
    expect([...new Set(codes)]).toEqual(what === IN_PLACE ? [] : ['turn_reordered'])
  })
})

describe.each(NAMES)('for a provider of %s', (provider) => {
  const linesOf = (client: ConversationName, turns: Json[]): string[] =>
    lines[provider](write(client, turns, provider).body)

  test('a call without a result gets an error as its result, which is reported', () => {
    const turns = [
      user('q'),
      block.calls('a', 'b'),
      user([block.result('b', 'two')]),
      { role: 'assistant', content: 'so' },
      user('go'),
    ]
    const { body, losses } = write('messages', turns, provider)
    const sent = lines[provider](body)
    expect(sent.slice(0, 3)).toEqual(['q', 'call a', 'call b'])
    expect(sent.slice(3, 5).sort()).toEqual([expect.stringMatching(/^a returned !no result/i), 'b returned two'])
    expect(codesAndPaths(losses)).toContain('result_added messages[1].content[0]')
  })

  test('a second result of a call follows the results of all calls', () => {
    const results = user([block.result('a', 'one'), block.result('a', 'other'), block.result('b', 'two')])
    const sent = linesOf('messages', [user('q'), block.calls('a', 'b'), results])
    expect(sent.slice(0, 3)).toEqual(['q', 'call a', 'call b'])
    expect(sent.slice(3, 5).sort()).toEqual(['a returned one', 'b returned two'])
    expect(sent.slice(5).join('')).toContain('other')
  })

  test('a result without a call is sent as text that names the call, which is reported', () => {
    const { body, losses } = write('messages', [user('q'), user([block.result('lost', 'found')])], provider)
    expect(lines[provider](body).join('|')).toMatch(/^q\|Result of .*lost:(\n|\|)found$/)
    expect(codesAndPaths(losses)).toContain('content_as_text messages[1].content[0]')
  })

  test('a result that comes after the model has continued is not lost', () => {
    const sent = linesOf('messages', [
      user('q'),
      block.calls('a'),
      user('wait'),
      { role: 'assistant', content: 'hm' },
      user([block.result('a', 'late')]),
    ]).join('|')
    expect(sent.indexOf('late')).toBeGreaterThan(sent.indexOf('hm'))
  })

  test('an id of two calls has the result of each', () => {
    const sent = linesOf('chat.completions', [
      user('q'),
      chat.calls('a'),
      chat.result('a', 'one'),
      chat.calls('a'),
      chat.result('a', 'two'),
      user('go'),
    ])
    expect(sent.flatMap((line) => line.split(' returned ')[1] ?? [])).toEqual(['one', 'two'])
  })
})

const argumentsIn: Record<ConversationName, (body: Json) => unknown> = {
  'chat.completions': ({ messages }) => messages[1].tool_calls[0].function.arguments,
  responses: ({ input }) => input[1].arguments,
  messages: ({ messages }) => messages[1].content[0].input,
  generateContent: ({ contents }) => contents[1].parts[0].functionCall.args,
}

/** Arguments as a client sends them, as text, and as an object. */
const ARGUMENTS: [sent: string, text: string, object: object | undefined][] = [
  ['', '{}', {}],
  [' \n', '{}', {}],
  ['{"z":1,"a":"x"}', '{"z":1,"a":"x"}', { z: 1, a: 'x' }],
  ['"word"', '"word"', undefined],
  ['[1]', '[1]', undefined],
  ['null', 'null', undefined],
  ['{"a":"cu', '{"a":"cu', undefined],
]

const calling: Record<'chat.completions' | 'responses', (args: string) => { turns: Json[]; path: string }> = {
  'chat.completions': (args) => ({
    turns: [
      user('q'),
      {
        ...chat.calls(),
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'find', arguments: args } }],
      },
      chat.result('a', 'x'),
    ],
    path: 'messages[1].tool_calls[0].function.arguments',
  }),
  responses: (args) => ({
    turns: [user('q'), item.call('a', args), item.result('a', 'x')],
    path: 'input[1].arguments',
  }),
}

describe.each(ARGUMENTS)('the arguments %j', (args, text, object) => {
  for (const client of ['chat.completions', 'responses'] as const) {
    const { turns, path } = calling[client](args)

    test.each(['chat.completions', 'responses'] as const)(`of ${client} are sent to %s as text`, (provider) => {
      const { body, losses } = write(client, turns, provider)
      expect(argumentsIn[provider](body)).toEqual(text)
      expect(losses.filter(({ code }) => code === 'arguments_dropped')).toEqual([])
    })

    test.each(['messages', 'generateContent'] as const)(
      `of ${client} are sent to %s as an object, or reported if they are not one`,
      (provider) => {
        const { body, losses } = write(client, turns, provider)
        expect(argumentsIn[provider](body)).toEqual(object ?? {})
        expect(codesAndPaths(losses.filter(({ code }) => code === 'arguments_dropped'))).toEqual(
          object === undefined ? [`arguments_dropped ${path}`] : [],
        )
      },
    )
  }
})

describe('a streamed call of generateContent whose arguments are cut off', () => {
  const chunk = (parts: Json[], more: Json = {}): Json => ({
    candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
    responseId: 'r',
  })
  const partialArgs = [{ jsonPath: '$.city', stringValue: 'Par', willContinue: true }]

  function read(finishReason: string): { args: string; reason: string } {
    const stream = framed([
      chunk([{ functionCall: { name: 'find', willContinue: true } }]),
      chunk([{ functionCall: { partialArgs, willContinue: true } }]),
      chunk([], { finishReason }),
    ])
    const reader = protocols.generateContent.call.reader({})
    const events = [
      ...new FrameSplitter().push(Buffer.from(stream)).flatMap((frame) => reader.read(frame)),
      ...reader.end(),
    ]
    const { parts, finish } = fold(events)
    return { args: parts[0]!.type === 'tool-call' ? parts[0]!.arguments : '', reason: finish.reason }
  }

  test('has incomplete arguments at the output limit', () => {
    expect(() => JSON.parse(read('MAX_TOKENS').args) as unknown).toThrow(SyntaxError)
    expect(read('MAX_TOKENS')).toEqual({ args: '{"city":"Par"', reason: 'length' })
  })

  test('has complete arguments at the end of the response', () => {
    expect(read('STOP')).toEqual({ args: '{"city":"Par"}', reason: 'tool-calls' })
  })
})

test.each(NAMES)('thousands of results are ordered for %s in time in proportion to their number', (provider) => {
  const ids = Array.from({ length: 4_000 }, (_, index) => `call_${index}`)
  const turns = [user('q'), block.calls(...ids), user(ids.map((id) => block.result(id, 'x')))]
  expect(lines[provider](write('messages', turns, provider).body)).toHaveLength(1 + 2 * ids.length)
})
