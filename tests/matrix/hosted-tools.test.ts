import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { prepare } from '../../src/providers/attempt.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { eventsOf } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json, others, send, sendOrRefuse, sendTo, type Sent } from './routes.ts'

/** Tools that providers of several protocols run: code, remote servers of tools, images. */

const CODE: Partial<Record<ConversationName, Json>> = {
  responses: { type: 'code_interpreter', container: { type: 'auto' } },
  messages: { type: 'code_execution_20250825', name: 'code_execution' },
  generateContent: { codeExecution: {} },
}

const URL = 'https://mcp.example/sse'
const SERVER: Json = {
  type: 'mcp',
  server_label: 'docs',
  server_url: URL,
  authorization: 'token',
  allowed_tools: ['ask'],
  require_approval: 'never',
}
const TOOLSET: Json = {
  type: 'mcp_toolset',
  mcp_server_name: 'docs',
  default_config: { enabled: false },
  configs: { ask: { enabled: true } },
}
const SERVERS: Json[] = [{ type: 'url', name: 'docs', url: URL, authorization_token: 'token' }]

/** The losses of tools; the output limit is another subject. */
const lossesOf = ({ losses }: Pick<Sent, 'losses'>): string[] =>
  codesAndPaths(losses).filter((loss) => !loss.startsWith('limit_required'))

describe('a tool that the provider runs', () => {
  test('code is run by the tool of the provider', () => {
    for (const [client, tool] of Object.entries(CODE) as [ConversationName, Json][])
      for (const provider of others(client)) {
        const body = { ...HELLO[client], tools: [tool] }
        if (provider === 'chat.completions') {
          const param = expect.stringContaining('tools[0]') as string
          expect(sendOrRefuse(client, provider, body)).toMatchObject({ code: 'unsupported_parameter', param })
          continue
        }
        const sent = send(client, provider, body)
        expect([sent.body.tools, lossesOf(sent)]).toEqual([[CODE[provider]], []])
      }
  })

  test('a remote server of tools is one for OpenAI and Anthropic, with its token and the allowed tools', () => {
    const sent = send('responses', 'messages', { ...HELLO.responses, tools: [SERVER] })
    expect([sent.body.tools, sent.body.mcp_servers, lossesOf(sent)]).toEqual([[TOOLSET], SERVERS, []])
    const own = { ...HELLO.messages, tools: [TOOLSET], mcp_servers: SERVERS }
    expect(send('messages', 'responses', own)).toMatchObject({ body: { tools: [SERVER] }, losses: [] })
    for (const [tool_configuration, allowed_tools] of [
      [{ enabled: true, allowed_tools: ['ask'] }, ['ask']],
      [{ enabled: false, allowed_tools: ['ask'] }, []],
    ]) {
      const older = [{ ...SERVERS[0], tool_configuration }]
      const { body, losses } = send('messages', 'responses', { ...HELLO.messages, mcp_servers: older })
      expect([body.tools, losses]).toEqual([[{ ...SERVER, allowed_tools }], []])
    }
    for (const provider of ['chat.completions', 'generateContent'] as const)
      expect(sendOrRefuse('messages', provider, own)).toMatchObject({ code: 'unsupported_parameter' })
  })

  test('a request to Anthropic with a server has the beta header that it needs', () => {
    const context = contextOf('responses', { ...HELLO.responses, tools: [SERVER] })
    const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
    const endpoint = { protocol: 'messages', baseUrl: '', target } as unknown as Parameters<typeof prepare>[0]
    expect(prepare(endpoint, context, new SchemaCache()).headers['anthropic-beta']).toStartWith('mcp-client-')
  })

  test.each([
    ['approval of the client', { ...SERVER, require_approval: 'always' }],
    ['approval by default', { ...SERVER, require_approval: undefined }],
    ['other headers', { ...SERVER, authorization: undefined, headers: { 'x-key': 'k' } }],
    ['a connector', { ...SERVER, server_url: undefined, connector_id: 'connector_gmail' }],
    ['an existing container', { type: 'code_interpreter', container: 'cntr_1' }],
    ['files', { type: 'code_interpreter', container: { type: 'auto', file_ids: ['file-1'] } }],
  ])('with %s is refused, since no other provider has it', (_, tool) => {
    for (const provider of others('responses'))
      expect(sendOrRefuse('responses', provider, { ...HELLO.responses, tools: [tool] })).toMatchObject({
        code: 'unsupported_parameter',
        param: 'tools[0]',
      })
  })

  test('images are made by the tool of OpenAI', () => {
    const config = { responseModalities: ['TEXT', 'IMAGE'], imageConfig: { aspectRatio: '16:9' } }
    const { body, losses } = send('generateContent', 'responses', {
      ...HELLO.generateContent,
      generationConfig: config,
    })
    expect(body.tools).toEqual([{ type: 'image_generation', size: '1536x1024' }])
    expect(codesAndPaths(losses)).toEqual(['value_adjusted generationConfig.imageConfig'])
    const tool = { type: 'image_generation', size: '1024x1024' }
    const context = contextOf('responses', { ...HELLO.responses, tools: [tool] })
    expect(sendTo('generateContent', context, { output: ['text', 'image'] }).body.generationConfig).toMatchObject({
      responseModalities: ['TEXT', 'IMAGE'],
      imageConfig: { aspectRatio: '1:1' },
    })
  })
})

