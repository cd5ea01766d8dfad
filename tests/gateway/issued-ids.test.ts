import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Ids of objects at a provider that came in a response belong to its account, which may name them again. */

type Json = Record<string, unknown>

const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, input_tokens: 1, output_tokens: 1 }

/** The id that the next response of the provider names. */
let id = ''
const annotation = (): Json => ({ type: 'container_file_citation', container_id: `${id}c`, file_id: `${id}f` })
const result = (): Json => ({
  type: 'bash_code_execution_tool_result',
  tool_use_id: 't',
  content: { type: 'bash_code_execution_result', content: [{ type: 'bash_code_execution_output', file_id: `${id}f` }] },
})

const WHOLE: Record<ConversationName, () => Json> = {
  'chat.completions': () => ({
    id: 'c',
    model: 'm',
    choices: [
      { index: 0, message: { role: 'assistant', content: null, audio: { id, data: 'AAAA' } }, finish_reason: 'stop' },
    ],
    usage: USAGE,
  }),
  responses: () => ({
    id: 'r',
    object: 'response',
    status: 'completed',
    model: 'm',
    output: [
      { type: 'code_interpreter_call', id: 'i', status: 'completed', code: '', container_id: id },
      {
        type: 'message',
        id: 'x',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hi', annotations: [annotation()] }],
      },
    ],
    usage: USAGE,
  }),
  messages: () => ({
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [result(), { type: 'text', text: 'Hi' }],
    container: { id, expires_at: '2030-01-01T00:00:00Z' },
    stop_reason: 'end_turn',
    usage: USAGE,
  }),
  generateContent: () => ({
    candidates: [
      { content: { role: 'model', parts: [{ fileData: { fileUri: `files/${id}` } }] }, finishReason: 'STOP' },
    ],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  }),
}

const FRAMES: Record<ConversationName, () => Json[]> = {
  'chat.completions': () => [
    { id: 'c', model: 'm', choices: [{ index: 0, delta: { role: 'assistant', audio: { id, data: 'AAAA' } } }] },
    { id: 'c', model: 'm', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { id: 'c', model: 'm', choices: [], usage: USAGE },
  ],
  responses: () => {
    const response = WHOLE.responses()
    return [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_item.done', output_index: 0, item: (response.output as Json[])[0] },
      { type: 'response.output_text.annotation.added', output_index: 1, annotation: annotation() },
      { type: 'response.completed', response: { ...response, output: [] } },
    ]
  },
  messages: () => [
    { type: 'message_start', message: { ...WHOLE.messages(), content: [], container: null } },
    { type: 'content_block_start', index: 0, content_block: result() },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', container: { id } }, usage: USAGE },
    { type: 'message_stop' },
  ],
  generateContent: () => [WHOLE.generateContent()],
}

const received: Json[] = []
function provide(protocol: ConversationName, body: Json, isStream: boolean): Response {
  received.push(body)
  if (!isStream) return Response.json(WHOLE[protocol]())
  const text = FRAMES[protocol]().map((frame) => `data: ${JSON.stringify(frame)}\n\n`)
  if (protocol === 'chat.completions') text.push('data: [DONE]\n\n')
  return new Response(text.join(''), { headers: { 'content-type': 'text/event-stream' } })
}
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const protocol = Object.entries(PATHS).find(([, path]) => path.test(pathname))![0] as ConversationName
    const body = (await request.json()) as Json
    return provide(protocol, body, body.stream === true || pathname.includes('streamGenerate'))
  },
})
const PATHS: Record<ConversationName, RegExp> = {
  'chat.completions': /chat\/completions$/,
  responses: /responses$/,
  messages: /messages$/,
  generateContent: /enerateContent$/,
}

const NAMES: Record<ConversationName, string> = {
  'chat.completions': 'chat',
  responses: 'responses',
  messages: 'messages',
  generateContent: 'gemini',
}
const keyOf = (account: string): string => `sk-ai-v1-${account.padEnd(60, '0')}`

