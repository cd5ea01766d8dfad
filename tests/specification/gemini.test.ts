import { expect, test } from 'bun:test'
import { FILES, many, no, ok, post, table, useGateway, without, type Json, type Row, type Surface } from './kit.ts'

/**
 * Models that do not reason: one of Google, one of another protocol, and one with an endpoint of unknown capabilities.
 */
const gateway = useGateway(`limits: { requestsPerMinute: 1000000 }
models:
  plain/gemini: { endpoints: [{ provider: sandbox, model: gemini }], capabilities: { reasoning: none } }
  plain/messages: { endpoints: [{ provider: sandbox, model: messages }], capabilities: { reasoning: none } }
  plain/either:
    endpoints: [{ provider: sandbox, model: messages, protocol: messages }, { provider: sandbox, model: gemini }]
`)
const OWN = ['sandbox/gemini']
const USER = { role: 'user', parts: [{ text: 'Hello' }] }

const surface: Surface = {
  gateway,
  native: 'sandbox/gemini',
  send: (model, patch) =>
    post(
      gateway,
      `/v1/publishers/sandbox/models/${model.split('/')[1]}:generateContent`,
      without({ contents: [USER], ...patch }),
    ),
  refusal(body) {
    const { code, message, status, details } = body.error as Json & { message: string; details: Json[] }
    expect(code).toBe(400)
    expect(status).toBe('INVALID_ARGUMENT')
    const violations = details.find((detail) => detail['@type'] === 'type.googleapis.com/google.rpc.BadRequest')!
      .fieldViolations as { field: string }[]
    return { message, param: violations[0]!.field }
  },
}

const bodyOf = (...parts: unknown[]): Json => ({ contents: [{ role: 'user', parts }] })
const PART = 'contents[0].parts[0]'
const config = (generationConfig: unknown, more: Json = {}): Json => ({ generationConfig, ...more })
const setting = (name: string, good: unknown[], bad: unknown[], more: Json = {}): Row[] => [
  ...good.map((value) => ok(`${name} ${JSON.stringify(value)}`, config({ ...more, [name]: value }))),
  ...bad.map((value) =>
    no(`${name} ${JSON.stringify(value)}`, `generationConfig.${name}`, config({ ...more, [name]: value })),
  ),
]

const VIDEO = ['mov', 'mpeg', 'mp4', 'mpg', 'avi', 'wmv', 'mpegps', 'flv', 'x-ms-wmv']
const MEDIA = [
  'application/pdf',
  ...['mpeg', 'mp3', 'wav'].map((name) => `audio/${name}`),
  ...['png', 'jpeg', 'webp'].map((name) => `image/${name}`),
  'text/plain',
  ...VIDEO.map((name) => `video/${name}`),
]

table('contents', surface, [
  no('contents are absent', 'contents', { contents: undefined }),
  no('contents null', 'contents', { contents: null }),
  no('contents are not an array', 'contents', { contents: USER }),
  no('contents are empty', 'contents', { contents: [] }),
  no('a content is not an object', 'contents[0]', { contents: ['Hello'] }),
  ok('role user', { contents: [USER] }),
  ok('role absent', { contents: [{ parts: [{ text: 'x' }] }] }),
  ok('role null', { contents: [{ role: null, parts: [{ text: 'x' }] }] }),
  ok('role model', { contents: [USER, { role: 'model', parts: [{ text: 'x' }] }, USER] }),
  no('role is unknown', 'contents[0].role', { contents: [{ role: 'assistant', parts: [{ text: 'x' }] }] }),
  no('role is not a string', 'contents[0].role', { contents: [{ role: 5, parts: [{ text: 'x' }] }] }),
  no('parts are absent', 'contents[0].parts', { contents: [{ role: 'user' }] }),
  no('parts are empty', 'contents[0].parts', { contents: [{ role: 'user', parts: [] }] }),
  no('parts are not an array', 'contents[0].parts', { contents: [{ role: 'user', parts: { text: 'x' } }] }),
  no('a part is not an object', PART, bodyOf('x')),
  ok('unknown fields', { odd: 1, contents: [{ ...USER, odd: 1, parts: [{ text: 'x', odd: { a: 1 } }] }] }),
  ok('snake_case', { system_instruction: { parts: [{ text: 'x' }] }, generation_config: { max_output_tokens: 50 } }),
  no('both spellings at once', 'generation_config', {
    generationConfig: {},
    generation_config: { stopSequences: many(6, String) },
  }),
])

