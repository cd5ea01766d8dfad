import { written, type Written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { framed } from '../gateway/scripted.ts'
import type { Any } from '../recorded/response-content.ts'

/** Calls and results in disorder: what agents really send, and what every provider has to get of it. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

const bodyOf: Record<ConversationName, (turns: Any[]) => Any> = {
  'chat.completions': (messages) => ({ model: 'a/b', messages }),
  responses: (input) => ({ model: 'a/b', input }),
  messages: (messages) => ({ model: 'a/b', max_tokens: 9, messages }),
  generateContent: (contents) => ({ contents }),
}

function sentBy(client: ConversationName, turns: Any[], provider: ConversationName): Written {
  const text = JSON.stringify(bodyOf[client](turns))
  const request = protocols[client].serve.readRequest({
    body: JSON.parse(text) as Any,
    text,
    model: 'a/b',
    headers: new Headers(),
  })
  return written(provider, request, { provider: 'p', model: 'm', quirks: {}, capabilities: {} })
}

const textOf = (content: unknown): string =>
  typeof content === 'string' ? content : ((content as Any[]) ?? []).map((part) => part.text ?? '').join('|')

/** A provider's body, one line for each thing said, in order. A failed result is marked. */
const lines: Record<ConversationName, (body: Any) => string[]> = {
  'chat.completions': ({ messages }) =>
    (messages as Any[]).flatMap(({ role, content, tool_calls, tool_call_id }) =>
      role === 'tool'
        ? [`${tool_call_id} gave ${failed(textOf(content))}`]
        : [
            ...(textOf(content) === '' ? [] : [textOf(content)]),
            ...(tool_calls ?? []).map(({ id }: Any) => `call ${id}`),
          ],
    ),
  responses: ({ input }) =>
    (input as Any[]).map(({ type, call_id, content, output }) =>
      type === 'function_call'
        ? `call ${call_id}`
        : type === 'function_call_output'
          ? `${call_id} gave ${failed(textOf(output))}`
          : textOf(content),
    ),
  messages: ({ messages }) =>
    (messages as Any[])
      .flatMap(({ content }) => content as Any[])
      .map((block) =>
        block.type === 'tool_use'
          ? `call ${block.id}`
          : block.type === 'tool_result'
            ? `${block.tool_use_id} gave ${block.is_error === true ? '!' : ''}${textOf(block.content)}`
            : block.text,
      ),
  generateContent: ({ contents }) =>
    (contents as Any[])
      .flatMap(({ parts }) => parts as Any[])
      .map(({ functionCall: call, functionResponse: result, text }) =>
        call !== undefined
          ? `call ${call.id}`
          : result !== undefined
            ? `${result.id} gave ${result.response.output ?? `!${result.response.error}`}`
            : text,
      ),
}

const failed = (text: string): string => text.replace(/^Error:[ |]*/, '!')

/** The turns of each protocol. */
const user = (content: unknown): Any => ({ role: 'user', content })
const chat = {
  calls: (...ids: string[]): Any => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })),
  }),
  gave: (id: string, content: string): Any => ({ role: 'tool', tool_call_id: id, content }),
}
const item = {
  call: (call_id: string, args = '{}'): Any => ({ type: 'function_call', call_id, name: 'look', arguments: args }),
  gave: (call_id: string, output: string): Any => ({ type: 'function_call_output', call_id, output }),
}
const block = {
  text: (text: string): Any => ({ type: 'text', text }),
  calls: (...ids: string[]): Any => ({
    role: 'assistant',
    content: ids.map((id) => ({ type: 'tool_use', id, name: 'look', input: {} })),
  }),
  gave: (tool_use_id: string, content: string): Any => ({ type: 'tool_result', tool_use_id, content }),
}
const part = {
  calls: (...ids: string[]): Any => ({
    role: 'model',
    parts: ids.map((id) => ({ functionCall: { id, name: 'look', args: {} } })),
  }),
  gave: (id: string, output: string): Any => ({ functionResponse: { id, name: 'look', response: { output } } }),
}

