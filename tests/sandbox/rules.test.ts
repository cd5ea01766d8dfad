import { describe, expect, test } from 'bun:test'
import { checkRules } from '../../src/providers/sandbox/rules.ts'

type Json = Record<string, any>

const user = { role: 'user', content: 'hi' }
const chatCall = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
const use = (id: string) => ({ type: 'tool_use', id, name: 'f', input: {} })
const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'ok' })
const text = (value: string) => ({ type: 'text', text: value })
const call = (more: object = { thoughtSignature: 's' }) => ({ functionCall: { name: 'f', args: {} }, ...more })
const answer = { functionResponse: { name: 'f', response: {} } }

describe('chat completions', () => {
  const check =
    (messages: Json[], more: object = {}) =>
    () =>
      checkRules('chat.completions', { model: 'm', messages, ...more })
  test('a complete tool loop is accepted', () => {
    expect(
      check([
        user,
        { role: 'assistant', content: null, tool_calls: [chatCall('a'), chatCall('b')] },
        { role: 'tool', tool_call_id: 'b', content: '' },
        { role: 'tool', tool_call_id: 'a', content: '' },
        user,
      ]),
    ).not.toThrow()
  })
  test.each([
    ['a result without a call', [user, { role: 'tool', tool_call_id: 'a', content: '' }], 'messages[1].tool_call_id'],
    ['a call without a result', [user, { role: 'assistant', tool_calls: [chatCall('a')] }, user], 'messages[2]'],
    ['a call at the end', [user, { role: 'assistant', tool_calls: [chatCall('a')] }], 'messages'],
    [
      'a long id',
      [user, { role: 'assistant', tool_calls: [chatCall('a'.repeat(65))] }],
      'messages[1].tool_calls[0].id',
    ],
    ['an empty assistant message', [user, { role: 'assistant', content: '' }], 'messages[1].content'],
  ])('%s is refused', (_name, messages, param) => {
    expect(check(messages)).toThrow(expect.objectContaining({ status: 400, param }))
  })
  test('an unknown parameter is refused', () => {
    expect(check([user], { top_k: 3 })).toThrow(expect.objectContaining({ param: 'top_k' }))
  })
})

describe('responses', () => {
  const check = (input: unknown) => () => checkRules('responses', { model: 'm', input })
  const made = { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' }
  const output = { type: 'function_call_output', call_id: 'a', output: 'ok' }
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [] }
  test('a text and a complete tool loop are accepted', () => {
    expect(check('hi')).not.toThrow()
    expect(check([user, reasoning, { ...made, id: 'fc_1' }, output])).not.toThrow()
  })
  test.each([
    ['an output without a call', [user, output], 'input[1].call_id'],
    ['a call without output', [user, made], 'input[1].call_id'],
    ['an id with the prefix of another type', [user, { ...made, id: 'call_1' }, output], 'input[1].id'],
    ['reasoning without the item after it', [reasoning, user], 'input[0]'],
    ['a long id', [{ ...made, call_id: 'a'.repeat(65) }], 'input[0].call_id'],
  ])('%s is refused', (_name, input, param) => {
    expect(check(input)).toThrow(expect.objectContaining({ status: 400, param }))
  })
})

