import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import type { Part, Reasoning, Tool, ToolChoice, Turn } from '../../../src/generation/request.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { request, target, wireOf, write, type Any } from './kit.ts'

/** Requests to providers of messages. */

const user = (text: string): Turn => ({ role: 'user', parts: [{ type: 'text', text }] })
const says = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
const text = (value: string): Part => ({ type: 'text', text: value })
const call = (id: string, args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name: 'f',
  arguments: args,
  form: 'function',
})
const result = (callId: string, value = 'ok'): Part => ({
  type: 'tool-result',
  callId,
  content: [{ type: 'text', text: value }],
  form: 'function',
})
const tool = (...parts: Part[]): Turn => ({ role: 'tool', parts })

describe('a conversation', () => {
  test('is hoisted, merged and alternates', () => {
    const { body, losses } = write({
      system: [text('be brief')],
      turns: [user('a'), user('b'), says(text('c')), says(text('d')), user('e ')],
    })
    expect(body).toEqual({
      model: 'upstream-model',
      max_tokens: 5000,
      system: [{ type: 'text', text: 'be brief' }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'c' },
            { type: 'text', text: 'd' },
          ],
        },
        { role: 'user', content: [{ type: 'text', text: 'e ' }] },
      ],
    })
    expect(losses).toEqual([])
  })

  test('marks instructions in its middle, and leaves them their role where the model takes it', () => {
    const turns: Turn[] = [user('a'), says(text('b')), { role: 'developer', parts: [text('now in French')] }, user('c')]
    const marked = write({ turns })
    expect(marked.body.messages[2]).toEqual({
      role: 'user',
      content: [
        { type: 'text', text: '<system>\nnow in French\n</system>' },
        { type: 'text', text: 'c' },
      ],
    })
    expect(marked.lost).toEqual(['instruction developer approximated'])
    expect(write({ turns }, { systemTurns: true }).body.messages.map(({ role }: Any) => role)).toEqual([
      'user',
      'assistant',
      'system',
      'user',
    ])
  })

  test('drops empty texts and what is left empty by them', () => {
    const { body } = write({ turns: [user('a'), says(text('')), { role: 'user', parts: [text(' \n'), text('b')] }] })
    expect(body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })

  test('puts results first and in the order of the calls', () => {
    const { body, losses } = write({
      turns: [user('a'), says(call('x'), call('y')), user('hurry'), tool(result('y', 'two'), result('x', 'one'))],
    })
    expect(body.messages[2]).toEqual({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'x', content: [{ type: 'text', text: 'one' }] },
        { type: 'tool_result', tool_use_id: 'y', content: [{ type: 'text', text: 'two' }] },
        { type: 'text', text: 'hurry' },
      ],
    })
    expect(losses).toEqual([])
  })

  test('answers a call without a result with an error, also at its end', () => {
    const missing = {
      type: 'tool_result',
      tool_use_id: 'x',
      content: [{ type: 'text', text: 'No result was given for this call.' }],
      is_error: true,
    }
    expect(write({ turns: [user('a'), says(call('x')), user('b')] }).body.messages[2].content).toEqual([
      missing,
      { type: 'text', text: 'b' },
    ])
    const end = write({ turns: [user('a'), says(call('x'))] })
    expect(end.body.messages[2]).toEqual({ role: 'user', content: [missing] })
    expect(end.lost).toEqual(['call x approximated'])
  })

  test('sends a result without a call as text', () => {
    const { body, lost } = write({ turns: [user('a'), tool(result('ghost', 'boo'))] })
    expect(body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'Result of the tool call ghost:' },
          { type: 'text', text: 'boo' },
        ],
      },
    ])
    expect(lost).toEqual(['result ghost approximated'])
  })

  test('moves text behind a call before it', () => {
    const { body, lost } = write({ turns: [user('a'), says(call('x'), text('on it')), tool(result('x'))] })
    expect(body.messages[1].content.map(({ type }: Any) => type)).toEqual(['text', 'tool_use'])
    expect(lost).toEqual(['conversation approximated'])
  })

  test('rewrites ids on both sides alike, and never uses one twice', () => {
    const { body } = write({
      turns: [
        user('a'),
        says(call('call:1')),
        tool(result('call:1')),
        says(call('call:1')),
        tool(result('call:1')),
        says(call('fine-1')),
        tool(result('fine-1')),
      ],
    })
    const ids = body.messages
      .flatMap(({ content }: Any) => content.map((block: Any) => block.id ?? block.tool_use_id))
      .filter(Boolean) as string[]
    expect(ids).toHaveLength(6)
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/)
    expect([ids[0], ids[2], ids[4]]).toEqual([ids[1], ids[3], ids[5]])
    expect(new Set(ids).size).toBe(3)
    expect(ids[4]).toBe('fine-1')
  })

  test('is written in time that grows with its length only', () => {
    const many = 40_000
    const calls = Array.from({ length: many }, (_, n) => [call('same'), text(`${n}`)]).flat()
    const results = Array.from({ length: many }, (_, n) => result(n % 2 === 0 ? 'same' : `ghost-${n}`))
    const { body } = write({ turns: [user('a'), says(...calls), tool(...results)] })
    expect(body.messages[2].content.slice(0, many).every((block: Any) => block.type === 'tool_result')).toBe(true)
  })

  test('lets the user speak first', () => {
    const { body, lost } = write({ turns: [says(text('hello')), user('hi')] })
    expect(body.messages[0].role).toBe('user')
    expect(lost).toEqual(['conversation approximated'])
  })

  test('of instructions alone sends them as a message', () => {
    const { body, lost } = write({ system: [text('be brief')], turns: [] })
    expect(body).toMatchObject({ messages: [{ role: 'user', content: [{ type: 'text', text: 'be brief' }] }] })
    expect(body.system).toBeUndefined()
    expect(lost).toEqual(['system approximated'])
  })

  test('with nothing in it is refused', () => {
    expect(() => write({ turns: [user(' ')] })).toThrow('messages')
  })

  test('may end with the beginning of an answer', () => {
    const { body, lost } = write({ turns: [user('a'), says(text('Once upon '))] })
    expect(body.messages.at(-1)).toEqual({ role: 'assistant', content: [{ type: 'text', text: 'Once upon' }] })
    expect(lost).toEqual(['conversation approximated'])
  })
})

