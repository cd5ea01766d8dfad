import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import Ajv2020 from 'ajv/dist/2020.js'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { Capabilities, TranslationContext, Quirks, Target } from '../../../src/protocols/protocol.ts'

/** Requests to providers of chat completions. */

type Json = Record<string, any>
const targetOf = (quirks: Quirks = {}, capabilities: Capabilities = {}): Target => ({
  provider: 'p',
  model: 'up-model',
  quirks,
  capabilities,
})
const requestOf = (fields: Partial<GenerationRequest> = {}): GenerationRequest => ({
  model: 'maker/model',
  system: [],
  turns: [{ role: 'user', parts: [text('hi')] }],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'messages',
  extras: {},
  ...fields,
})
const text = (words: string): Part => ({ type: 'text', text: words })
const written = (fields: Partial<GenerationRequest>, quirks: Quirks = {}, capabilities: Capabilities = {}) => {
  const { body, losses } = chat.call.writeRequest(requestOf(fields), targetOf(quirks, capabilities))
  return { body: JSON.parse(JSON.stringify(body)) as Json, lost: losses.map((loss) => loss.field) }
}
const messagesOf = (turns: Turn[], quirks: Quirks = {}) => written({ turns }, quirks).body.messages as Json[]
const call = (id: string, name = 'f', args = '{}'): Part => ({
  type: 'tool-call',
  id,
  name,
  arguments: args,
  form: 'function',
})
const result = (callId: string, content: Part[] = [text('ok')], more: Json = {}): Part =>
  ({ type: 'tool-result', callId, content, form: 'function', ...more }) as Part

describe('what is asked of a provider', () => {
  test('the quirks', () => {
    expect(written({ stream: true, maxOutputTokens: 5, system: [text('S')] }).body).toEqual({
      model: 'up-model',
      messages: [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'hi' },
      ],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 5,
    })
    expect(
      written(
        { stream: true, maxOutputTokens: 5, system: [text('S')], reasoning: { effort: 'max' } },
        {
          refuses: ['stream_options'],
          maxTokensField: 'max_completion_tokens',
          systemRole: 'developer',
          effortField: 'reasoning',
        },
      ).body,
    ).toEqual({
      model: 'up-model',
      messages: [
        { role: 'developer', content: 'S' },
        { role: 'user', content: 'hi' },
      ],
      stream: true,
      max_completion_tokens: 5,
      reasoning: { effort: 'max' },
    })
  })

  test('depth of reasoning', () => {
    expect(written({ reasoning: { budgetTokens: 5000 } })).toMatchObject({
      body: { reasoning_effort: 'medium' },
      lost: ['reasoning.budgetTokens'],
    })
    expect(written({ reasoning: { budgetTokens: 0 } }).body.reasoning_effort).toBe('none')
    expect(
      written({ reasoning: { budgetTokens: 5000, visible: false } }, { effortField: 'reasoning' }).body.reasoning,
    ).toEqual({ max_tokens: 5000, exclude: true })
    expect(written({ reasoning: { effort: 'high' } }, {}, { reasoning: 'none' })).toMatchObject({ lost: ['reasoning'] })
    expect('reasoning_effort' in written({ reasoning: { budgetTokens: -1 } }).body).toBe(false)
  })

  test('what cannot be carried is said', () => {
    const { body, lost } = written({
      sampling: { topK: 5, temperature: 0, stop: ['1', '2', '3', '4', '5'] },
      serviceTier: 'standard_only',
      system: [{ type: 'text', text: 'S', cache: {} }],
    })
    expect(body).toMatchObject({ temperature: 0, stop: ['1', '2', '3', '4'] })
    expect(lost.sort()).toEqual(['cache', 'serviceTier', 'stop', 'topK'])
    expect(written({ sampling: { temperature: 1, topP: 1, seed: 0 } }, {}, { sampling: false })).toMatchObject({
      lost: ['temperature', 'topP'],
      body: { seed: 0 },
    })
  })

  test('what is said in other words is told', () => {
    expect(
      written({
        turns: [
          { role: 'user', parts: [text('a')] },
          { role: 'assistant', parts: [text('Once upon')] },
        ],
      }).lost,
    ).toEqual(['conversation'])
    expect(
      written({
        turns: [
          { role: 'assistant', parts: [call('a')] },
          { role: 'tool', parts: [result('a', [text('bad')], { isError: true })] },
        ],
      }).lost,
    ).toEqual(['result.isError'])
  })

  test('tools', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', name: 'f', parameters: { type: 'object' } },
      { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
    ]
    expect(written({ tools, toolChoice: { type: 'tool', name: 'c' } }, { customTools: true }).body).toMatchObject({
      tools: [
        { type: 'function', function: { name: 'f' } },
        {
          type: 'custom',
          custom: { name: 'c', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } } },
        },
      ],
      tool_choice: { type: 'custom', custom: { name: 'c' } },
    })
    expect(
      written(
        { tools, toolChoice: { type: 'allowed', names: ['f'], required: false }, parallelTools: false },
        { toolChoices: 'allowed' },
      ).body,
    ).toMatchObject({
      tools: [{}, { type: 'function', function: { name: 'c', parameters: { required: ['input'] } } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      parallel_tool_calls: false,
    })
    const called: GenerationRequest['turns'] = [
      { role: 'assistant', parts: [{ ...call('a'), name: 'c', arguments: 'free', form: 'custom' } as Part] },
      { role: 'tool', parts: [result('a', [text('r')])] },
    ]
    for (const listed of [tools, tools.slice(0, 1), []]) {
      expect(written({ tools: listed, turns: called }, { customTools: true }).body.messages[0].tool_calls).toEqual([
        { id: 'a', type: 'custom', custom: { name: 'c', input: 'free' } },
      ])
    }
    const native = { type: 'native', protocol: 'messages', kind: 'computer', value: {} } as const
    expect(() => written({ tools: [native] })).toThrow(GatewayError)
    expect(written({ tools: [{ ...native, optional: true }] }).lost).toEqual(['tool'])
  })

  test('formats', () => {
    expect(written({ outputFormat: { type: 'schema', schema: { type: 'object' } } }).body.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: { type: 'object' } },
    })
    expect(() => written({ outputFormat: { type: 'enum', schema: {} } })).toThrow('text/x.enum')
    expect(() => written({ outputModalities: ['audio'] })).toThrow(GatewayError)
  })
})

