import { afterEach, describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { findLocal, localAddress } from '../../src/providers/local.ts'

const open: ReturnType<typeof Bun.serve>[] = []
afterEach(async () => { for (const server of open.splice(0)) await server.stop(true) })

const serve = (answer: (request: Request) => Response | Promise<Response>): string => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
  open.push(server)
  return `127.0.0.1:${server.port}`
}
const catalogue = (text = ''): Catalogue => new Catalogue(readConfig(text, 'sluice.yaml', {}))
const find = (into: Catalogue, host: string): Promise<string[]> => findLocal(into, { OLLAMA_HOST: host }, new AbortController().signal)

test('models of a local server are listed, and gone when they are', async () => {
  let models: unknown[] = [{ name: 'qwen3:8b', modified_at: '2026-01-02T03:04:05.678901+00:00' }, { name: 'hf.co/org/model:Q4_K_M' }]
  const paths: string[] = []
  const host = serve((request) => { paths.push(new URL(request.url).pathname); return Response.json({ models }) })
  const found = catalogue()
  expect(await find(found, host)).toEqual(['ollama/qwen3:8b', 'ollama/hf.co/org/model:Q4_K_M'])
  expect(paths).toEqual(['/api/tags'])
  expect(found.providers().find(({ id }) => id === 'ollama')!.foundBy).toBe('local')
  const endpoint = found.endpoints('ollama/qwen3:8b', 'messages')[0]!
  expect([endpoint.protocol, endpoint.baseUrl, endpoint.credentials, endpoint.target.model]).toEqual(['messages', `http://${host}/v1`, {}, 'qwen3:8b'])
  expect(found.endpoints('qwen3:8b', 'generateContent')[0]!.protocol).toBe('chat.completions')
  expect(found.list().find(({ id }) => id === 'ollama/qwen3:8b')!.createdAt).toBe(Date.UTC(2026, 0, 2, 3, 4, 5) / 1000)
  models = [{ name: 'other' }]
  await find(found, host)
  expect(found.list().filter(({ ownedBy }) => ownedBy === 'ollama').map(({ id }) => id)).toEqual(['ollama/other'])
  expect(() => found.endpoints('qwen3:8b', 'messages')).toThrow('is not available')
})

test('models that the file defines stay', async () => {
  const found = catalogue('models:\n  ollama/mine: { name: Mine, endpoints: [{ provider: ollama, model: qwen3 }] }')
  await find(found, serve(() => Response.json({ models: [{ name: 'mine' }] })))
  expect(found.endpoints('ollama/mine', 'messages')[0]!.target.model).toBe('qwen3')
})

describe('an odd server is none', () => {
  const ANSWERS: Record<string, () => Response | Promise<Response>> = {
    'not JSON': () => new Response('<html>'),
    'another shape': () => Response.json({ models: 'x' }),
    'null': () => Response.json(null),
    'an error': () => Response.json({ models: [{ name: 'x' }] }, { status: 500 }),
    'too much': () => new Response(`{"models":[],"x":"${'x'.repeat(2 * 1024 * 1024)}"}`),
    'silence': () => new Promise(() => {}),
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
    expect(await find(catalogue(), serve(() => Response.json({ models: [{ name: '../x' }, { name: 'a b' }, {}, null, 5, { name: 'ok' }] })))).toEqual(['ollama/ok'])
  })
})

test('what the file sets up or switches off is not looked for', async () => {
  let asked = 0
  const host = serve(() => { asked++; return Response.json({ models: [{ name: 'x' }] }) })
  for (const text of ['providers: { ollama: { enabled: false } }', 'providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }']) expect(await find(catalogue(text), host)).toEqual([])
  expect(asked).toBe(0)
  expect(catalogue('providers: { ollama: { baseUrl: "http://127.0.0.1:1/v1" } }').endpoints('ollama/x', 'messages')[0]!.baseUrl).toBe('http://127.0.0.1:1/v1')
})

test('the host variable is read as the server reads it', () => {
  const CASES: [string | undefined, string | undefined][] = [
    [undefined, 'http://127.0.0.1:11434'], ['', 'http://127.0.0.1:11434'], ['0.0.0.0', 'http://127.0.0.1:11434'], ['0.0.0.0:5', 'http://127.0.0.1:5'],
    [':5', 'http://127.0.0.1:5'], ['h', 'http://h:11434'], ['h:5', 'http://h:5'], ['h:80', 'http://h'], ['http://h', 'http://h'], ['https://h/', 'https://h'], ['https://h:5/sub/', 'https://h:5/sub'],
    ['[::1]', 'http://[::1]:11434'], ['[::]:5', 'http://[::1]:5'], ['a b', undefined],
  ]
  for (const [host, address] of CASES) expect([host, localAddress(host, 11434)]).toEqual([host, address])
})