describe('parts', () => {
  const parts = (...list: Part[]): Any[] => write({ turns: [{ role: 'user', parts: list }] }).body.messages[0].content

  test('media', () => {
    expect(
      parts(
        { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AA==' }, cache: { ttl: '1h' } },
        { type: 'image', source: { type: 'url', url: 'https://x' } },
        { type: 'file', filename: 'a.pdf', source: { type: 'data', mediaType: 'application/pdf', data: 'AA==' } },
        { type: 'file', source: { type: 'data', mediaType: 'text/csv; charset=utf-8', data: btoa('a,b') } },
        { type: 'file', source: { type: 'url', url: 'https://y' } },
      ),
    ).toEqual([
      {
        type: 'image',
        source: { type: 'base64', media_type: 'image/png', data: 'AA==' },
        cache_control: { type: 'ephemeral', ttl: '1h' },
      },
      { type: 'image', source: { type: 'url', url: 'https://x' } },
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AA==' }, title: 'a.pdf' },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' } },
      { type: 'document', source: { type: 'url', url: 'https://y' } },
    ])
  })

  test.each<Part>([
    { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'AA==' } },
    { type: 'video', source: { type: 'url', url: 'https://x' } },
    { type: 'file', source: { type: 'data', mediaType: 'application/zip', data: 'AA==' } },
    { type: 'file', source: { type: 'file', id: 'file-1' } },
  ])('that no block can hold are refused: %j', (part) => {
    expect(() => parts(part)).toThrow(expect.objectContaining({ code: 'unsupported_parameter', status: 400 }))
  })

  test('reasoning goes back to its maker only', () => {
    const mine = { provider: 'there', model: 'upstream-model' }
    const { body, lost } = write({
      turns: [
        user('a'),
        says(
          { type: 'reasoning', text: 'hm', signature: { data: 'sig', issuer: mine } },
          { type: 'reasoning', text: '', redacted: true, signature: { data: 'dark', issuer: mine } },
          {
            type: 'reasoning',
            text: 'other',
            signature: { data: 'sig', issuer: { provider: 'there', model: 'older-model' } },
          },
          { type: 'reasoning', text: 'plain', signature: { data: 'sig' } },
          { type: 'reasoning', text: 'unsigned' },
          text('b'),
        ),
        user('c'),
      ],
    })
    expect(body.messages[1].content).toEqual([
      { type: 'thinking', thinking: 'hm', signature: 'sig' },
      { type: 'redacted_thinking', data: 'dark' },
      { type: 'text', text: 'b' },
    ])
    expect(lost).toEqual(['thoughts left out'])
  })

  test('arguments keep order and numbers; cut ones become none', () => {
    const { body, lost } = write({
      turns: [
        user('a'),
        says(call('x', '{"z":12345678901234567890,"a":1.0}'), call('y', '{"cut":'), call('e', ''), call('n', '1.0')),
        tool(result('x'), result('y'), result('e'), result('n')),
      ],
    })
    const written = JSON.stringify(body.messages[1].content)
    expect(written).toContain('"input":{"z":12345678901234567890,"a":1.0}')
    expect(body.messages[1].content.slice(1).map(({ input }: Any) => input)).toEqual([{}, {}, {}])
    expect(lost).toEqual(['call.arguments y left out', 'call.arguments n left out'])
  })

  test('a result keeps images and says that it is an error', () => {
    const { body } = write({
      turns: [
        user('a'),
        says(call('x')),
        tool({
          type: 'tool-result',
          callId: 'x',
          isError: true,
          form: 'function',
          content: [
            { type: 'text', text: '' },
            { type: 'image', source: { type: 'url', url: 'u' } },
          ],
        }),
      ],
    })
    expect(body.messages[2].content).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'x',
        content: [{ type: 'image', source: { type: 'url', url: 'u' } }],
        is_error: true,
      },
    ])
  })

  test('an image of the type jpg is a jpeg', () => {
    expect(
      parts({ type: 'image', source: { type: 'data', mediaType: 'image/jpg', data: 'AA==' } })[0]!.source.media_type,
    ).toBe('image/jpeg')
  })

  test('at most four cache marks are sent, the last ones', () => {
    const { body, lost } = write({
      turns: [
        { role: 'user', parts: Array.from({ length: 6 }, (_, n): Part => ({ type: 'text', text: `${n}`, cache: {} })) },
      ],
    })
    expect(body.messages[0].content.map((block: Any) => block.cache_control !== undefined)).toEqual([
      false,
      false,
      true,
      true,
      true,
      true,
    ])
    expect(lost).toEqual(['cache approximated'])
  })

  test('of another protocol are left out', () => {
    const { lost } = write({
      turns: [user('a'), says({ type: 'native', protocol: 'responses', kind: 'computer_call', value: {} })],
    })
    expect(lost).toEqual(['part computer_call left out'])
  })
})

