import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import { hello, read, wireOf } from './kit.ts'

/** Requests of generateContent from clients. */

const config = (generationConfig: unknown) => hello({ generationConfig })
const parts = (...all: unknown[]) => ({ contents: [{ role: 'user', parts: all }] })
let deep: Record<string, unknown> = { type: 'STRING' }
for (let i = 0; i < 40; i++) deep = { type: 'ARRAY', items: deep }

const REFUSED: [string, unknown][] = [
  ['contents', {}],
  ['contents', { contents: [] }],
  ['contents', { contents: 'Hello' }],
  ['contents[0]', { contents: ['Hello'] }],
  ['contents[0].role', { contents: [{ role: 'system', parts: [{ text: 'a' }] }] }],
  ['contents[0].parts', { contents: [{ role: 'user' }] }],
  ['contents[0].parts', { contents: [{ role: 'user', parts: [] }] }],
  ['contents[0].parts[0]', parts({})],
  ['contents[0].parts[0]', parts({ bogus: 1 })],
  ['contents[0].parts[1]', parts({ text: 'a' }, null)],
  ['contents[0].parts[0].text', parts({ text: 1 })],
  ['contents[0].parts[0].inlineData.mimeType', parts({ inlineData: { data: 'AAAA' } })],
  ['contents[0].parts[0].inlineData.mimeType', parts({ inlineData: { mimeType: 'image/bmp', data: 'AAAA' } })],
  ['contents[0].parts[0].inlineData.data', parts({ inlineData: { mimeType: 'image/png' } })],
  ['contents[0].parts[0].inline_data.data', parts({ inline_data: { mime_type: 'image/png', data: '<png>' } })],
  ['contents[0].parts[0].fileData.fileUri', parts({ fileData: { mimeType: 'image/png' } })],
  ['contents[0].parts[0].functionCall.name', parts({ functionCall: {} })],
  ['contents[0].parts[0].functionCall.args', parts({ functionCall: { name: 'f', args: 'text' } })],
  ['contents[0].parts[0].functionResponse.name', parts({ functionResponse: { response: {} } })],
  ['contents[0].parts[0].functionResponse.response', parts({ functionResponse: { name: 'f', response: 'text' } })],
  ['contents[0].parts[0].videoMetadata.fps', parts({ text: 'a', videoMetadata: { fps: 'x' } })],
  ['contents[0].parts[0].videoMetadata.startOffset', parts({ text: 'a', videoMetadata: { startOffset: 'soon' } })],
  ['contents[0].parts[0].mediaResolution', parts({ text: 'a', mediaResolution: 'HUGE' })],
  ['cachedContent', hello({ cachedContent: 1 })],
  ['tools', hello({ tools: {} })],
  ['tools[0].functionDeclarations[0].name', hello({ tools: [{ functionDeclarations: [{}] }] })],
  [
    'tools[0].functionDeclarations[0].parameters.type',
    hello({ tools: [{ functionDeclarations: [{ name: 'f', parameters: { type: 'TEXT' } }] }] }),
  ],
  [
    'tools[0].functionDeclarations[0].parameters.properties.a.enum[0]',
    hello({
      tools: [
        { functionDeclarations: [{ name: 'f', parameters: { type: 'OBJECT', properties: { a: { enum: [1] } } } }] },
      ],
    }),
  ],
  ['toolConfig.functionCallingConfig.mode', hello({ toolConfig: { functionCallingConfig: { mode: 'SOME' } } })],
  [
    'toolConfig.functionCallingConfig.allowedFunctionNames',
    hello({ toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: 'f' } } }),
  ],
  ['safetySettings[0].threshold', hello({ safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT' }] })],
  ['safetySettings[0].category', hello({ safetySettings: [{ category: 'RUDE', threshold: 'OFF' }] })],
  [
    'safetySettings[0].method',
    hello({ safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF', method: 'x' }] }),
  ],
  ['generationConfig', config('x')],
  ['generationConfig.temperature', config({ temperature: 'hot' })],
  ['generationConfig.topP', config({ topP: 1.1 })],
  ['generationConfig.topK', config({ topK: 1.5 })],
  ['generationConfig.maxOutputTokens', config({ maxOutputTokens: 1.5 })],
  ['generationConfig.stopSequences', config({ stopSequences: ['1', '2', '3', '4', '5', '6'] })],
  [
    'generation_config.stop_sequences',
    hello({ generation_config: { stop_sequences: ['1', '2', '3', '4', '5', '6'] } }),
  ],
  ['generationConfig.presencePenalty', config({ presencePenalty: 2 })],
  ['generationConfig.frequencyPenalty', config({ frequencyPenalty: -2.1 })],
  ['generationConfig.candidateCount', config({ candidateCount: 1.5 })],
  ['generationConfig.seed', config({ seed: 'x' })],
  ['generationConfig.responseMimeType', config({ responseMimeType: 'text/html' })],
  ['generationConfig.responseSchema', config({ responseSchema: { type: 'STRING' } })],
  ['generationConfig.responseSchema', config({ responseMimeType: 'text/plain', responseSchema: { type: 'STRING' } })],
  ['generationConfig.responseJsonSchema', config({ responseJsonSchema: {} })],
  [
    'generationConfig.responseJsonSchema',
    config({ responseMimeType: 'application/json', responseJsonSchema: {}, responseSchema: {} }),
  ],
  ['generationConfig.logprobs', config({ logprobs: 3 })],
  ['generationConfig.logprobs', config({ responseLogprobs: true, logprobs: 21 })],
  ['generationConfig.responseModalities[0]', config({ responseModalities: ['VIDEO'] })],
  ['generationConfig.responseModalities', config({ responseModalities: ['IMAGE'] })],
  ['generationConfig.audioTimestamp', config({ audioTimestamp: 'yes' })],
  ['generationConfig.thinkingConfig.thinkingBudget', config({ thinkingConfig: { thinkingBudget: 32769 } })],
  ['generationConfig.thinkingConfig.thinkingBudget', config({ thinkingConfig: { thinkingBudget: -2 } })],
  [
    'generationConfig.thinkingConfig.thinkingBudget',
    config({ thinkingConfig: { thinkingBudget: 1, thinkingLevel: 'LOW' } }),
  ],
  ['generationConfig.thinkingConfig.thinkingLevel', config({ thinkingConfig: { thinkingLevel: 'HUGE' } })],
]

describe('refused, with the path', () => {
  test.each(REFUSED)('%s %j', (path, body) => {
    let caught: unknown
    try {
      read(body)
    } catch (error) {
      caught = error
    }
    expect(caught).toBeInstanceOf(GatewayError)
    expect((caught as GatewayError).status).toBe(400)
    expect((caught as GatewayError).param).toBe(path)
  })

  test('a schema of too many levels', () => {
    expect(() => read(config({ responseMimeType: 'application/json', responseSchema: deep }))).toThrow(
      /nested deeper than 32/,
    )
  })
})

describe('read', () => {
  test('a whole generationConfig, in either spelling', () => {
    const camel = read(
      config({
        temperature: 0,
        topP: 1,
        topK: 40,
        maxOutputTokens: 9,
        stopSequences: ['x'],
        presencePenalty: -2,
        frequencyPenalty: 1.9,
        seed: 3,
        responseLogprobs: true,
        logprobs: 20,
        responseModalities: ['TEXT', 'IMAGE'],
        thinkingConfig: { thinkingBudget: -1, includeThoughts: true },
      }),
    )
    expect(camel).toMatchObject({
      sampling: {
        temperature: 0,
        topP: 1,
        topK: 40,
        stop: ['x'],
        presencePenalty: -2,
        frequencyPenalty: 1.9,
        seed: 3,
        logprobs: true,
        topLogprobs: 20,
      },
      maxOutputTokens: 9,
      outputModalities: ['text', 'image'],
      reasoning: { budgetTokens: -1, visible: true },
    })
    const snake = read(
      hello({ generation_config: { top_p: 1, max_output_tokens: 9, thinking_config: { thinking_level: 'low' } } }),
    )
    expect(snake).toMatchObject({ sampling: { topP: 1 }, maxOutputTokens: 9, reasoning: { effort: 'low' } })
    expect(Object.keys(snake.extras)).toEqual([])
  })

  test('a budget of nothing is no reasoning', () => {
    expect(read(config({ thinkingConfig: { thinkingBudget: 0 } })).reasoning).toEqual({ effort: 'none' })
  })

  test('unknown fields are kept by path, null ones are nothing', () => {
    const { extras } = read(
      hello({
        labels: { a: 'b' },
        cachedContent: 'c/1',
        safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' }],
        tools: null,
        generationConfig: { speechConfig: {}, candidateCount: 2, topP: null },
        toolConfig: { retrievalConfig: {} },
      }),
    )
    expect(Object.keys(extras).sort()).toEqual([
      'cachedContent',
      'generationConfig.candidateCount',
      'generationConfig.speechConfig',
      'labels',
      'safetySettings',
      'toolConfig.retrievalConfig',
    ])
  })

  test('instructions as content of any role and as text', () => {
    expect(read(hello({ systemInstruction: 'Be kind.' })).system).toEqual([{ type: 'text', text: 'Be kind.' }])
    expect(read(hello({ system_instruction: { role: 'system', parts: [{ text: 'Be kind.' }] } })).system).toEqual([
      { type: 'text', text: 'Be kind.' },
    ])
  })

  test('media, files and their resolution', () => {
    const { turns } = read(
      parts(
        { inlineData: { mimeType: 'image/png', data: 'a-_A' }, mediaResolution: 'HIGH' },
        {
          fileData: { fileUri: 'https://example.com/v.mp4', mimeType: 'video/mp4' },
          videoMetadata: { startOffset: '3.5s', endOffset: 9, fps: 2 },
          mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' },
        },
        { fileData: { fileUri: 'file-abc' } },
      ),
    )
    expect(turns[0]!.parts).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'a+/A' }, detail: 'high' },
      {
        type: 'video',
        source: { type: 'url', url: 'https://example.com/v.mp4', mediaType: 'video/mp4' },
        detail: 'low',
      },
      { type: 'file', source: { type: 'file', id: 'file-abc' } },
    ])
    const {
      turns: [answered],
    } = read(
      parts({
        functionResponse: {
          name: 'f',
          response: {},
          parts: [
            {
              inlineData: { mimeType: 'image/png', data: 'AAAA' },
              mediaResolution: { level: 'MEDIA_RESOLUTION_HIGH' },
            },
          ],
        },
      }),
    )
    expect(answered!.parts[0]).toMatchObject({ content: [{}, { type: 'image', detail: 'high' }] })
  })

  test('tools and choices', () => {
    const request = read(
      hello({
        tools: [
          {
            functionDeclarations: [
              {
                name: 'a',
                description: 'd',
                parameters: {
                  type: 'OBJECT',
                  properties: {
                    x: { type: 'STRING', nullable: true, enum: ['1', '2'] },
                    y: { type: 'ARRAY', items: { type: 'INTEGER' }, minItems: '2' },
                  },
                  propertyOrdering: ['y', 'x'],
                },
              },
              { name: 'b', parametersJsonSchema: { type: 'OBJECT', additionalProperties: false } },
            ],
            googleSearch: {},
          },
          { codeExecution: {} },
          { url_context: {} },
        ],
        toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['a'] } },
      }),
    )
    expect(request.tools).toEqual([
      {
        type: 'function',
        name: 'a',
        description: 'd',
        parameters: {
          type: 'object',
          properties: {
            x: { type: 'string', nullable: true, enum: ['1', '2'] },
            y: { type: 'array', items: { type: 'integer' }, minItems: 2 },
          },
          propertyOrdering: ['y', 'x'],
        },
      },
      { type: 'function', name: 'b', parameters: { type: 'OBJECT', additionalProperties: false } },
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'codeExecution',
        value: { codeExecution: {} },
        path: 'tools[1].codeExecution',
      },
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'urlContext',
        value: { url_context: {} },
        path: 'tools[2].url_context',
        optional: true,
      },
    ])
    expect(request.webSearch).toEqual({})
    expect(request.toolChoice).toEqual({ type: 'tool', name: 'a' })
    const choice = (functionCallingConfig: unknown) => read(hello({ toolConfig: { functionCallingConfig } })).toolChoice
    expect(choice({ mode: 'ANY' })).toEqual({ type: 'required' })
    expect(choice({ mode: 'ANY', allowedFunctionNames: ['a', 'b'] })).toEqual({
      type: 'allowed',
      names: ['a', 'b'],
      required: true,
    })
    expect(choice({ mode: 'VALIDATED', allowedFunctionNames: ['a'] })).toEqual({
      type: 'allowed',
      names: ['a'],
      required: false,
    })
    expect(choice({ mode: 'NONE' })).toEqual({ type: 'none' })
    expect(choice({})).toBeUndefined()
  })

  test('a tool parameter named after a schema word is a parameter', () => {
    const [tool] = read(
      hello({
        tools: [
          {
            functionDeclarations: [
              {
                name: 'f',
                parameters: { type: 'OBJECT', properties: { type: { type: 'STRING' }, nullable: { type: 'BOOLEAN' } } },
              },
            ],
          },
        ],
      }),
    ).tools
    expect(tool).toMatchObject({
      parameters: { properties: { type: { type: 'string' }, nullable: { type: 'boolean' } } },
    })
  })

  test('output formats', () => {
    expect(read(config({ responseMimeType: 'application/json' })).outputFormat).toEqual({ type: 'json' })
    expect(
      read(config({ responseMimeType: 'text/x.enum', responseSchema: { type: 'STRING', enum: ['a'] } })).outputFormat,
    ).toEqual({ type: 'enum', schema: { type: 'string', enum: ['a'] } })
    expect(
      read(config({ responseMimeType: 'application/json', responseJsonSchema: { type: 'OBJECT' } })).outputFormat,
    ).toEqual({ type: 'schema', schema: { type: 'OBJECT' } })
  })
})

