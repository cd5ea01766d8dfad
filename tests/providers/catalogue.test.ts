import { describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import { API_NAMES } from '../../src/config/provider-terms.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import type { Catalogue } from '../../src/providers/catalogue.ts'
import { MODEL_ROWS } from '../../src/providers/catalog-rows.ts'
import modelsFile from '../../catalog/models.json'
import { ACME, catalogueOf, endpointsOf, EVERY_KEY, refusalOf } from './catalogues.ts'

/** Model names and the endpoints, errors and list entries that they resolve to. */

describe('the endpoints of a model name', () => {
  const all = catalogueOf(
    EVERY_KEY,
    `${ACME}models:
  acme/large:
    endpoints:
      - { provider: acme, model: large-2026 }
      - { provider: openai, model: gpt-5, protocol: chat.completions }
  openai/gpt-4o: { endpoints: [{ provider: acme, model: mine }] }
`,
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
    // A model of the images API is called with it for every client protocol; no other model is, unless its provider has
    // no other API.
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
    test(`${model} from a client of ${protocol} resolves to ${endpoints.join(', ')}`, () =>
      expect(endpointsOf(all, model, protocol)).toEqual(endpoints))

  test('a name of two providers resolves to the enabled one', () => {
    expect(endpointsOf(catalogueOf({ VERTEX_API_KEY: 'k' }), 'gemini-2.5-pro')).toEqual([
      'vertex:gemini-2.5-pro over generateContent',
    ])
  })

  test('a short name of two models resolves to neither', () => {
    const two = catalogueOf(
      {},
      `${ACME}models:
  a/x: { endpoints: [{ provider: acme, model: x }] }
  b/x: { endpoints: [{ provider: acme, model: x }] }`,
    )
    expect(refusalOf(two, 'x').code).toBe('model_not_found')
    expect(refusalOf(two, 'x').message).toContain('a/x, b/x')
  })

  test('endpoints of disabled providers are skipped', () => {
    const some = catalogueOf(
      { OPENAI_API_KEY: 'k' },
      'models:\n  fast: { endpoints: [{ provider: groq, model: a }, { provider: openai, model: b }] }',
    )
    expect(endpointsOf(some, 'fast')).toEqual(['openai:b over chat.completions'])
  })

  test('a provider with listed models accepts only those, unless unlisted is true', () => {
    const models = 'models:\n  acme/large: { endpoints: [{ provider: acme, model: l }] }\n'
    const closed = catalogueOf({}, ACME.replace(', unlisted: true', '') + models)
    expect([endpointsOf(closed, 'acme/large'), refusalOf(closed, 'acme/lrage').message]).toEqual([
      ['acme:l over messages'],
      'The model acme/lrage is not available. Nearest: acme/large.',
    ])
    expect(endpointsOf(catalogueOf({}, ACME.replace(', unlisted: true', '')), 'acme/any')).toEqual([
      'acme:any over messages',
    ])
    expect(endpointsOf(catalogueOf({}, ACME + models), 'acme/any')).toEqual(['acme:any over messages'])
  })

  test('fetches of the configuration file replaces that of the row', () => {
    const media = (text: string, id: string) =>
      catalogueOf(EVERY_KEY, text)
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

  test('quirks of the row and of the configuration file are joined', () => {
    const own = catalogueOf({ OPENAI_API_KEY: 'k' }, 'providers:\n  openai: { quirks: { systemRole: developer } }')
    expect(own.endpoints('gpt-5', 'messages')[0]!.target.quirks).toEqual({
      maxTokensField: 'max_completion_tokens',
      reasoningField: 'none',
      customTools: true,
      toolChoices: 'allowed',
      systemRole: 'developer',
    })
  })
})

describe('prediction endpoints', () => {
  const CUSTOM = 'providers:\n  jobs: { protocol: predictions, baseUrl: "http://127.0.0.1:9/v1", apiKey: k }\n'
  const both = catalogueOf({ REPLICATE_API_TOKEN: 'k', OPENAI_API_KEY: 'k' }, ACME + CUSTOM.replace('providers:\n', ''))
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
    // As the official client sends them: no provider has the id of the owner.
    ['black-forest-labs/flux-schnell', 'replicate:black-forest-labs/flux-schnell at https://api.replicate.com/v1'],
    [`owner/name:${VERSION}`, `replicate:owner/name:${VERSION} at https://api.replicate.com/v1`],
    [VERSION, `replicate:${VERSION} at https://api.replicate.com/v1`],
  ])('of %s are %s', (model, endpoint) => expect(predicted(both, model)).toEqual([endpoint]))

  test.each(['openai/gpt-5', 'acme/large', 'gpt-5', 'sandbox/chat'])(
    'of %s are none, since the model has another API',
    (model) => expect(predicted(both, model)).toEqual([]),
  )

  test.each(['google/gemini-9', 'anthropic/claude-9', 'unknown', 'a/b/c', 'a:b', VERSION.slice(1)])(
    'of %s are refused with model_not_found',
    (model) => {
      expect(() => both.predictionEndpoints(model)).toThrow(`The model ${model} is not available`)
    },
  )

  test('are those of a provider of the configuration file if no other is enabled', () => {
    expect(predicted(catalogueOf({}, CUSTOM), 'owner/name')).toEqual(['jobs:owner/name at http://127.0.0.1:9/v1'])
    expect(() => catalogueOf().predictionEndpoints('owner/name')).toThrow('The model owner/name is not available')
  })

  test('are never used for a text request', () => {
    expect(refusalOf(both, 'black-forest-labs/flux-schnell').code).toBe('model_not_found')
    expect(refusalOf(both, 'replicate/owner/name')).toMatchObject({
      code: 'invalid_request',
      message: 'model: replicate/owner/name is a prediction model; use POST /v1/predictions',
    })
  })

  test("use the base URL in the variable of Replicate's clients", () => {
    for (const base of ['http://h', 'http://h/v1/'])
      expect(predicted(catalogueOf({ REPLICATE_API_TOKEN: 'k', REPLICATE_API_BASE_URL: base }), 'a/b')).toEqual([
        'replicate:a/b at http://h/v1',
      ])
    expect(both.predictionEndpoints('replicate/a/b')[0]!.credentials).toEqual({ authorization: 'Bearer k' })
  })
})

describe('the error for a model name', () => {
  const off = (model: string): string => `The model ${model} is not available on this server; for its operator: `
  const CASES: [string, string][] = [
    ['sandbox/chta', 'The model sandbox/chta is not available. Nearest: sandbox/chat.'],
    ['sandbx/chat', 'The model sandbx/chat is not available. Nearest: sandbox/chat.'],
    ['SANDBOX/CHAT', 'The model SANDBOX/CHAT is not available. Nearest: sandbox/chat, sandbox/image.'],
    ['openai/gpt-5', `${off('openai/gpt-5')}set OPENAI_API_KEY.`],
    ['openai/brand-new', `${off('openai/brand-new')}set OPENAI_API_KEY.`],
    ['claude-opus-5', `${off('claude-opus-5')}set ANTHROPIC_API_KEY.`],
    ['gemini-2.5-pro', `${off('gemini-2.5-pro')}set GEMINI_API_KEY or GOOGLE_API_KEY, or set VERTEX_API_KEY.`],
    ['azure/x', `${off('azure/x')}set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY.`],
    ['vllm/x', `${off('vllm/x')}set VLLM_BASE_URL.`],
    ['ollama/x', `${off('ollama/x')}start Ollama on this machine, or set OLLAMA_HOST.`],
    ['groq/x', `${off('groq/x')}groq is disabled in the configuration (providers.groq.enabled).`],
    ['completely-unknown', 'The model completely-unknown is not available. GET /v1/models lists the available models.'],
    ['__proto__', 'The model __proto__ is not available. GET /v1/models lists the available models.'],
    [
      '__proto__/constructor',
      'The model __proto__/constructor is not available. GET /v1/models lists the available models.',
    ],
    ['constructor', 'The model constructor is not available. GET /v1/models lists the available models.'],
  ]
  const groqDisabled = catalogueOf({ GROQ_API_KEY: 'k' }, 'providers: { groq: { enabled: false } }')
  for (const [model, expected] of CASES) {
    test(`${model} says how to correct it`, () => {
      const { code, status, message, param } = refusalOf(groqDisabled, model)
      expect({ code, status, message, param }).toEqual({
        code: 'model_not_found',
        status: 404,
        message: expected,
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
    test(`${JSON.stringify(model.slice(0, 20))} is invalid_request, since it is malformed`, () => {
      const { code, param } = refusalOf(catalogueOf(EVERY_KEY), model)
      expect([code, param]).toEqual(['invalid_request', 'model'])
    })
  }
})

describe('the model list', () => {
  test('has only models of enabled providers', () => {
    expect(
      catalogueOf()
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
    const listed = catalogueOf(
      { ANTHROPIC_API_KEY: 'k' },
      `${ACME}models:
  fast: { name: Fast, endpoints: [{ provider: acme, model: x }], price: { prompt: 1 }, contextLength: 9 }
  off: { endpoints: [{ provider: openai, model: x }] }`,
    ).list()
    expect(new Set(listed.map(({ ownedBy }) => ownedBy))).toEqual(new Set(['sandbox', 'anthropic', 'acme']))
    expect(listed.find(({ id }) => id === 'fast')).toEqual({
      id: 'fast',
      name: 'Fast',
      ownedBy: 'acme',
      endpoints: [{ provider: 'acme', model: 'x' }],
      capabilities: {},
      contextLength: 9,
    })
  })

  test('a configured model without endpoints is the one that it names, with the facts of the catalogue', () => {
    const own = catalogueOf(
      { OPENAI_API_KEY: 'k' },
      `${ACME}models:
  openai/gpt-5: { price: { prompt: 1 }, capabilities: { tools: false } }
  openai/brand-new: { price: { prompt: 1 } }
  acme/a/b: { contextLength: 9 }`,
    )
    const [gpt, built] = [own, catalogueOf({ OPENAI_API_KEY: 'k' })].map((all) => all.model('gpt-5'))
    expect(gpt).toEqual({ ...built!, capabilities: { ...built!.capabilities, tools: false } })
    expect(endpointsOf(own, 'openai/brand-new')).toEqual(['openai:brand-new over chat.completions'])
    expect(own.model('acme/a/b')).toMatchObject({ ownedBy: 'acme', contextLength: 9 })
    // Other names of the provider still work.
    expect(endpointsOf(own, 'acme/c')).toEqual(['acme:c over messages'])
  })

  test('has imported models with the name and context length of the source', () => {
    const listed = catalogueOf({ OPENROUTER_API_KEY: 'k' })
      .list()
      .find(({ id }) => id === 'openrouter/anthropic/claude-opus-4.7-fast')!
    expect(listed).toMatchObject({
      name: 'Claude Opus 4.7 (Fast)',
      ownedBy: 'openrouter',
      contextLength: 1_000_000,
      endpoints: [{ provider: 'openrouter', model: 'anthropic/claude-opus-4.7-fast' }],
    })
  })

  test('prefers values written by hand to imported ones', () => {
    expect(MODEL_ROWS.find(({ id }) => id === 'openai/gpt-4.1')).toMatchObject({
      name: 'GPT-4.1',
      contextLength: 1_047_576,
    })
    expect(modelsFile.imported.models.find(({ id }) => id === 'openai/gpt-4.1')).toMatchObject({
      contextLength: 1_000_000,
    })
  })

  test('gives imported models no short names', () => {
    const own = catalogueOf(
      { OPENROUTER_API_KEY: 'k' },
      'models:\n  mine/yi-large: { endpoints: [{ provider: sandbox, model: chat }] }',
    )
    expect(endpointsOf(own, 'yi-large')).toEqual(['sandbox:chat over chat.completions'])
    expect(refusalOf(catalogueOf({ OPENROUTER_API_KEY: 'k' }), 'yi-large').code).toBe('model_not_found')
    expect(
      endpointsOf(
        catalogueOf(
          {},
          'providers: { vllm: { baseUrl: "http://127.0.0.1:1/v1" } }\n' +
            'models: { openrouter/01-ai/yi-large: { endpoints: [{ provider: vllm, model: yi }] } }',
        ),
        'yi-large',
      ),
    ).toEqual(['vllm:yi over chat.completions'])
  })

  test('has the model for one name, listed or not', () => {
    const own = catalogueOf({ OPENAI_API_KEY: 'k' }, ACME)
    expect([own.model('gpt-5').id, own.model('openai/gpt-5')]).toEqual([
      'openai/gpt-5',
      own.list().find(({ id }) => id === 'openai/gpt-5')!,
    ])
    expect(own.model('openai/gpt-5-2025-08-07')).toMatchObject({
      id: 'openai/gpt-5-2025-08-07',
      ownedBy: 'openai',
      capabilities: { reasoning: 'effort', tools: true },
    })
    expect(own.model('acme/a/b')).toEqual({
      id: 'acme/a/b',
      name: 'acme/a/b',
      ownedBy: 'acme',
      endpoints: [{ provider: 'acme', model: 'a/b' }],
      capabilities: {},
    })
    expect(() => own.model('anthropic/claude-opus-5')).toThrow('set ANTHROPIC_API_KEY')
    expect(catalogueOf({ REPLICATE_API_TOKEN: 'k' }).model('owner/name').capabilities.api).toBe('predictions')
  })

  test('has endpoints for every protocol, except for prediction models', () => {
    const all = catalogueOf(EVERY_KEY)
    const conversational = all.list().filter(({ capabilities }) => capabilities.api !== 'predictions')
    for (const { id } of conversational)
      for (const protocol of API_NAMES)
        if (protocol !== 'predictions') expect(all.endpoints(id, protocol).length).toBeGreaterThan(0)
  })
})
