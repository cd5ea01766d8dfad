import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readConfig, ConfigError } from '../../src/config/load.ts'
import { modelNameProblem } from '../../src/config/model-settings.ts'
import { AUTHS, PROVIDER_ID, baseUrlProblem } from '../../src/config/provider-settings.ts'
import { API_NAMES } from '../../src/config/provider-terms.ts'
import { fileSchema } from '../../src/config/schema.ts'
import { GatewayError } from '../../src/error.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { MODALITIES, QUIRK_VALUES } from '../../src/config/provider-terms.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import {
  familyCapabilities,
  globs,
  MODEL_ROWS,
  PROVIDER_ROWS,
  type FamilyRow,
} from '../../src/providers/catalog-rows.ts'
import modelsFile from '../../catalog/models.json'

const catalogue = (env: Record<string, string> = {}, text = ''): Catalogue =>
  new Catalogue(readConfig(text, 'sluice.yaml', env))
const ABILITIES = Object.keys(
  (
    fileSchema() as {
      properties: { models: { additionalProperties: { properties: { capabilities: { properties: object } } } } }
    }
  ).properties.models.additionalProperties.properties.capabilities.properties,
)
const EVERY_KEY = Object.fromEntries([
  ...PROVIDER_ROWS.flatMap(({ keyVariables }) => keyVariables.map((name) => [name, 'k'])),
  ...PROVIDER_ROWS.filter(({ baseUrl }) => baseUrl === undefined).map(({ baseUrlVariable }) => [
    baseUrlVariable!.name,
    'https://h.example/',
  ]),
]) as Record<string, string>
const ACME =
  'providers:\n  acme: { protocol: messages, baseUrl: "http://127.0.0.1:9/v1/", apiKey: secret, unlisted: true }\n  painter: { protocol: images, baseUrl: "http://127.0.0.1:9/v1", unlisted: true }\n'

/** `provider:model over protocol` of each endpoint. */
const asked = (from: Catalogue, model: string, protocol: ProtocolName = 'chat.completions'): string[] =>
  from
    .endpoints(model, protocol)
    .map((endpoint) => `${endpoint.target.provider}:${endpoint.target.model} over ${endpoint.protocol}`)

