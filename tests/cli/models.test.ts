import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ran, runSluice } from './run.ts'

const scratch = mkdtempSync(join(tmpdir(), 'sluice-models-'))
const local = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) =>
    Response.json(
      new URL(request.url).pathname === '/api/tags'
        ? { models: [{ name: 'qwen3:8b' }] }
        : {
            capabilities: ['completion', 'tools'],
            model_info: { 'general.architecture': 'qwen3', 'qwen3.context_length': 40960 },
          },
    ),
})
afterAll(async () => {
  await local.stop(true)
  rmSync(scratch, { recursive: true, force: true })
})
writeFileSync(
  join(scratch, 'sluice.yaml'),
  'models: { mine: { name: My model, endpoints: [{ provider: sandbox, model: chat }], ' +
    'price: { prompt: [1.5, { over: 1000, rate: 3 }], completion: 4 }, contextLength: 1234 } }',
)

const run = (...args: string[]): Promise<Ran> =>
  runSluice(['models', ...args], {
    cwd: scratch,
    env: { HOME: scratch, DEEPSEEK_API_KEY: 'k', OLLAMA_HOST: `127.0.0.1:${local.port}` },
  })

describe('sluice models', () => {
  test('lists all available models, including those of the file and of servers on this machine', async () => {
    const { code, out, err } = await run()
    expect([code, err]).toEqual([0, ''])
    const rows = out
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/))
    expect(rows[0]).toEqual(['MODEL', 'CONTEXT', 'INPUT', 'OUTPUT', 'NAME'])
    expect(rows).toContainEqual(['sandbox/image', '0.01/image', 'Sandbox over images'])
    expect(rows).toContainEqual(['sandbox/prediction', '0.001/request', 'Sandbox over predictions'])
    expect(rows).toContainEqual(['mine', '1234', '1.5+', '4', 'My model'])
    expect(rows).toContainEqual(['ollama/qwen3:8b', '40960', '0', '0', 'qwen3:8b'])
    expect(rows.find(([id]) => id === 'deepseek/deepseek-v4-pro')).toEqual([
      'deepseek/deepseek-v4-pro',
      '1000000',
      expect.stringMatching(/^[\d.]+$/),
      expect.stringMatching(/^[\d.]+$/),
      'DeepSeek V4 Pro',
    ])
    expect(out).not.toContain('openai/')
  })

  test('--find selects by a part of the id or name, ignoring case', async () => {
    for (const text of ['MY MOD', 'mine']) expect((await run('--find', text)).out.trimEnd().split('\n')).toHaveLength(2)
    const { code, out, err } = await run('--find', 'nothing has this')
    expect([code, out]).toEqual([0, ''])
    expect(err).toMatch(/^No model .*"nothing has this".*Active: .*deepseek/)
  })

  test('--json prints what the server returns', async () => {
    const listed = JSON.parse((await run('--json', '--find', 'mine')).out) as object[]
    expect(listed).toMatchObject([
      {
        id: 'mine',
        object: 'model',
        context_length: 1234,
        pricings: { completion: [{ value: 4, unit: 'perMTokens', currency: 'USD', conditions: [] }] },
        protocols: expect.arrayContaining(['messages']),
      },
    ])
    expect((await run('find')).code).toBe(2)
  })
})