describe('the conversation', () => {
  test('results with media: the text answers the call, the media follow', () => {
    const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }
    const messages = messagesOf([
      { role: 'assistant', parts: [call('a'), call('b')] },
      {
        role: 'tool',
        parts: [result('a', [text('see'), image], { name: 'f' }), result('b', [text('bad')], { isError: true })],
      },
    ])
    expect(messages.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'see\n[The content follows in the next user message.]' },
      { role: 'tool', tool_call_id: 'b', content: 'Error: bad' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Content returned by the tool call a (f):' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ],
      },
    ])
  })

  test('every call is answered right after it, and nothing else is', () => {
    const missing = messagesOf([
      { role: 'assistant', parts: [call('a'), call('b')] },
      { role: 'tool', parts: [result('b')] },
      { role: 'user', parts: [text('go')] },
    ])
    expect(missing.map((message) => [message.role, message.tool_call_id])).toEqual([
      ['assistant', undefined],
      ['tool', 'b'],
      ['tool', 'a'],
      ['user', undefined],
    ])
    expect(
      messagesOf([
        { role: 'assistant', parts: [call('a')] },
        { role: 'user', parts: [text('go')] },
      ]).map((message) => message.role),
    ).toEqual(['assistant', 'tool', 'user'])
    expect(messagesOf([{ role: 'tool', parts: [result('zz', [text('R')], { name: 'f' })] }])).toEqual([
      { role: 'user', content: 'Result of the tool call zz (f):\nR' },
    ])
    expect(
      messagesOf([
        { role: 'assistant', parts: [call('a')] },
        { role: 'assistant', parts: [call('b')] },
        { role: 'tool', parts: [result('a'), result('b')] },
      ]).map((message) => [message.role, message.tool_calls?.length ?? 0]),
    ).toEqual([
      ['assistant', 2],
      ['tool', 0],
      ['tool', 0],
    ])
  })

  test('long ids and odd names are shortened alike on both sides', () => {
    const id = 'toolu_'.repeat(20)
    const [asked, answered] = messagesOf([
      { role: 'assistant', parts: [call(id, 'a.b')] },
      { role: 'tool', parts: [result(id)] },
    ])
    expect(asked!.tool_calls[0].id.length).toBeLessThanOrEqual(64)
    expect(answered!.tool_call_id).toBe(asked!.tool_calls[0].id)
    expect(asked!.tool_calls[0].function.name).toMatch(/^[\w-]+$/)
  })

  test('reasoning goes to its maker and, unsigned, to whoever takes it', () => {
    const turns = (part: Json): Turn[] => [
      { role: 'assistant', parts: [{ type: 'reasoning', text: 'Hm', ...part } as Part, text('x')] },
    ]
    const ours = { data: 'S', issuer: { provider: 'p', model: 'up-model' } }
    expect(messagesOf(turns({}))[0]).toEqual({ role: 'assistant', content: 'x', reasoning_content: 'Hm' })
    expect(messagesOf(turns({}), { reasoningField: 'none' })[0]).toEqual({ role: 'assistant', content: 'x' })
    expect(messagesOf(turns({ signature: { data: 'S' } }))[0]).toEqual({ role: 'assistant', content: 'x' })
    expect(messagesOf(turns({ signature: { ...ours, issuer: { provider: 'p', model: 'other' } } }))[0]).toEqual({
      role: 'assistant',
      content: 'x',
    })
    expect(messagesOf(turns({ signature: ours }), { reasoningField: 'reasoning_details' })[0]).toMatchObject({
      reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: 'S', index: 0 }],
    })
    expect(
      written({
        turns: [
          {
            role: 'assistant',
            parts: [{ ...call('a'), signature: { data: 'S', issuer: { provider: 'p', model: 'other' } } } as Part],
          },
          { role: 'tool', parts: [result('a')] },
        ],
      }).lost,
    ).toEqual(['signature'])
    expect(
      messagesOf(turns({ text: '', redacted: true, id: 'rs', signature: ours }), {
        reasoningField: 'reasoning_details',
      })[0],
    ).toMatchObject({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'S', id: 'rs', index: 0 }] })
  })

  test('instructions in the middle stay there; empty text is not sent; video is refused', () => {
    expect(
      messagesOf([
        { role: 'user', parts: [text(''), text('a')] },
        { role: 'developer', parts: [text('D')] },
        { role: 'assistant', parts: [] },
      ]),
    ).toEqual([
      { role: 'user', content: 'a' },
      { role: 'system', content: 'D' },
    ])
    expect(() =>
      messagesOf([{ role: 'user', parts: [{ type: 'video', source: { type: 'url', url: 'https://a.b' } }] }]),
    ).toThrow(GatewayError)
  })
})

