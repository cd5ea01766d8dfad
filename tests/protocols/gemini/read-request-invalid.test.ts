import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { readRequest } from '../../../src/protocols/gemini/read-request.ts'
import { checkReasoning } from '../../../src/protocols/gemini/read-request-config.ts'
import { bodyOf, hello, rawRequestOf, read } from './building.ts'

/** Requests of clients of generateContent that are refused. */

const config = (generationConfig: unknown) => hello({ generationConfig })

const REFUSED: [string, unknown][] = [
  ['contents', {}],
  ['contents', { contents: [] }],
  ['contents', { contents: 'Hello' }],
  ['contents[0]', { contents: ['Hello'] }],
  ['contents[0].role', { contents: [{ role: 'system', parts: [{ text: 'a' }] }] }],
  ['contents[0].parts', { contents: [{ role: 'user' }] }],
  ['contents[0].parts', { contents: [{ role: 'user', parts: [] }] }],
  ['contents[0].parts[0]', bodyOf({})],
  ['contents[0].parts[0]', bodyOf({ bogus: 1 })],
  ['contents[0].parts[1]', bodyOf({ text: 'a' }, null)],
  ['contents[0].parts[0].text', bodyOf({ text: 1 })],
  ['contents[0].parts[0].inlineData.mimeType', bodyOf({ inlineData: { data: 'AAAA' } })],
  ['contents[0].parts[0].inlineData.mimeType', bodyOf({ inlineData: { mimeType: '', data: 'AAAA' } })],
  ['contents[0].parts[0].inlineData.data', bodyOf({ inlineData: { mimeType: 'image/png' } })],
  ['contents[0].parts[0].inline_data.data', bodyOf({ inline_data: { mime_type: 'image/png', data: '<png>' } })],
  ['contents[0].parts[0].fileData.fileUri', bodyOf({ fileData: { mimeType: 'image/png' } })],
  ['contents[0].parts[0].functionCall.name', bodyOf({ functionCall: {} })],
  ['contents[0].parts[0].functionCall.args', bodyOf({ functionCall: { name: 'f', args: 'text' } })],
  ['contents[0].parts[0].functionResponse.name', bodyOf({ functionResponse: { response: {} } })],
  ['contents[0].parts[0].functionResponse.response', bodyOf({ functionResponse: { name: 'f', response: 'text' } })],
  ['contents[0].parts[0].videoMetadata.fps', bodyOf({ text: 'a', videoMetadata: { fps: 'x' } })],
  ['contents[0].parts[0].videoMetadata.startOffset', bodyOf({ text: 'a', videoMetadata: { startOffset: 'soon' } })],
  ['contents[0].parts[0].mediaResolution', bodyOf({ text: 'a', mediaResolution: 'HUGE' })],
  ['contents[0].parts[0].videoMetadata.endOffset', bodyOf({ text: 'a', videoMetadata: { endOffset: -1 } })],
  ['systemInstruction.role', hello({ systemInstruction: { role: 1, parts: [{ text: 'a' }] } })],
  ['systemInstruction.parts', hello({ systemInstruction: { parts: [{ functionCall: { name: 'f' } }] } })],
  ['systemInstruction.parts', hello({ systemInstruction: { parts: [{ functionResponse: { name: 'f' } }] } })],
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
  ['generationConfig.candidateCount', config({ candidateCount: 0 })],
  ['generationConfig.maxOutputTokens', config({ maxOutputTokens: 0 })],
  ['generationConfig.topP', config({ topP: -0.1 })],
  ['generationConfig.seed', config({ seed: 'x' })],
  ['generationConfig.mediaResolution', config({ mediaResolution: 1 })],
  ['generationConfig.mediaResolution.level', config({ mediaResolution: { level: 'HUGE' } })],
  ['generationConfig.responseMimeType', config({ responseMimeType: 'text/x.enum' })],
  ['generationConfig.responseSchema.type', config({ responseMimeType: 'application/json', responseSchema: {} })],
  ['generationConfig.responseJsonSchema', config({ responseMimeType: 'application/json', responseJsonSchema: [] })],
  ['generationConfig.responseMimeType', config({ responseMimeType: 'text/html' })],
  ['generationConfig.responseSchema', config({ responseSchema: { type: 'STRING' } })],
  ['generationConfig.responseSchema', config({ responseMimeType: 'text/plain', responseSchema: { type: 'STRING' } })],
  [
    'generationConfig.responseSchema.minLength',
    config({ responseMimeType: 'application/json', responseSchema: { type: 'STRING', minLength: -1 } }),
  ],
  [
    'generationConfig.responseSchema.maxLength',
    config({ responseMimeType: 'application/json', responseSchema: { type: 'STRING', maxLength: 'long' } }),
  ],
  ['generationConfig.responseJsonSchema', config({ responseJsonSchema: {} })],
  [
    'generationConfig.responseJsonSchema',
    config({ responseMimeType: 'application/json', responseJsonSchema: {}, responseSchema: {} }),
  ],
  ['generationConfig.logprobs', config({ logprobs: 3 })],
  ['generationConfig.logprobs', config({ responseLogprobs: true, logprobs: 21 })],
  ['generationConfig.logprobs', config({ responseLogprobs: true, logprobs: 0 })],
  ['generationConfig.responseModalities[0]', config({ responseModalities: ['VIDEO'] })],
  ['generationConfig.audioTimestamp', config({ audioTimestamp: 'yes' })],
  ['generationConfig.thinkingConfig.thinkingBudget', config({ thinkingConfig: { thinkingBudget: 32769 } })],
  ['generationConfig.thinkingConfig.thinkingBudget', config({ thinkingConfig: { thinkingBudget: -2 } })],
  [
    'generationConfig.thinkingConfig.thinkingBudget',
    config({ thinkingConfig: { thinkingBudget: 1, thinkingLevel: 'LOW' } }),
  ],
  ['generationConfig.thinkingConfig.thinkingLevel', config({ thinkingConfig: { thinkingLevel: 'HUGE' } })],
]

