import { describe, expect, test } from 'bun:test'
import { withoutPaths } from '../../translating.ts'
import { bodyOf, hello, read } from './building.ts'

/** Settings, tools and media of requests of clients of generateContent. */

const config = (generationConfig: unknown) => hello({ generationConfig })

describe('settings', () => {
  test('a whole generationConfig is read in camel case and in snake case', () => {
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

  test('a budget of 0 is the effort none', () => {
    expect(read(config({ thinkingConfig: { thinkingBudget: 0 } })).reasoning).toEqual({ effort: 'none' })
    expect(read(config({ thinkingConfig: { thinkingBudget: 32_768 } })).reasoning).toEqual({ budgetTokens: 32_768 })
  })

  test('the least values of limits, and names of what is not specified, are accepted', () => {
    const least = { maxOutputTokens: 1, candidateCount: 1, topP: 0, responseLogprobs: true, logprobs: 1 }
    const unspecified = { thinkingLevel: 'THINKING_LEVEL_UNSPECIFIED' }
    const { sampling, maxOutputTokens, candidates, reasoning, extras } = read(
      config({ ...least, thinkingConfig: unspecified }),
    )
    expect([sampling, maxOutputTokens]).toEqual([{ topP: 0, logprobs: true, topLogprobs: 1 }, 1])
    expect([candidates, reasoning]).toEqual([undefined, {}])
    expect(Object.keys(extras)).toEqual([])
    expect(read(config({ candidateCount: 2 })).candidates).toBe(2)
  })

  test('the form of an image is read where it is texts, and else kept as it is', () => {
    const imageConfig = { aspectRatio: '16:9', imageSize: '2K' }
    expect(read(config({ imageConfig })).imageOutput).toEqual(imageConfig)
    for (const odd of [{ aspectRatio: 2 }, { imageSize: 2 }, 'wide']) {
      const { imageOutput, extras } = read(config({ imageConfig: odd }))
      expect(imageOutput).toBeUndefined()
      expect(Object.keys(extras)).toEqual(['generationConfig.imageConfig'])
    }
  })

  test('a service tier is read by its name in either spelling, and the default as auto', () => {
    expect(read(hello({ serviceTier: 'flex' })).serviceTier).toBe('flex')
    expect(read(hello({ service_tier: 'SERVICE_TIER_PRIORITY' })).serviceTier).toBe('priority')
    const { serviceTier, extras } = read(hello({ serviceTier: 'unspecified' }))
    expect([serviceTier, Object.keys(extras)]).toEqual(['auto', []])
  })

  test('unknown fields are kept with their paths, and null fields are absent', () => {
    const { extras } = read(
      hello({
        labels: { a: 'b' },
        cachedContent: 'c/1',
        safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' }],
        tools: null,
        generationConfig: { speechConfig: {}, candidateCount: 2, topP: null },
        toolConfig: { retrievalConfig: {} },
        systemInstruction: { parts: [{ text: 'Be kind.' }], mood: 'calm' },
      }),
    )
    expect(Object.keys(extras).sort()).toEqual([
      'cachedContent',
      'generationConfig.candidateCount',
      'generationConfig.speechConfig',
      'labels',
      'safetySettings',
      'systemInstruction.mood',
      'toolConfig.retrievalConfig',
    ])
  })

  test('an output format is strict where it has a schema', () => {
    expect(read(config({ responseMimeType: 'application/json' })).outputFormat).toEqual({ type: 'json' })
    expect(
      read(config({ responseMimeType: 'text/x.enum', responseSchema: { type: 'STRING', enum: ['a'] } })).outputFormat,
    ).toEqual({ type: 'enum', schema: { type: 'string', enum: ['a'] } })
    expect(
      read(config({ responseMimeType: 'application/json', responseJsonSchema: { type: 'OBJECT' } })).outputFormat,
    ).toEqual({ type: 'schema', schema: { type: 'OBJECT' }, strict: true })
    expect(
      read(config({ responseMimeType: 'application/json', responseSchema: { type: 'OBJECT' } })).outputFormat,
    ).toEqual({ type: 'schema', schema: { type: 'object' }, strict: true })
  })

  test('a system instruction is a content of any role or a string', () => {
    expect(read(hello({ systemInstruction: 'Be kind.' })).system).toEqual([
      { type: 'text', text: 'Be kind.', path: 'systemInstruction' },
    ])
    expect(read(hello({ system_instruction: { role: 'system', parts: [{ text: 'Be kind.' }] } })).system).toEqual([
      { type: 'text', text: 'Be kind.', path: 'system_instruction.parts[0]' },
    ])
  })
})

describe('tools', () => {
  const parameters = {
    type: 'OBJECT',
    properties: {
      x: { format: null, type: 'STRING', nullable: true, enum: ['1', '2'] },
      y: { type: 'ARRAY', items: { type: 'INTEGER' }, minItems: '2' },
    },
    propertyOrdering: ['y', 'x'],
  }

  test("functions and Google's own tools are read with their paths", () => {
    const request = read(
      hello({
        tools: [
          {
            functionDeclarations: [
              { name: 'a', description: 'd', parameters },
              { name: 'b', parametersJsonSchema: { type: 'OBJECT', additionalProperties: false } },
            ],
            googleSearch: {},
          },
          { codeExecution: {} },
          { url_context: {} },
        ],
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
        path: 'tools[0].functionDeclarations[0]',
      },
      {
        type: 'function',
        name: 'b',
        parameters: { type: 'OBJECT', additionalProperties: false },
        path: 'tools[0].functionDeclarations[1]',
      },
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'codeExecution',
        value: { codeExecution: {} },
        path: 'tools[1].codeExecution',
        hosted: [{ type: 'code' }],
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
    expect(request.webSearch).toEqual({ path: 'tools[0].googleSearch' })
  })

  test('a web search has its path as the client spelled it', () => {
    expect(read(hello({ tools: [{ google_search: { exclude_domains: ['a.example'] } }] })).webSearch).toEqual({
      path: 'tools[0].google_search',
      blockedDomains: ['a.example'],
    })
    expect(read(hello({ tools: [{ googleSearchRetrieval: {} }] })).webSearch).toEqual({
      path: 'tools[0].googleSearchRetrieval',
    })
  })

  test('functionCallingConfig is a tool choice', () => {
    const choice = (functionCallingConfig: unknown) => read(hello({ toolConfig: { functionCallingConfig } })).toolChoice
    expect(choice({ mode: 'ANY' })).toEqual({ type: 'required' })
    expect(choice({ mode: 'ANY', allowedFunctionNames: ['a'] })).toEqual({ type: 'tool', name: 'a' })
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

  test("types of parameters may be protobuf's numbers", () => {
    const properties = Object.fromEntries([1, 2, 3, 4, 5, 6].map((type) => [`p${type}`, { type }]))
    const [tool] = read(hello({ tools: [{ functionDeclarations: [{ name: 'f', parameters: { properties } }] }] })).tools
    const types = ['string', 'number', 'integer', 'boolean', 'array', 'object']
    expect(tool).toMatchObject({
      parameters: { properties: Object.fromEntries(types.map((type, index) => [`p${index + 1}`, { type }])) },
    })
  })

  test('a parameter with the name of a schema keyword is a parameter', () => {
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
})

describe('media', () => {
  test('inline data and files are read with their resolution', () => {
    const { turns } = read(
      bodyOf(
        { inlineData: { mimeType: 'image/png', data: 'a-_A' }, mediaResolution: 'HIGH' },
        {
          fileData: { fileUri: 'https://example.com/v.mp4', mimeType: 'video/mp4' },
          videoMetadata: { startOffset: 0, endOffset: '3.5s', fps: 0.5 },
          mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' },
        },
        { fileData: { fileUri: 'file-abc' } },
      ),
    )
    expect(turns[0]!.parts).toEqual([
      {
        type: 'image',
        source: { type: 'data', mediaType: 'image/png', data: 'a+/A' },
        detail: 'high',
        path: 'contents[0].parts[0]',
      },
      {
        type: 'video',
        source: { type: 'url', url: 'https://example.com/v.mp4', mediaType: 'video/mp4' },
        detail: 'low',
        path: 'contents[0].parts[1]',
      },
      { type: 'file', source: { type: 'file', id: 'file-abc' }, path: 'contents[0].parts[2]' },
    ])
  })

  test('media of a function response are read with their resolution and path', () => {
    const media = { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
    const parts = [{ ...media, mediaResolution: { level: 'MEDIA_RESOLUTION_HIGH' } }]
    const { turns } = read(bodyOf({ functionResponse: { name: 'f', response: {}, parts } }))
    expect(turns[0]!.parts[0]).toMatchObject({
      content: [{}, { type: 'image', detail: 'high', path: 'contents[0].parts[0].functionResponse.parts[0]' }],
    })
  })

  test('media are read whatever their type', () => {
    const audio = { inlineData: { mimeType: 'audio/L16;rate=24000', data: 'AAAA' } }
    for (const body of [{ contents: [{ role: 'model', parts: [audio] }] }, bodyOf(audio)])
      expect(withoutPaths(read(body).turns[0]!.parts)).toEqual([
        { type: 'audio', source: { type: 'data', mediaType: 'audio/L16;rate=24000', data: 'AAAA' } },
      ])
  })
})