const exchangeOf = (source: string): TranslationContext => {
  const rawRequest = { text: source, body: JSON.parse(source) as Json, headers: new Headers() }
  return {
    rawRequest,
    request: chat.serve.readRequest(rawRequest),
    responseIdentity: { id: 'chatcmpl-ours', model: 'maker/model', createdAt: 1 },
  }
}

describe('the passing lane', () => {
  const asked =
    '{ "model":"maker/model", "messages":[{"role":"user","content":"hi \\u00e9"}], "big":12345678901234567890, "stream":true, "provider":{"only":["x"]}, "models":["a"], "stream_options":{"include_obfuscation":false} }'
  test('changes only what it must', () => {
    expect(chat.call.forward(exchangeOf(asked), targetOf())).toBe(
      '{ "model":"up-model", "messages":[{"role":"user","content":"hi \\u00e9"}], "big":12345678901234567890, "stream":true, "stream_options":{"include_usage":true,"include_obfuscation":false} }',
    )
    expect(
      JSON.parse(chat.call.forward(exchangeOf(asked), targetOf({ routesItself: true, refuses: ['stream_options'] }))),
    ).toMatchObject({ model: 'up-model', provider: { only: ['x'] }, models: ['a'] })
    expect(chat.call.forward(exchangeOf(asked), targetOf({ refuses: ['stream_options'] }))).not.toContain(
      'stream_options',
    )
    expect(
      chat.call.forward(
        exchangeOf('{"model":"a/b","messages":[{"role":"user","content":"x"}],"stream":false}'),
        targetOf(),
      ),
    ).toBe('{"model":"up-model","messages":[{"role":"user","content":"x"}],"stream":false}')
    expect(
      JSON.parse(
        chat.call.forward(
          exchangeOf('{"model":"a/b","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":null}'),
          targetOf(),
        ),
      ).stream_options,
    ).toEqual({ include_usage: true })
  })

  test('a limit is given under the name that the provider reads', () => {
    const body = '{"model":"a/b","messages":[{"role":"user","content":"x"}],"max_completion_tokens":7}'
    expect(JSON.parse(chat.call.forward(exchangeOf(body), targetOf({ maxTokensField: 'max_tokens' })))).toMatchObject({
      max_tokens: 7,
    })
    expect(chat.call.forward(exchangeOf(body), targetOf({ maxTokensField: 'max_tokens' }))).not.toContain(
      'max_completion_tokens',
    )
    expect(JSON.parse(chat.call.forward(exchangeOf(body), targetOf()))).toMatchObject({ max_completion_tokens: 7 })
  })

  test('a signature of another maker is left out, its own is opened, a plain one stays', () => {
    const detail = (signature: string): Json => ({ type: 'reasoning.text', text: 'H', signature, index: 0 })
    const details = [
      detail(wrapSignature('theirs', { provider: 'q', model: 'm' })),
      detail(wrapSignature('ours', { provider: 'p', model: 'up-model' })),
      detail('plain'),
    ]
    const sent = chat.call.forward(
      exchangeOf(
        JSON.stringify({ model: 'a/b', messages: [{ role: 'assistant', content: 'x', reasoning_details: details }] }),
      ),
      targetOf(),
    )
    expect(JSON.parse(sent).messages[0].reasoning_details.map((one: Json) => one.signature)).toEqual(['ours', 'plain'])
  })

  test('chunks get our id and model, and what needs no change stays the same object', () => {
    const passthrough = chat.passthrough(exchangeOf(asked))
    const chunk = (content: string) => ({
      data: `{"id":"up","object":"chat.completion.chunk","created":12,"model":"up-model","choices":[{"index":0,"delta":{"content":"${content}"}}],"n":1.0}`,
    })
    for (const content of ['a', 'b', '\\"usage\\"'])
      expect(passthrough.frame(chunk(content))).toEqual({
        data: chunk(content).data.replace('"up"', '"chatcmpl-ours"').replace('"up-model"', '"maker/model"'),
      })
    expect(
      passthrough.frame({ data: '{"id":"up","model":"up-model","choices":[ ],"usage":{"prompt_tokens":1}}' }),
    ).toBeUndefined()
    expect(passthrough.frame({ data: '{"id":"up","model":"up-model","choices":[],"usage":null}' })).toBeDefined()
    expect(JSON.parse(passthrough.frame({ data: '{"choices":[],"model":"x"}' })!.data)).toEqual({
      choices: [],
      model: 'maker/model',
      id: 'chatcmpl-ours',
    })
    const failure = { event: 'error', data: '{"error":{"message":"x"}}' }
    expect(passthrough.frame(failure)).toBe(failure)
    expect(passthrough.frame({ data: '[DONE]' })).toBeUndefined()
    expect(passthrough.end!()).toEqual([{ data: '[DONE]' }])
    expect(JSON.parse(passthrough.fail(new GatewayError('upstream_timeout', 'Late.'))[0]!.data)).toMatchObject({
      id: 'chatcmpl-ours',
      error: { code: 'upstream_timeout' },
      choices: [{ finish_reason: 'error' }],
    })
  })
})

