import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Loss } from '../../src/protocols/translation.ts'
import { type Ran, runSluice } from './run.ts'
import { program } from '../program.ts'

const scratch = mkdtempSync(join(tmpdir(), 'sluice-explain-'))
const calls: string[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) => {
    calls.push(request.url)
    return Response.json({})
  },
})

const put = (name: string, content: unknown): void =>
  writeFileSync(join(scratch, name), typeof content === 'string' ? content : JSON.stringify(content))
const HELLO = [{ role: 'user', content: 'Hello' }]

beforeAll(() => {
  const config = (strict: boolean): string => `${strict ? 'strict: true\n' : ''}providers:
  other:
    protocol: messages
    baseUrl: http://127.0.0.1:${provider.port}/v1
    apiKey: very-secret-key
    headers: { x-tenant: very-secret-tenant }
  own:
    protocol: chat.completions
    baseUrl: http://127.0.0.1:${provider.port}/v1
    apiKey: very-secret-key
    unlisted: true
models:
  mixed: { endpoints: [{ provider: other, model: m }, { provider: own, model: n }, { provider: deepseek, model: d }] }
`
  put('sluice.yaml', config(false))
  put('strict.yaml', config(true))
  put(
    'chat.json',
    '{"model":"mixed","max_tokens":50,"seed":12345678901234567890,"messages":[{"role":"user","content":"Hello"}]}',
  )
})

afterAll(async () => {
  await provider.stop(true)
  rmSync(scratch, { recursive: true, force: true })
})

const run = (...args: string[]): Promise<Ran> =>
  runSluice(['explain', ...args], { cwd: scratch, env: { HOME: scratch, OLLAMA_HOST: '127.0.0.1:9' } })

type Explained = {
  model: string
  protocol: string
  off: object[]
  asNamed: string[]
  endpoints: {
    provider: string
    protocol: string
    url: string
    headers: Record<string, string>
    body: Record<string, unknown>
    translation: Loss[]
    refused?: string
  }[]
}

async function explained(...args: string[]): Promise<Explained> {
  const { code, out, err } = await run(...args, '--json')
  expect([code, err]).toEqual([0, ''])
  return JSON.parse(out) as Explained
}

describe('sluice explain', () => {
  test('prints the request to each provider, its losses and the providers that are off; sends nothing', async () => {
    const messagesBody = {
      model: 'm',
      max_tokens: 50,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    }
    const { code, out, err } = await run('chat.json')
    expect([code, err, calls]).toEqual([0, '', []])
    expect(out).not.toContain('very-secret')
    expect(out.split('\n\n')).toEqual([
      'mixed, requested in chat.completions',
      `1. other, over messages
POST http://127.0.0.1:${provider.port}/v1/messages
content-type: application/json
accept: application/json
anthropic-version: 2023-06-01
x-tenant: (hidden)
x-api-key: (hidden)
${JSON.stringify(messagesBody, null, 2)}
Lost:
  seed  dropped  unsupported_field  the target protocol has no such field`,
      expect.stringMatching(
        /^2\. own, over chat\.completions\nPOST [^]*"seed": 12345678901234567890,[^]*\nNothing is lost\.$/,
      ),
      'deepseek is off: set DEEPSEEK_API_KEY\n',
    ])
  })

  test('prints the same as JSON', async () => {
    const { model, protocol, endpoints, off, asNamed } = await explained('chat.json')
    expect({ model, protocol, off, asNamed }).toEqual({
      model: 'mixed',
      protocol: 'chat.completions',
      off: [{ provider: 'deepseek', remedy: 'set DEEPSEEK_API_KEY' }],
      asNamed: [],
    })
    expect(
      endpoints.map(({ provider, protocol, body, translation }) => [
        provider,
        protocol,
        body.model,
        translation.map(({ code, path }) => [code, path]),
      ]),
    ).toEqual([
      ['other', 'messages', 'm', [['unsupported_field', 'seed']]],
      ['own', 'chat.completions', 'n', []],
    ])
  })

  test('reports the providers that strict would exclude', async () => {
    expect((await explained('chat.json', '--config', 'strict.yaml')).endpoints.map(({ refused }) => refused)).toEqual([
      'strict is set in the configuration, and the translation has losses',
      undefined,
    ])
  })

  test.each([
    ['chat.completions', { messages: HELLO }],
    ['chat.completions', { max_tokens: 5, messages: [{ role: 'system', content: 'x' }, ...HELLO] }],
    ['messages', { max_tokens: 5, system: 'x', messages: HELLO }],
    ['messages', { max_tokens: 5, messages: HELLO, tools: [{ name: 'f', input_schema: { type: 'object' } }] }],
    ['responses', { input: 'Hello' }],
    ['generateContent', { contents: [{ parts: [{ text: 'Hello' }] }] }],
    ['images', { prompt: 'A boat' }],
  ])('detects %s by the members of the request', async (protocol, body) => {
    put('guess.json', body)
    expect((await explained('guess.json', '--model', 'own/x')).protocol).toBe(protocol)
  })

  test('takes the protocol, the model and streaming from the command line', async () => {
    put('plain.json', { model: 'unknown/x', max_tokens: 5, messages: HELLO })
    const {
      protocol,
      endpoints: [first],
    } = await explained('plain.json', '--protocol', 'messages', '--model', 'sandbox/gemini', '--stream')
    expect([protocol, first!.url, first!.headers.accept]).toEqual([
      'messages',
      'http://sandbox/v1/models/gemini:streamGenerateContent?alt=sse',
      'text/event-stream',
    ])
  })

  test('lists the references that only a server resolves', async () => {
    put('named.json', {
      model: 'own/x',
      previous_response_id: 'resp_1',
      input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }],
    })
    expect((await explained('named.json')).asNamed).toEqual(['input[0].content[0].file_id', 'previous_response_id'])
  })

  test('exits with 1 if no provider would be sent the request', async () => {
    put('shell.json', { model: 'sandbox/messages', max_tokens: 5, messages: HELLO, tools: [{ type: 'shell' }] })
    const { code, out } = await run('shell.json')
    expect(code).toBe(1)
    expect(out).toContain(
      "Not sent: tools[0]: the provider of this model does not support tools of type 'shell'. " +
        "Define a function in its place, or use a model whose provider has the protocol 'chat.completions'.\n",
    )
  })

  test('reads a request from the standard input', async () => {
    const child = Bun.spawn([program(), 'explain', '-'], {
      cwd: scratch,
      env: { PATH: process.env.PATH ?? '', HOME: scratch, OLLAMA_HOST: '127.0.0.1:9' },
      stdin: Bun.file(join(scratch, 'chat.json')),
      stdout: 'pipe',
    })
    expect(await new Response(child.stdout).text()).toContain('Lost:\n  seed')
  })

  test.each([
    [['chat.json', '--model', 'anthropic/claude-x'], 1, 'set ANTHROPIC_API_KEY'],
    [['nothing.json'], 2, 'cannot read nothing.json'],
    [['chat.json', '--protocol', 'message'], 2, 'did you mean messages?'],
    [['broken.json'], 1, 'broken.json: is not valid JSON'],
    [['wrong.json'], 1, 'stream'],
    [['noname.json'], 2, 'has no model'],
    [[], 2, 'sluice explain requires <request.json>'],
  ])('%p exits with %p and names the cause', async (args, code, message) => {
    put('broken.json', '{"model":')
    put('wrong.json', { model: 'own/x', messages: HELLO, stream: 'yes' })
    put('noname.json', { messages: HELLO })
    const result = await run(...args)
    expect([result.code, result.out]).toEqual([code, ''])
    expect(result.err).toContain(message)
  })
})