const DISORDER: [what: string, client: ConversationName, turns: Any[]][] = [
  [
    'a word before the results',
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.text('wait'), block.gave('a', 'one'), block.gave('b', 'two')])],
  ],
  [
    'a word between them',
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.gave('a', 'one'), block.text('wait'), block.gave('b', 'two')])],
  ],
  [
    'two messages of results with a word between',
    'messages',
    [
      user('q'),
      block.calls('a', 'b'),
      user([block.gave('a', 'one'), block.text('wait')]),
      user([block.gave('b', 'two')]),
    ],
  ],
  [
    'results in another order than their calls',
    'messages',
    [user('q'), block.calls('a', 'b'), user([block.gave('b', 'two'), block.gave('a', 'one'), block.text('wait')])],
  ],
  [
    'a user who did not wait',
    'responses',
    [user('q'), item.call('a'), item.call('b'), item.gave('a', 'one'), user('wait'), item.gave('b', 'two')],
  ],
  [
    'an instruction between them',
    'chat.completions',
    [
      user('q'),
      chat.calls('a', 'b'),
      chat.gave('a', 'one'),
      { role: 'system', content: 'wait' },
      chat.gave('b', 'two'),
    ],
  ],
  [
    'a word before the results of Google',
    'generateContent',
    [
      { role: 'user', parts: [{ text: 'q' }] },
      part.calls('a', 'b'),
      { role: 'user', parts: [{ text: 'wait' }, part.gave('a', 'one')] },
      { role: 'user', parts: [part.gave('b', 'two')] },
    ],
  ],
]

describe.each(DISORDER)('%s', (_, client, turns) => {
  test.each(NAMES)('is none for %s: results stand behind their calls, before what else was said', (provider) => {
    const { body, losses } = sentBy(client, turns, provider)
    const said = lines[provider](body as Any)
    expect(said.slice(0, 3)).toEqual(['q', 'call a', 'call b'])
    expect(said.slice(3, 5).sort()).toEqual(['a gave one', 'b gave two'])
    expect(said.slice(5).join('')).toContain('wait')
    expect(losses.filter(({ reason }) => reason.includes('result'))).toEqual([])
  })
})

describe.each(NAMES)('for %s', (provider) => {
  const saidOf = (client: ConversationName, turns: Any[]): string[] =>
    lines[provider](sentBy(client, turns, provider).body as Any)

  test('a call without a result has an error for one, and says so', () => {
    const turns = [
      user('q'),
      block.calls('a', 'b'),
      user([block.gave('b', 'two')]),
      { role: 'assistant', content: 'so' },
      user('go'),
    ]
    const { body, losses } = sentBy('messages', turns, provider)
    const said = lines[provider](body as Any)
    expect(said.slice(0, 3)).toEqual(['q', 'call a', 'call b'])
    expect(said.slice(3, 5).sort()).toEqual([expect.stringMatching(/^a gave !no result/i), 'b gave two'])
    expect(losses).toContainEqual(
      expect.objectContaining({ effect: 'approximated', reason: expect.stringContaining('result') }),
    )
  })

  test('a result without a call is text that says what it is', () => {
    const { body, losses } = sentBy('messages', [user('q'), user([block.gave('lost', 'found')])], provider)
    expect(lines[provider](body as Any).join('|')).toMatch(/^q\|Result of .*lost:(\n|\|)found$/)
    expect(losses).toContainEqual(
      expect.objectContaining({ effect: 'approximated', reason: expect.stringMatching(/result|call/) }),
    )
  })

  test('a result that came only after the model had gone on is not lost', () => {
    const said = saidOf('messages', [
      user('q'),
      block.calls('a'),
      user('wait'),
      { role: 'assistant', content: 'hm' },
      user([block.gave('a', 'late')]),
    ]).join('|')
    expect(said.indexOf('late')).toBeGreaterThan(said.indexOf('hm'))
  })

  test('an id that is used again has each of its results', () => {
    const said = saidOf('chat.completions', [
      user('q'),
      chat.calls('a'),
      chat.gave('a', 'one'),
      chat.calls('a'),
      chat.gave('a', 'two'),
      user('go'),
    ])
    expect(said.flatMap((line) => line.split(' gave ')[1] ?? [])).toEqual(['one', 'two'])
  })
})