describe('a request with a wrong field', () => {
  test.each(REFUSED)('is refused with the path %s: %j', (path, body) => {
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

  test.each([
    ...['format', 'description', 'pattern', 'title'].map((name): [string, unknown] => [name, 1]),
    ...['nullable', 'enum', 'required', 'propertyOrdering', 'minimum', 'maximum', 'minItems', 'maxItems', 'minLength'],
    ...['maxLength', 'minProperties', 'maxProperties', 'type', 'items', 'additionalProperties', 'properties'],
    ...['anyOf', 'oneOf', 'defs', '$defs'],
  ])('a schema with a %s of another type is refused with its path', (name, value: unknown = 'x') => {
    const parameters = { type: 'OBJECT', properties: { a: { [name as string]: value } } }
    expect(() => read(hello({ tools: [{ functionDeclarations: [{ name: 'f', parameters }] }] }))).toThrow(
      expect.objectContaining({
        param: `tools[0].functionDeclarations[0].parameters.properties.a.${name as string}`,
      }),
    )
  })

  test.each<[string, (inner: object) => object]>([
    ['items', (items) => ({ type: 'ARRAY', items })],
    ['anyOf', (inner) => ({ anyOf: [inner] })],
    ['properties', (a) => ({ type: 'OBJECT', properties: { a } })],
    ['additionalProperties', (additionalProperties) => ({ type: 'OBJECT', additionalProperties })],
  ])('a schema of more than 32 levels of %s is refused', (_, around) => {
    let schema: object = { type: 'STRING' }
    for (let levels = 1; levels < 32; levels++) schema = around(schema)
    const readWith = (responseSchema: object) => read(config({ responseMimeType: 'application/json', responseSchema }))
    expect(() => readWith(schema)).not.toThrow()
    expect(() => readWith(around(schema))).toThrow(/nested deeper than 32/)
  })

  test('reasoning is refused where no model of the endpoints reasons', () => {
    const request = read(config({ thinkingConfig: { thinkingLevel: 'LOW' } }))
    expect(() => checkReasoning(request, [{ reasoning: 'none' }])).toThrow(
      'generationConfig.thinkingConfig: this model does not reason; remove the field or use another model',
    )
    expect(() => checkReasoning(request, [{ reasoning: 'none' }, {}])).not.toThrow()
    for (const thinkingConfig of [{ thinkingBudget: 0 }, { includeThoughts: false }])
      expect(() => checkReasoning(read(config({ thinkingConfig })), [{ reasoning: 'none' }])).not.toThrow()
    const budget = read(config({ thinkingConfig: { thinkingBudget: 5 } }))
    expect(() => checkReasoning(budget, [{ reasoning: 'none' }])).toThrow('does not reason')
  })
})

test('any JSON is read or refused with 400, and never crashes', () => {
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
        readRequest(rawRequestOf(valid ? { ...hello(), ...body, contents: [{ parts: [{ text: 'a' }, body] }] } : body))
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        expect(error.status).toBe(400)
      }
    }),
    { numRuns: 500 },
  )
})