describe('tools', () => {
  const f = (parameters?: unknown): Tool => ({
    type: 'function',
    name: 'f',
    ...(parameters === undefined ? {} : { parameters }),
  })
  const schema = (parameters?: unknown): Any => write({ tools: [f(parameters)] }).body.tools[0].input_schema

  test('always have an object as their schema', () => {
    expect(schema()).toEqual({ type: 'object', properties: {} })
    expect(schema({ properties: { a: {} } })).toEqual({ type: 'object', properties: { a: {} } })
    expect(
      schema({
        $ref: '#/$defs/A',
        $defs: { A: { type: 'object', properties: { a: { $ref: '#/$defs/B' } } }, B: { type: 'string' } },
      }),
    ).toEqual({ type: 'object', properties: { a: { type: 'string' } } })
    expect(
      schema({
        anyOf: [
          { properties: { a: {}, b: {} }, required: ['a', 'b'] },
          { properties: { a: {}, c: {} }, required: ['a'] },
        ],
      }),
    ).toEqual({ type: 'object', properties: { a: {}, b: {}, c: {} }, required: ['a'] })
  })

  test("have Google's upper-case types lowered, and no property of that name touched", () => {
    expect(
      schema({
        type: 'OBJECT',
        properties: {
          type: { type: 'STRING', nullable: true },
          list: { type: 'ARRAY', items: { type: 'INTEGER' } },
          enum: { type: 'STRING', enum: ['STRING'] },
        },
        propertyOrdering: ['type'],
      }),
    ).toEqual({
      type: 'object',
      properties: {
        type: { type: ['string', 'null'] },
        list: { type: 'array', items: { type: 'integer' } },
        enum: { type: 'string', enum: ['STRING'] },
      },
    })
  })

  test('of free text are functions with one field, and the answer unwraps it', () => {
    const asked = request({
      tools: [{ type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: /x/' } }],
    })
    const { body, losses } = messages.call.writeRequest(asked, target())
    expect(body.tools).toEqual([
      {
        name: 'patch',
        input_schema: {
          type: 'object',
          properties: {
            input: { type: 'string', description: 'The whole input as free text, in this lark grammar:\nstart: /x/' },
          },
          required: ['input'],
          additionalProperties: false,
        },
      },
    ])
    expect(losses.map(({ field, of }) => [field, of])).toEqual([['tool.format', 'patch']])
    const answer = messages.call.readAnswer(
      {
        type: 'message',
        content: [{ type: 'tool_use', id: 'x', name: 'patch', input: { input: 'a\nb' } }],
        stop_reason: 'tool_use',
        usage: {},
      },
      {},
      asked,
    )
    expect(answer.slice(2, 5)).toEqual([
      { type: 'part-start', part: 0, head: { type: 'tool-call', id: 'x', name: 'patch', form: 'custom' } },
      { type: 'part-delta', part: 0, text: 'a\nb' },
      { type: 'part-end', part: 0 },
    ])
  })

  test('of free text whose input is not that one field are told as they came, streamed or not', () => {
    const asked = request({ tools: [{ type: 'custom', name: 'patch' }] })
    const block = { type: 'tool_use', id: 'x', name: 'patch' }
    const reader = messages.call.reader({}, asked)
    const frames = [
      { type: 'message_start', message: {} },
      { type: 'content_block_start', index: 0, content_block: { ...block, input: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"file":1}' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_stop' },
    ]
    const streamed = frames.flatMap((frame) => reader.read({ data: JSON.stringify(frame) }))
    const whole = messages.call.readAnswer({ content: [{ ...block, input: { file: 1 } }] }, {}, asked)
    for (const events of [streamed, whole])
      expect(fold(events).parts).toMatchObject([{ form: 'custom', arguments: '{"file":1}' }])
  })

  test('no bare choice of words is asked for where there is none', () => {
    expect(() => messages.call.writeRequest(request({ outputFormat: { type: 'enum', schema: {} } }), target())).toThrow(
      'text/x.enum',
    )
  })

  test('with names outside the grammar are renamed there and back', () => {
    const asked = request({
      tools: [
        { type: 'function', name: 'a.b:c' },
        { type: 'function', name: 'a_b_c' },
      ],
      toolChoice: { type: 'tool', name: 'a.b:c' },
    })
    const { body } = messages.call.writeRequest(asked, target()) as { body: Any }
    const [renamed, plain] = body.tools.map(({ name }: Any) => name as string)
    expect(renamed).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(plain).toBe('a_b_c')
    expect(body.tool_choice).toEqual({ type: 'tool', name: renamed })
    const [, , start] = messages.call.readAnswer(
      { content: [{ type: 'tool_use', id: 'x', name: renamed, input: {} }], usage: {} },
      {},
      asked,
    )
    expect(start).toMatchObject({ head: { name: 'a.b:c', form: 'function' } })
  })

  test('of other protocols are refused, or left out where they may be', () => {
    const native: Tool = { type: 'native', protocol: 'responses', kind: 'computer', value: {} }
    expect(() => write({ tools: [native] })).toThrow(expect.objectContaining({ code: 'unsupported_parameter' }))
    expect(write({ tools: [{ ...native, optional: true }] }).lost).toEqual(['tool computer left out'])
  })

  test('are chosen', () => {
    const choice = (parts: Any): unknown => write({ tools: [f()], ...parts }).body.tool_choice
    expect(choice({ toolChoice: { type: 'required' } })).toEqual({ type: 'any' })
    expect(choice({ toolChoice: { type: 'none' }, parallelTools: false })).toEqual({ type: 'none' })
    expect(choice({ parallelTools: false })).toEqual({ type: 'auto', disable_parallel_tool_use: true })
    expect(choice({ parallelTools: true })).toBeUndefined()
    expect(write({ toolChoice: { type: 'required' } })).toMatchObject({ lost: ['toolChoice left out'] })
    const some = write({
      tools: [f(), { type: 'function', name: 'g' }],
      toolChoice: { type: 'allowed', names: ['g'], required: true },
    })
    expect(some.body).toMatchObject({ tools: [{ name: 'g' }], tool_choice: { type: 'any' } })
    expect(some.lost).toEqual(['toolChoice approximated'])
  })

  test("search is Anthropic's own", () => {
    expect(
      write({
        webSearch: { contextSize: 'low', userLocation: { type: 'approximate', approximate: { city: 'Bern' } } },
      }),
    ).toMatchObject({
      body: {
        tools: [
          { type: 'web_search_20250305', name: 'web_search', user_location: { type: 'approximate', city: 'Bern' } },
        ],
      },
      lost: ['webSearch.contextSize left out'],
    })
  })
})

describe('depth', () => {
  test.each([
    [
      'an effort as a budget',
      { reasoning: { effort: 'high' }, maxOutputTokens: 50000 },
      {},
      { max_tokens: 50000, thinking: { type: 'enabled', budget_tokens: 16384 } },
      ['reasoning.effort approximated'],
    ],
    [
      'an exact budget',
      { reasoning: { budgetTokens: 3000 } },
      {},
      { max_tokens: 5000, thinking: { type: 'enabled', budget_tokens: 3000 } },
      [],
    ],
    [
      'a budget over the limit',
      { reasoning: { budgetTokens: 9000 } },
      {},
      { max_tokens: 5000, thinking: { type: 'enabled', budget_tokens: 4000 } },
      ['reasoning.budgetTokens approximated'],
    ],
    [
      'a budget under the least',
      { reasoning: { budgetTokens: 10 } },
      {},
      { thinking: { type: 'enabled', budget_tokens: 1024 } },
      ['reasoning.budgetTokens approximated'],
    ],
    [
      'no room for a budget',
      { reasoning: { effort: 'low' }, maxOutputTokens: 1000 },
      {},
      { max_tokens: 1000, thinking: undefined },
      ['reasoning left out'],
    ],
    [
      'a limit of our own that grows',
      { reasoning: { effort: 'medium' }, maxOutputTokens: undefined },
      {},
      { max_tokens: 12288, thinking: { type: 'enabled', budget_tokens: 8192 } },
      ['maxOutputTokens approximated', 'reasoning.effort approximated'],
    ],
    ['the limit of the model', { maxOutputTokens: undefined }, { maxOutputTokens: 64000 }, { max_tokens: 64000 }, []],
    [
      'a limit over that of the model',
      { maxOutputTokens: 99999 },
      { maxOutputTokens: 8192 },
      { max_tokens: 8192 },
      ['maxOutputTokens approximated'],
    ],
    [
      'an effort where the model takes one',
      { reasoning: { effort: 'xhigh', visible: false } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'xhigh' } },
      [],
    ],
    [
      'a budget where the model takes an effort',
      { reasoning: { budgetTokens: 8000 } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'medium' } },
      ['reasoning.budgetTokens approximated'],
    ],
    ['a wish for summaries alone', { reasoning: { summary: 'auto', visible: true } }, {}, { thinking: undefined }, []],
    ['no reasoning', { reasoning: { effort: 'none' } }, {}, { thinking: { type: 'disabled' } }, []],
    [
      'a model without reasoning',
      { reasoning: { effort: 'high' } },
      { reasoning: 'none' },
      { thinking: undefined },
      ['reasoning left out'],
    ],
  ] as [string, Any, Any, Any, string[]][])('%s', (_name, parts, capabilities, body, lost) => {
    const written = write(parts, capabilities)
    for (const [name, value] of Object.entries(body)) expect(written.body[name]).toEqual(value as Any)
    expect(written.lost).toEqual(lost)
  })

  test('while the model thinks it has no temperature, no top_k and no forced call', () => {
    const { body, lost } = write({
      reasoning: { budgetTokens: 2000 },
      sampling: { temperature: 0.2, topK: 5, topP: 0.5, stop: ['x'] },
      tools: [{ type: 'function', name: 'f' }],
      toolChoice: { type: 'tool', name: 'f' },
    })
    expect(body).toMatchObject({ tool_choice: { type: 'auto' }, stop_sequences: ['x'] })
    for (const name of ['temperature', 'top_k', 'top_p']) expect(body[name]).toBeUndefined()
    expect(lost).toEqual(['toolChoice approximated', 'temperature left out', 'topK left out', 'topP left out'])
  })

  test('a tool turn that does not begin with its own thinking goes on without', () => {
    const turns = [user('a'), says(call('x')), tool(result('x'))]
    expect(write({ turns, reasoning: { budgetTokens: 2000 } })).toMatchObject({ lost: ['reasoning left out'] })
    const thought: Part = {
      type: 'reasoning',
      text: 'hm',
      signature: { data: 's', issuer: { provider: 'there', model: 'upstream-model' } },
    }
    expect(
      write({ turns: [user('a'), says(thought, call('x')), tool(result('x'))], reasoning: { budgetTokens: 2000 } }).body
        .thinking,
    ).toEqual({ type: 'enabled', budget_tokens: 2000 })
  })
})

