import { describe, expect, test } from 'bun:test'
import type { ReplayState } from '../../src/generation/replay.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { wrapSignature } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { contextOf, type Json, NAMES } from './routes.ts'

/** Earlier turns of other models on the client's own protocol: what is removed from the body is reported. */

const TARGET: Target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
const own = (data: string): string => wrapSignature(data, TARGET)
const ofOther = (data: string): string => wrapSignature(data, { provider: 'q', model: 'n' })

type Sent = { body: Json; lost: string[] }

/** The body as the provider of the same protocol gets it, and what is reported. */
function sent(client: ConversationName, body: Json, restoredReasoning: ReplayState[] = [], target = TARGET): Sent {
  const report = new LossReport()
  const context = { ...contextOf(client, body), restoredReasoning }
  const text = protocols[client].call.forward(context, target, report)
  return { body: JSON.parse(text), lost: report.losses.map(({ code, path }) => `${code} ${path}`) }
}

const chatCall = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
const useCall = { type: 'tool_use', id: 'c1', name: 'f', input: {} }
const item = (encrypted_content: string): Json => ({ type: 'reasoning', id: 'rs', summary: [], encrypted_content })
const detail = (signature: string): Json => ({ type: 'reasoning.text', text: 'hm', signature })
const thinking = (signature: string): Json => ({ type: 'thinking', thinking: 'hm', signature })
const thought = (thoughtSignature: string): Json => ({ text: 'hm', thought: true, thoughtSignature })

/** One earlier turn of a text and a call, with reasoning under each signature before them. */
const TURN: Record<ConversationName, (...signatures: string[]) => Json> = {
  'chat.completions': (...signatures) => ({
    model: 'a/b',
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'x', reasoning_details: signatures.map(detail), tool_calls: [chatCall] },
      { role: 'tool', tool_call_id: 'c1', content: 'r' },
    ],
  }),
  responses: (...signatures) => ({
    model: 'a/b',
    input: [
      { role: 'user', content: 'q' },
      ...signatures.map(item),
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'r' },
    ],
  }),
  messages: (...signatures) => ({
    model: 'a/b',
    max_tokens: 10,
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: [...signatures.map(thinking), useCall] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'r' }] },
    ],
  }),
  generateContent: (...signatures) => ({
    contents: [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [...signatures.map(thought), { functionCall: { id: 'c1', name: 'f', args: {} } }] },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { output: 'r' } } }] },
    ],
  }),
}

const PATHS: Record<ConversationName, (index: number) => string> = {
  'chat.completions': (index) => `messages[1].reasoning_details[${index}]`,
  responses: (index) => `input[${1 + index}]`,
  messages: (index) => `messages[1].content[${index}]`,
  generateContent: (index) => `contents[1].parts[${index}]`,
}

describe.each(NAMES)('a conversation of %s on the client’s own protocol', (client) => {
  test('loses the reasoning of another model, which is reported', () => {
    const { body, lost } = sent(client, TURN[client](ofOther('a'), own('b'), ofOther('c'), 'd'))
    expect(lost).toEqual([`reasoning_dropped ${PATHS[client](0)}`, `reasoning_dropped ${PATHS[client](2)}`])
    const text = JSON.stringify(body)
    expect(['"a"', '"b"', '"c"', '"d"'].map((one) => text.includes(one))).toEqual([false, true, false, true])
  })

  test('has no loss where all reasoning is that of the model or of its provider', () => {
    expect(sent(client, TURN[client](own('b'), 'd')).lost).toEqual([])
  })
})

describe('signatures of another model on parts that are sent without them', () => {
  test.each<[ConversationName, Json, string]>([
    [
      'chat.completions',
      {
        messages: [
          {
            role: 'assistant',
            content: 'x',
            reasoning_details: [{ type: 'reasoning.encrypted', id: 'c1', data: ofOther('s') }],
            tool_calls: [chatCall],
          },
        ],
      },
      'messages[0].reasoning_details[0]',
    ],
    ['responses', { input: [item(ofOther('part\0c1\0s'))] }, 'input[0]'],
    [
      'messages',
      {
        max_tokens: 10,
        messages: [
          {
            role: 'assistant',
            content: [useCall, { type: 'redacted_thinking', data: ofOther('of-call:2:c1s') }],
          },
        ],
      },
      'messages[0].content[1]',
    ],
    [
      'generateContent',
      { contents: [{ role: 'model', parts: [{ text: 'x', thought_signature: ofOther('s') }] }] },
      'contents[0].parts[0].thought_signature',
    ],
  ])('are reported for %s', (client, body, path) => {
    expect(sent(client, { model: 'a/b', ...body }).lost).toEqual([`signature_dropped ${path}`])
  })

  test('are no loss where they are empty, as marks of calls', () => {
    const call = { functionCall: { name: 'f', args: {} }, thoughtSignature: ofOther('') }
    expect(sent('generateContent', { contents: [{ role: 'model', parts: [call] }] }).lost).toEqual([])
  })
})