const argumentsIn: Record<ConversationName, (body: Any) => unknown> = {
  'chat.completions': ({ messages }) => messages[1].tool_calls[0].function.arguments,
  responses: ({ input }) => input[1].arguments,
  messages: ({ messages }) => messages[1].content[0].input,
  generateContent: ({ contents }) => contents[1].parts[0].functionCall.args,
}

/** As a client wrote them; as text; as an object. */
const ARGUMENTS: [sent: string, text: string, object: object | undefined][] = [
  ['', '{}', {}],
  [' \n', '{}', {}],
  ['{"z":1,"a":"x"}', '{"z":1,"a":"x"}', { z: 1, a: 'x' }],
  ['"word"', '"word"', undefined],
  ['[1]', '[1]', undefined],
  ['null', 'null', undefined],
  ['{"a":"cu', '{"a":"cu', undefined],
]

test.each(ARGUMENTS)(
  'the arguments %j go as they are where they are text, and are told where they are no object',
  (sent, text, object) => {
    for (const client of ['chat.completions', 'responses'] as const)
      for (const provider of NAMES) {
        const call =
          client === 'responses'
            ? item.call('a', sent)
            : {
                ...chat.calls(),
                tool_calls: [{ id: 'a', type: 'function', function: { name: 'look', arguments: sent } }],
              }
        const { body, losses } = sentBy(
          client,
          [user('q'), call, client === 'responses' ? item.gave('a', 'x') : chat.gave('a', 'x')],
          provider,
        )
        const asText = provider === 'chat.completions' || provider === 'responses'
        expect(argumentsIn[provider](body as Any)).toEqual(asText ? text : (object ?? {}))
        expect(losses.filter(({ code }) => code === 'arguments_dropped').map(({ effect }) => effect)).toEqual(
          !asText && object === undefined ? ['dropped'] : [],
        )
      }
  },
)

test('a call of Google that was cut is cut in every protocol, streamed in pieces or not', () => {
  const chunk = (parts: Any[], more: Any = {}): Any => ({
    candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
    responseId: 'r',
  })
  const pieces = (finishReason: string): Any[] => [
    chunk([{ functionCall: { name: 'look', willContinue: true } }]),
    chunk([
      {
        functionCall: {
          partialArgs: [{ jsonPath: '$.city', stringValue: 'Par', willContinue: true }],
          willContinue: true,
        },
      },
    ]),
    chunk([], { finishReason }),
  ]
  const answerOf = (finishReason: string): { args: string; reason: string } => {
    const reader = protocols.generateContent.call.reader({})
    const events = [
      ...new FrameSplitter().push(Buffer.from(framed(pieces(finishReason)))).flatMap((frame) => reader.read(frame)),
      ...reader.end(),
    ]
    const { parts, finish } = fold(events)
    return { args: parts[0]!.type === 'tool-call' ? parts[0]!.arguments : '', reason: finish.reason }
  }
  expect(() => JSON.parse(answerOf('MAX_TOKENS').args) as unknown).toThrow(SyntaxError)
  expect(answerOf('MAX_TOKENS')).toEqual({ args: '{"city":"Par"', reason: 'length' })
  expect(answerOf('STOP')).toEqual({ args: '{"city":"Par"}', reason: 'tool-calls' })
})

test('very many results are put in order in time that grows with their number only', () => {
  const ids = Array.from({ length: 4_000 }, (_, index) => `call_${index}`)
  for (const provider of NAMES)
    expect(
      lines[provider](
        sentBy('messages', [user('q'), block.calls(...ids), user(ids.map((id) => block.gave(id, 'x')))], provider)
          .body as Any,
      ),
    ).toHaveLength(1 + 2 * ids.length)
})