table('parts', surface, [
  ok('text', bodyOf({ text: 'x' })),
  ok('empty text', bodyOf({ text: '' }), ['sandbox/gemini', 'sandbox/chat', 'sandbox/responses']),
  no('text is not a string', `${PART}.text`, bodyOf({ text: 5 })),
  no('a part is empty', PART, bodyOf({})),
  ...MEDIA.map((mimeType) =>
    ok(`inline ${mimeType}`, bodyOf({ text: 'x' }, { inlineData: { mimeType, data: 'AAAA' } }), OWN),
  ),
  ok('inline image', bodyOf({ text: 'x' }, { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } })),
  ...['image/gif', 'text/html', 'application/octet-stream', 'png'].map((mimeType) =>
    ok(`inline ${mimeType}`, bodyOf({ inlineData: { mimeType, data: 'AAAA' } }), OWN),
  ),
  no('inline mimeType is absent', `${PART}.inlineData.mimeType`, bodyOf({ inlineData: { data: 'AAAA' } })),
  no('inline data is absent', `${PART}.inlineData.data`, bodyOf({ inlineData: { mimeType: 'image/png' } })),
  no(
    'inline data is not base64',
    `${PART}.inlineData.data`,
    bodyOf({ inlineData: { mimeType: 'image/png', data: '***' } }),
  ),
  no('inlineData is not an object', `${PART}.inlineData`, bodyOf({ inlineData: 'x' })),
  ok('file', bodyOf({ text: 'x' }, { fileData: { mimeType: 'image/png', fileUri: 'https://example.com/a.png' } })),
  ok('file by its id', bodyOf({ text: 'x' }, { fileData: { mimeType: 'application/pdf', fileUri: FILES.pdf } })),
  no('fileUri is absent', `${PART}.fileData.fileUri`, bodyOf({ fileData: { mimeType: 'image/png' } })),
  no(
    'file mimeType is not a string',
    `${PART}.fileData.mimeType`,
    bodyOf({ fileData: { mimeType: 5, fileUri: 'gs://a/b' } }),
  ),
  ok('call and response', {
    contents: [
      USER,
      { role: 'model', parts: [{ functionCall: { name: 'f', args: { a: 1 } } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'f', response: { output: 'x' } } }] },
    ],
  }),
  ok("a call under the user's role", bodyOf({ text: 'x' }, { functionCall: { name: 'f', args: {} } })),
  ok('call without args', { contents: [USER, { role: 'model', parts: [{ functionCall: { name: 'f' } }] }] }),
  no('call name is absent', `${PART}.functionCall.name`, bodyOf({ functionCall: { args: {} } })),
  no('args are not an object', `${PART}.functionCall.args`, bodyOf({ functionCall: { name: 'f', args: '{}' } })),
  no('response name is absent', `${PART}.functionResponse.name`, bodyOf({ functionResponse: { response: {} } })),
  no(
    'response is not an object',
    `${PART}.functionResponse.response`,
    bodyOf({ functionResponse: { name: 'f', response: 'x' } }),
  ),
  ok(
    'videoMetadata',
    bodyOf(
      { text: 'x' },
      {
        inlineData: { mimeType: 'video/mp4', data: 'AAAA' },
        videoMetadata: { startOffset: 0, endOffset: 5.5, fps: 1 },
      },
    ),
    OWN,
  ),
  no(
    'fps is not a number',
    `${PART}.videoMetadata.fps`,
    bodyOf({ inlineData: { mimeType: 'video/mp4', data: 'AAAA' }, videoMetadata: { fps: 'x' } }),
  ),
  no(
    'startOffset is not a number',
    `${PART}.videoMetadata.startOffset`,
    bodyOf({ inlineData: { mimeType: 'video/mp4', data: 'AAAA' }, videoMetadata: { startOffset: 'x' } }),
  ),
  ...['HIGH', 'MEDIUM', 'LOW'].map((mediaResolution) =>
    ok(
      `mediaResolution ${mediaResolution}`,
      bodyOf({ text: 'x' }, { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' }, mediaResolution }),
    ),
  ),
  no('mediaResolution is unknown', `${PART}.mediaResolution`, bodyOf({ text: 'x', mediaResolution: 'TINY' })),
])