describe('the rest', () => {
  test('sampling', () => {
    expect(write({ sampling: { temperature: 1.7, topP: 1, topK: 3, stop: ['a', ' '] } })).toMatchObject({
      body: { temperature: 1, top_k: 3, stop_sequences: ['a'] },
      lost: ['stop approximated', 'temperature approximated'],
    })
    expect(write({ sampling: { temperature: 0, topP: 0.9 } }).body).toMatchObject({ temperature: 0, top_p: 0.9 })
    expect(write({ sampling: { temperature: 0.5 } }, { sampling: false })).toMatchObject({
      lost: ['temperature left out'],
    })
  })

  test('what has no counterpart is reported, and what changes nothing is not', () => {
    expect(
      write({
        sampling: { frequencyPenalty: 0.5, presencePenalty: 0, seed: 1, logitBias: { 5: 1 }, logprobs: true },
        verbosity: 'low',
        cacheKey: 'k',
        metadata: { a: 1 },
        extras: { store: true },
        serviceTier: 'flex',
      }).lost,
    ).toEqual([
      'frequencyPenalty left out',
      'seed left out',
      'logitBias left out',
      'verbosity left out',
      'metadata left out',
      'cacheKey left out',
      'logprobs left out',
      'serviceTier left out',
    ])
  })

  test('structured output closes its objects; JSON without a schema is left to the prompt', () => {
    const { body, lost } = write({
      outputFormat: {
        type: 'schema',
        name: 'n',
        schema: { type: 'object', properties: { a: { type: 'integer', minimum: 3 } } },
      },
    })
    expect(body.output_config).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: { a: { type: 'integer', description: '{minimum: 3}' } },
          additionalProperties: false,
        },
      },
    })
    expect(lost).toEqual(['outputFormat.schema approximated'])
    expect(write({ outputFormat: { type: 'json' } })).toMatchObject({ lost: ['outputFormat left out'] })
  })

  test('user, tier and stream', () => {
    expect(write({ user: 'u', serviceTier: 'default', stream: true }).body).toMatchObject({
      metadata: { user_id: 'u' },
      service_tier: 'standard_only',
      stream: true,
    })
  })

  test('output other than text is refused', () => {
    expect(() => write({ outputModalities: ['text', 'image'] })).toThrow(
      expect.objectContaining({ code: 'unsupported_parameter' }),
    )
  })

  test('headers pass on versions and betas', () => {
    expect(messages.call.headers(undefined)).toEqual({ 'anthropic-version': '2023-06-01' })
    expect(messages.call.headers(wireOf({}, { 'compat-version': '2026-10-21', 'anthropic-beta': 'a,b' }))).toEqual({
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'a,b',
    })
  })
})

