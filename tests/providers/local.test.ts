import { afterEach, describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { LocalModels, localAddress } from '../../src/providers/local.ts'

const open: ReturnType<typeof Bun.serve>[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

const serve = (answer: (request: Request) => Response | Promise<Response>): string => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
  open.push(server)
  return `127.0.0.1:${server.port}`
}
const catalogue = (text = '', env: Record<string, string> = {}): Catalogue =>
  new Catalogue(readConfig(text, 'sluice.yaml', env))
const looking = (into: Catalogue, host: string): (() => Promise<string[]>) => {
  const local = new LocalModels(into, { OLLAMA_HOST: host })
  return () => local.refresh(new AbortController().signal)
}
const find = (into: Catalogue, host: string): Promise<string[]> => looking(into, host)()
/** Nobody answers here. */
const NOBODY = '127.0.0.1:9'
/** What Ollama takes of depths of reasoning, whatever the model. */
const EFFORTS = ['none', 'low', 'medium', 'high', 'max']
const listed = (from: Catalogue, provider: string): object[] =>
  from
    .list()
    .filter(({ ownedBy }) => ownedBy === provider)
    .map(({ id, contextLength, capabilities }) => ({ id, contextLength, ...capabilities }))

test('models of a local server are listed, and gone when they are', async () => {
  let models: unknown[] = [
    { name: 'qwen3:8b', modified_at: '2026-01-02T03:04:05.678901+00:00' },
    { name: 'hf.co/org/model:Q4_K_M' },
  ]
  const paths: string[] = []
  const host = serve((request) => {
    paths.push(new URL(request.url).pathname)
    return Response.json({ models })
  })
  const found = catalogue()
  expect(await find(found, host)).toEqual(['ollama/qwen3:8b', 'ollama/hf.co/org/model:Q4_K_M'])
  expect(paths).toEqual(['/api/tags', '/api/show', '/api/show'])
  expect(found.providers().find(({ id }) => id === 'ollama')!.foundBy).toBe('local')
  const endpoint = found.endpoints('ollama/qwen3:8b', 'messages')[0]!
  expect([endpoint.protocol, endpoint.baseUrl, endpoint.credentials, endpoint.target.model]).toEqual([
    'messages',
    `http://${host}/v1`,
    {},
    'qwen3:8b',
  ])
  expect(found.endpoints('qwen3:8b', 'generateContent')[0]!.protocol).toBe('chat.completions')
  expect(found.list().find(({ id }) => id === 'ollama/qwen3:8b')!.createdAt).toBe(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000)
  models = [{ name: 'other' }]
  await find(found, host)
  expect(
    found
      .list()
      .filter(({ ownedBy }) => ownedBy === 'ollama')
      .map(({ id }) => id),
  ).toEqual(['ollama/other'])
  expect(() => found.endpoints('qwen3:8b', 'messages')).toThrow('is not available')
})

test('models that the file defines stay', async () => {
  const found = catalogue('models:\n  ollama/mine: { name: Mine, endpoints: [{ provider: ollama, model: qwen3 }] }')
  await find(
    found,
    serve(() => Response.json({ models: [{ name: 'mine' }] })),
  )
  expect(found.endpoints('ollama/mine', 'messages')[0]!.target.model).toBe('qwen3')
})

describe('an odd server is none', () => {
  const ANSWERS: Record<string, () => Response | Promise<Response>> = {
    'not JSON': () => new Response('<html>'),
    'another shape': () => Response.json({ models: 'x' }),
    null: () => Response.json(null),
    'an error': () => Response.json({ models: [{ name: 'x' }] }, { status: 500 }),
    'too much': () => new Response(`{"models":[],"x":"${'x'.repeat(2 * 1024 * 1024)}"}`),
    silence: () => new Promise(() => {}),
  }
  for (const [name, answer] of Object.entries(ANSWERS)) {
    test(name, async () => {
      const found = catalogue()
      expect(await find(found, serve(answer))).toEqual([])
      expect(found.providers().map(({ id }) => id)).toEqual(['sandbox'])
    })
  }

  test('nobody there', async () => {
    const host = serve(() => Response.json({ models: [] }))
    await open.pop()!.stop(true)
    expect(await find(catalogue(), host)).toEqual([])
  })

  test('names that cannot be models are left out', async () => {
    expect(
      await find(
        catalogue(),
        serve(() => Response.json({ models: [{ name: '../x' }, { name: 'a b' }, {}, null, 5, { name: 'ok' }] })),
      ),
    ).toEqual(['ollama/ok'])
  })
})

test('a server that is gone for two rounds is taken off, and listed again when it is back', async () => {
  let away = false
  const host = serve(() => (away ? new Response('', { status: 503 }) : Response.json({ models: [{ name: 'x' }] })))
  const found = catalogue()
  const round = looking(found, host)
  const known = (): boolean => found.providers().some(({ id }) => id === 'ollama')
  await round()
  away = true
  await round()
  expect([known(), listed(found, 'ollama')]).toEqual([
    true,
    [{ id: 'ollama/x', efforts: EFFORTS, contextLength: undefined }],
  ])
  await round()
  expect([known(), listed(found, 'ollama')]).toEqual([false, []])
  expect(() => found.endpoints('ollama/x', 'messages')).toThrow('start Ollama')
  away = false
  await round()
  expect([known(), listed(found, 'ollama').length]).toEqual([true, 1])
  away = true
  await round()
  away = false
  await round()
  away = true
  await round()
  expect(known()).toBe(true)
})

test('nothing is listed anew while nothing changes', async () => {
  const found = catalogue()
  const round = looking(
    found,
    serve(() => Response.json({ models: [{ name: 'x' }] })),
  )
  await round()
  const before = found.list()
  await round()
  expect(found.list()).toBe(before)
})

describe('what servers say of their models', () => {
  test('Ollama: asked once for each, and again when a model changed', async () => {
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
    const asked: string[] = []
    let digest = 'a'
    const found = catalogue()
    const round = looking(
      found,
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
        asked.push(`${request.method} ${model}`)
        return model in SHOW ? Response.json(SHOW[model]) : new Response('no', { status: 500 })
      }),
    )
    await round()
    expect(listed(found, 'ollama')).toEqual([
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
    expect(asked.sort()).toEqual([
      'POST broken',
      'POST gemma3:4b',
      'POST nomic-embed-text',
      'POST old',
      'POST qwen3:8b',
    ])
    asked.length = 0
    await round()
    expect(asked).toEqual(['POST broken'])
    digest = 'b'
    await round()
    expect(asked).toHaveLength(6)
  })

  test('Ollama: not more than 32 are asked about in one round', async () => {
    let asked = 0
    const found = catalogue()
    const round = looking(
      found,
      serve((request) => {
        if (new URL(request.url).pathname === '/api/tags')
          return Response.json({ models: Array.from({ length: 50 }, (_, index) => ({ name: `m${index}` })) })
        asked++
        return Response.json({ capabilities: ['completion'] })
      }),
    )
    await round()
    expect([asked, listed(found, 'ollama').length]).toEqual([32, 50])
    await round()
    expect(asked).toBe(50)
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
  for (const [provider, variable, path, answer, models] of CASES) {
    test(`${provider}, where its variable says, with its key`, async () => {
      const asked: string[] = []
      let away = false
      const host = serve((request) => {
        asked.push(`${new URL(request.url).pathname} ${request.headers.get('authorization')}`)
        return away ? new Response('', { status: 500 }) : Response.json(answer)
      })
      const env = { [`${variable}_BASE_URL`]: `http://${host}/v1`, [`${variable}_API_KEY`]: 'k' }
      const found = catalogue('', env)
      const round = looking(found, NOBODY)
      await round()
      expect(asked).toEqual([`${path} Bearer k`])
      expect(listed(found, provider)).toEqual(models)
      away = true
      await round()
      await round()
      // Who set it up can still ask for what it does not list.
      expect([listed(found, provider), found.endpoints(`${provider}/x`, 'chat.completions')[0]!.baseUrl]).toEqual([
        [],
        `http://${host}/v1`,
      ])
    })
  }

  test('a provider of the file that takes only listed models is not asked', async () => {
    const found = catalogue('providers: { vllm: { unlisted: false } }', {
      VLLM_BASE_URL: `http://${serve(() => Response.json(vllm))}/v1`,
    })
    await looking(found, NOBODY)()
    expect(listed(found, 'vllm')).toEqual([])
  })

  test('whatever else they answer, nothing is listed and nothing breaks', async () => {
    const odd = [
      null,
      5,
      'x',
      [],
      { data: null },
      { data: [null, 5, {}, { id: 5 }, { id: 'a b' }, { id: '' }] },
      { data: [{ id: '__proto__' }, { id: 'x', max_model_len: -1, meta: [], created: 'now' }] },
    ]
    for (const answer of odd) {
      const found = catalogue('', { VLLM_BASE_URL: `http://${serve(() => Response.json(answer))}/v1` })
      const ids = await looking(found, NOBODY)()
      expect(ids.every((id) => id === 'vllm/x' || id === 'vllm/__proto__')).toBe(true)
      for (const model of listed(found, 'vllm'))
        expect(model).toEqual({ id: expect.any(String), contextLength: undefined })
    }
  })
})

test('what the file sets up is asked there, and what it switches off not at all', async () => {
  let asked = 0
  const host = serve(() => {
    asked++
    return Response.json({ models: [{ name: 'x' }] })
  })
  for (const text of [
    'providers: { ollama: { enabled: false } }',
    'providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }',
  ])
    expect(await find(catalogue(text), host)).toEqual([])
  expect(asked).toBe(0)
  expect(
    catalogue('providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }').endpoints('ollama/x', 'messages')[0]!
      .baseUrl,
  ).toBe('http://127.0.0.1:1/v1')
})

test('the host variable is read as the server reads it', () => {
  const CASES: [string | undefined, string | undefined][] = [
    [undefined, 'http://127.0.0.1:11434'],
    ['', 'http://127.0.0.1:11434'],
    ['0.0.0.0', 'http://127.0.0.1:11434'],
    ['0.0.0.0:5', 'http://127.0.0.1:5'],
    [':5', 'http://127.0.0.1:5'],
    ['h', 'http://h:11434'],
    ['h:5', 'http://h:5'],
    ['h:80', 'http://h'],
    ['http://h', 'http://h'],
    ['https://h/', 'https://h'],
    ['https://h:5/sub/', 'https://h:5/sub'],
    ['[::1]', 'http://[::1]:11434'],
    ['[::]:5', 'http://[::1]:5'],
    ['a b', undefined],
  ]
  for (const [host, address] of CASES) expect([host, localAddress(host, 11434)]).toEqual([host, address])
})
