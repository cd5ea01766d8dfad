import { describe, expect, test } from 'bun:test'
import { localAddress } from '../../src/providers/local.ts'
import { catalogueOf } from './catalogues.ts'
import { EFFORTS, listedModels, refresherOf, serve, stopLast, stopServersAfterEach } from './local-servers.ts'
import type { Catalogue } from '../../src/providers/catalogue.ts'

/** Discovery of local model servers: their models appear in the catalogue and disappear with them. */

stopServersAfterEach()

const findModels = (catalogue: Catalogue, host: string): Promise<string[]> => refresherOf(catalogue, host)()

test('the models of a local server are listed until the server removes them', async () => {
  let models: unknown[] = [
    { name: 'qwen3:8b', modified_at: '2026-01-02T03:04:05.678901+00:00' },
    { name: 'hf.co/org/model:Q4_K_M' },
  ]
  const paths: string[] = []
  const host = serve((request) => {
    paths.push(new URL(request.url).pathname)
    return Response.json({ models })
  })
  const catalogue = catalogueOf()
  expect(await findModels(catalogue, host)).toEqual(['ollama/qwen3:8b', 'ollama/hf.co/org/model:Q4_K_M'])
  expect(paths).toEqual(['/api/tags', '/api/show', '/api/show'])
  expect(catalogue.providers().find(({ id }) => id === 'ollama')!.foundBy).toBe('local')
  const endpoint = catalogue.endpoints('ollama/qwen3:8b', 'messages')[0]!
  expect([endpoint.protocol, endpoint.baseUrl, endpoint.credentials, endpoint.target.model]).toEqual([
    'messages',
    `http://${host}/v1`,
    {},
    'qwen3:8b',
  ])
  expect(catalogue.endpoints('qwen3:8b', 'generateContent')[0]!.protocol).toBe('chat.completions')
  // The date of the list is that of the download.
  expect(catalogue.list().find(({ id }) => id === 'ollama/qwen3:8b')!.createdAt).toBeUndefined()
  models = [{ name: 'other' }]
  await findModels(catalogue, host)
  expect(
    catalogue
      .list()
      .filter(({ ownedBy }) => ownedBy === 'ollama')
      .map(({ id }) => id),
  ).toEqual(['ollama/other'])
  expect(() => catalogue.endpoints('qwen3:8b', 'messages')).toThrow('is not available')
})

test('models of the configuration file are not replaced', async () => {
  const catalogue = catalogueOf(
    {},
    'models:\n  ollama/mine: { name: Mine, endpoints: [{ provider: ollama, model: qwen3 }] }',
  )
  await findModels(
    catalogue,
    serve(() => Response.json({ models: [{ name: 'mine' }] })),
  )
  expect(catalogue.endpoints('ollama/mine', 'messages')[0]!.target.model).toBe('qwen3')
})

describe('a server is ignored', () => {
  const RESPONSES: Record<string, () => Response | Promise<Response>> = {
    'not JSON': () => new Response('<html>'),
    'another shape': () => Response.json({ models: 'x' }),
    null: () => Response.json(null),
    'an error': () => Response.json({ models: [{ name: 'x' }] }, { status: 500 }),
    'too much': () => new Response(`{"models":[],"x":"${'x'.repeat(2 * 1024 * 1024)}"}`),
    missing: () => new Promise(() => {}),
  }
  for (const [name, respond] of Object.entries(RESPONSES)) {
    test(`if its response is ${name}`, async () => {
      const catalogue = catalogueOf()
      expect(await findModels(catalogue, serve(respond))).toEqual([])
      expect(catalogue.providers().map(({ id }) => id)).toEqual(['sandbox'])
    })
  }

  test('if nothing listens at its address', async () => {
    const host = serve(() => Response.json({ models: [] }))
    await stopLast()
    expect(await findModels(catalogueOf(), host)).toEqual([])
  })

  test('for model names that are invalid', async () => {
    expect(
      await findModels(
        catalogueOf(),
        serve(() => Response.json({ models: [{ name: '../x' }, { name: 'a b' }, {}, null, 5, { name: 'ok' }] })),
      ),
    ).toEqual(['ollama/ok'])
  })
})

test('a server that fails two refreshes is removed, and listed again when it responds', async () => {
  let isDown = false
  const host = serve(() => (isDown ? new Response('', { status: 503 }) : Response.json({ models: [{ name: 'x' }] })))
  const catalogue = catalogueOf()
  const refresh = refresherOf(catalogue, host)
  const isListed = (): boolean => catalogue.providers().some(({ id }) => id === 'ollama')
  await refresh()
  isDown = true
  await refresh()
  expect([isListed(), listedModels(catalogue, 'ollama')]).toEqual([
    true,
    [{ id: 'ollama/x', efforts: EFFORTS, contextLength: undefined }],
  ])
  await refresh()
  expect([isListed(), listedModels(catalogue, 'ollama')]).toEqual([false, []])
  expect(() => catalogue.endpoints('ollama/x', 'messages')).toThrow('start Ollama')
  isDown = false
  await refresh()
  expect([isListed(), listedModels(catalogue, 'ollama').length]).toEqual([true, 1])
  isDown = true
  await refresh()
  isDown = false
  await refresh()
  isDown = true
  await refresh()
  expect(isListed()).toBe(true)
})

test('the list stays the same object while nothing changes', async () => {
  const catalogue = catalogueOf()
  const refresh = refresherOf(
    catalogue,
    serve(() => Response.json({ models: [{ name: 'x' }] })),
  )
  await refresh()
  const before = catalogue.list()
  await refresh()
  expect(catalogue.list()).toBe(before)
})

test('a server that the configuration file configures or disables is not discovered', async () => {
  let requests = 0
  const host = serve(() => {
    requests++
    return Response.json({ models: [{ name: 'x' }] })
  })
  for (const text of [
    'providers: { ollama: { enabled: false } }',
    'providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }',
  ])
    expect(await findModels(catalogueOf({}, text), host)).toEqual([])
  expect(requests).toBe(0)
  expect(
    catalogueOf({}, 'providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }').endpoints('ollama/x', 'messages')[0]!
      .baseUrl,
  ).toBe('http://127.0.0.1:1/v1')
})

test('the host variable has the same meaning as for the server', () => {
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
