import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI, type Model } from '@google/genai'
import OpenAI from 'openai'
import { GENAI_MODES } from './genai.ts'
import { startGateway, type Gateway } from '../server.ts'

const LIMITED = `sk-ai-v1-limited${'0123456789abcdef'.repeat(2)}`

let gateway: Gateway
const vllm = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () =>
    Response.json({
      object: 'list',
      data: [{ id: 'org/model', object: 'model', created: 1767225600, owned_by: 'vllm', max_model_len: 4096 }],
    }),
})
beforeAll(async () => {
  gateway = await startGateway({
    // The models of these providers are only listed; no request is sent to them.
    env: {
      VLLM_BASE_URL: `http://127.0.0.1:${vllm.port}/v1`,
      ANTHROPIC_API_KEY: 'k',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:9',
      REPLICATE_API_TOKEN: 'k',
    },
    config: `
keys: [{ key: ${LIMITED}, models: ['anthropic/claude-opus-*', mine] }]
models:
  mine: { name: My model, endpoints: [{ provider: sandbox, model: chat }], contextLength: 1234 }
  job: { endpoints: [{ provider: replicate, model: owner/name }] }
  painted: { endpoints: [{ provider: painter, model: p }] }
providers:
  painter: { protocol: images, baseUrl: 'http://127.0.0.1:9/v1' }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await vllm.stop(true)
})

const openai = (): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key })
const anthropic = (): Anthropic => new Anthropic({ baseURL: gateway.url, apiKey: gateway.key })
const rejected = (promise: PromiseLike<unknown>): Promise<{ status?: number; message?: string }> =>
  Promise.resolve(promise).then(
    () => ({}),
    (error: { status: number; message: string }) => error,
  )

const all = async (): Promise<string[]> => (await Array.fromAsync(await openai().models.list())).map(({ id }) => id)
/** All models except those that are used by predictions. */
const conversational = async (): Promise<string[]> =>
  (await all()).filter((id) => id !== 'job' && id !== 'sandbox/prediction')

describe('openai', () => {
  test("OpenAI's client lists models, and retrieves each by name, with any number of slashes", async () => {
    const ids = await all()
    expect(ids).toContain('sandbox/chat')
    expect(ids).toContain('anthropic/claude-opus-5')
    expect(ids.length).toBeGreaterThan(25)
    for (const id of ['sandbox/chat', 'mine', 'anthropic/claude-opus-5'])
      expect(await openai().models.retrieve(id)).toMatchObject({ id, object: 'model' })
    // These names are not listed, but requests for them would be sent to the provider.
    for (const id of ['anthropic/claude-opus-5-20260724', 'anthropic/a/b/c'])
      expect(await openai().models.retrieve(id)).toMatchObject({ id, object: 'model', owned_by: 'anthropic' })
    expect(await openai().models.retrieve('claude-opus-5')).toMatchObject({ id: 'anthropic/claude-opus-5' })
  })

  test('a model has its capabilities, prices and protocols', async () => {
    expect(await openai().models.retrieve('anthropic/claude-opus-5')).toMatchObject({
      owned_by: 'anthropic',
      display_name: 'Claude Opus 5',
      created: Date.parse('2026-07-24') / 1000,
      context_length: 1_000_000,
      max_output_tokens: 128_000,
      input_modalities: ['text', 'image', 'file'],
      output_modalities: ['text'],
      capabilities: { reasoning: true, tools: true, structured_output: true },
      supported_parameters: [
        'max_tokens',
        'stream',
        'tools',
        'tool_choice',
        'response_format',
        'reasoning',
        'reasoning_effort',
      ],
      pricings: {
        prompt: [{ unit: 'perMTokens', currency: 'USD' }],
        completion: [{ unit: 'perMTokens' }],
        web_search: [{ unit: 'perCount' }],
      },
      protocols: ['chat.completions', 'responses', 'messages', 'generateContent', 'predictions'],
    } as object)
    expect(await openai().models.retrieve('painted')).toMatchObject({
      output_modalities: ['image'],
      supported_parameters: null,
      protocols: ['chat.completions', 'responses', 'messages', 'generateContent', 'images', 'predictions'],
    } as object)
    expect(await openai().models.retrieve('job')).toMatchObject({
      protocols: ['predictions'],
      supported_parameters: null,
      context_length: null,
    } as object)
  })

  test('models of a local server are listed', async () => {
    // The gateway starts before the local server has answered.
    while (!(await all()).includes('vllm/org/model')) await Bun.sleep(50)
    expect(await openai().models.retrieve('vllm/org/model')).toMatchObject({
      context_length: 4096,
      created: 0,
      pricings: { prompt: [{ value: 0 }] },
      input_modalities: null,
    } as object)
  })

  test('an unknown model is a 404 with the nearest name or the variable to set', async () => {
    expect(await rejected(openai().models.retrieve('sandbox/chta'))).toMatchObject({
      status: 404,
      message: expect.stringContaining('sandbox/chat'),
    })
    expect(await rejected(openai().models.retrieve('xai/grok-4.7'))).toMatchObject({
      status: 404,
      message: expect.stringContaining('XAI_API_KEY'),
    })
  })

  test('a key sees only the models that it may use, in the list and by name', async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: LIMITED })
    const ids = (await Array.fromAsync(await client.models.list())).map(({ id }) => id)
    expect(ids).toContain('anthropic/claude-opus-5')
    expect(ids).toContain('mine')
    expect(ids.filter((id) => id !== 'mine' && !id.startsWith('anthropic/claude-opus-'))).toEqual([])
    expect(await client.models.retrieve('anthropic/claude-opus-77')).toMatchObject({ id: 'anthropic/claude-opus-77' })
    for (const id of ['sandbox/chat', 'claude-opus-5', 'nothing'])
      expect((await rejected(client.models.retrieve(id))).status).toBe(404)
  })
})

describe('@anthropic-ai/sdk', () => {
  test("Anthropic's client lists all pages, forward and back", async () => {
    const expected = await conversational()
    for (const limit of [1, 7, 1000])
      expect((await Array.fromAsync(anthropic().models.list({ limit }))).map(({ id }) => id)).toEqual(expected)
    expect((await Array.fromAsync(anthropic().models.list())).map(({ id }) => id)).toEqual(expected)
    const back: string[] = []
    for await (const page of (await anthropic().models.list({ limit: 7, before_id: expected.at(-1)! })).iterPages())
      back.unshift(...page.data.map(({ id }) => id))
    expect(back).toEqual(expected.slice(0, -1))
  })

  test('a page has its first and last id and whether more follow', async () => {
    const expected = await conversational()
    const page = await anthropic().models.list({ limit: 3, after_id: expected[1]! })
    expect(page).toMatchObject({ has_more: true, first_id: expected[2]!, last_id: expected[4]! })
    expect(await anthropic().models.list({ after_id: expected.at(-1)! })).toMatchObject({
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
    })
    expect(await anthropic().models.list({ limit: 2, before_id: expected[2]! })).toMatchObject({
      has_more: false,
      first_id: expected[0]!,
      last_id: expected[1]!,
    })
  })

  test("Anthropic's client retrieves a model by its name", async () => {
    const { _request_id, ...opus } = (await anthropic().models.retrieve(
      'anthropic/claude-opus-5',
    )) as unknown as Record<string, unknown>
    expect(opus).toEqual({
      type: 'model',
      id: 'anthropic/claude-opus-5',
      display_name: 'Claude Opus 5',
      created_at: '2026-07-24T00:00:00.000Z',
      max_input_tokens: 1_000_000,
      max_tokens: 128_000,
      capabilities: null,
      allowed_fallback_models: null,
    })
    // A member that is not known has the value that the published format has for it; none is missing.
    expect(await anthropic().models.retrieve('anthropic/a')).toMatchObject({
      type: 'model',
      id: 'anthropic/a',
      created_at: '1970-01-01T00:00:00.000Z',
      max_input_tokens: null,
      max_tokens: null,
      capabilities: null,
      allowed_fallback_models: null,
    })
    expect(await anthropic().models.retrieve('claude-opus-5')).toMatchObject({ id: 'anthropic/claude-opus-5' })
    expect(await rejected(anthropic().models.retrieve('sandbox/none'))).toMatchObject({ status: 404 })
  })

  test('an invalid page parameter is a 400 that names it', async () => {
    for (const params of [
      { limit: 0 },
      { limit: -1 },
      { limit: 1.5 },
      { after_id: 'nothing' },
      { before_id: 'nothing' },
    ]) {
      expect(await rejected(anthropic().models.list(params))).toMatchObject({
        status: 400,
        message: expect.stringContaining(Object.keys(params)[0]!),
      })
    }
  })
})

describe('@google/genai', () => {
  describe.each(Object.entries(GENAI_MODES))('%s', (mode, options) => {
    const client = (): GoogleGenAI => new GoogleGenAI({ apiKey: gateway.key, ...options(gateway.url) })
    const idOf = ({ name = '' }: Model): string =>
      name.replace(/^models\//, '').replace(/^publishers\/([^/]+)\/models\//, '$1/')

    test("Google's client lists all pages", async () => {
      const expected = await conversational()
      for (const config of [{}, { pageSize: 5 }, { pageSize: 100000 }])
        expect((await Array.fromAsync(await client().models.list({ config }))).map(idOf)).toEqual(expected)
      const page = await client().models.list({ config: { pageSize: 5 } })
      expect([page.page.length, page.hasNextPage()]).toEqual([5, true])
    })

    test("a model is retrieved by the name in the list and by Sluice's name", async () => {
      const listed = (await Array.fromAsync(await client().models.list())).find(
        (model) => idOf(model) === 'anthropic/claude-opus-5',
      )!
      for (const model of [listed.name!, 'anthropic/claude-opus-5'])
        expect(await client().models.get({ model })).toEqual(listed)
      if (mode.startsWith('gemini'))
        expect(listed).toMatchObject({
          name: 'models/anthropic/claude-opus-5',
          displayName: 'Claude Opus 5',
          inputTokenLimit: 1_000_000,
          outputTokenLimit: 128_000,
          thinking: true,
          supportedActions: ['generateContent', 'streamGenerateContent', 'countTokens'],
        })
      expect(idOf(await client().models.get({ model: 'models/mine' }))).toBe('mine')
      expect(await rejected(client().models.get({ model: 'sandbox/none' }))).toMatchObject({ status: 404 })
    })
  })
})

describe('filters', () => {
  const listed = async (query: string): Promise<string[]> => {
    const response = await fetch(`${gateway.url}/v1/models?${query}`, {
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
  }

  test('the list has the models that pass all filters', async () => {
    const every = await all()
    expect(await listed('owned_by=sandbox')).toEqual(every.filter((id) => id === 'mine' || id.startsWith('sandbox/')))
    expect(await listed('q=OPUS-5')).toContain('anthropic/claude-opus-5')
    expect((await listed('q=opus-5')).every((id) => id.includes('opus-5'))).toBe(true)
    expect(await listed('capability=tools&capability=reasoning&owned_by=anthropic')).toContain(
      'anthropic/claude-opus-5',
    )
    expect(await listed('capability=tools&q=painted')).toEqual([])
    expect(await listed('q=nothing-has-this-name')).toEqual([])
  })

  test('an unknown capability is a 400 with the known ones', async () => {
    const response = await fetch(`${gateway.url}/v1/models?capability=magic`, {
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('structured_output')])
  })
})