const user = (text: string): Json => ({ role: 'user', content: text })
const mcpCall = { server_label: 'docs', name: 'ask', arguments: '{"q":"why"}' }

/** Conversations in which a provider ran code and called a tool of a server. */
const HISTORY: Partial<Record<ConversationName, Json>> = {
  responses: {
    model: 'a/b',
    input: [
      user('a'),
      {
        type: 'code_interpreter_call',
        id: 'ci_1',
        status: 'completed',
        container_id: 'c',
        code: 'print(6*7)',
        outputs: [{ type: 'logs', logs: '42' }],
      },
      { type: 'mcp_call', id: 'mcp_1', status: 'completed', ...mcpCall, output: 'Because.', error: null },
      { role: 'assistant', content: 'It is 42.' },
      user('b'),
    ],
  },
  messages: {
    ...HELLO.messages,
    messages: [
      user('a'),
      {
        role: 'assistant',
        content: [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'code_execution', input: { code: 'print(6*7)' } },
          {
            type: 'code_execution_tool_result',
            tool_use_id: 'srvtoolu_1',
            content: { type: 'code_execution_result', stdout: '42\n', stderr: '', return_code: 0, content: [] },
          },
          { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'ask', server_name: 'docs', input: { q: 'why' } },
          { type: 'mcp_tool_result', tool_use_id: 'mcptoolu_1', content: [{ type: 'text', text: 'Because.' }] },
          { type: 'text', text: 'It is 42.' },
        ],
      },
      user('b'),
    ],
  },
  generateContent: {
    contents: [
      { role: 'user', parts: [{ text: 'a' }] },
      {
        role: 'model',
        parts: [
          { executableCode: { language: 'PYTHON', code: 'print(6*7)' } },
          { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '42\n' } },
          { text: 'It is 42.' },
        ],
      },
      { role: 'user', parts: [{ text: 'b' }] },
    ],
  },
}

describe('a conversation in which a provider ran a tool', () => {
  for (const [client, body] of Object.entries(HISTORY) as [ConversationName, Json][])
    test.each(others(client))(`of ${client} goes on with a provider of %s: the steps are text`, (provider) => {
      const { text, losses } = send(client, provider, body)
      const codes = new Set(lossesOf({ losses }).map((loss) => loss.split(' ')[0]))
      for (const said of ['print(6*7)', '42', 'It is 42.']) expect(text).toContain(said)
      if (client !== 'generateContent') for (const said of ['ask', 'docs', 'Because.']) expect(text).toContain(said)
      expect(text).not.toMatch(/srvtoolu|mcptoolu|code_interpreter_call|executableCode/)
      expect(codes).toEqual(new Set(['content_as_text']))
    })
})

/** Responses in which a provider ran code. */
const RAN: Partial<Record<ConversationName, Json>> = {
  responses: { id: 'r', status: 'completed', output: HISTORY.responses!.input.slice(1, 2) },
  messages: {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: HISTORY.messages!.messages[1].content.slice(0, 2),
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
  },
  generateContent: {
    candidates: [{ content: { parts: HISTORY.generateContent!.contents[1].parts.slice(0, 2) }, finishReason: 'STOP' }],
  },
}

/** The code and its output in a response. */
const READ: Partial<Record<ConversationName, (response: Json) => unknown[]>> = {
  responses: ({ output: [item] }) => [item.code, item.outputs[0].logs],
  messages: ({ content: [run, result] }) => [
    run.input.code,
    run.id === result.tool_use_id ? result.content.stdout : 'unpaired',
  ],
  generateContent: ({ candidates: [{ content }] }) => [
    content.parts[0].executableCode.code,
    content.parts[1].codeExecutionResult.output,
  ],
}

describe('a response in which a provider ran code', () => {
  for (const [provider, body] of Object.entries(RAN) as [ConversationName, Json][])
    test.each(others(provider).filter((name) => name in READ))(
      `of ${provider} has the items of a client of %s, streamed and not`,
      (client) => {
        const context = contextOf(client, HELLO[client])
        const events = eventsOf(provider, body)
        const { serve } = protocols[client]
        const [code, output] = READ[client]!(serve.writeResponse(fold(events), context) as Json)
        expect([code, String(output).trim()]).toEqual(['print(6*7)', '42'])
        const writer = serve.writer(contextOf(client, HELLO[client], true))
        const text = events.flatMap((event) => writer.write(event).map(({ data }) => data)).join('\n')
        expect(text).toContain('print(6*7)')
        expect(new Set(context.losses.losses.map(({ code }) => code))).toEqual(new Set(['response_field_adjusted']))
      },
    )
})
