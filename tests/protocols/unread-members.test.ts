import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsOf, streamedEventsOf } from '../translating.ts'
import { CLIENTS, contextOf } from './response-losses.ts'

/** Members that only the server has, in each object of a response, and the names under which they are lost. */
const UNREAD: [ConversationName, frames: object[], whole: object, lost: string[]][] = [
  [
    'chat.completions',
    [
      {
        id: 'x',
        model: 'm',
        related_questions: ['Why?'],
        choices: [{ index: 0, delta: { executed_tools: [{ n: 1 }] } }],
      },
      {
        id: 'x',
        choices: [
          {
            index: 0,
            delta: {
              executed_tools: [{ n: 2 }],
              content: 'Hello',
              prefix: false,
              channel: 'final',
              thinking_blocks: [{ text: '' }],
              tool_calls: [
                { index: 0, id: 'c', extra: { a: 1 }, function: { name: 'f', arguments: '{}', parsed: { b: 2 } } },
              ],
            },
          },
        ],
      },
      {
        id: 'x',
        choices: [{ index: 0, delta: {}, stop_reason: 128009, token_ids: null, finish_reason: 'tool_calls' }],
      },
    ],
    {
      id: 'x',
      model: 'm',
      related_questions: ['Why?'],
      choices: [
        {
          index: 0,
          stop_reason: 128009,
          finish_reason: 'tool_calls',
          message: {
            executed_tools: [{ n: 1 }],
            content: 'Hello',
            tool_calls: [{ id: 'c', extra: { a: 1 }, function: { name: 'f', arguments: '{}', parsed: { b: 2 } } }],
          },
        },
      ],
    },
    ['related_questions', 'stop_reason', 'executed_tools', 'tool_calls.extra', 'tool_calls.parsed'],
  ],
  [
    'responses',
    [
      {
        type: 'response.output_item.done',
        output_index: 0,
        item: { type: 'message', mood: 'calm', content: [{ type: 'output_text', text: 'Hello', tone: 1 }] },
      },
      {
        type: 'response.output_item.done',
        output_index: 1,
        item: { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', caller: { type: 'program' } },
      },
      { type: 'response.completed', response: { id: 'x', model: 'm', status: 'completed', output: [] } },
    ],
    {
      id: 'x',
      model: 'm',
      status: 'completed',
      output: [
        { type: 'message', mood: 'calm', content: [{ type: 'output_text', text: 'Hello', tone: 1 }] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', caller: { type: 'program' } },
      ],
    },
    ['mood', 'tone', 'caller'],
  ],
  [
    'messages',
    [
      { type: 'message_start', message: { id: 'x', model: 'm', content: [], region: 'eu' } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hello', tone: 1 } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'c', name: 'f', input: {}, caller: { type: 'code_execution_20250825' } },
      },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use' },
        context_management: { applied_edits: [{ type: 'clear_tool_uses_20250919' }] },
      },
      { type: 'message_stop' },
    ],
    {
      id: 'x',
      model: 'm',
      region: 'eu',
      content: [
        { type: 'text', text: 'Hello', tone: 1 },
        { type: 'tool_use', id: 'c', name: 'f', input: {}, caller: { type: 'code_execution_20250825' } },
        { type: 'tool_use', id: 'd', name: 'f', input: {}, caller: { type: 'direct' } },
      ],
      stop_reason: 'tool_use',
      context_management: { applied_edits: [{ type: 'clear_tool_uses_20250919' }] },
    },
    ['region', 'tone', 'caller', 'context_management'],
  ],
  [
    'generateContent',
    [
      { responseId: 'x', candidates: [{ content: { parts: [{ text: 'Hello', tone: 1 }, { hologram: { a: 1 } }] } }] },
      {
        responseId: 'x',
        serverHint: 'a',
        candidates: [
          {
            mood: 'calm',
            finishReason: 'STOP',
            content: { parts: [{ functionCall: { name: 'f', args: {}, caller: 'x' } }] },
          },
        ],
      },
    ],
    {
      responseId: 'x',
      serverHint: 'a',
      candidates: [
        {
          mood: 'calm',
          finishReason: 'STOP',
          content: {
            parts: [
              { text: 'Hello', tone: 1 },
              { hologram: { a: 1 } },
              { functionCall: { name: 'f', args: {}, caller: 'x' } },
            ],
          },
        },
      ],
    },
    ['serverHint', 'mood', 'tone', 'hologram', 'functionCall.caller'],
  ],
]

/** The response with a member in each object of its top-level lists. */
const deepen = (whole: object, deep: unknown): object =>
  Object.fromEntries(
    Object.entries(whole).map(([name, value]) => [
      name,
      Array.isArray(value)
        ? value.map((one) => (typeof one === 'object' ? { ...one, deep } : (one as unknown)))
        : value,
    ]),
  )

describe.each(UNREAD)('members that only a server of %s has', (provider, frames, whole, lost) => {
  const others = CLIENTS.filter((client) => client !== provider)

  test.each(others)('are reported for a client of %s, each once, in a whole response and in a stream', (client) => {
    const [once, streamed] = [contextOf(client), contextOf(client)]
    protocols[client].serve.writeResponse(fold(eventsOf(provider, whole)), once)
    const writer = protocols[client].serve.writer(streamed)
    for (const event of streamedEventsOf(
      provider,
      frames.map((frame) => ({ data: JSON.stringify(frame) })),
    ))
      writer.write(event)
    for (const { losses } of [once.losses!, streamed.losses!]) {
      expect(losses.map(({ path }) => path).toSorted()).toEqual(lost.map((name) => `response.${name}`).toSorted())
      expect(losses.map(({ code }) => code)).toEqual(lost.map(() => 'response_content_native'))
    }
  })

  test('are reported however deeply they are nested', () => {
    const deep: unknown = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000))
    const context = contextOf(others[0]!)
    protocols[others[0]!].serve.writeResponse(fold(eventsOf(provider, deepen(whole, deep))), context)
    expect(context.losses!.losses.map(({ path }) => path)).toContain('response.deep')
  })

  test('do not fill the report where it invents them without end', () => {
    const invented = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`member_${n}`, n]))
    const first = (value: unknown): unknown =>
      Array.isArray(value) ? [{ ...(value[0] as object), ...invented }, ...(value as unknown[]).slice(1)] : value
    const changed = Object.fromEntries(Object.entries(whole).map(([name, value]) => [name, first(value)]))
    const context = contextOf(others[0]!)
    protocols[others[0]!].serve.writeResponse(fold(eventsOf(provider, changed)), context)
    expect(context.losses!.losses).toHaveLength(100)
  })
})

