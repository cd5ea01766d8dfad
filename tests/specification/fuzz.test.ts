import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { change, mutated, TEXTS } from '../properties/mutations.ts'
import { runs } from '../runs.ts'
import { many, MODELS, post, useGateway, type Json } from './kit.ts'

/** Any request is answered or refused with a 4xx status: it never fails in Sluice or at a provider. */

const gateway = useGateway()

const PNG = 'iVBORw0KGgo='
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['a', 'b'] }, n: { type: ['integer', 'null'] } },
  required: ['city'],
}
type Case = { path: (model: string) => string; body: (model: string) => Json }

const CASES: Record<string, Case> = {
  'chat completions': {
    path: () => '/v1/chat/completions',
    body: (model) => ({
      model,
      max_tokens: 50,
      temperature: 1,
      n: 1,
      stop: ['END'],
      logit_bias: { 5: 1 },
      metadata: { a: 'b' },
      stream: false,
      reasoning_effort: 'low',
      verbosity: 'low',
      tool_choice: 'auto',
      parallel_tool_calls: true,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA } },
      tools: [
        { type: 'function', function: { name: 'f', description: 'd', parameters: SCHEMA } },
        { type: 'custom', custom: { name: 'c', format: { type: 'text' } } },
      ],
      messages: [
        { role: 'system', content: 'Be brief' },
        {
          role: 'user',
          name: 'ada',
          content: [
            { type: 'text', text: 'Hello' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'low' } },
          ],
        },
        {
          role: 'assistant',
          content: 'Hi',
          reasoning: 'hm',
          reasoning_details: [{ type: 'reasoning.text', text: 'hm', index: 0 }],
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"city":"a"}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'x' },
        { role: 'user', content: 'And?' },
      ],
    }),
  },
  responses: {
    path: () => '/v1/responses',
    body: (model) => ({
      model,
      instructions: 'Be brief',
      max_output_tokens: 50,
      temperature: 1,
      top_p: 1,
      stream: false,
      store: false,
      metadata: { a: 'b' },
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      text: { format: { type: 'json_schema', name: 'a', schema: SCHEMA }, verbosity: 'low' },
      tools: [
        { type: 'function', name: 'f', parameters: SCHEMA, strict: false },
        { type: 'custom', name: 'c' },
        { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'g' }] },
      ],
      tool_choice: 'auto',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Hello' },
            { type: 'input_image', image_url: `data:image/png;base64,${PNG}` },
            { type: 'input_file', file_data: 'JVBERi0x', filename: 'a.pdf' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] },
        {
          type: 'message',
          role: 'assistant',
          id: 'msg_1',
          status: 'completed',
          content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
        },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'x' }] },
        { type: 'custom_tool_call', call_id: 'c2', name: 'c', input: 'x' },
        { type: 'custom_tool_call_output', call_id: 'c2', output: 'x' },
        { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search', query: 'x' } },
        { role: 'user', content: 'And?' },
      ],
    }),
  },
  messages: {
    path: () => '/v1/messages',
    body: (model) => ({
      model,
      max_tokens: 2000,
      system: [{ type: 'text', text: 'Be brief', cache_control: { type: 'ephemeral' } }],
      temperature: 1,
      stop_sequences: ['END'],
      stream: false,
      thinking: { type: 'enabled', budget_tokens: 1024 },
      metadata: { user_id: 'u' },
      tools: [{ name: 'f', description: 'd', input_schema: SCHEMA }],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      output_config: { effort: 'low' },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hello' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' }, title: 't' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Hi' },
            { type: 'tool_use', id: 'toolu_1', name: 'f', input: { city: 'a' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'x' }], is_error: false },
            { type: 'text', text: 'And?' },
          ],
        },
      ],
    }),
  },
  generateContent: {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    body: () => ({
      systemInstruction: { parts: [{ text: 'Be brief' }] },
      tools: [
        {
          functionDeclarations: [
            { name: 'f', parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } } } },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' }],
      generationConfig: {
        temperature: 1,
        topP: 0.5,
        topK: 5,
        candidateCount: 1,
        maxOutputTokens: 500,
        stopSequences: ['END'],
        seed: 1,
        responseMimeType: 'application/json',
        responseSchema: { type: 'OBJECT', properties: { a: { type: 'STRING' } } },
        thinkingConfig: { thinkingBudget: 512 },
      },
      contents: [
        { role: 'user', parts: [{ text: 'Hello' }, { inlineData: { mimeType: 'image/png', data: PNG } }] },
        { role: 'model', parts: [{ text: 'Hi' }, { functionCall: { name: 'f', args: { city: 'a' } } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: { output: 'x' } } }, { text: 'And?' }] },
      ],
    }),
  },
}

CASES['count_tokens'] = { ...CASES['messages']!, path: () => '/v1/messages/count_tokens' }
CASES['countTokens'] = { ...CASES['generateContent']!, path: (model) => `/v1beta/models/${model}:countTokens` }

/** Cases for each kind of request: one takes some 3 ms. */
const RUNS = runs(150, 4_000)
/** The time limit for them. */
const BUDGET_MS = 15_000

