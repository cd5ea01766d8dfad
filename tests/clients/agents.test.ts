import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Loss } from '../../src/protocols/translation.ts'
import { startGateway, type Gateway } from '../server.ts'
import { post, type Agent, type Json } from './agents.ts'
import { agents } from './all-agents.ts'
import { opencode } from './chat-agents.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'

/** Each coding agent with each model: its own bodies, its own reader of streams, and a complete tool loop. */

const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: 'limits: { requestsPerMinute: 100000 }\n' })
})
afterAll(() => gateway?.stop())

const streamOf = async (agent: Agent, model: string, body: Json): Promise<string> => {
  const response = await post(gateway, agent, model, body)
  const text = await response.text()
  expect([response.status, response.status === 200 ? '' : text]).toEqual([200, ''])
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  return text
}
/** The body that the provider received, as the sandbox echoes it. */
const receivedBody = async (
  agent: Agent,
  model: string,
  change: (body: Json) => Json = (body) => body,
): Promise<string> => agent.read(await streamOf(agent, model, change(agent.first(model, '[[echo: body]]')))).text

describe.each(agents.map((agent) => [agent.name, agent] as const))('%s', (_name, agent) => {
  test.each(MODELS)('the agent completes a tool loop of two rounds on %s', async (model) => {
    const input = (word: string): string =>
      agent.free !== undefined && model === 'sandbox/responses'
        ? `echo ${word}`
        : `{"${agent.argument}":"echo ${word}"}`
    const call = (word: string): string => `[[think: Look at ${word}.]] [[call: ${agent.tool} ${input(word)}]]`
    let body = agent.first(model, `[[strict]] Please: ${call('one')} [[then]] ${call('two')} ${call('three')}`)
    if (body.parallel_tool_calls === false) body.parallel_tool_calls = true
    for (const words of [['one'], ['two', 'three']]) {
      const stream = await streamOf(agent, model, body)
      const { calls } = agent.read(stream)
      expect(calls.map(({ name, input }) => [name, input])).toEqual(
        words.map((word) => [agent.tool, { [agent.argument]: `echo ${word}` }]),
      )
      expect(new Set(calls.map(({ id }) => id)).size).toBe(words.length)
      body = agent.next(
        body,
        stream,
        words.map((word) => `out-${word}`),
      )
    }
    const { text, calls } = agent.read(await streamOf(agent, model, body))
    expect(calls).toEqual([])
    expect(text).toContain(`${agent.tool} returned: out-two`)
    expect(text).toContain(`${agent.tool} returned: out-three`)
  })

  test.each(MODELS)("the agent is answered on %s with the agent's own text around the prompt", async (model) => {
    expect(
      agent.read(await streamOf(agent, model, agent.first(model, 'Do it. [[reply: It is done.]] Thanks.'))).text,
    ).toBe('It is done.')
  })
})

describe('Claude Code', () => {
  test.each(MODELS)('a system message within the conversation reaches %s', async (model) => {
    expect(await receivedBody(claudeCode, model)).toContain('ENVIRONMENT: /tmp')
  })

  test.each(MODELS)('a deferred tool that was found by reference can be called on %s', async (model) => {
    const body = claudeCode.first(model, '[[call: Later {"command":"x"}]] [[then]] [[call: Later {"command":"y"}]]')
    const stream = await streamOf(claudeCode, model, body)
    const next = claudeCode.next(body, stream, [''])
    next.messages.at(-1).content[0].content = [{ type: 'tool_reference', tool_name: 'Later' }]
    expect(claudeCode.read(await streamOf(claudeCode, model, next)).calls.map(({ name }) => name)).toEqual(['Later'])
  })

  test('a request reaches a provider of its own protocol with nothing changed but the model', async () => {
    const { model: _model, ...sent } = claudeCode.first('sandbox/messages', '[[echo: body]]')
    const { model, ...received } = JSON.parse(await receivedBody(claudeCode, 'sandbox/messages'))
    expect(model).toBe('messages')
    expect(received).toEqual(sent)
  })

  test.each(MODELS)('the text of %s is the last block, which Claude Code prints', async (model) => {
    const stream = await streamOf(claudeCode, model, claudeCode.first(model, '[[think: Hm.]] [[reply: The end.]]'))
    expect(claudeCode.read(stream).text).toBe('The end.')
  })

  test('24 concurrent requests for token counts are answered', async () => {
    const { model, messages, tools } = claudeCode.first('sandbox/gemini', 'Hello')
    const responses = await Promise.all(
      Array.from({ length: 24 }, () =>
        fetch(`${gateway.url}/v1/messages/count_tokens?beta=true`, {
          method: 'POST',
          headers: { ...claudeCode.headers(gateway.key) },
          body: JSON.stringify({ model, messages, tools }),
        }),
      ),
    )
    for (const response of responses) expect(((await response.json()) as Json).input_tokens).toBeGreaterThan(10)
  }, 20_000)

  test.each(MODELS)('unknown betas are accepted with %s and sent to providers of messages only', async (model) => {
    const betas = `${claudeCode.headers(gateway.key)['anthropic-beta']},unknown-beta-2099-01-01`
    const headers = {
      'content-type': 'application/json',
      ...claudeCode.headers(gateway.key),
      'anthropic-beta': betas,
    }
    const response = await fetch(gateway.url + claudeCode.path(model), {
      method: 'POST',
      headers,
      body: JSON.stringify(claudeCode.first(model, '[[echo: headers]]')),
    })
    const received = JSON.parse(claudeCode.read(await response.text()).text) as Json
    expect(received['anthropic-beta']).toBe(model === 'sandbox/messages' ? betas : undefined)
  })

  test('a thread is refused with the error at which the SDK sends the whole request', async () => {
    const response = await post(gateway, claudeCode, 'sandbox/messages', {
      ...claudeCode.first('sandbox/messages', 'Hi'),
      thread: { type: 'create' },
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
      },
    })
  })
})