describe('calls and results', () => {
  const model = (...all: unknown[]) => ({ role: 'model', parts: all })
  const user = (...all: unknown[]) => ({ role: 'user', parts: all })
  const call = (name: string, id?: string) => ({
    functionCall: { name, args: { b: 1, a: 2 }, ...(id === undefined ? {} : { id }) },
  })
  const result = (name: string, output: unknown, id?: string) => ({
    functionResponse: { name, response: { output }, ...(id === undefined ? {} : { id }) },
  })
  const pairs = (contents: unknown[]) => {
    const { turns } = read({ contents })
    const calls = turns.flatMap((turn) => turn.parts.filter((part) => part.type === 'tool-call'))
    const results = turns.flatMap((turn) => turn.parts.filter((part) => part.type === 'tool-result'))
    return results.map((one) => [
      calls.findIndex((known) => known.id === one.callId),
      one.content[0]?.type === 'text' ? one.content[0].text : undefined,
    ])
  }

  test('pair by name and order where there are no ids', () => {
    expect(
      pairs([
        user({ text: 'a' }),
        model(call('f'), call('g'), call('f')),
        user(result('f', '1'), result('f', '3'), result('g', '2')),
      ]),
    ).toEqual([
      [0, '1'],
      [2, '3'],
      [1, '2'],
    ])
  })

  test('pair by id, whatever the order', () => {
    expect(
      pairs([
        user({ text: 'a' }),
        model(call('f', 'x'), call('f', 'y')),
        user(result('f', '2', 'y'), result('f', '1', 'x')),
      ]),
    ).toEqual([
      [1, '2'],
      [0, '1'],
    ])
  })

  test('an id nobody knows answers no call that has one', () => {
    const { turns } = read({ contents: [user({ text: 'a' }), model(call('f', 'x')), user(result('f', '1', 'z'))] })
    expect(turns.at(-1)!.parts).toMatchObject([{ callId: 'z', name: 'f' }])
    expect(pairs([user({ text: 'a' }), model(call('f')), user(result('f', '1', 'z'))])).toEqual([[0, '1']])
  })

  test("a model's own media come back whatever their type", () => {
    const audio = { inlineData: { mimeType: 'audio/L16;rate=24000', data: 'AAAA' } }
    expect(read({ contents: [model(audio)] }).turns[0]!.parts).toMatchObject([{ type: 'audio' }])
    expect(() => read({ contents: [user(audio)] })).toThrow(/mimeType/)
  })

  test('ids that we make do not change when the conversation grows', () => {
    const first = [user({ text: 'a' }), model(call('f')), user(result('f', '1'))]
    const ids = (contents: unknown[]) =>
      read({ contents }).turns.flatMap((turn) =>
        turn.parts.flatMap((part) => (part.type === 'tool-call' ? [part.id] : [])),
      )
    expect(ids([...first, model(call('f')), user(result('f', '2'))]).slice(0, 1)).toEqual(ids(first))
    expect(new Set(ids([...first, model(call('f'), call('f'))])).size).toBe(3)
  })

  test('results stand in one tool turn before the words beside them', () => {
    const { turns } = read({
      contents: [
        user({ text: 'a' }),
        model(call('f'), call('g')),
        user(result('f', '1')),
        user({ text: 'b' }, result('g', '2')),
      ],
    })
    expect(turns.map((turn) => `${turn.role} ${turn.parts.length}`)).toEqual([
      'user 1',
      'assistant 2',
      'tool 2',
      'user 1',
    ])
  })

  test('envelopes are opened, other objects are the result', () => {
    const content = (response: unknown) =>
      read({ contents: [user({ functionResponse: { name: 'f', response } })] }).turns[0]!.parts[0]
    expect(content({ output: 'x' })).toMatchObject({ content: [{ text: 'x' }] })
    expect(content({ error: 'no' })).toMatchObject({ content: [{ text: 'no' }], isError: true })
    expect(content({ output: { a: 1 } })).toMatchObject({ content: [{ text: '{"a":1}' }] })
    expect(content({ result: 'x', output: 1 })).toMatchObject({ content: [{ text: '{"result":"x","output":1}' }] })
  })

  test('arguments keep key order and big integers', () => {
    const text =
      '{"contents":[{"role":"model","parts":[{"function_call":{"name":"f","args":{"z":12345678901234567890,"a":1.0}}}]}]}'
    const request = gemini.serve.readRequest({ body: JSON.parse(text), text, model: 'm', headers: new Headers() })
    expect(request.turns[0]!.parts[0]).toMatchObject({ arguments: '{"z":12345678901234567890,"a":1.0}' })
  })

  test('signatures: sealed ones are opened, one without text joins what it signs', () => {
    const sealed = wrapSignature('sig', { provider: 'p', model: 'm' })
    const { turns } = read({
      contents: [
        model(
          { text: 'thinking', thought: true },
          { text: '', thought: true, thoughtSignature: sealed },
          { text: 'hi' },
          { text: '', thoughtSignature: 'plain' },
          { ...call('f', 'x'), thoughtSignature: 'c2ln' },
        ),
      ],
    })
    expect(turns[0]!.parts).toEqual([
      { type: 'reasoning', text: 'thinking', signature: { data: 'sig', issuer: { provider: 'p', model: 'm' } } },
      { type: 'text', text: 'hi', signature: { data: 'plain' } },
      {
        type: 'tool-call',
        id: 'x',
        name: 'f',
        arguments: '{"b":1,"a":2}',
        form: 'function',
        signature: { data: 'c2ln' },
      },
    ])
  })

  test('hidden reasoning is only its signature', () => {
    expect(
      read({ contents: [model({ text: '', thought: true, thoughtSignature: 'c2ln' }, { text: 'x' })] }).turns[0]!
        .parts[0],
    ).toEqual({ type: 'reasoning', text: '', redacted: true, signature: { data: 'c2ln' } })
  })

  test("Google's own parts travel whole", () => {
    expect(
      read({ contents: [model({ executableCode: { code: 'x' }, thoughtSignature: 's' })] }).turns[0]!.parts,
    ).toEqual([
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'executableCode',
        value: { executableCode: { code: 'x' }, thoughtSignature: 's' },
        path: 'contents[0].parts[0].executableCode',
      },
    ])
  })
})

test('any JSON is read or refused, never a crash', () => {
  const keys = [
    'contents',
    'role',
    'parts',
    'text',
    'functionCall',
    'functionResponse',
    'name',
    'args',
    'response',
    'tools',
    'functionDeclarations',
    'parameters',
    'type',
    'generationConfig',
    'responseSchema',
    'responseMimeType',
    'thinkingConfig',
    'systemInstruction',
    'safetySettings',
    'properties',
    'items',
    '__proto__',
    'toolConfig',
    'inlineData',
    'thoughtSignature',
  ]
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 7 },
      fc.constantFrom(null, true, 0, -1, 1e300, '', 'user', 'OBJECT', 'application/json'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...keys), tie('value'), { maxKeys: 4 }),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...keys), value, { maxKeys: 6 }), fc.boolean(), (body, valid) => {
      try {
        gemini.serve.readRequest(
          wireOf(valid ? { ...hello(), ...body, contents: [{ parts: [{ text: 'a' }, body] }] } : body),
        )
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        expect(error.status).toBe(400)
      }
    }),
    { numRuns: 500 },
  )
})