describe('messages', () => {
  const check =
    (messages: Json[], more: object = {}) =>
    () =>
      checkRules('messages', { model: 'm', max_tokens: 5000, messages, ...more })
  const loop = [
    user,
    { role: 'assistant', content: [text('x'), use('a'), use('b')] },
    { role: 'user', content: [result('b'), result('a'), text('go on')] },
  ]
  const thinking = { thinking: { type: 'enabled', budget_tokens: 2048 } }
  test('a complete tool loop with thinking is accepted', () => {
    expect(check(loop, { ...thinking, temperature: 1, tool_choice: { type: 'auto' } })).not.toThrow()
  })
  test.each([
    ['a first turn by the assistant', [{ role: 'assistant', content: 'x' }], {}, 'messages[0].role'],
    ['an empty text', [{ role: 'user', content: '' }], {}, 'messages[0].content'],
    ['a blank block', [{ role: 'user', content: [text(' ')] }], {}, 'messages[0].content[0]'],
    ['an id with a dot', [user, { role: 'assistant', content: [use('a.b')] }], {}, 'messages[1].content[0]'],
    ['a missing result', [user, loop[1]!, { role: 'user', content: [result('a')] }], {}, 'messages[2].content'],
    [
      'a result without a call',
      [user, { role: 'assistant', content: [text('x')] }, { role: 'user', content: [result('a')] }],
      {},
      'messages[2].content',
    ],
    [
      'text before the results',
      [user, { role: 'assistant', content: [use('a')] }, { role: 'user', content: [text('x'), result('a')] }],
      {},
      'messages[2].content',
    ],
    ['a call at the end', [user, { role: 'assistant', content: [use('a')] }], {}, 'messages'],
    ['a temperature above 1', [user], { temperature: 1.5 }, 'temperature'],
    ['a small budget', [user], { thinking: { type: 'enabled', budget_tokens: 100 } }, 'thinking.budget_tokens'],
    [
      'a budget of max_tokens',
      [user],
      { thinking: { type: 'enabled', budget_tokens: 5000 } },
      'thinking.budget_tokens',
    ],
    ['a forced tool while thinking', [user], { ...thinking, tool_choice: { type: 'any' } }, 'tool_choice'],
    ['a temperature while thinking', [user], { ...thinking, temperature: 0.5 }, 'temperature'],
  ])('%s is refused', (_name, messages, more, param) => {
    expect(check(messages as Json[], more)).toThrow(expect.objectContaining({ status: 400, param }))
  })
})

describe('generateContent', () => {
  const check =
    (contents: Json[], more: object = {}) =>
    () =>
      checkRules('generateContent', { contents, ...more })
  const question = { role: 'user', parts: [{ text: 'hi' }] }
  const tools = (parameters: object) => ({ tools: [{ functionDeclarations: [{ name: 'f', parameters }] }] })
  test("a complete tool loop and Google's schema dialect are accepted", () => {
    expect(
      check(
        [question, { role: 'model', parts: [call(), call({})] }, { role: 'user', parts: [answer, answer] }],
        tools({ type: 'OBJECT', properties: { const: { type: 'STRING' } } }),
      ),
    ).not.toThrow()
  })
  test('the calls of one turn may be in several contents, as the SDK keeps the chunks of a stream', () => {
    const turn = [call(), call({})].map((part) => ({ role: 'model', parts: [part] }))
    expect(check([question, ...turn, { role: 'user', parts: [answer, answer] }])).not.toThrow()
    expect(check([question, ...turn, { role: 'user', parts: [answer] }])).toThrow(
      expect.objectContaining({ status: 400, param: 'contents[2]' }),
    )
  })
  test.each([
    [
      'a missing response',
      [question, { role: 'model', parts: [call(), call({})] }, { role: 'user', parts: [answer] }],
      {},
      'contents[1]',
    ],
    [
      'a response without a call',
      [question, { role: 'model', parts: [{ text: 'x' }] }, { role: 'user', parts: [answer] }],
      {},
      'contents[1]',
    ],
    [
      'an unsigned first call',
      [question, { role: 'model', parts: [call({})] }, { role: 'user', parts: [answer] }],
      {},
      'contents[1].parts[0]',
    ],
    [
      'a JSON Schema keyword',
      [question],
      tools({ type: 'OBJECT', properties: { a: { type: 'OBJECT', additionalProperties: false } } }),
      'tools[0].functionDeclarations[0].parameters',
    ],
  ])('%s is refused', (_name, contents, more, param) => {
    expect(check(contents as Json[], more)).toThrow(expect.objectContaining({ status: 400, param }))
  })
})