const safety = (value: Json): Json => ({
  safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF', ...value }],
})
table('the rest of the body', surface, [
  ok('cachedContent', { cachedContent: 'cachedContents/1' }, OWN),
  no('cachedContent is not a string', 'cachedContent', { cachedContent: 5 }),
  ok('tools', {
    tools: [
      { functionDeclarations: [{ name: 'f', parameters: { type: 'OBJECT', properties: { a: { type: 'STRING' } } } }] },
    ],
  }),
  ok('no tools', { tools: [] }),
  no('tools are not an array', 'tools', { tools: {} }),
  no('a declaration has no name', 'tools[0].functionDeclarations[0].name', { tools: [{ functionDeclarations: [{}] }] }),
  ok('toolConfig', { toolConfig: { functionCallingConfig: { mode: 'AUTO' } } }),
  no('toolConfig is not an object', 'toolConfig', { toolConfig: 'x' }),
  no('a mode is unknown', 'toolConfig.functionCallingConfig.mode', {
    toolConfig: { functionCallingConfig: { mode: 'SOME' } },
  }),
  ok('systemInstruction', { systemInstruction: { parts: [{ text: 'Be brief' }] } }),
  ok('no safetySettings', { safetySettings: [] }),
  ...['UNSPECIFIED', 'HATE_SPEECH', 'HARASSMENT', 'SEXUALLY_EXPLICIT', 'DANGEROUS_CONTENT'].map((word) =>
    ok(`category ${word}`, safety({ category: `HARM_CATEGORY_${word}` })),
  ),
  ...[
    'OFF',
    'BLOCK_NONE',
    'BLOCK_ONLY_HIGH',
    'BLOCK_MEDIUM_AND_ABOVE',
    'BLOCK_LOW_AND_ABOVE',
    'HARM_BLOCK_THRESHOLD_UNSPECIFIED',
  ].map((threshold) => ok(`threshold ${threshold}`, safety({ threshold }))),
  ...['HARM_BLOCK_METHOD_UNSPECIFIED', 'SEVERITY', 'PROBABILITY', null].map((method) =>
    ok(`method ${method}`, safety({ method })),
  ),
  ok('category is absent', { safetySettings: [{ threshold: 'OFF' }] }),
  ok('category is newer', safety({ category: 'HARM_CATEGORY_CIVIC_INTEGRITY' })),
  ok('threshold is newer', safety({ threshold: 'BLOCK_SOME' })),
  ok('method is newer', safety({ method: 'GUESS' })),
])

table('generationConfig', surface, [
  ok('null', config(null)),
  ok('empty', config({})),
  no('not an object', 'generationConfig', config('x')),
  ok('unknown fields', config({ odd: 1 })),
  ...setting('temperature', [0, 1, 2, 5, null], ['1', true]),
  ...setting('topP', [0, 0.5, 1], [-0.01, 1.01, '1']),
  ...setting('topK', [1, 40], [1.5, '1']),
  ...setting('candidateCount', [1, null], [1.5, '1', 0]),
  ...setting('maxOutputTokens', [64, 2 ** 31 - 1, null], [1.5, '5', 0, -1]),
  ...setting('stopSequences', [[], ['a'], many(5, (i) => `s${i}`)], [many(6, (i) => `s${i}`), 'a', {}]),
  no('stopSequences have a number', 'generationConfig.stopSequences[0]', config({ stopSequences: [5] })),
  ...setting('presencePenalty', [-2, 0, 1.99], [2, -2.01, 2.5, '0']),
  ...setting('frequencyPenalty', [-2, 0, 1.99], [2, -2.01, 2.5, '0']),
  ...setting('seed', [0, 7, -5], [1.5, '7']),
  ...setting('responseMimeType', ['text/plain', 'application/json', null], ['text/html', 5]),
  ...setting('responseLogprobs', [true, false], ['true']),
  ...setting('logprobs', [1, 20], [0, 21, 1.5, '5'], { responseLogprobs: true }),
  no('logprobs without responseLogprobs', 'generationConfig.logprobs', config({ logprobs: 5 })),
  no(
    'logprobs with responseLogprobs false',
    'generationConfig.logprobs',
    config({ logprobs: 5, responseLogprobs: false }),
  ),
  ...setting('audioTimestamp', [true, false, null], ['x']),
  ok('TEXT', config({ responseModalities: ['TEXT'] })),
  ok('none named', config({ responseModalities: [] })),
  ok('TEXT and IMAGE', config({ responseModalities: ['TEXT', 'IMAGE'] }), OWN),
  ok('AUDIO', config({ responseModalities: ['AUDIO'] }), OWN),
  ok('IMAGE alone', config({ responseModalities: ['IMAGE'] }), OWN),
  ok('IMAGE and AUDIO', config({ responseModalities: ['IMAGE', 'AUDIO'] }), OWN),
  no(
    'an unknown modality',
    'generationConfig.responseModalities[1]',
    config({ responseModalities: ['TEXT', 'SMELL'] }),
  ),
  no('modalities are not an array', 'generationConfig.responseModalities', config({ responseModalities: 'TEXT' })),
  ...['HIGH', 'MEDIUM', 'LOW'].map((mediaResolution) =>
    ok(`mediaResolution ${mediaResolution}`, config({ mediaResolution })),
  ),
  no('mediaResolution is unknown', 'generationConfig.mediaResolution', config({ mediaResolution: 'TINY' })),
])

