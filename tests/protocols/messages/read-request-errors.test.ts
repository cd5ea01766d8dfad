import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { type Any, read } from './kit.ts'

/** Requests of clients of the Messages API that are refused, and their errors. */

const refusal = (body: Any): GatewayError => {
  try {
    read(body)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('was accepted')
}

test.each([
  [{ role: 'user' }, 'messages[0].content'],
  [{ role: 'user', content: null }, 'messages[0].content'],
  [
    { role: 'user', content: [{ type: 'document', source: { type: 'content' } }] },
    'messages[0].content[0].source.content',
  ],
])('the error of %j says that its content is required', (message, path) => {
  expect(refusal({ messages: [message] }).message).toBe(`${path}: is required: a string or an array of content blocks`)
})

describe('a request', () => {
  test.each([
    ['model', { model: undefined }],
    ['model', { model: 5 }],
    ['max_tokens', { max_tokens: undefined }],
    ['max_tokens', { max_tokens: -1 }],
    ['max_tokens', { max_tokens: 1.5 }],
    ['max_tokens', { max_tokens: '100' }],
    ['messages', { messages: undefined }],
    ['messages', { messages: [] }],
    ['messages', { messages: 'Hi' }],
    ['messages[0]', { messages: ['Hi'] }],
    ['messages[0].role', { messages: [{ content: 'Hi' }] }],
    ['messages[0].role', { messages: [{ role: 'robot', content: 'Hi' }] }],
    ['messages[0].content', { messages: [{ role: 'user' }] }],
    ['messages[0].content', { messages: [{ role: 'user', content: 7 }] }],
    ['messages[0].content[1].type', { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, {}] }] }],
    ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text', text: 7 }] }] }],
    ...[undefined, null, 'x'].map((source): [string, Any] => [
      'messages[0].content[0].source',
      { messages: [{ role: 'user', content: [{ type: 'document', source }] }] },
    ]),
    ...(
      [
        ['type', {}],
        ['data', { type: 'base64', media_type: 'image/png' }],
        ['media_type', { type: 'base64', data: 'AA==' }],
        ['url', { type: 'url' }],
        ['file_id', { type: 'file' }],
        ['data', { type: 'text' }],
        ['content', { type: 'content' }],
      ] as const
    ).map(([name, source]): [string, Any] => [
      `messages[0].content[0].source.${name}`,
      { messages: [{ role: 'user', content: [{ type: 'document', source }] }] },
    ]),
    [
      'messages[0].content[0].source.media_type',
      {
        messages: [
          { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: ' ', data: 'AAAA' } }] },
        ],
      },
    ],
    [
      'messages[0].content[0].source.url',
      { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'url' } }] }] },
    ],
    ['messages[0].content[0].tool_use_id', { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] }],
    ['messages[0].content[0].name', { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a' }] }] }],
    ['stream', { stream: 'yes' }],
    ['temperature', { temperature: 'hot' }],
    ['stop_sequences[0]', { stop_sequences: [7] }],
    ['tool_choice.type', { tool_choice: { type: 'maybe' } }],
    ['tool_choice.name', { tool_choice: { type: 'tool' } }],
    ['tools[0].name', { tools: [{ input_schema: {} }] }],
    ['thinking.budget_tokens', { thinking: { type: 'enabled', budget_tokens: 'all' } }],
    ['metadata.user_id', { metadata: { user_id: 7 } }],
  ])('is refused with the path of %s', (param, body) => {
    const error = refusal(body)
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, param })
    expect(error.message).toStartWith(`${param}: `)
  })

  test('with a thread is refused with the error code for which the SDK sends the full conversation', () => {
    const error = refusal({ thread: { type: 'create' } })
    expect(error.status).toBe(400)
    expect(messages.serve.writeError(error, 'req_1')).toMatchObject({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
      },
      request_id: 'req_1',
    })
  })

  test('throws only a GatewayError, for any JSON', () => {
    const seed = {
      model: 'p/m',
      max_tokens: 5,
      system: [{ type: 'text', text: 's' }],
      tools: [{ name: 'a', input_schema: {} }],
      tool_choice: { type: 'auto' },
      thinking: { type: 'adaptive' },
      output_config: { format: { type: 'json_schema', schema: {} } },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'a', data: 'b' } },
            { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'x' }] } },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 't', signature: 's' },
            { type: 'text', text: 't', citations: [{ type: 'char_location' }] },
            { type: 'tool_use', id: 'i', name: 'n', input: {} },
            { type: 'redacted_thinking', data: 'd' },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'i', content: [{ type: 'text', text: 'x' }] }] },
      ],
    }
    const paths: (string | number)[][] = []
    const walk = (value: unknown, path: (string | number)[]): void => {
      if (path.length > 0) paths.push(path)
      if (typeof value === 'object' && value !== null)
        for (const [key, inner] of Object.entries(value))
          walk(inner, [...path, Array.isArray(value) ? Number(key) : key])
    }
    walk(seed, [])
    const mutated = fc.tuple(fc.constantFrom(...paths), fc.jsonValue({ maxDepth: 4 })).map(([path, value]) => {
      const body = structuredClone(seed) as Any
      const holder = path.slice(0, -1).reduce<Any>((inner, step) => inner[step], body)
      holder[path.at(-1)!] = value
      return body
    })
    let refused = 0
    fc.assert(
      fc.property(
        fc.oneof(
          mutated,
          fc.dictionary(fc.constantFrom('model', 'messages', 'max_tokens', 'tools', '__proto__'), fc.jsonValue()),
        ),
        (body) => {
          try {
            read(JSON.parse(JSON.stringify(body)))
          } catch (error) {
            refused++
            expect(error).toBeInstanceOf(GatewayError)
          }
        },
      ),
      { numRuns: 600 },
    )
    expect(refused).toBeGreaterThan(50)
  })
})

describe('an error', () => {
  test('has the type of its status, and overload has the status 529', () => {
    const body = (error: GatewayError): Any => messages.serve.writeError(error, 'req_9') as Any
    expect(body(new GatewayError('rate_limit_exceeded', 'slow'))).toEqual({
      type: 'error',
      error: { type: 'rate_limit_error', message: 'slow' },
      request_id: 'req_9',
    })
    expect(body(new GatewayError('upstream_error', 'broke', { metadata: { status: 500 } })).error).toEqual({
      type: 'api_error',
      message: 'broke',
      metadata: { status: 500 },
    })
    expect(messages.serve.statusOf!(new GatewayError('overloaded', 'full'))).toBe(529)
    expect(messages.serve.statusOf!(new GatewayError('invalid_request', 'bad'))).toBe(400)
  })
})