describe('the Responses API', () => {
  test('reports an item that is known by its id alone', () => {
    const byId = { type: 'reasoning', id: 'rs_1', summary: [] }
    const { body, lost } = sent('responses', { model: 'a/b', input: [byId, { role: 'user', content: 'q' }] })
    expect([body.input.length, lost]).toEqual([1, ['reasoning_dropped input[0]']])
  })

  test('names the stored response to which a lost item belongs', () => {
    const context = contextOf('responses', { model: 'a/b', input: [item(ofOther('a')), item(ofOther('b'))] })
    const report = new LossReport()
    protocols.responses.call.forward({ ...context, rawRequest: { ...context.rawRequest, inserted: 1 } }, TARGET, report)
    expect(report.losses.map(({ path }) => path)).toEqual(['previous_response_id', 'input[0]'])
  })

  test('names the item that the client sent where restored reasoning is put before it', () => {
    const state: ReplayState = {
      issuer: TARGET,
      call: { id: 'c1', digest: '' },
      parts: [
        { type: 'reasoning', text: '', signature: 'kept' },
        { type: 'tool-call', id: 'c1' },
      ],
    }
    const whole = TURN.responses()
    whole.input.push(item(ofOther('a')))
    const { body, lost } = sent('responses', whole, [state])
    expect(lost).toEqual(['reasoning_dropped input[3]'])
    expect(body.input.map(({ type }: Json) => type)).toEqual([
      undefined,
      'reasoning',
      'function_call',
      'function_call_output',
    ])
  })

  test('gives the reason for the loss of an item without its content', () => {
    const report = new LossReport()
    const context = contextOf('responses', {
      model: 'a/b',
      input: [{ type: 'reasoning', summary: [] }, item(ofOther('a'))],
    })
    protocols.responses.call.forward(context, TARGET, report)
    expect(report.losses.map(({ code, reason }) => `${code}: ${reason}`)).toEqual([
      expect.stringContaining('reasoning_dropped: the provider stores nothing, and there is no encrypted_content'),
      expect.not.stringContaining('encrypted_content'),
    ])
  })

  test.each([
    ['null members', { encrypted_content: null, content: null }, []],
    ['an envelope around no signature', { encrypted_content: ofOther('') }, []],
    ['an own envelope around no signature', { encrypted_content: own('') }, []],
    ['a signature of its redacted text', { encrypted_content: ofOther('part\0redacted\0s') }, []],
    ['raw text', { content: [{ type: 'reasoning_text', text: 't' }] }, ['reasoning']],
    ['a content that the provider refuses', { content: 'x' }, ['reasoning']],
    ['a signature that the provider refuses', { encrypted_content: 5 }, ['reasoning']],
  ])('gets reasoning with %s only where its provider can judge it', (_, members, kept) => {
    const { body, lost } = sent('responses', { model: 'a/b', input: [{ type: 'reasoning', summary: [], ...members }] })
    expect(body.input.map(({ type }: Json) => type)).toEqual(kept)
    expect(lost).toEqual(kept.length === 0 ? ['reasoning_dropped input[0]'] : [])
  })

  describe('with restored reasoning', () => {
    const call = (call_id: string, type = 'function_call'): Json => ({ type, call_id, name: 'f', arguments: '{}' })
    const output = (call_id: string): Json => ({ type: 'function_call_output', call_id, output: 'r' })
    const text = (role: string, content: string): Json => ({ role, content })
    const reasoning = (signature: string | undefined, more: Json = {}) =>
      ({ type: 'reasoning', text: '', ...(signature === undefined ? {} : { signature }), ...more }) as const
    const state = (...parts: ReplayState['parts']): ReplayState => ({
      issuer: TARGET,
      call: { id: 'c1', digest: '' },
      parts,
    })
    const marks = ({ input }: Json): string[] =>
      input.map((one: Json) => one.encrypted_content ?? one.call_id ?? one.content)

    test.each(['function_call', 'custom_tool_call'])('has it before the element that it led to (%s)', (type) => {
      const input = [
        ...[text('assistant', 'first'), text('user', 'q')],
        ...[text('assistant', 'x'), call('c1', type), call('c2', type), output('c1'), output('c2')],
        ...[text('user', 'more'), text('assistant', 'last')],
      ]
      const { body, lost } = sent('responses', { model: 'a/b', input }, [
        state(
          reasoning('r1', { text: 'why', form: 'summary' }),
          { type: 'text' },
          reasoning('r2', { text: 'raw', form: 'raw' }),
          { type: 'tool-call', id: 'c1' },
          reasoning(undefined, { text: 'unsigned' }),
          reasoning('r3'),
          { type: 'tool-call', id: 'c2' },
          reasoning('unfollowed'),
        ),
      ])
      expect([marks(body), lost]).toEqual([
        ['first', 'q', 'r1', 'x', 'r2', 'c1', 'r3', 'c2', 'c1', 'c2', 'more', 'last'],
        [],
      ])
      const [first, second] = body.input.filter((one: Json) => one.type === 'reasoning')
      expect(first).toEqual({
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'why' }],
        encrypted_content: 'r1',
      })
      expect(second).toMatchObject({ summary: [], content: [{ type: 'reasoning_text', text: 'raw' }] })
    })

    test('has it before a call that nothing precedes', () => {
      const { body } = sent('responses', { model: 'a/b', input: [call('c1'), output('c1')] }, [
        state(reasoning('r'), { type: 'tool-call', id: 'c1' }),
      ])
      expect(marks(body)).toEqual(['r', 'c1', 'c1'])
    })

    test('has it in the order of the response where an item in its midst is not sent', () => {
      const input = [text('assistant', 'x'), item(ofOther('a')), call('c1'), call('c2'), output('c1'), output('c2')]
      const { body, lost } = sent('responses', { model: 'a/b', input }, [
        state(reasoning('r1'), { type: 'text' }, reasoning('r2'), { type: 'tool-call', id: 'c1' }, reasoning('r3'), {
          type: 'tool-call',
          id: 'c2',
        }),
      ])
      expect(marks(body)).toEqual(['r1', 'x', 'r2', 'c1', 'r3', 'c2', 'c1', 'c2'])
      expect(lost).toEqual(['reasoning_dropped input[1]'])
    })

    test.each<[string, ReplayState, Json[]]>([
      [
        'belongs to another model',
        { ...state(reasoning('r'), { type: 'tool-call', id: 'c1' }), issuer: { provider: 'q', model: 'n' } },
        [call('c1')],
      ],
      ['belongs to a call that was not sent', state(reasoning('r'), { type: 'tool-call', id: 'c1' }), [call('c2')]],
      [
        'belongs to a call of which only the output was sent',
        state(reasoning('r'), { type: 'tool-call', id: 'c1' }),
        [output('c1')],
      ],
    ])('lacks that which %s', (_, replayState, input) => {
      expect(sent('responses', { model: 'a/b', input }, [replayState]).body.input).toEqual(input)
    })
  })
})