describe.each(Object.keys(CASES))('%s', (name) => {
  const { path, body } = CASES[name]!

  test.each([...MODELS])('the request without mutations is accepted by %s', async (model) => {
    const response = await post(gateway, path(model), body(model))
    const text = await response.text()
    // Only tools that are run by a provider of another protocol are refused.
    if (response.status !== 200) expect(text).toContain('unsupported_parameter')
  })

  test('a mutated request is answered or refused', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...MODELS),
        fc.boolean(),
        fc.array(change, { minLength: 1, maxLength: 3 }),
        async (model, stream, changes) => {
          const request = mutated(body(model), changes)
          const sent = JSON.stringify(
            stream && name !== 'generateContent' && typeof request === 'object' ? { ...request, stream } : request,
          )
          const response = await post(
            gateway,
            stream ? path(model).replace(':generateContent', ':streamGenerateContent') : path(model),
            sent,
          )
          const text = await response.text()
          if (![200, 400, 404].includes(response.status)) throw new Error(`${response.status} for ${sent}\n${text}`)
          if (response.status === 400 && !/"(param|field)":"|request_id/.test(text))
            throw new Error(`a refusal without a path: ${text} for ${sent}`)
        },
      ),
      { numRuns: RUNS, interruptAfterTimeLimit: BUDGET_MS, markInterruptAsFailure: false },
    )
  }, 30_000)
})

describe('bodies that are not valid JSON', () => {
  const WRONG: [string, string][] = [
    ['empty', ''],
    ['blank', ' \n '],
    ['cut', '{"model":"sandbox/chat","messages":['],
    ['a trailing comma', '{"a":1,}'],
    ['two values', '{} {}'],
    ['a comment', '{/**/}'],
    ['single quotes', "{'a':1}"],
    ['NaN', '{"temperature":NaN}'],
    ['Infinity', '{"temperature":Infinity}'],
    ['a leading plus', '{"temperature":+1}'],
    ['a leading zero', '{"temperature":01}'],
    ['a leading dot', '{"temperature":.5}'],
    ['a control character', '{"a":"\u0001"}'],
    ['an array', '[]'],
    ['a string', '"x"'],
    ['a number', '5'],
    ['null', 'null'],
    ['true', 'true'],
    ['too deep', `{"a":${'['.repeat(65)}${']'.repeat(65)}}`],
    ['very deep', '['.repeat(100_000)],
    ['deep objects', '{"a":'.repeat(20_000)],
    ['a name twice', '{"model":"sandbox/chat","model":"sandbox/messages"}'],
    ['10,001 members', JSON.stringify(Object.fromEntries(many(10_001, (i) => [`k${i}`, 1])))],
  ]
  for (const [kind, text] of WRONG) {
    test.each(Object.keys(CASES))(`a body with this fault is refused with 400 by %s: ${kind}`, async (name) => {
      const response = await post(gateway, CASES[name]!.path('sandbox/chat'), text)
      expect(response.status).toBe(400)
      expect(await response.text()).toContain('body: ')
    })
  }

  test('a number that a double cannot represent is refused in a known field and passed on in others', async () => {
    const chat = (members: string): Promise<Response> =>
      post(
        gateway,
        '/v1/chat/completions',
        `{"model":"sandbox/chat","messages":[{"role":"user","content":"[[echo: body]]"}],${members}}`,
      )
    for (const name of ['temperature', 'max_tokens', 'seed', 'top_logprobs']) {
      const response = await chat(`"${name}":1e400`)
      expect(response.status).toBe(400)
      expect(((await response.json()) as { error: { param: string } }).error.param).toBe(name)
    }
    const echo = async (members: string): Promise<string> =>
      ((await (await chat(members)).json()) as { choices: { message: { content: string } }[] }).choices[0]!.message
        .content
    expect(await echo('"seed":9007199254740993,"odd":0.10,"more":-0')).toContain(
      '"seed":9007199254740993,"odd":0.10,"more":-0',
    )
  })

  test('a body that is not UTF-8 is refused with 400, and a byte order mark is accepted', async () => {
    const send = (bytes: Uint8Array<ArrayBuffer>): Promise<Response> =>
      fetch(`${gateway.url()}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key()}` },
        body: bytes,
      })
    const text = JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'Hi' }] })
    expect((await send(new Uint8Array([...Buffer.from(text.replace('Hi', 'H')), 0xff]))).status).toBe(400)
    expect((await send(new Uint8Array(Buffer.from(text.replace('Hi', '\xc0\xaf'), 'latin1')))).status).toBe(400)
    expect((await send(new Uint8Array(Buffer.from(text, 'utf16le')))).status).toBe(400)
    expect((await send(new Uint8Array(Buffer.from(`\ufeff${text}`)))).status).toBe(200)
  })

  test('unusual texts are passed on unchanged', async () => {
    for (const text of TEXTS.filter((one) => one.trim() !== '' && one.length < 100)) {
      for (const model of MODELS) {
        const response = await post(gateway, '/v1/chat/completions', {
          model,
          messages: [{ role: 'user', name: 'x', content: text }],
          user: 'a',
        })
        expect({ model, text, status: response.status }).toEqual({ model, text, status: 200 })
        expect(
          ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content,
        ).toContain(`"${text.trim()}"`)
      }
    }
  })
})
