import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import type { Tool } from '../../../src/generation/request.ts'
import { eventsOf, streamedEventsOf } from '../../translating.ts'
import { type Any, write } from './kit.ts'

/** Tools of requests to providers of the Messages API, and calls of them in responses. */

describe('tools', () => {
  const f = (parameters?: unknown): Tool => ({
    type: 'function',
    name: 'f',
    ...(parameters === undefined ? {} : { parameters }),
  })
  const schema = (parameters?: unknown): Any => write({ tools: [f(parameters)] }).body.tools[0].input_schema

  test('always have an object schema', () => {
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

  test("have Google's types in lower case, and no property of that name changed", () => {
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

  test('have their description', () => {
    expect(write({ tools: [{ type: 'function', name: 'f', description: 'Does f.' }] }).body.tools).toEqual([
      { name: 'f', description: 'Does f.', input_schema: { type: 'object', properties: {} } },
    ])
  })

  test('of free text are functions with one property, and the transform unwraps their calls', () => {
    const { body, losses, transforms } = write({
      tools: [{ type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: /x/' } }],
    })
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
    expect(losses.map(({ code, path }) => [code, path])).toEqual([['tool_grammar_described', 'tools[0]']])
    const response = {
      type: 'message',
      content: [{ type: 'tool_use', id: 'x', name: 'patch', input: { input: 'a\nb' } }],
      stop_reason: 'tool_use',
      usage: {},
    }
    expect(eventsOf('messages', response, { transforms }).slice(2, 5)).toEqual([
      { type: 'part-start', part: 0, head: { type: 'tool-call', id: 'x', name: 'patch', form: 'custom' } },
      { type: 'part-delta', part: 0, text: 'a\nb' },
      { type: 'part-end', part: 0 },
    ])
  })

  test('of free text keep an input that is not that one property, streamed or not', () => {
    const { transforms } = write({ tools: [{ type: 'custom', name: 'patch' }] })
    const block = { type: 'tool_use', id: 'x', name: 'patch' }
    const frames = [
      { type: 'message_start', message: {} },
      { type: 'content_block_start', index: 0, content_block: { ...block, input: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"file":1}' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_stop' },
    ].map((data) => ({ data: JSON.stringify(data) }))
    const whole = { content: [{ ...block, input: { file: 1 } }] }
    for (const events of [
      streamedEventsOf('messages', frames, { transforms }),
      eventsOf('messages', whole, { transforms }),
    ])
      expect(fold(events).parts).toMatchObject([{ form: 'custom', arguments: '{"file":1}' }])
  })

  test('with names that the provider refuses are renamed, and restored in the response', () => {
    const { body, lost, transforms } = write({
      tools: [
        { type: 'function', name: 'a.b:c' },
        { type: 'function', name: 'a_b_c' },
      ],
      toolChoice: { type: 'tool', name: 'a.b:c' },
    })
    const [renamed, plain] = body.tools.map(({ name }: Any) => name as string)
    expect(renamed).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(plain).toBe('a_b_c')
    expect(body.tool_choice).toEqual({ type: 'tool', name: renamed })
    expect(lost).toEqual(['tool_renamed tools[0]'])
    const response = { content: [{ type: 'tool_use', id: 'x', name: renamed, input: {} }], usage: {} }
    const [, , start] = eventsOf('messages', response, { transforms })
    expect(start).toMatchObject({ head: { name: 'a.b:c', form: 'function' } })
  })

  test('of other protocols are refused, or left out if they are optional', () => {
    const native: Tool = { type: 'native', protocol: 'responses', kind: 'computer', value: {} }
    expect(() => write({ tools: [native] })).toThrow(expect.objectContaining({ code: 'unsupported_parameter' }))
    expect(write({ tools: [{ ...native, optional: true }] }).lost).toEqual(['tool_native tools[0]'])
  })

  test('are chosen as the client requests', () => {
    const choice = (parts: Any): unknown => write({ tools: [f()], ...parts }).body.tool_choice
    expect(choice({ toolChoice: { type: 'required' } })).toEqual({ type: 'any' })
    expect(choice({ toolChoice: { type: 'none' }, parallelTools: false })).toEqual({ type: 'none' })
    expect(choice({ parallelTools: false })).toEqual({ type: 'auto', disable_parallel_tool_use: true })
    expect(choice({ parallelTools: true })).toBeUndefined()
  })

  test('that are required without any tool are reported', () => {
    expect(write({ toolChoice: { type: 'required' } }).lost).toEqual(['tool_choice_dropped tool_choice'])
  })

  test('are sent without those that the choice does not allow', () => {
    const { body, lost } = write({
      tools: [f(), { type: 'function', name: 'g' }],
      toolChoice: { type: 'allowed', names: ['g'], required: true },
    })
    expect(body).toMatchObject({ tools: [{ name: 'g' }], tool_choice: { type: 'any' } })
    expect(lost).toEqual(['tool_choice_adjusted tool_choice'])
  })

  test("have Anthropic's own web search", () => {
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
      lost: ['unsupported_field web_search_options'],
    })
  })
})