describe('a piece of a streamed call of generateContent', () => {
  const deep = `$${'.a'.repeat(65)}`
  const partial = (piece: object) => ({ partialArgs: [{ jsonPath: '$.b', stringValue: 'x' }, piece] })

  test.each<[string, object[], lost: string[]]>([
    ['nested too deeply', [{ name: 'f', ...partial({ jsonPath: deep, boolValue: true }) }], ['partialArgs']],
    ['without a path', [{ name: 'f', willContinue: true }, partial({ numberValue: 1 })], ['partialArgs']],
    ['for the whole object', [{ name: 'f', ...partial({ jsonPath: '$', nullValue: 'NULL_VALUE' }) }], ['partialArgs']],
    ['of an unknown kind', [{ name: 'f', ...partial({ jsonPath: '$.c', bytesValue: 'AA==' }) }], ['partialArgs']],
    ['that is no object', [{ name: 'f', partialArgs: ['x'] }], ['partialArgs']],
    ['outside a list', [{ name: 'f', partialArgs: { jsonPath: '$.b', stringValue: 'x' } }], ['partialArgs']],
    ['with whole arguments', [{ name: 'f', willContinue: true }, { args: { b: 1 } }], ['args']],
    ['with arguments that are no object', [{ name: 'f', args: 'x' }], ['args']],
    ['of a call without a name', [{ id: '1', args: { b: 1 } }], ['']],
    ['that ends a text', [{ name: 'f', ...partial({ jsonPath: '$.b', willContinue: false }) }], []],
    ['that ends the call', [{ name: 'f', args: {}, willContinue: true }, {}, {}], []],
  ])('%s is read or reported as lost', (_, calls, lost) => {
    const context = contextOf('messages')
    const writer = protocols.messages.serve.writer(context)
    const frames = calls.map((functionCall) => ({ data: JSON.stringify({ candidates: [candidateOf(functionCall)] }) }))
    for (const event of streamedEventsOf('generateContent', frames)) writer.write(event)
    expect(context.losses!.losses.map(({ path }) => path)).toEqual(
      lost.map((name) => ['response.functionCall', name].filter((step) => step !== '').join('.')),
    )
  })

  const candidateOf = (functionCall: object): object => ({
    content: { parts: [{ functionCall }] },
    finishReason: 'STOP',
  })

  test('has a signature that is reported as lost where there is no call for it', () => {
    const candidate = { content: { parts: [{ functionCall: {}, thoughtSignature: 's' }] }, finishReason: 'STOP' }
    expect(eventsOf('generateContent', { candidates: [candidate] })).toContainEqual(
      expect.objectContaining({ head: expect.objectContaining({ kind: 'thoughtSignature' }) }),
    )
  })
})
