import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { agents, claudeCode, codex, geminiCli, opencode, post, type Agent, type Json } from './agents.ts'

/** Each coding agent on each model: its own bodies, its own way of reading a stream, a whole tool loop. */

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
/** What the provider was sent, as the sandbox tells it. */
const sent = async (agent: Agent, model: string, change: (body: Json) => Json = (body) => body): Promise<string> =>
  agent.read(await streamOf(agent, model, change(agent.first(model, '[[echo: body]]')))).text

describe.each(agents.map((agent) => [agent.name, agent] as const))('%s', (_name, agent) => {
  test.each(MODELS)('goes through a tool loop of two rounds on %s', async (model) => {
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

  test.each(MODELS)('is answered on %s though its own text stands around the prompt', async (model) => {
    expect(
      agent.read(await streamOf(agent, model, agent.first(model, 'Do it. [[reply: It is done.]] Thanks.'))).text,
    ).toBe('It is done.')
  })
})

describe('Claude Code', () => {
  test.each(MODELS)('is heard on %s where it speaks as the system in the midst of the conversation', async (model) => {
    expect(await sent(claudeCode, model)).toContain('ENVIRONMENT: /tmp')
  })

  test.each(MODELS)('finds a deferred tool by reference on %s', async (model) => {
    const body = claudeCode.first(model, '[[call: Later {"command":"x"}]] [[then]] [[call: Later {"command":"y"}]]')
    const stream = await streamOf(claudeCode, model, body)
    const next = claudeCode.next(body, stream, [''])
    next.messages.at(-1).content[0].content = [{ type: 'tool_reference', tool_name: 'Later' }]
    expect(claudeCode.read(await streamOf(claudeCode, model, next)).calls.map(({ name }) => name)).toEqual(['Later'])
  })

  test('reaches its own protocol with nothing changed but the model', async () => {
    const { model: _model, ...asked } = claudeCode.first('sandbox/messages', '[[echo: body]]')
    const { model, ...got } = JSON.parse(await sent(claudeCode, 'sandbox/messages'))
    expect(model).toBe('messages')
    expect(got).toEqual(asked)
  })

  test.each(MODELS)('prints the text of %s: nothing stands behind it', async (model) => {
    const stream = await streamOf(claudeCode, model, claudeCode.first(model, '[[think: Hm.]] [[reply: The end.]]'))
    expect(claudeCode.read(stream).text).toBe('The end.')
  })

  test('asks 24 times at once what its context costs', async () => {
    const { model, messages, tools } = claudeCode.first('sandbox/gemini', 'Hello')
    const answers = await Promise.all(
      Array.from({ length: 24 }, () =>
        fetch(`${gateway.url}/v1/messages/count_tokens?beta=true`, {
          method: 'POST',
          headers: { ...claudeCode.headers(gateway.key) },
          body: JSON.stringify({ model, messages, tools }),
        }),
      ),
    )
    for (const answer of answers) expect(((await answer.json()) as Json).input_tokens).toBeGreaterThan(10)
  }, 20_000)

  test.each(MODELS)(
    'may ask %s for betas that nobody knows: its own protocol hears of them, no other',
    async (model) => {
      const betas = `${claudeCode.headers(gateway.key)['anthropic-beta']},nobody-knows-2099-01-01`
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
      const heard = JSON.parse(claudeCode.read(await response.text()).text) as Json
      expect(heard['anthropic-beta']).toBe(model === 'sandbox/messages' ? betas : undefined)
    },
  )

  test('is refused a thread in the words that make its SDK send the whole request', async () => {
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
  test('reaches its own protocol with its tools and metadata as they are', async () => {
    const asked = codex.first('sandbox/responses', '[[echo: body]]')
    const got = JSON.parse(await sent(codex, 'sandbox/responses'))
    for (const name of ['input', 'tools', 'include', 'store', 'reasoning', 'prompt_cache_key', 'client_metadata'])
      expect(got[name]).toEqual(asked[name])
  })

  test.each(MODELS)('hears both developer messages and both user messages obeyed on %s', async (model) => {
    const body = await sent(codex, model)
    for (const word of ['You write code.', 'Skills: none.', 'Permissions: all.', '<environment>'])
      expect(body.replaceAll('\\u003c', '<').replaceAll('\\u003e', '>')).toContain(word)
  })

  test.each(MODELS)('is told on %s what became of tools that no other protocol has', async (model) => {
    const response = await post(gateway, codex, model, codex.first(model, 'Hi'))
    await response.text()
    const losses = response.headers.get('x-sluice-translation') ?? ''
    for (const kind of ['namespace', 'web_search']) expect(losses.includes(kind)).toBe(model !== 'sandbox/responses')
  })

  test.each(MODELS)(
    'gets the failure of a stream of %s as response.failed, since it passes over `error`',
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
  test.each(MODELS)('gets nothing on %s that its reader chokes on', async (model) => {
    const stream = await streamOf(
      geminiCli,
      model,
      geminiCli.first(model, '[[think: Hm.]] [[reply: One.]] [[call: run_shell_command {"command":"x"}]]'),
    )
    // Every line is a `data: {json}` line or empty: no event lines, no comments, no [DONE], a space behind the colon, a
    // blank line at the end.
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

  test.each(MODELS)("may ask with Google's upper-case types on %s", async (model) => {
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

  test.each(MODELS)('replays a foreign call with the word that waives its signature on %s', async (model) => {
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
  })
})

describe('opencode', () => {
  test.each(MODELS)('goes on from its own half answer on %s', async (model) => {
    const body = opencode.first(model, '[[reply: The end.]]')
    body.messages.push({ role: 'assistant', content: 'The' })
    expect(opencode.read(await streamOf(opencode, model, body)).text).toContain('The end.')
  })

  test.each(MODELS)('asks %s for a title with two user messages in a row and no tools', async (model) => {
    const { tools: _tools, tool_choice: _choice, ...body } = opencode.first(model, 'Give a title:\n')
    body.messages.push({ role: 'user', content: '[[reply: A title]]' })
    expect(opencode.read(await streamOf(opencode, model, body)).text).toBe('A title')
  })
})