const refusal = (from: Catalogue, model: string): GatewayError => {
  try {
    from.endpoints(model, 'messages')
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error(`${model} was found`)
}

describe('rows', () => {
  test('ids are unique and each row is complete', () => {
    expect(new Set(PROVIDER_ROWS.map(({ id }) => id)).size).toBe(PROVIDER_ROWS.length)
    for (const row of PROVIDER_ROWS) {
      const seen = {
        id: PROVIDER_ID.test(row.id),
        name: row.name.length > 0,
        docs: /^(https:\/\/|docs\/)/.test(row.docs),
        auth: AUTHS.includes(row.auth),
        speaks: row.protocols.length > 0,
      }
      expect([row.id, seen]).toEqual([row.id, { id: true, name: true, docs: true, auth: true, speaks: true }])
      for (const { protocol, auth } of row.protocols)
        expect([row.id, API_NAMES.includes(protocol), auth === undefined || AUTHS.includes(auth)]).toEqual([
          row.id,
          true,
          true,
        ])
      if (row.baseUrl !== undefined)
        expect([row.id, baseUrlProblem(row.baseUrl), row.baseUrl.endsWith('/')]).toEqual([row.id, undefined, false])
      expect([row.id, row.inProcess !== undefined || row.local !== undefined || row.keyVariables.length > 0]).toEqual([
        row.id,
        true,
      ])
      expect([row.id, row.baseUrl !== undefined || row.baseUrlVariable !== undefined]).toEqual([row.id, true])
    }
  })

  test('every quirk is a known flag with a value it takes, a reason and a month', () => {
    for (const row of PROVIDER_ROWS)
      for (const [name, quirk] of Object.entries(row.quirks)) {
        const values: readonly unknown[] | undefined = QUIRK_VALUES[name as keyof typeof QUIRK_VALUES]
        expect([
          row.id,
          name,
          [quirk!.value].flat().every((value) => values?.includes(value)),
          quirk!.why.length > 20,
          /^20\d\d-\d\d$/.test(quirk!.seen),
        ]).toEqual([row.id, name, true, true, true])
      }
  })

  test('what a provider takes of media is told of protocols that it speaks, in kinds and types that there are, by pages and a month', () => {
    const told = PROVIDER_ROWS.flatMap(({ id, protocols, media }) =>
      media === undefined ? [] : [{ id, protocols: protocols.map(({ protocol }) => protocol), media }],
    )
    expect(told.length).toBeGreaterThan(5)
    for (const {
      id,
      protocols,
      media: { requestBytes, sources, seen, ...byProtocol },
    } of told) {
      const spoken = Object.keys(byProtocol).filter((protocol) => !(protocols as string[]).includes(protocol))
      const taken = Object.values(byProtocol)
      const kinds = taken
        .flatMap(({ fetches }) => fetches ?? [])
        .filter((kind) => !['image', 'audio', 'video', 'file'].includes(kind))
      const types = taken
        .flatMap(({ inline }) => inline ?? [])
        .filter((type) => !/^(image|audio|video|text|application)\/[\w.*+-]+$/.test(type))
      expect([
        id,
        spoken,
        kinds,
        types,
        requestBytes === undefined || requestBytes >= 2 ** 20,
        sources.every((source) => /^(https:\/\/|docs\/)/.test(source)),
        sources.length > 0,
        /^\d{4}-\d{2}$/.test(seen),
      ]).toEqual([id, [], [], [], true, true, true, true])
    }
  })

  test('every model has a name that can be asked for and a provider that exists; what is written by hand has a date, too', () => {
    expect(new Set(MODEL_ROWS.map(({ id }) => id)).size).toBe(MODEL_ROWS.length)
    for (const row of MODEL_ROWS) {
      const providers = row.endpoints?.map(({ provider }) => provider) ?? [row.id.split('/')[0]!]
      const dated = row.onlyImported === true ? row.released === undefined : Date.parse(row.released ?? '') > 0
      expect([
        row.id,
        modelNameProblem(row.id),
        dated,
        row.contextLength === undefined || row.contextLength > 1000,
      ]).toEqual([row.id, undefined, true, true])
      for (const provider of providers) expect(PROVIDER_ROWS.map(({ id }) => id)).toContain(provider)
    }
  })

  test('every family speaks of a provider that exists and holds known abilities', () => {
    const kinds: readonly string[] = MODALITIES
    for (const { match, capabilities } of modelsFile.families as FamilyRow[]) {
      for (const kind of [...(capabilities.input ?? []), ...(capabilities.output ?? [])]) expect(kinds).toContain(kind)
      for (const pattern of match)
        if (!pattern.startsWith('*')) expect(PROVIDER_ROWS.map(({ id }) => id)).toContain(pattern.split('/')[0]!)
      for (const name of Object.keys(capabilities)) expect(ABILITIES).toContain(name)
    }
  })
})

describe('abilities by name', () => {
  const DOCUMENTS = { input: ['text', 'image', 'file'], output: ['text'], tools: true, structuredOutput: true }
  const EVERYTHING = { ...DOCUMENTS, input: ['text', 'image', 'audio', 'video', 'file'], sampling: true }
  const USUAL = ['low', 'medium', 'high']
  const ALL = ['none', ...USUAL, 'xhigh', 'max']
  const CASES: [string, string, object][] = [
    ['openai', 'gpt-4o-2024-08-06', { ...DOCUMENTS, reasoning: 'none', sampling: true, maxOutputTokens: 16384 }],
    ['openai', 'gpt-4o-audio-preview', { reasoning: 'none', maxOutputTokens: 16384 }],
    [
      'openai',
      'gpt-6-sol',
      {
        ...DOCUMENTS,
        efforts: ALL,
        stops: 0,
        cacheBreakpoints: 'prompt_cache_breakpoint',
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'openai',
      'gpt-image-1.5',
      { api: 'images', input: ['text'], output: ['image'], reasoning: 'none', base64Only: true },
    ],
    [
      'google',
      'gemini-3-pro-image-preview',
      {
        efforts: ['low', 'high'],
        penalties: false,
        input: ['text', 'image'],
        output: ['text', 'image'],
        tools: false,
        reasoning: 'none',
        maxOutputTokens: 32768,
      },
    ],
    [
      'openrouter',
      'openai/gpt-5-image',
      {
        efforts: ['minimal', ...USUAL],
        stops: 0,
        input: ['text', 'image', 'file'],
        output: ['text', 'image'],
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'deepseek',
      'deepseek-v4-pro',
      {
        output: ['text'],
        tools: true,
        reasoning: 'effort',
        efforts: ['none', 'low', 'high', 'max'],
        forcedTools: 'idle',
        formats: ['json_object'],
        maxOutputTokens: 384000,
      },
    ],
    [
      'mistral',
      'mistral-large-2512',
      {
        input: ['text', 'image'],
        output: ['text'],
        tools: true,
        structuredOutput: true,
        sampling: true,
        reasoning: 'none',
      },
    ],
    [
      'groq',
      'openai/gpt-oss-120b',
      {
        efforts: USUAL,
        formats: ['json_object', 'json_schema'],
        input: ['text'],
        output: ['text'],
        tools: true,
        reasoning: 'effort',
      },
    ],
    ['together', 'Gryphe/MythoMax-L2-13b', { efforts: USUAL }],
    [
      'openai',
      'gpt-5-nano',
      {
        ...DOCUMENTS,
        efforts: ['minimal', ...USUAL],
        stops: 0,
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'openai',
      'gpt-5-chat-latest',
      { efforts: ['minimal', ...USUAL], stops: 4, reasoning: 'none', sampling: true, maxOutputTokens: 16384 },
    ],
    [
      'anthropic',
      'claude-haiku-4-5-20251001',
      {
        ...DOCUMENTS,
        sampling: 'either',
        reasoning: 'budget',
        budget: { min: 1024, max: 63999 },
        maxOutputTokens: 64000,
      },
    ],
    [
      'anthropic',
      'claude-sonnet-4-6',
      {
        ...DOCUMENTS,
        efforts: ['none', ...USUAL, 'max'],
        prefill: false,
        sampling: 'either',
        reasoning: 'adaptive',
        budget: { min: 1024, max: 63999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'anthropic',
      'claude-opus-4-7',
      {
        ...DOCUMENTS,
        efforts: ALL,
        prefill: false,
        reasoning: 'adaptive',
        sampling: false,
        budget: { min: 1024, max: 31999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'anthropic',
      'claude-opus-5-5',
      {
        ...DOCUMENTS,
        efforts: ALL.slice(1),
        prefill: false,
        forcedTools: false,
        reasoning: 'adaptive',
        sampling: false,
        maxOutputTokens: 128000,
        systemTurns: true,
      },
    ],
    [
      'openrouter',
      'anthropic/claude-opus-4.7',
      {
        efforts: ALL,
        prefill: false,
        cacheBreakpoints: 'cache_control',
        input: ['text', 'image', 'file'],
        output: ['text'],
        tools: true,
        reasoning: 'adaptive',
        sampling: false,
        budget: { min: 1024, max: 31999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'vertex',
      'gemini-2.5-pro',
      {
        ...EVERYTHING,
        penalties: false,
        reasoning: 'budget',
        budget: { min: 128, max: 32768 },
        maxOutputTokens: 65536,
      },
    ],
    [
      'google',
      'gemini-2.5-flash-lite',
      {
        ...EVERYTHING,
        penalties: false,
        reasoning: 'budget',
        budget: { min: 512, max: 24576, off: true },
        maxOutputTokens: 65536,
      },
    ],
    [
      'google',
      'gemini-3-flash-preview',
      { ...EVERYTHING, efforts: ['minimal', ...USUAL], penalties: false, reasoning: 'level', maxOutputTokens: 65536 },
    ],
    ['acme', 'whatever', {}],
  ]
  for (const [provider, model, capabilities] of CASES)
    test(`${provider}/${model}`, () => expect(familyCapabilities(provider, model)).toEqual(capabilities))

  test('the file adds to them and overrides them', () => {
    const own = catalogue(
      { OPENAI_API_KEY: 'k' },
      'models:\n  mine: { endpoints: [{ provider: openai, model: gpt-5 }], capabilities: { maxOutputTokens: 7 } }',
    )
    expect(own.endpoints('mine', 'responses')[0]!.target.capabilities).toEqual({
      ...DOCUMENTS,
      reasoning: 'effort',
      efforts: ['minimal', 'low', 'medium', 'high'],
      sampling: false,
      stops: 0,
      maxOutputTokens: 7,
    } as object)
    expect(own.list().find(({ id }) => id === 'mine')!.capabilities).toEqual({
      ...DOCUMENTS,
      reasoning: 'effort',
      efforts: ['minimal', 'low', 'medium', 'high'],
      sampling: false,
      stops: 0,
      maxOutputTokens: 7,
    } as object)
  })

  test('a glob is anchored and takes nothing but * for special', () => {
    expect([
      globs(['a.b*']).test('a.bc'),
      globs(['a.b*']).test('axbc'),
      globs(['a.b*']).test('xa.b'),
      globs([]).test(''),
    ]).toEqual([true, false, false, false])
  })
})

describe('switched on', () => {
  test('nothing but the sandbox without keys', () =>
    expect(
      catalogue()
        .providers()
        .map(({ id, foundBy, inProcess }) => [id, foundBy, inProcess]),
    ).toEqual([['sandbox', 'built in', 'sandbox']]))

  test('each by its own variable, and by no other', () => {
    for (const row of PROVIDER_ROWS)
      for (const variable of row.baseUrl === undefined ? [] : row.keyVariables) {
        expect(
          catalogue({ [variable]: 'k' })
            .providers()
            .filter(({ id }) => id !== 'sandbox')
            .map(({ id, foundBy, apiKey }) => [id, foundBy, apiKey]),
        ).toEqual([[row.id, variable, 'k']])
        expect(catalogue({ [variable]: ' ' }).providers()).toHaveLength(1)
      }
  })

  test('all at once, with the right header and address', () => {
    const all = catalogue(EVERY_KEY)
    expect(all.providers()).toHaveLength(PROVIDER_ROWS.length - 1)
    const of = (model: string, protocol: ProtocolName) => {
      const { baseUrl, credentials } = all.endpoints(model, protocol)[0]!
      return [baseUrl, credentials]
    }
    expect(of('openai/x', 'responses')).toEqual(['https://api.openai.com/v1', { authorization: 'Bearer k' }])
    expect(of('anthropic/x', 'responses')).toEqual(['https://api.anthropic.com/v1', { 'x-api-key': 'k' }])
    expect(of('google/x', 'responses')).toEqual([
      'https://generativelanguage.googleapis.com/v1beta',
      { 'x-goog-api-key': 'k' },
    ])
    expect(of('vertex/x', 'responses')).toEqual([
      'https://aiplatform.googleapis.com/v1/publishers/google',
      { 'x-goog-api-key': 'k' },
    ])
    expect(of('azure/x', 'responses')).toEqual(['https://h.example/openai/v1', { 'api-key': 'k' }])
    expect(of('deepseek/x', 'messages')).toEqual(['https://api.deepseek.com/anthropic/v1', { 'x-api-key': 'k' }])
    expect(of('deepseek/x', 'responses')).toEqual(['https://api.deepseek.com', { authorization: 'Bearer k' }])
    expect(of('vllm/x', 'messages')).toEqual(['https://h.example', { authorization: 'Bearer k' }])
    expect(of('sandbox/chat', 'messages')[1]).toEqual({})
  })

  test('the file goes before the environment', () => {
    const own = catalogue(
      { OPENAI_API_KEY: 'env', OPENAI_BASE_URL: 'http://env/v1', GROQ_API_KEY: 'k' },
      'providers:\n  openai: { apiKey: file, baseUrl: http://file/v1, auth: api-key, protocol: chat.completions, headers: { X-A: b } }\n  groq: { enabled: false }\n  sandbox: { enabled: false }',
    )
    expect(own.providers().map(({ id }) => id)).toEqual(['openai'])
    const endpoint = own.endpoints('openai/x', 'responses')[0]!
    expect([endpoint.protocol, endpoint.baseUrl, endpoint.credentials, { ...endpoint.provider.headers }]).toEqual([
      'chat.completions',
      'http://file/v1',
      { 'api-key': 'file' },
      { 'x-a': 'b' },
    ])
  })

  test('a base URL of the environment, with or without what SDKs leave out', () => {
    const url = (env: Record<string, string>, model: string) => catalogue(env).endpoints(model, 'messages')[0]!.baseUrl
    expect(url({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:5/v1/' }, 'openai/x')).toBe(
      'http://127.0.0.1:5/v1',
    )
    for (const base of ['http://h', 'http://h/', 'http://h/v1'])
      expect(url({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: base }, 'anthropic/x')).toBe('http://h/v1')
  })

  test('an address alone switches no provider on that wants a key', () =>
    expect(catalogue({ OPENAI_BASE_URL: 'http://h/v1' }).providers()).toHaveLength(1))

  test('an address that is none, or is ours, stops the start', () => {
    expect(() => catalogue({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'api.openai.com' })).toThrow(
      new ConfigError(['OPENAI_BASE_URL: must be an http:// or https:// URL']),
    )
    for (const host of ['127.0.0.1', 'localhost', '[::1]'])
      expect(() => catalogue({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: `http://${host}:4310` })).toThrow(
        'points at Sluice itself',
      )
    expect(catalogue({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: 'http://127.0.0.1:4311' }).providers()).toHaveLength(
      2,
    )
  })
})

describe('resolution', () => {
  const all = catalogue(
    EVERY_KEY,
    `${ACME}models:\n  acme/large: { endpoints: [{ provider: acme, model: large-2026 }, { provider: openai, model: gpt-5, protocol: chat.completions }] }\n  openai/gpt-4o: { endpoints: [{ provider: acme, model: mine }] }\n`,
  )

  const CASES: [string, ProtocolName, string[]][] = [
    ['acme/large', 'messages', ['acme:large-2026 over messages', 'openai:gpt-5 over chat.completions']],
    ['acme/Any:name@1+x/y', 'responses', ['acme:Any:name@1+x/y over messages']],
    ['openai/gpt-4o', 'responses', ['acme:mine over messages']],
    ['gpt-4o', 'responses', ['acme:mine over messages']],
    ['gpt-5', 'chat.completions', ['openai:gpt-5 over chat.completions']],
    ['gpt-5', 'messages', ['openai:gpt-5 over responses']],
    ['o3-mini', 'responses', ['openai:o3-mini over responses']],
    ['claude-opus-5', 'chat.completions', ['anthropic:claude-opus-5 over messages']],
    ['gemini-2.5-pro', 'messages', ['google:gemini-2.5-pro over generateContent']],
    ['vertex/gemini-2.5-pro', 'messages', ['vertex:gemini-2.5-pro over generateContent']],
    ['grok-4.7', 'messages', ['xai:grok-4.7 over responses']],
    ['openrouter/anthropic/claude-opus-4.7', 'messages', ['openrouter:anthropic/claude-opus-4.7 over messages']],
    [
      'openrouter/anthropic/claude-opus-4.7',
      'generateContent',
      ['openrouter:anthropic/claude-opus-4.7 over chat.completions'],
    ],
    ['sandbox/chat', 'messages', ['sandbox:chat over chat.completions']],
    ['sandbox/gemini', 'messages', ['sandbox:gemini over generateContent']],
    // A model of the images API is asked over it, whatever the client speaks; no other is, unless its provider speaks
    // nothing else.
    ['sandbox/image', 'images', ['sandbox:image over images']],
    ['openai/gpt-image-1', 'images', ['openai:gpt-image-1 over images']],
    ['gpt-image-9-preview', 'chat.completions', ['openai:gpt-image-9-preview over images']],
    ['dall-e-3', 'messages', ['openai:dall-e-3 over images']],
    [
      'together/black-forest-labs/FLUX.1-schnell',
      'generateContent',
      ['together:black-forest-labs/FLUX.1-schnell over images'],
    ],
    ['xai/grok-imagine-image', 'responses', ['xai:grok-imagine-image over images']],
    ['openai/gpt-4.1', 'images', ['openai:gpt-4.1 over responses']],
    ['google/gemini-2.5-flash-image', 'images', ['google:gemini-2.5-flash-image over generateContent']],
    [
      'openrouter/google/gemini-2.5-flash-image',
      'images',
      ['openrouter:google/gemini-2.5-flash-image over chat.completions'],
    ],
    ['painter/any', 'images', ['painter:any over images']],
    ['painter/any', 'responses', ['painter:any over images']],
    ['large', 'messages', ['acme:large-2026 over messages', 'openai:gpt-5 over chat.completions']],
    ['openai/__proto__', 'responses', ['openai:__proto__ over responses']],
  ]
  for (const [model, protocol, endpoints] of CASES)
    test(`${model} over ${protocol}`, () => expect(asked(all, model, protocol)).toEqual(endpoints))

  test('of two providers of one name the one that is on', () => {
    expect(asked(catalogue({ VERTEX_API_KEY: 'k' }), 'gemini-2.5-pro')).toEqual([
      'vertex:gemini-2.5-pro over generateContent',
    ])
  })

  test('a short name that two models share means neither', () => {
    const two = catalogue(
      {},
      `${ACME}models:\n  a/x: { endpoints: [{ provider: acme, model: x }] }\n  b/x: { endpoints: [{ provider: acme, model: x }] }`,
    )
    expect(refusal(two, 'x').code).toBe('model_not_found')
    expect(refusal(two, 'x').message).toContain('a/x, b/x')
  })

  test('endpoints of providers that are off are passed over', () => {
    const some = catalogue(
      { OPENAI_API_KEY: 'k' },
      'models:\n  fast: { endpoints: [{ provider: groq, model: a }, { provider: openai, model: b }] }',
    )
    expect(asked(some, 'fast')).toEqual(['openai:b over chat.completions'])
  })

  test('a provider with listed models takes only those, unless it says otherwise', () => {
    const models = 'models:\n  acme/large: { endpoints: [{ provider: acme, model: l }] }\n'
    const closed = catalogue({}, ACME.replace(', unlisted: true', '') + models)
    expect([asked(closed, 'acme/large'), refusal(closed, 'acme/lrage').message]).toEqual([
      ['acme:l over messages'],
      'The model acme/lrage is not available. Nearest: acme/large.',
    ])
    expect(asked(catalogue({}, ACME.replace(', unlisted: true', '')), 'acme/any')).toEqual(['acme:any over messages'])
    expect(asked(catalogue({}, ACME + models), 'acme/any')).toEqual(['acme:any over messages'])
  })

  test('of whose addresses a provider opens the file says more than the row', () => {
    const media = (text: string, id: string) =>
      catalogue(EVERY_KEY, text)
        .providers()
        .find((provider) => provider.id === id)!.media
    expect(media('', 'openai')?.responses?.fetches).toEqual(['image', 'file'])
    expect(media('providers: { openai: { fetches: [] } }', 'openai')).toMatchObject({
      requestBytes: 50 * 2 ** 20,
      responses: { fetches: [], inline: expect.arrayContaining(['application/pdf']) },
      'chat.completions': { fetches: [] },
    })
    expect(media(ACME, 'acme')).toBeUndefined()
    expect(media(ACME.replace('unlisted: true }', 'unlisted: true, fetches: [video] }'), 'acme')).toEqual({
      messages: { fetches: ['video'] },
    })
    expect(() => readConfig('providers: { openai: { fetches: [text] } }', 'f', {})).toThrow(
      'fetches[0] must be one of image, audio, video, file',
    )
  })

  test('quirks of row and file are joined', () => {
    const own = catalogue({ OPENAI_API_KEY: 'k' }, 'providers:\n  openai: { quirks: { systemRole: developer } }')
    expect(own.endpoints('gpt-5', 'messages')[0]!.target.quirks).toEqual({
      maxTokensField: 'max_completion_tokens',
      reasoningField: 'none',
      customTools: true,
      toolChoices: 'allowed',
      systemRole: 'developer',
    })
  })
})

describe('predictions', () => {
  const CUSTOM = 'providers:\n  jobs: { protocol: predictions, baseUrl: "http://127.0.0.1:9/v1", apiKey: k }\n'
  const both = catalogue({ REPLICATE_API_TOKEN: 'k', OPENAI_API_KEY: 'k' }, ACME + CUSTOM.replace('providers:\n', ''))
  const predicted = (from: Catalogue, model: string): string[] =>
    from.predictionEndpoints(model).map(({ target, baseUrl }) => `${target.provider}:${target.model} at ${baseUrl}`)
  const VERSION = 'a1'.repeat(32)

  test.each([
    [
      'replicate/black-forest-labs/flux-schnell',
      'replicate:black-forest-labs/flux-schnell at https://api.replicate.com/v1',
    ],
    [`replicate/owner/name:${VERSION}`, `replicate:owner/name:${VERSION} at https://api.replicate.com/v1`],
    ['jobs/owner/name', 'jobs:owner/name at http://127.0.0.1:9/v1'],
    // As the official client names them: nobody else knows the owner.
    ['black-forest-labs/flux-schnell', 'replicate:black-forest-labs/flux-schnell at https://api.replicate.com/v1'],
    [`owner/name:${VERSION}`, `replicate:owner/name:${VERSION} at https://api.replicate.com/v1`],
    [VERSION, `replicate:${VERSION} at https://api.replicate.com/v1`],
  ])('of %s are made at %s', (model, place) => expect(predicted(both, model)).toEqual([place]))

  test.each(['openai/gpt-5', 'acme/large', 'gpt-5', 'sandbox/chat'])(
    'of %s are answers of a model that is asked by requests',
    (model) => expect(predicted(both, model)).toEqual([]),
  )

  test.each(['google/gemini-9', 'anthropic/claude-9', 'unknown', 'a/b/c', 'a:b', VERSION.slice(1)])(
    'of %s are not guessed at',
    (model) => {
      expect(() => both.predictionEndpoints(model)).toThrow(`The model ${model} is not available`)
    },
  )

  test('go to a provider of the file where that is the one that is on', () => {
    expect(predicted(catalogue({}, CUSTOM), 'owner/name')).toEqual(['jobs:owner/name at http://127.0.0.1:9/v1'])
    expect(() => catalogue().predictionEndpoints('owner/name')).toThrow('The model owner/name is not available')
  })

  test('are never what a request for text gets', () => {
    expect(refusal(both, 'black-forest-labs/flux-schnell').code).toBe('model_not_found')
    expect(refusal(both, 'replicate/owner/name')).toMatchObject({
      code: 'invalid_request',
      message: 'model: replicate/owner/name is asked by predictions: send it to POST /v1/predictions',
    })
  })

  test("are asked for where the variable of Replicate's clients says", () => {
    for (const base of ['http://h', 'http://h/v1/'])
      expect(predicted(catalogue({ REPLICATE_API_TOKEN: 'k', REPLICATE_API_BASE_URL: base }), 'a/b')).toEqual([
        'replicate:a/b at http://h/v1',
      ])
    expect(both.predictionEndpoints('replicate/a/b')[0]!.credentials).toEqual({ authorization: 'Bearer k' })
  })
})

describe('refusals', () => {
  const CASES: [string, string][] = [
    ['sandbox/chta', 'The model sandbox/chta is not available. Nearest: sandbox/chat.'],
    ['sandbx/chat', 'The model sandbx/chat is not available. Nearest: sandbox/chat.'],
    ['SANDBOX/CHAT', 'The model SANDBOX/CHAT is not available. Nearest: sandbox/chat, sandbox/image.'],
    ['openai/gpt-5', 'The model openai/gpt-5 is not available: set OPENAI_API_KEY.'],
    ['openai/brand-new', 'The model openai/brand-new is not available: set OPENAI_API_KEY.'],
    ['claude-opus-5', 'The model claude-opus-5 is not available: set ANTHROPIC_API_KEY.'],
    [
      'gemini-2.5-pro',
      'The model gemini-2.5-pro is not available: set GEMINI_API_KEY or GOOGLE_API_KEY, or set VERTEX_API_KEY.',
    ],
    ['azure/x', 'The model azure/x is not available: set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY.'],
    ['vllm/x', 'The model vllm/x is not available: set VLLM_BASE_URL.'],
    ['ollama/x', 'The model ollama/x is not available: start Ollama on this machine, or set OLLAMA_HOST.'],
    [
      'groq/x',
      'The model groq/x is not available: groq is switched off in the configuration (providers.groq.enabled).',
    ],
    ['completely-unknown', 'The model completely-unknown is not available. GET /v1/models lists what is.'],
    ['__proto__', 'The model __proto__ is not available. GET /v1/models lists what is.'],
    ['__proto__/constructor', 'The model __proto__/constructor is not available. GET /v1/models lists what is.'],
    ['constructor', 'The model constructor is not available. GET /v1/models lists what is.'],
  ]
  const bare = catalogue({ GROQ_API_KEY: 'k' }, 'providers: { groq: { enabled: false } }')
  for (const [model, message] of CASES) {
    test(model, () => {
      const { code, status, message: said, param } = refusal(bare, model)
      expect({ code, status, said, param }).toEqual({
        code: 'model_not_found',
        status: 404,
        said: message,
        param: 'model',
      })
    })
  }

  for (const model of [
    '',
    'a b',
    'a\n',
    'openai/../admin',
    '../x',
    'openai/./x',
    'openai//x',
    '/x',
    'x/',
    'openai/x?y',
    'openai/%2e%2e',
    'ä',
    'x'.repeat(257),
    'openai/x#y',
    'a\\b',
  ]) {
    test(`malformed: ${JSON.stringify(model.slice(0, 20))}`, () => {
      const { code, param } = refusal(catalogue(EVERY_KEY), model)
      expect([code, param]).toEqual(['invalid_request', 'model'])
    })
  }
})

test('the manual names every provider, every variable and every quirk', () => {
  const manual = readFileSync(join(import.meta.dir, '../../docs/providers.md'), 'utf8')
  for (const { id, keyVariables, baseUrlVariable, local } of PROVIDER_ROWS) {
    for (const name of [id, ...keyVariables, baseUrlVariable?.name, local?.search?.hostVariable])
      if (name !== undefined) expect(manual).toContain(`\`${name}\``)
  }
  for (const name of Object.keys(QUIRK_VALUES)) expect(manual).toContain(`| \`${name}\` |`)
})

describe('list', () => {
  test('only what can be reached', () => {
    expect(
      catalogue()
        .list()
        .map(({ id }) => id),
    ).toEqual([
      'sandbox/chat',
      'sandbox/responses',
      'sandbox/messages',
      'sandbox/gemini',
      'sandbox/image',
      'sandbox/prediction',
    ])
    const listed = catalogue(
      { ANTHROPIC_API_KEY: 'k' },
      `${ACME}models:\n  fast: { name: Fast, endpoints: [{ provider: acme, model: x }], price: { prompt: 1 }, contextLength: 9 }\n  off: { endpoints: [{ provider: openai, model: x }] }`,
    ).list()
    expect(new Set(listed.map(({ ownedBy }) => ownedBy))).toEqual(new Set(['sandbox', 'anthropic', 'acme']))
    const { createdAt, ...fast } = listed.find(({ id }) => id === 'fast')!
    expect(JSON.parse(JSON.stringify(fast))).toEqual({
      id: 'fast',
      name: 'Fast',
      ownedBy: 'acme',
      endpoints: [{ provider: 'acme', model: 'x' }],
      capabilities: {},
      contextLength: 9,
    })
    expect(createdAt).toBeGreaterThan(1_700_000_000)
  })

  test('what was imported is listed under the name and with the context of the source', () => {
    const listed = catalogue({ OPENROUTER_API_KEY: 'k' })
      .list()
      .find(({ id }) => id === 'openrouter/anthropic/claude-opus-4.7-fast')!
    expect(listed).toMatchObject({
      name: 'Claude Opus 4.7 (Fast)',
      ownedBy: 'openrouter',
      createdAt: 0,
      contextLength: 1_000_000,
      endpoints: [{ provider: 'openrouter', model: 'anthropic/claude-opus-4.7-fast' }],
    })
  })

  test('what was written by hand goes before what was imported', () => {
    expect(MODEL_ROWS.find(({ id }) => id === 'openai/gpt-4.1')).toMatchObject({
      name: 'GPT-4.1',
      contextLength: 1_047_576,
    })
    expect(modelsFile.imported.models.find(({ id }) => id === 'openai/gpt-4.1')).toMatchObject({
      contextLength: 1_000_000,
    })
  })

  test('an imported model takes no short name from others', () => {
    const own = catalogue(
      { OPENROUTER_API_KEY: 'k' },
      'models:\n  mine/yi-large: { endpoints: [{ provider: sandbox, model: chat }] }',
    )
    expect(asked(own, 'yi-large')).toEqual(['sandbox:chat over chat.completions'])
    expect(refusal(catalogue({ OPENROUTER_API_KEY: 'k' }), 'yi-large').code).toBe('model_not_found')
    expect(
      asked(
        catalogue(
          {},
          'providers: { vllm: { baseUrl: "http://127.0.0.1:1/v1" } }\nmodels:\n  openrouter/01-ai/yi-large: { endpoints: [{ provider: vllm, model: yi }] }',
        ),
        'yi-large',
      ),
    ).toEqual(['vllm:yi over chat.completions'])
  })

  test('one name: the listed model it stands for, or what is known of an unlisted one', () => {
    const own = catalogue({ OPENAI_API_KEY: 'k' }, ACME)
    expect([own.model('gpt-5').id, own.model('openai/gpt-5')]).toEqual([
      'openai/gpt-5',
      own.list().find(({ id }) => id === 'openai/gpt-5')!,
    ])
    expect(own.model('openai/gpt-5-2025-08-07')).toMatchObject({
      id: 'openai/gpt-5-2025-08-07',
      ownedBy: 'openai',
      createdAt: 0,
      capabilities: { reasoning: 'effort', tools: true },
    })
    expect(own.model('acme/a/b')).toEqual({
      id: 'acme/a/b',
      name: 'acme/a/b',
      ownedBy: 'acme',
      createdAt: 0,
      endpoints: [{ provider: 'acme', model: 'a/b' }],
      capabilities: {},
    })
    expect(() => own.model('anthropic/claude-opus-5')).toThrow('set ANTHROPIC_API_KEY')
    expect(catalogue({ REPLICATE_API_TOKEN: 'k' }).model('owner/name').capabilities.api).toBe('predictions')
  })

  test('every listed model that is not asked by predictions can be asked for in every protocol', () => {
    const all = catalogue(EVERY_KEY)
    const answering = all.list().filter(({ capabilities }) => capabilities.api !== 'predictions')
    for (const { id } of answering)
      for (const protocol of API_NAMES)
        if (protocol !== 'predictions') expect(all.endpoints(id, protocol).length).toBeGreaterThan(0)
  })
})