const schema = (responseSchema: unknown): Json => config({ responseMimeType: 'application/json', responseSchema })
const SCHEMA = 'generationConfig.responseSchema'
const LEAVES: Record<string, { good: unknown; bad: unknown }> = {
  format: { good: 'date', bad: 5 },
  description: { good: 'x', bad: 5 },
  pattern: { good: '^a', bad: 5 },
  title: { good: 'x', bad: {} },
  minimum: { good: 0.5, bad: 'x' },
  maximum: { good: 5, bad: 'x' },
  nullable: { good: true, bad: 'x' },
  minItems: { good: 1, bad: 'x' },
  maxItems: { good: 5, bad: 1.5 },
  minLength: { good: 1, bad: 'x' },
  maxLength: { good: 5, bad: true },
}
const nested = (depth: number): Json => (depth === 0 ? { type: 'STRING' } : { type: 'ARRAY', items: nested(depth - 1) })

table('schemas', surface, [
  ...['STRING', 'INTEGER', 'NUMBER', 'BOOLEAN', 'ARRAY', 'OBJECT'].map((type) =>
    ok(
      `type ${type}`,
      schema({
        type: 'OBJECT',
        properties: { a: { type, ...(type === 'ARRAY' ? { items: { type: 'STRING' } } : {}) } },
      }),
    ),
  ),
  no('type is unknown', `${SCHEMA}.type`, schema({ type: 'DATE' })),
  no('type is absent', `${SCHEMA}.type`, schema({ properties: {} })),
  no('type is not a string', `${SCHEMA}.type`, schema({ type: {} })),
  no('a schema is not an object', SCHEMA, schema('x')),
  ...Object.entries(LEAVES).flatMap(([name, { good, bad }]) => [
    ok(`${name}`, schema({ type: 'OBJECT', properties: { a: { type: 'STRING', [name]: good } } })),
    no(
      `${name} of a wrong type`,
      `${SCHEMA}.properties.a.${name}`,
      schema({ type: 'OBJECT', properties: { a: { type: 'STRING', [name]: bad } } }),
    ),
  ]),
  ok(
    'enum, required, propertyOrdering',
    schema({
      type: 'OBJECT',
      properties: { a: { type: 'STRING', enum: ['x', 'y'] } },
      required: ['a'],
      propertyOrdering: ['a'],
    }),
  ),
  no('enum has a number', `${SCHEMA}.enum[0]`, schema({ type: 'STRING', enum: [5] })),
  no('required has a number', `${SCHEMA}.required[0]`, schema({ type: 'OBJECT', required: [5] })),
  no(
    'propertyOrdering is not an array',
    `${SCHEMA}.propertyOrdering`,
    schema({ type: 'OBJECT', propertyOrdering: 'a' }),
  ),
  no('items is not a schema', `${SCHEMA}.items`, schema({ type: 'ARRAY', items: 'x' })),
  no('properties is not an object', `${SCHEMA}.properties`, schema({ type: 'OBJECT', properties: [] })),
  no('a property is not a schema', `${SCHEMA}.properties.a`, schema({ type: 'OBJECT', properties: { a: 'x' } })),
  ok('anyOf', schema({ anyOf: [{ type: 'STRING' }, { type: 'INTEGER' }] })),
  ok('oneOf as anyOf', schema({ oneOf: [{ type: 'STRING' }, { type: 'INTEGER' }] })),
  no('anyOf is not an array', `${SCHEMA}.anyOf`, schema({ type: 'STRING', anyOf: {} })),
  no('anyOf has a string', `${SCHEMA}.anyOf[0]`, schema({ type: 'STRING', anyOf: ['x'] })),
  ok('depth of 20', schema(nested(20))),
  no('too deep', `${SCHEMA}${'.items'.repeat(32)}`, schema(nested(40))),
  no('responseSchema needs a media type', SCHEMA, config({ responseSchema: { type: 'STRING' } })),
  no(
    'responseSchema with text/plain',
    SCHEMA,
    config({ responseMimeType: 'text/plain', responseSchema: { type: 'STRING' } }),
  ),
  ok(
    'responseSchema with text/x.enum',
    config({ responseMimeType: 'text/x.enum', responseSchema: { type: 'STRING', enum: ['a', 'b'] } }),
    OWN,
  ),
  ok(
    'responseJsonSchema',
    config({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object', properties: { a: { type: 'string' } } },
    }),
  ),
  no(
    'responseJsonSchema beside responseSchema',
    'generationConfig.responseJsonSchema',
    config({
      responseMimeType: 'application/json',
      responseSchema: { type: 'OBJECT' },
      responseJsonSchema: { type: 'object' },
    }),
  ),
  no(
    'responseJsonSchema without a media type',
    'generationConfig.responseJsonSchema',
    config({ responseJsonSchema: { type: 'object' } }),
  ),
  no(
    'responseJsonSchema with text/plain',
    'generationConfig.responseJsonSchema',
    config({ responseMimeType: 'text/plain', responseJsonSchema: { type: 'object' } }),
  ),
  no(
    'responseJsonSchema with text/x.enum',
    'generationConfig.responseJsonSchema',
    config({ responseMimeType: 'text/x.enum', responseJsonSchema: { type: 'object' } }),
  ),
  no(
    'responseJsonSchema is not an object',
    'generationConfig.responseJsonSchema',
    config({ responseMimeType: 'application/json', responseJsonSchema: 'x' }),
  ),
])

