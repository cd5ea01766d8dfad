import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { rawRequestOf, read, type Any } from './fixtures.ts'

/** Requests of clients of the Responses API. */

const refusal = (body: object): { param: string | undefined; code: string } => {
  try {
    read(body)
  } catch (error) {
    if (error instanceof GatewayError) return { param: error.param, code: error.code }
    throw error
  }
  throw new Error('was accepted')
}
const one = (item: object) => read({ input: [item] }).turns.flatMap(({ parts }) => parts)

describe('input', () => {
  test('is one user turn as a string, and no turn if absent', () => {
    expect(read({ input: 'hi' }).turns).toEqual([{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }])
    expect(read({}).turns).toEqual([])
  })

  test('has leading instructions as system text, and later ones at their position', () => {
    const request = read({
      instructions: 'A',
      input: [
        { role: 'system', content: 'B' },
        { type: 'message', role: 'developer', id: 'm', content: [{ type: 'input_text', text: 'C' }] },
        { role: 'user', content: 'hi' },
        { role: 'developer', content: 'D' },
      ],
    })
    expect(request.system.map((part) => (part as Any).text)).toEqual(['A', 'B', 'C'])
    expect(request.turns).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
      { role: 'developer', parts: [{ type: 'text', text: 'D' }] },
    ])
  })

  test('accepts instructions as items', () => {
    expect(read({ instructions: [{ role: 'developer', content: 'A' }], input: 'hi' })).toMatchObject({
      system: [{ text: 'A' }],
      turns: [{ role: 'user' }],
    })
  })

  test('has neighbouring items of the assistant as one turn, and their results as another', () => {
    const request = read({
      input: [
        { role: 'user', content: 'go' },
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [
            { type: 'summary_text', text: 'a' },
            { type: 'summary_text', text: 'b' },
          ],
          encrypted_content: 'sig',
        },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          content: [
            { type: 'output_text', text: 'ok', annotations: [], logprobs: [] },
            { type: 'refusal', refusal: 'no' },
          ],
        },
        {
          type: 'function_call',
          call_id: 'c1',
          name: 'f',
          arguments: '{"big":12345678901234567890}',
          id: 'fc_1',
          status: 'completed',
        },
        { type: 'custom_tool_call', call_id: 'c2', name: 'g', input: 'free' },
        {
          type: 'function_call_output',
          call_id: 'c1',
          output: [
            { type: 'input_text', text: 'r' },
            { type: 'input_image', image_url: 'https://x.y/z.png' },
          ],
        },
        { type: 'custom_tool_call_output', call_id: 'c2', output: 'done' },
      ],
    })
    expect(request.turns.slice(1)).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'a\n\nb', form: 'summary', id: 'rs_1', signature: { data: 'sig' } },
          { type: 'text', text: 'ok' },
          { type: 'refusal', text: 'no' },
          { type: 'tool-call', id: 'c1', name: 'f', arguments: '{"big":12345678901234567890}', form: 'function' },
          { type: 'tool-call', id: 'c2', name: 'g', arguments: 'free', form: 'custom' },
        ],
      },
      {
        role: 'tool',
        parts: [
          {
            type: 'tool-result',
            callId: 'c1',
            name: 'f',
            form: 'function',
            content: [
              { type: 'text', text: 'r' },
              { type: 'image', source: { type: 'url', url: 'https://x.y/z.png' } },
            ],
          },
          { type: 'tool-result', callId: 'c2', name: 'g', form: 'custom', content: [{ type: 'text', text: 'done' }] },
        ],
      },
    ])
  })

  test('has reasoning that is raw, of another issuer, or empty', () => {
    const issuer = { provider: 'p', model: 'm' }
    expect(one({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'raw' }] })).toEqual([
      { type: 'reasoning', text: 'raw', form: 'raw' },
    ])
    expect(one({ type: 'reasoning', summary: [], encrypted_content: wrapSignature('s', issuer) })).toEqual([
      { type: 'reasoning', text: '', signature: { data: 's', issuer } },
    ])
    expect(one({ type: 'reasoning', id: 'rs_1', summary: [] })).toEqual([])
  })

  test('keeps native items at their position', () => {
    const search = {
      type: 'web_search_call',
      id: 'ws_1',
      status: 'completed',
      action: { type: 'search', query: 'q', sources: [{ type: 'url', url: 'u' }] },
    }
    const shown = {
      type: 'computer_call_output',
      call_id: 'c',
      output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AA==' },
    }
    const { turns } = read({
      input: [
        { role: 'user', content: 'x' },
        search,
        { role: 'assistant', content: 'y' },
        shown,
        { type: 'mcp_list_tools', id: 'm' },
      ],
    })
    expect(
      turns.map(({ role, parts }) => [role, parts.map((part) => (part.type === 'native' ? part.kind : part.type))]),
    ).toEqual([
      ['user', ['text']],
      ['assistant', ['web_search_call', 'text']],
      ['user', ['computer_call_output']],
      ['assistant', ['mcp_list_tools']],
    ])
  })

  test('has images, files, audio and video from data, URLs and file ids', () => {
    const content = [
      { type: 'input_image', detail: 'high', image_url: 'data:image/png;base64,aGk=' },
      { type: 'input_image', file_id: 'file-1' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=' },
      { type: 'input_file', filename: 'b.csv', file_data: 'aGk=' },
      { type: 'input_file', file_url: 'https://x.y/d.pdf' },
      { type: 'input_audio', input_audio: { data: 'aGk=', format: 'mp3' } },
      { type: 'input_video', video_url: 'https://x.y/d.mp4' },
    ]
    expect(one({ role: 'user', content })).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'aGk=' }, detail: 'high' },
      { type: 'image', source: { type: 'file', id: 'file-1' } },
      { type: 'file', filename: 'a.pdf', source: { type: 'data', mediaType: 'application/pdf', data: 'aGk=' } },
      { type: 'file', filename: 'b.csv', source: { type: 'data', mediaType: 'text/csv', data: 'aGk=' } },
      { type: 'file', source: { type: 'url', url: 'https://x.y/d.pdf' } },
      { type: 'audio', source: { type: 'data', mediaType: 'audio/mpeg', data: 'aGk=' } },
      { type: 'video', source: { type: 'url', url: 'https://x.y/d.mp4' } },
    ])
  })

  test('refuses a reference to an item that is not stored with its id', () => {
    expect(() => read({ input: [{ type: 'item_reference', id: 'msg_9' }] })).toThrow("'msg_9'")
    expect(refusal({ input: [{ id: 'msg_9' }] })).toEqual({ param: 'input[0].id', code: 'not_found' })
  })

  test.each([
    ['model', { model: null }],
    ['model', { model: 3 }],
    ['model', { model: '' }],
    ['stream', { stream: 'yes' }],
    ['input', { input: 5 }],
    ['input[0]', { input: ['x'] }],
    ['input[0].type', { input: [{}] }],
    ['input[0].role', { input: [{ type: 'message', content: 'x' }] }],
    ['input[0].role', { input: [{ role: 'tool', content: 'x' }] }],
    ['input[0].content', { input: [{ role: 'user' }] }],
    ['input[0].status', { input: [{ role: 'user', content: 'x', status: 'done' }] }],
    [
      'input[0].content[1].text',
      { input: [{ role: 'user', content: [{ type: 'input_text', text: '' }, { type: 'input_text' }] }] },
    ],
    ['input[0].content[0].type', { input: [{ role: 'user', content: [{}] }] }],
    [
      'input[0].content[0].detail',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://x.y', detail: 'huge' }] }] },
    ],
    [
      'input[0].content[0].image_url',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'ftp://x' }] }] },
    ],
    ['input[0].content[0]', { input: [{ role: 'user', content: [{ type: 'input_file' }] }] }],
    [
      'input[0].content[0].file_data',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_data: '<>' }] }] },
    ],
    ['input[0].call_id', { input: [{ type: 'function_call', name: 'f', arguments: '' }] }],
    ['input[0].name', { input: [{ type: 'function_call', call_id: 'c', arguments: '' }] }],
    ['input[0].arguments', { input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: {} }] }],
    ['input[0].output', { input: [{ type: 'function_call_output', call_id: 'c' }] }],
    ['input[0].input', { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'f' }] }],
    ['input[0].call_id', { input: [{ type: 'custom_tool_call_output', output: '' }] }],
    ['tools', { tools: {} }],
    ['tools[0].type', { tools: [{}] }],
    ['tools[0].name', { tools: [{ type: 'function' }] }],
    ['tools[0].parameters', { tools: [{ type: 'function', name: 'f', parameters: 'x' }] }],
    ['tools[0].tools[0].name', { tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function' }] }] }],
    ['tool_choice', { tool_choice: 'any' }],
    ['tool_choice.name', { tool_choice: { type: 'function' } }],
    ['text.format.schema', { text: { format: { type: 'json_schema', name: 'n' } } }],
    ['text.verbosity', { text: { verbosity: 'x' } }],
    ['reasoning.effort', { reasoning: { effort: 5 } }],
    ['max_output_tokens', { max_output_tokens: 0 }],
    ['temperature', { temperature: '1' }],
    ['include[0]', { include: [1] }],
    ['metadata', { metadata: [] }],
    ['store', { store: 'no' }],
  ])('refuses a wrong %s with its path', (param, body) => {
    expect(refusal(body)).toEqual({ param, code: 'invalid_request' })
  })
})