describe("providers' errors", () => {
  const told = (status: number, body: unknown) => {
    const {
      code,
      status: shown,
      message,
      metadata,
    } = chat.call.readError(status, typeof body === 'string' ? body : JSON.stringify(body))
    return { code, status: shown, message, metadata }
  }
  test('by status', () => {
    expect(
      told(400, { error: { message: 'Bad schema', type: 'invalid_request_error', param: 'tools', code: null } }),
    ).toMatchObject({ code: 'invalid_request', status: 400, message: 'Bad schema' })
    expect(told(422, { detail: 'odd' })).toMatchObject({ code: 'invalid_request', status: 400, message: 'odd' })
    expect(
      told(400, {
        error: { message: "This model's maximum context length is 9 tokens.", code: 'invalid_request_error' },
      }).code,
    ).toBe('context_length_exceeded')
    expect(told(404, { error: { message: 'The model `x` does not exist', code: 'model_not_found' } })).toMatchObject({
      code: 'model_not_found',
      status: 404,
    })
    expect(told(413, '<html><h1>Too large</h1></html>')).toMatchObject({
      code: 'request_too_large',
      status: 413,
      message: 'Too large',
    })
    expect(told(429, { error: { message: 'slow' } })).toMatchObject({ code: 'upstream_rate_limited', status: 429 })
    expect(told(503, '')).toMatchObject({ code: 'overloaded', status: 503 })
    expect(told(529, '')).toMatchObject({ code: 'overloaded', status: 503 })
    expect(told(504, '"late"')).toMatchObject({ code: 'upstream_timeout', status: 504 })
    expect(told(500, [{ error: { message: 'boom' } }])).toMatchObject({
      code: 'upstream_error',
      status: 502,
      metadata: { status: 500, message: 'boom' },
    })
    expect(told(400, { code: 'x', error: 'a plain string' }).message).toBe('a plain string')
  })
  test("refused credentials are the operator's, and no key is ever shown", () => {
    for (const [status, body] of [
      [401, { error: { message: 'Incorrect API key provided: sk-proj-abcdef123456', code: 'invalid_api_key' } }],
      [403, 'no'],
      [402, ''],
      [400, { error: { message: 'API key not valid: AIzaSyAbcdef123' } }],
    ] as const) {
      const error = told(status, body)
      expect(error).toMatchObject({ code: 'upstream_error', status: 502 })
      expect(error.message).toContain('credentials')
      expect(JSON.stringify(error)).not.toMatch(/abcdef/i)
    }
    expect(
      told(500, { error: { message: 'sent Authorization: Bearer abcdefghij with sk-abcdefghij and AIzaabcdefghij' } })
        .message,
    ).not.toContain('abcdefghij')
  })
})