const thinking = (thinkingConfig: unknown): Json => config({ thinkingConfig })
const BUDGET = 'generationConfig.thinkingConfig.thinkingBudget'
table('thinkingConfig', surface, [
  ok('nothing said', thinking({})),
  ...[-1, 0, 128, 512, 24576, 32768].map((thinkingBudget) =>
    ok(`budget ${thinkingBudget}`, thinking({ thinkingBudget })),
  ),
  ...[-2, 32769, 1.5, '128', true].map((thinkingBudget) =>
    no(`budget ${JSON.stringify(thinkingBudget)}`, BUDGET, thinking({ thinkingBudget })),
  ),
  ...['MINIMAL', 'LOW', 'MEDIUM', 'HIGH'].map((thinkingLevel) =>
    ok(`level ${thinkingLevel}`, thinking({ thinkingLevel })),
  ),
  no('level is unknown', 'generationConfig.thinkingConfig.thinkingLevel', thinking({ thinkingLevel: 'HUGE' })),
  no('level is not a string', 'generationConfig.thinkingConfig.thinkingLevel', thinking({ thinkingLevel: 5 })),
  no('budget beside level', BUDGET, thinking({ thinkingBudget: 512, thinkingLevel: 'LOW' })),
  ok('includeThoughts', thinking({ includeThoughts: true })),
  no(
    'includeThoughts is not a boolean',
    'generationConfig.thinkingConfig.includeThoughts',
    thinking({ includeThoughts: 'x' }),
  ),
  no('thinkingConfig is not an object', 'generationConfig.thinkingConfig', thinking('x')),
])

test('a model that does not reason refuses requests for reasoning only', async () => {
  const send = (model: string, thinkingConfig: Json): Promise<Response> =>
    post(gateway, `/v1/publishers/plain/models/${model}:generateContent`, {
      contents: [USER],
      generationConfig: { thinkingConfig },
    })
  for (const model of ['gemini', 'messages']) {
    for (const requested of [{ thinkingBudget: 1024 }, { thinkingBudget: -1 }, { thinkingLevel: 'LOW' }]) {
      const response = await send(model, requested)
      expect(response.status).toBe(400)
      expect(surface.refusal((await response.json()) as Json).param).toBe('generationConfig.thinkingConfig')
    }
    for (const hidden of [{}, { thinkingBudget: 0 }, { includeThoughts: true }])
      expect((await send(model, hidden)).status).toBe(200)
  }
  expect((await send('either', { thinkingBudget: 1024 })).status).toBe(200)
})
