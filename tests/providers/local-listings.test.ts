import { describe, expect, test } from 'bun:test'
import { catalogueOf } from './catalogues.ts'
import { EFFORTS, listedModels, NO_SERVER, refresherOf, serve, stopServersAfterEach } from './local-servers.ts'

/** Model lists of Ollama, vLLM, llama.cpp and LM Studio as entries of the catalogue. */

stopServersAfterEach()

describe('the model list of a server', () => {
  test('Ollama: details are requested once for each model, and again when it changes', async () => {
    const SHOW: Record<string, object> = {
      'qwen3:8b': {
        capabilities: ['completion', 'tools', 'thinking'],
        model_info: { 'general.architecture': 'qwen3', 'qwen3.context_length': 40960, 'qwen3.embedding_length': 4096 },
      },
      'gemma3:4b': {
        capabilities: ['completion', 'vision'],
        model_info: { 'general.architecture': 'gemma3', 'gemma3.context_length': 131072 },
      },
      'nomic-embed-text': {
        capabilities: ['embedding'],
        model_info: { 'general.architecture': 'nomic-bert', 'nomic-bert.context_length': 2048 },
      },
      old: { details: {}, model_info: null },
    }
    const requests: string[] = []
    let digest = 'a'
    const catalogue = catalogueOf()
    const refresh = refresherOf(
      catalogue,
      serve(async (request) => {
        if (new URL(request.url).pathname === '/api/tags')
          return Response.json({
            models: [...Object.keys(SHOW), 'broken'].map((name) => ({
              name,
              digest,
              modified_at: '2026-01-01T00:00:00Z',
            })),
          })
        const { model } = (await request.json()) as { model: string }
        requests.push(`${request.method} ${model}`)
        return model in SHOW ? Response.json(SHOW[model]) : new Response('no', { status: 500 })
      }),
    )
    await refresh()
    expect(listedModels(catalogue, 'ollama')).toEqual([
      {
        id: 'ollama/qwen3:8b',
        efforts: EFFORTS,
        contextLength: 40960,
        input: ['text'],
        output: ['text'],
        tools: true,
        reasoning: 'effort',
      },
      {
        id: 'ollama/gemma3:4b',
        efforts: EFFORTS,
        contextLength: 131072,
        input: ['text', 'image'],
        output: ['text'],
        tools: false,
        reasoning: 'none',
      },
      { id: 'ollama/old', efforts: EFFORTS, contextLength: undefined },
      { id: 'ollama/broken', efforts: EFFORTS, contextLength: undefined },
    ])
    expect(requests.sort()).toEqual([
      'POST broken',
      'POST gemma3:4b',
      'POST nomic-embed-text',
      'POST old',
      'POST qwen3:8b',
    ])
    requests.length = 0
    await refresh()
    expect(requests).toEqual(['POST broken'])
    digest = 'b'
    await refresh()
    expect(requests).toHaveLength(6)
  })

  test('Ollama: details of at most 32 models are requested in one refresh', async () => {
    let requests = 0
    const catalogue = catalogueOf()
    const refresh = refresherOf(
      catalogue,
      serve((request) => {
        if (new URL(request.url).pathname === '/api/tags')
          return Response.json({ models: Array.from({ length: 50 }, (_, index) => ({ name: `m${index}` })) })
        requests++
        return Response.json({ capabilities: ['completion'] })
      }),
    )
    await refresh()
    expect([requests, listedModels(catalogue, 'ollama').length]).toEqual([32, 50])
    await refresh()
    expect(requests).toBe(50)
  })

  const vllm = {
    object: 'list',
    data: [
      {
        id: 'meta-llama/Llama-3.1-8B-Instruct',
        object: 'model',
        created: 1767225600,
        owned_by: 'vllm',
        root: 'meta-llama/Llama-3.1-8B-Instruct',
        parent: null,
        max_model_len: 131072,
        permission: [],
      },
      {
        id: 'sql-lora',
        object: 'model',
        created: 1767225600,
        owned_by: 'vllm',
        root: '/adapters/sql',
        parent: 'meta-llama/Llama-3.1-8B-Instruct',
        max_model_len: null,
      },
    ],
  }
  const llamaCpp = {
    models: [{ name: 'qwen', capabilities: ['completion'] }],
    object: 'list',
    data: [
      {
        id: 'qwen',
        object: 'model',
        created: 1767225600,
        owned_by: 'llamacpp',
        meta: {
          vocab_type: 2,
          n_vocab: 151936,
          n_ctx_train: 40960,
          n_embd: 4096,
          n_params: 8190735360,
          size: 5021780992,
        },
      },
      {
        id: 'served-shorter',
        object: 'model',
        created: 1767225600,
        owned_by: 'llamacpp',
        meta: { n_ctx: 8192, n_ctx_train: 40960 },
      },
      { id: '../models/7B/ggml-model.gguf', object: 'model', created: 1, owned_by: 'llamacpp', meta: null },
    ],
  }
  const lmStudio = {
    object: 'list',
    data: [
      {
        id: 'qwen2-vl-7b-instruct',
        object: 'model',
        type: 'vlm',
        publisher: 'mlx-community',
        arch: 'qwen2_vl',
        compatibility_type: 'mlx',
        quantization: '4bit',
        state: 'not-loaded',
        max_context_length: 32768,
      },
      {
        id: 'meta-llama-3.1-8b-instruct',
        object: 'model',
        type: 'llm',
        state: 'loaded',
        max_context_length: 131072,
        loaded_context_length: 4096,
        capabilities: ['tool_use'],
      },
      {
        id: 'text-embedding-nomic-embed-text-v1.5',
        object: 'model',
        type: 'embeddings',
        state: 'not-loaded',
        max_context_length: 2048,
      },
    ],
  }
  const CASES: [string, string, string, object, object[]][] = [
    [
      'vllm',
      'VLLM',
      '/v1/models',
      vllm,
      [
        { id: 'vllm/meta-llama/Llama-3.1-8B-Instruct', contextLength: 131072 },
        { id: 'vllm/sql-lora', contextLength: undefined },
      ],
    ],
    [
      'llamacpp',
      'LLAMACPP',
      '/v1/models',
      llamaCpp,
      [
        { id: 'llamacpp/qwen', contextLength: 40960 },
        { id: 'llamacpp/served-shorter', contextLength: 8192 },
      ],
    ],
    [
      'lmstudio',
      'LMSTUDIO',
      '/api/v0/models',
      lmStudio,
      [
        {
          id: 'lmstudio/qwen2-vl-7b-instruct',
          contextLength: 32768,
          formats: ['json_schema'],
          efforts: EFFORTS.slice(0, -1),
          input: ['text', 'image'],
          output: ['text'],
        },
        {
          id: 'lmstudio/meta-llama-3.1-8b-instruct',
          contextLength: 4096,
          formats: ['json_schema'],
          efforts: EFFORTS.slice(0, -1),
          input: ['text'],
          output: ['text'],
          tools: true,
        },
      ],
    ],
  ]
  for (const [provider, variable, path, response, models] of CASES) {
    test(`${provider}: is requested at the base URL of its variable with its key`, async () => {
      const requests: string[] = []
      let isDown = false
      const host = serve((request) => {
        requests.push(`${new URL(request.url).pathname} ${request.headers.get('authorization')}`)
        return isDown ? new Response('', { status: 500 }) : Response.json(response)
      })
      const env = { [`${variable}_BASE_URL`]: `http://${host}/v1`, [`${variable}_API_KEY`]: 'k' }
      const catalogue = catalogueOf(env)
      const refresh = refresherOf(catalogue, NO_SERVER)
      await refresh()
      expect(requests).toEqual([`${path} Bearer k`])
      expect(listedModels(catalogue, provider)).toEqual(models)
      isDown = true
      await refresh()
      await refresh()
      // A configured provider still accepts unlisted models.
      expect([
        listedModels(catalogue, provider),
        catalogue.endpoints(`${provider}/x`, 'chat.completions')[0]!.baseUrl,
      ]).toEqual([[], `http://${host}/v1`])
    })
  }

  test('is not requested from a provider of the configuration file with listed models only', async () => {
    const catalogue = catalogueOf(
      {
        VLLM_BASE_URL: `http://${serve(() => Response.json(vllm))}/v1`,
      },
      'providers: { vllm: { unlisted: false } }',
    )
    await refresherOf(catalogue, NO_SERVER)()
    expect(listedModels(catalogue, 'vllm')).toEqual([])
  })

  test('has no models if it is invalid, and the refresh does not fail', async () => {
    const invalid = [
      null,
      5,
      'x',
      [],
      { data: null },
      { data: [null, 5, {}, { id: 5 }, { id: 'a b' }, { id: '' }] },
      { data: [{ id: '__proto__' }, { id: 'x', max_model_len: -1, meta: [], created: 'now' }] },
    ]
    for (const response of invalid) {
      const catalogue = catalogueOf({ VLLM_BASE_URL: `http://${serve(() => Response.json(response))}/v1` })
      const ids = await refresherOf(catalogue, NO_SERVER)()
      expect(ids.every((id) => id === 'vllm/x' || id === 'vllm/__proto__')).toBe(true)
      for (const model of listedModels(catalogue, 'vllm'))
        expect(model).toEqual({ id: expect.any(String), contextLength: undefined })
    }
  })
})