describe('hostile input', () => {
  const accepts = (body: Record<string, unknown>): void => {
    try {
      responses.serve.readRequest(rawRequestOf(body))
    } catch (error) {
      if (!(error instanceof GatewayError) || error.status >= 500) throw error
    }
  }

  test('is read or refused, whatever JSON it is', () => {
    const words = [
      'model',
      'input',
      'type',
      'message',
      'role',
      'user',
      'content',
      'tools',
      'function',
      'name',
      'reasoning',
      'summary',
      'function_call',
      '__proto__',
      'constructor',
      'namespace',
      'additional_tools',
      'text',
      'format',
    ]
    const key = fc.oneof(fc.constantFrom(...words), fc.string())
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom(null, true, 0, -1, 1e308, ''),
        fc.constantFrom(...words),
        fc.array(tie('tree'), { maxLength: 4 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
      ),
    }))
    fc.assert(
      fc.property(fc.dictionary(key, tree, { maxKeys: 8 }), (body) => accepts({ model: 'm', ...body })),
      { numRuns: 500 },
    )
  })

  const folder = join(import.meta.dir, '../../../../shared/recordings/openai-responses')
  test.skipIf(!existsSync(folder))(
    'is read or refused, whatever value is put anywhere in a recorded request',
    () => {
      const bodies = readdirSync(folder)
        .filter((name) => name.endsWith('.request.json'))
        .map((name) => readFileSync(join(folder, name), 'utf8'))
        .filter((text) => text.length < 20_000)
      const pathsOf = (value: unknown, path: (string | number)[] = []): (string | number)[][] =>
        typeof value !== 'object' || value === null
          ? [path]
          : [path, ...Object.entries(value).flatMap(([name, inner]) => pathsOf(inner, [...path, name]))]
      fc.assert(
        fc.property(
          fc.constantFrom(...bodies),
          fc.nat(),
          fc.anything({ maxDepth: 2, withBigInt: false }),
          (text, at, junk) => {
            const body = JSON.parse(text)
            const paths = pathsOf(body).slice(1)
            const path = paths[at % paths.length]!
            let inside = body
            for (const name of path.slice(0, -1)) inside = inside[name]
            inside[path.at(-1)!] = junk
            accepts(body)
          },
        ),
        { numRuns: 400 },
      )
    },
    60_000,
  )
})