const SHARED = new URL('../../../../shared/', import.meta.url).pathname
const INDEX = `${SHARED}recordings/INDEX.jsonl`
describe.skipIf(!existsSync(INDEX))('recorded requests, read and written again', () => {
  const rows = existsSync(INDEX)
    ? readFileSync(INDEX, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Json)
        .filter((row) => row.protocol === 'openai-chat' && row.files.request !== undefined && row.status < 300)
    : []
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (existsSync(INDEX))
    ajv.addSchema(JSON.parse(readFileSync(`${SHARED}specs/schemas/openai-chat.schema.json`, 'utf8')) as object, 'chat')

  test('say the same and fit the schema', () => {
    const valid = ajv.getSchema('chat#/$defs/CreateChatCompletionRequest')!
    let checked = 0
    for (const row of rows) {
      const source = JSON.parse(readFileSync(`${SHARED}recordings/${row.files.request}`, 'utf8')) as Json
      // The specification takes n = 1 only; a tool that the provider runs itself is refused across protocols. Which
      // schemas can be strict is tried with schemas.
      if (source.n > 1 || source.tools?.some((tool: Json) => tool.type !== 'function')) continue
      const request = chat.serve.readRequest({ body: { model: 'm', ...source }, text: '', headers: new Headers() })
      const { body } = chat.call.writeRequest(
        request,
        targetOf({ maxTokensField: 'max_completion_tokens', customTools: true, reasoningField: 'reasoning_details' }),
      )
      const rawRequest = JSON.parse(JSON.stringify(body)) as Json
      if (!valid(rawRequest)) throw new Error(`${row.id}: ${JSON.stringify(valid.errors?.slice(0, 4))}`)
      const again = chat.serve.readRequest({ body: rawRequest, text: '', headers: new Headers() })
      const plain = ({ tools, toolChoice, sampling, maxOutputTokens, outputFormat, stream }: GenerationRequest) => ({
        tools: tools.map((tool) => ({ ...tool, cache: undefined, strict: undefined })),
        toolChoice,
        sampling: { ...sampling, topK: undefined },
        maxOutputTokens,
        outputFormat,
        stream,
      })
      expect(plain(again)).toEqual(plain(request))
      expect(again.turns.filter((turn) => turn.role !== 'assistant').length).toBeGreaterThanOrEqual(
        request.turns.filter((turn) => turn.role !== 'assistant').length,
      )
      checked++
    }
    expect(checked).toBeGreaterThan(80)
  })
})