const SCHEMA = join(import.meta.dir, '../../../../shared/specs/schemas/anthropic-messages.schema.json')

describe.skipIf(!existsSync(SCHEMA))('any request', () => {
  test('becomes a body that the published schema takes', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: false, logger: false })
    addFormats(ajv)
    ajv.addSchema(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object, 'spec')
    const validate = ajv.compile({ $ref: 'spec#/$defs/CreateMessageParams' })
    let valid = 0
    fc.assert(
      fc.property(requests, (parts) => {
        const { body } = write(parts)
        const plain = JSON.parse(JSON.stringify(body)) as Any
        if (!validate(plain))
          throw new Error(`${JSON.stringify(validate.errors?.slice(0, 3))}\n${JSON.stringify(plain)}`)
        alternates(plain.messages)
        valid++
      }),
      { numRuns: 300 },
    )
    expect(valid).toBe(300)
  })
})

const words = fc.constantFrom('', ' ', 'one', 'two words', 'ünï')
const ids = fc.constantFrom('a', 'call:b', 'c/d', '')
const anyPart: fc.Arbitrary<Part> = fc.oneof(
  words.map(text),
  words.map((value): Part => ({ type: 'refusal', text: value })),
  words.map((value): Part => ({ type: 'reasoning', text: value })),
  fc.tuple(ids, fc.constantFrom('{"a":1}', '', '[1]', '{"cu')).map(([id, args]) => call(id, args)),
  fc.constant<Part>({ type: 'image', source: { type: 'url', url: 'https://x' } }),
)
const anyTurn: fc.Arbitrary<Turn> = fc.oneof(
  fc
    .array(
      anyPart.filter(({ type }) => type !== 'tool-call' && type !== 'reasoning'),
      { maxLength: 3 },
    )
    .map((parts): Turn => ({ role: 'user', parts })),
  fc.array(anyPart, { maxLength: 4 }).map((parts): Turn => ({ role: 'assistant', parts })),
  fc
    .array(fc.tuple(ids, words), { minLength: 1, maxLength: 3 })
    .map((list): Turn => tool(...list.map(([id, value]) => result(id, value)))),
  words.map((value): Turn => ({ role: 'system', parts: [text(value)] })),
)
const requests = fc.record({
  system: fc.array(words.map(text), { maxLength: 2 }),
  turns: fc.array(anyTurn, { maxLength: 8 }).map((turns) => [user('first'), ...turns]),
  tools: fc.constantFrom<Tool[]>(
    [],
    [{ type: 'function', name: 'f', parameters: { type: 'OBJECT' } }],
    [{ type: 'custom', name: 'x y' }],
  ),
  toolChoice: fc.constantFrom<ToolChoice>({ type: 'auto' }, { type: 'required' }),
  sampling: fc.record({
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    stop: fc.constantFrom<string[]>(['x'], [' ']),
  }),
  reasoning: fc.constantFrom<Reasoning>({ effort: 'low' }, { budgetTokens: 5 }, { adaptive: true }),
})

/** What the schema does not say: who speaks when, and that each call is answered at once. */
function alternates(list: Any[]): void {
  const seen = new Set<string>()
  for (const [index, message] of list.entries()) {
    expect(message.role).toBe(index % 2 === 0 ? 'user' : 'assistant')
    expect(message.content.length).toBeGreaterThan(0)
    const calls = message.content.filter(({ type }: Any) => type === 'tool_use').map(({ id }: Any) => id as string)
    for (const id of calls) {
      expect(seen.has(id)).toBe(false)
      seen.add(id)
    }
    expect((list[index + 1]?.content ?? []).slice(0, calls.length).map((block: Any) => block.tool_use_id)).toEqual(
      calls,
    )
    for (const block of message.content) if (block.type === 'text') expect(block.text.trim()).not.toBe('')
  }
}