let gateway: Gateway
beforeAll(async () => {
  const url = `http://127.0.0.1:${provider.port}/v1`
  const rows = Object.entries(NAMES).flatMap(([protocol, name]) =>
    ['own', 'other'].map(
      (which) => `  ${which}-${name}: { protocol: ${protocol}, baseUrl: "${url}", apiKey: none, unlisted: true }\n`,
    ),
  )
  const models = Object.values(NAMES).map(
    (name) =>
      `  both-${name}: { endpoints: [{ provider: other-${name}, model: m }, { provider: own-${name}, model: m }] }\n`,
  )
  gateway = await startGateway({
    config:
      'billing: { unpriced: free }\nlimits: { requestsPerMinute: 10000 }\n' +
      `keys: [${['mine', 'theirs'].map((name) => `{ key: ${keyOf(name)}, account: ${name} }`).join(', ')}]\n` +
      `providers:\n${rows.join('')}models:\n${models.join('')}`,
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

const user = { role: 'user', content: 'Hi' }

/** A request whose response may name objects at its provider. */
const MAKING: Record<ConversationName, Json> = {
  'chat.completions': { messages: [user], modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } },
  responses: { input: 'Hi', tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] },
  messages: {
    max_tokens: 10,
    messages: [user],
    tools: [{ type: 'code_execution_20250825', name: 'code_execution' }],
  },
  generateContent: { contents: [{ parts: [{ text: 'Hi' }] }], tools: [{ codeExecution: {} }] },
}

/** Requests that name them. */
const NAMING: Record<ConversationName, () => Json[]> = {
  'chat.completions': () => [{ messages: [user, { role: 'assistant', audio: { id } }, user] }],
  responses: () => [
    { input: 'Hi', tools: [{ type: 'code_interpreter', container: id }] },
    { input: 'Hi', tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [`${id}f`] } }] },
    { input: [{ role: 'user', content: [{ type: 'input_file', file_id: `${id}f` }] }] },
  ],
  messages: () => [
    { max_tokens: 10, messages: [user], container: id },
    { max_tokens: 10, messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: `${id}f` }] }] },
    {
      max_tokens: 10,
      messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'file', file_id: `${id}f` } }] }],
    },
  ],
  generateContent: () => [{ contents: [{ parts: [{ fileData: { fileUri: `files/${id}` } }] }] }],
}

const plain = (text: string): string => text.replaceAll(/req_\w+/g, 'req')

async function ask(account: string, protocol: ConversationName, model: string, body: Json, stream = false) {
  const method = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${method}`,
  }[protocol]
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${keyOf(account)}` },
    body: JSON.stringify(protocol === 'generateContent' ? body : { ...body, model, stream }),
  })
  const text = await response.text()
  return { status: response.status, text, provider: response.headers.get('x-sluice-provider') }
}

describe.each(Object.keys(NAMES) as ConversationName[])('ids of %s', (protocol) => {
  const name = NAMES[protocol]

  test.each([false, true])(
    'can be named again by the account whose response had them (streamed: %p)',
    async (stream) => {
      id = `object_${name}_${stream}`
      const made = await ask('mine', protocol, `own-${name}/m`, MAKING[protocol], stream)
      expect([made.status, made.text.includes(id)]).toEqual([200, true])
      for (const body of NAMING[protocol]()) {
        received.length = 0
        expect((await ask('mine', protocol, `own-${name}/m`, body)).status, JSON.stringify(body)).toBe(200)
        for (const member of ['messages', 'tools', 'contents', 'container'])
          if (member in body) expect(received[0]![member]).toEqual(body[member])
        expect((await ask('mine', protocol, `both-${name}`, body)).provider).toBe(`own-${name}`)
      }
    },
  )

  test("of another account's, of another provider and of none are refused alike", async () => {
    id = `object_${name}_private`
    expect((await ask('mine', protocol, `own-${name}/m`, MAKING[protocol])).status).toBe(200)
    const named = NAMING[protocol]()
    const own = id
    id = `object_${name}_unknown`
    const unknown = NAMING[protocol]()
    received.length = 0
    for (const [index, body] of named.entries()) {
      const theirs = await ask('theirs', protocol, `own-${name}/m`, body)
      const none = await ask('theirs', protocol, `own-${name}/m`, unknown[index]!)
      expect([theirs.status, plain(theirs.text).replaceAll(own, id)]).toEqual([404, plain(none.text)])
      expect((await ask('mine', protocol, `other-${name}/m`, body)).status).toBe(404)
    }
    expect(received).toEqual([])
  })

  test('are not recorded of a request that cannot make any', async () => {
    id = `object_${name}_plain`
    const { modalities: _modalities, audio: _audio, tools: _tools, ...plain } = MAKING[protocol]
    expect((await ask('mine', protocol, `own-${name}/m`, plain)).status).toBe(200)
    for (const body of NAMING[protocol]()) expect((await ask('mine', protocol, `own-${name}/m`, body)).status).toBe(404)
  })
})

test('earlier audio is dropped for a provider of another protocol, as before', async () => {
  id = 'audio_of_another'
  const [body] = NAMING['chat.completions']()
  const { status, text } = await ask('mine', 'chat.completions', 'own-messages/m', { ...body, max_tokens: 5 })
  expect([status, text]).toEqual([200, text])
})

test('ids that a model writes into the arguments of a call are not recorded', async () => {
  id = 'stolen'
  const whole = WHOLE.messages
  const call = { type: 'tool_use', id: 't', name: 'f', input: { container: { id }, content: [result()] } }
  WHOLE.messages = () => ({ ...whole(), container: null, content: [call], stop_reason: 'tool_use' })
  expect((await ask('mine', 'messages', 'own-messages/m', MAKING.messages)).text).toContain('stolen')
  WHOLE.messages = whole
  for (const body of NAMING.messages()) expect((await ask('mine', 'messages', 'own-messages/m', body)).status).toBe(404)
})