describe('codex', () => {
  test('tools and metadata reach a provider of responses unchanged', async () => {
    const sent = codex.first('sandbox/responses', '[[echo: body]]')
    const received = JSON.parse(await receivedBody(codex, 'sandbox/responses'))
    for (const name of ['input', 'tools', 'include', 'store', 'reasoning', 'prompt_cache_key', 'client_metadata'])
      expect(received[name]).toEqual(sent[name])
  })

  test.each(MODELS)('both developer messages and both user messages reach %s', async (model) => {
    const body = await receivedBody(codex, model)
    for (const word of ['You write code.', 'Skills: none.', 'Permissions: all.', '<environment>'])
      expect(body.replaceAll('\\u003c', '<').replaceAll('\\u003e', '>')).toContain(word)
  })

  test.each(MODELS)('the tools that only responses has are reported as losses on %s', async (model) => {
    const response = await post(gateway, codex, model, codex.first(model, 'Hi'))
    await response.text()
    const losses = JSON.parse(response.headers.get('x-sluice-translation') ?? '[]') as Loss[]
    // The web search, of which only OpenAI's own has `external_web_access`.
    const lost = losses.filter(({ path }) => path.startsWith('tools[')).map(({ code, path }) => [code, path])
    expect(lost).toEqual(model === 'sandbox/responses' ? [] : [['tool_native', 'tools[2]']])
  })

  test.each(MODELS)(
    'a stream of %s that fails ends with response.failed, since Codex ignores `error` events',
    async (model) => {
      const stream = await streamOf(
        codex,
        model,
        codex.first(model, '[[length: 12]] [[error-after: 2 529 far too busy]]'),
      )
      const types = stream.match(/"type":"(response\.failed|error)"/g)
      expect(types).toEqual(['"type":"error"', '"type":"response.failed"'])
      expect(stream.slice(stream.indexOf('"type":"response.failed"'))).toMatch(
        /"code":"server_is_overloaded","message":"[^"]*far too busy/,
      )
    },
  )
})

describe('gemini-cli', () => {
  test.each(MODELS)('a stream of %s has only the frames that gemini-cli can parse', async (model) => {
    const stream = await streamOf(
      geminiCli,
      model,
      geminiCli.first(model, '[[think: Hm.]] [[reply: One.]] [[call: run_shell_command {"command":"x"}]]'),
    )
    // Every line is empty or `data: {json}`, with a space after the colon. There are no event lines, no comments and no
    // [DONE], and the stream ends with a blank line.
    expect(stream).toMatch(/^(data: \{.*\}\r?\n\r?\n)+$/)
    const frames = stream
      .trim()
      .split(/\r?\n\r?\n/)
      .map((line) => JSON.parse(line.slice(6)) as Json)
    expect(frames.filter(({ candidates }) => candidates?.[0]?.finishReason !== undefined)).toHaveLength(1)
    expect(frames.at(-1)).toMatchObject({ modelVersion: model, usageMetadata: { totalTokenCount: expect.any(Number) } })
    expect(frames.every(({ responseId }) => responseId === frames[0]!.responseId && responseId !== undefined)).toBe(
      true,
    )
  })

  test.each(MODELS)("Google's upper-case types in schemas are accepted on %s", async (model) => {
    const upper = { type: 'OBJECT', properties: { city: { type: 'STRING' } }, required: ['city'] }
    for (const given of [{ responseSchema: upper }, { responseJsonSchema: upper }]) {
      const body = {
        ...geminiCli.first(model, 'Where?'),
        tools: [],
        generationConfig: { responseMimeType: 'application/json', ...given },
      }
      expect(JSON.parse(geminiCli.read(await streamOf(geminiCli, model, body)).text)).toEqual({
        city: expect.any(String),
      })
    }
  })

  test.each(MODELS)(
    'a call of another model is accepted on %s with the placeholder for its signature',
    async (model) => {
      const body = geminiCli.first(model, 'Go on.')
      body.contents.push(
        {
          role: 'model',
          parts: [
            {
              functionCall: { id: 'run_1', name: 'run_shell_command', args: {} },
              thoughtSignature: 'skip_thought_signature_validator',
            },
          ],
        },
        {
          role: 'user',
          parts: [{ functionResponse: { id: 'run_1', name: 'run_shell_command', response: { output: 'fine' } } }],
        },
      )
      expect(geminiCli.read(await streamOf(geminiCli, model, body)).text).toContain('fine')
    },
  )
})

describe('opencode', () => {
  test.each(MODELS)('an answer that was begun is continued on %s', async (model) => {
    const body = opencode.first(model, '[[reply: The end.]]')
    body.messages.push({ role: 'assistant', content: 'The' })
    expect(opencode.read(await streamOf(opencode, model, body)).text).toContain('The end.')
  })

  test.each(MODELS)('two user messages in a row without tools are answered by %s', async (model) => {
    const { tools: _tools, tool_choice: _choice, ...body } = opencode.first(model, 'Give a title:\n')
    body.messages.push({ role: 'user', content: '[[reply: A title]]' })
    expect(opencode.read(await streamOf(opencode, model, body)).text).toBe('A title')
  })
})