describe('the Messages API', () => {
  test('reports citations of translated responses, which their provider did not issue', () => {
    const cited = { type: 'text', text: 'x', citations: [{ type: 'web_search_result_location', encrypted_index: '' }] }
    const body = { model: 'a/b', max_tokens: 10, messages: [{ role: 'assistant', content: [cited] }] }
    expect(sent('messages', body).lost).toEqual(['citations_dropped messages[0].content[0].citations'])
  })

  test('has no loss where restored reasoning replaces the unsigned one, or where it may be unsigned', () => {
    const state: ReplayState = {
      issuer: TARGET,
      call: { id: 'c1', digest: '' },
      parts: [
        { type: 'reasoning', text: 'hm', signature: 'kept' },
        { type: 'tool-call', id: 'c1' },
      ],
    }
    const body = { ...TURN.messages(''), thinking: { type: 'enabled', budget_tokens: 1024 } }
    const restored = sent('messages', body, [state])
    expect([restored.lost, restored.body.messages[1].content[0].signature]).toEqual([[], 'kept'])
    const unsigned = { ...TARGET, quirks: { requiresReasoning: true } }
    expect(sent('messages', TURN.messages(''), [], unsigned).lost).toEqual([])
    expect(sent('messages', TURN.messages('')).lost).toEqual(['reasoning_dropped messages[1].content[0]'])
  })
})
