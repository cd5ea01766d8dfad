import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { aiAnthropic, aiGoogle, aiOpenai, aiOpenaiChat } from './ai.ts'
import { anthropic } from './anthropic.ts'
import type { Client, Answer, Session, ToolSpec } from './client.ts'
import { strippingProxy } from './stripping-proxy.ts'
import { genaiGemini } from './genai.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

/**
 * Tool loops with models that require their signed reasoning back, byte for byte: with clients that send it back, and
 * with clients that do not.
 */

let storing: Gateway
/** A gateway that stores no reasoning, so signatures can only come back from the client. */
let plain: Gateway
let proxy: ReturnType<typeof strippingProxy>
beforeAll(async () => {
  storing = await startGateway({ config: 'limits: { requestsPerMinute: 100000 }\n' })
  plain = await startGateway({ config: 'limits: { requestsPerMinute: 100000 }\nreasoning: { keep: 0s }\n' })
  proxy = strippingProxy(storing.url)
})
afterAll(async () => {
  proxy.stop()
  await Promise.all([storing.stop(), plain.stop()])
})

const SIGNING_CLIENTS: Client[] = [openaiChat, openaiResponses, anthropic, genaiGemini, aiOpenai, aiAnthropic, aiGoogle]
/** The AI SDK's chat provider does not send signatures back. */
const CLIENTS: Client[] = [...SIGNING_CLIENTS, aiOpenaiChat]
const MODELS = ['chat', 'responses', 'messages', 'gemini'] as const

const tool = (name: string): ToolSpec => ({
  name,
  description: name,
  schema: { type: 'object', properties: { of: { type: 'string' } }, additionalProperties: false },
})
const TOOLS = [tool('look'), tool('ask')]

const sendResultsOf = (session: Session, { calls }: Answer): Promise<Answer> =>
  session.sendResults(calls.map((call) => ({ call, output: `${call.name} done` })))

const PROMPT = `[[strict]] [[strict-signatures]]
  [[think: Where to?]] [[reply: Let me see.]]
  [[call: look {"of":"a"}]] [[call: ask {"of":"b"}]] [[call: look {"of":"c"}]]
  [[then]] [[think: And then?]] [[call: ask {"of":"d"}]] [[call: look {"of":"e"}]]
  [[then]] [[think-redacted]] [[call: look {"of":"f"}]]
  [[then]] [[think: Enough.]] [[reply: done]]`

/** Four rounds and another user message, whose history contains all of them. */
async function runLoop(session: Session): Promise<void> {
  const first = await session.send(PROMPT)
  expect(first.calls.map(({ name, input }) => [name, input])).toEqual([
    ['look', { of: 'a' }],
    ['ask', { of: 'b' }],
    ['look', { of: 'c' }],
  ])
  const second = await sendResultsOf(session, first)
  expect(second.calls.map(({ name, input }) => [name, input])).toEqual([
    ['ask', { of: 'd' }],
    ['look', { of: 'e' }],
  ])
  const third = await sendResultsOf(session, second)
  expect(third.calls).toMatchObject([{ name: 'look', input: { of: 'f' } }])
  expect((await sendResultsOf(session, third)).text).toBe('done')
  expect((await session.send('thanks')).text).toBe('You said: "thanks".')
}

for (const model of MODELS)
  for (const stream of [false, true])
    describe(`sandbox/${model} > ${stream ? 'streamed' : 'whole'}`, () => {
      const at = (url: string) => ({ url, key: plain.key, model: `sandbox/${model}` })

      // The AI SDK drops reasoning without text unless Google streams it, so redacted reasoning comes back only from a
      // gateway that stores it.
      test.each(
        SIGNING_CLIENTS.filter((client) => client !== aiGoogle || stream || model === 'gemini').map(
          (client) => [client.name, client] as const,
        ),
      )('a tool loop is completed by %s, which sends signed reasoning back', (_name, client) =>
        runLoop(client.open(at(plain.url), { stream, tools: TOOLS, reasoning: true })),
      )

      test.each(CLIENTS.map((client) => [client.name, client] as const))(
        'a tool loop is completed by %s without its signed reasoning, which is restored',
        (_name, client) => runLoop(client.open(at(proxy.url), { stream, tools: TOOLS, reasoning: true })),
      )
    })

test('the proxy removes all reasoning and signatures', () => {
  expect(proxy.sent.length).toBeGreaterThan(100)
  for (const body of proxy.sent)
    expect(body).not.toMatch(
      /reasoning_details|"thinking":"|redacted_thinking|[tT]hought_?Signature|encrypted_content":"/,
    )
})

describe("Google's signatures", () => {
  const ANSWERS = [
    [
      { text: 'Thinking.', thought: true },
      { text: 'Look.', thoughtSignature: 'c2ln+One/' },
      { functionCall: { id: 'id_a', name: 'look', args: { of: 'a' } }, thoughtSignature: 'c2ln+Two/' },
      { functionCall: { id: 'id_b', name: 'ask', args: {} } },
    ],
    // An answer may end with a part that has nothing but a signature.
    [{ text: 'Done.' }, { text: '', thoughtSignature: 'c2ln+Six/' }],
    [{ text: 'Bye.' }],
  ]
  type Part = { text?: string; functionCall?: { name: string }; thoughtSignature?: string }
  const bodies: { contents: { role: string; parts: Part[] }[] }[] = []
  let provider: ReturnType<typeof Bun.serve>
  let gateway: Gateway
  beforeAll(async () => {
    provider = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request): Promise<Response> {
        const body = (await request.json()) as (typeof bodies)[number]
        bodies.push(body)
        const parts = ANSWERS[body.contents.filter(({ role }) => role === 'model').length]!
        const chunk = (some: object[], more: object = {}): object => ({
          responseId: 'r',
          modelVersion: 'm',
          candidates: [{ index: 0, content: { role: 'model', parts: some }, ...more }],
        })
        const end = { finishReason: 'STOP' }
        if (!request.url.includes(':stream')) return Response.json(chunk(parts, end))
        const chunks = [...parts.map((part) => chunk([part])), chunk([{ text: '' }], end)]
        return new Response(chunks.map((one) => `data: ${JSON.stringify(one)}\r\n\r\n`).join(''), {
          headers: { 'content-type': 'text/event-stream' },
        })
      },
    })
    gateway = await startGateway({
      config: `
reasoning: { keep: 0s }
providers:
  google:
    { protocol: generateContent, baseUrl: 'http://127.0.0.1:${provider.port}', auth: none, unlisted: true }
`,
    })
  })
  afterAll(async () => {
    await provider.stop(true)
    await gateway.stop()
  })

  const at = (body: (typeof bodies)[number], name: string): (string | undefined)[] =>
    body.contents.flatMap(({ parts }) =>
      parts
        .filter(({ functionCall, text }) => functionCall?.name === name || text === name)
        .map(({ thoughtSignature }) => thoughtSignature),
    )

  for (const stream of [false, true])
    test.each(SIGNING_CLIENTS.map((client) => [client.name, client] as const))(
      `signatures return through %s to the parts they came with, ${stream ? 'streamed' : 'whole'}`,
      async (_name, client) => {
        bodies.length = 0
        const session = client.open({ url: gateway.url, key: gateway.key, model: 'google/m' }, { stream, tools: TOOLS })
        const done = await sendResultsOf(session, await session.send('go'))
        expect(done.text).toBe('Done.')
        expect([at(bodies[1]!, 'look'), at(bodies[1]!, 'ask')]).toEqual([['c2ln+Two/'], [undefined]])
        expect(at(bodies[1]!, 'Look.')).toEqual(['c2ln+One/'])
        await session.send('thanks')
        expect([at(bodies[2]!, 'look'), at(bodies[2]!, 'Look.')]).toEqual([['c2ln+Two/'], ['c2ln+One/']])
        const last = bodies[2]!.contents
          .findLast(({ role }) => role === 'model')!
          .parts.map(({ thoughtSignature }) => thoughtSignature)
          .filter((one) => one !== undefined)
        // Clients of messages take the last block for the result, so no block with a signature follows it.
        expect(last).toEqual(client.protocol === 'messages' ? [] : ['c2ln+Six/'])
      },
    )
})

describe('a provider that does not sign its reasoning', () => {
  type Message = { role: string; reasoning_content?: string }
  const bodies: { messages: Message[]; stream?: boolean }[] = []
  let provider: ReturnType<typeof Bun.serve>
  let gateway: Gateway

  beforeAll(async () => {
    provider = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request): Promise<Response> {
        const body = (await request.json()) as (typeof bodies)[number]
        bodies.push(body)
        const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }
        const isEnd = body.messages.some(({ role }) => role === 'tool')
        const message = {
          role: 'assistant',
          reasoning_content: isEnd ? 'Enough.' : 'Where?',
          content: isEnd ? 'Done.' : 'Look.',
          ...(isEnd ? {} : { tool_calls: [call] }),
        }
        const head = { id: 'c', created: 1, model: 'm', usage: { prompt_tokens: 1, completion_tokens: 1 } }
        const finish_reason = isEnd ? 'stop' : 'tool_calls'
        if (body.stream !== true) return Response.json({ ...head, choices: [{ index: 0, message, finish_reason }] })
        const chunk = { ...head, choices: [{ index: 0, delta: message, finish_reason }] }
        return new Response(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`, {
          headers: { 'content-type': 'text/event-stream' },
        })
      },
    })
    gateway = await startGateway({
      config: `
reasoning: { keep: 0s }
providers:
  unsigned: { protocol: chat.completions, baseUrl: 'http://127.0.0.1:${provider.port}', auth: none, unlisted: true }
`,
    })
  })
  afterAll(async () => {
    await provider.stop(true)
    await gateway.stop()
  })

  for (const stream of [false, true])
    test.each(SIGNING_CLIENTS.map((client) => [client.name, client] as const))(
      `gets it back through %s, ${stream ? 'streamed' : 'whole'}`,
      async (_name, client) => {
        bodies.length = 0
        const session = client.open(
          { url: gateway.url, key: gateway.key, model: 'unsigned/m' },
          { stream, tools: TOOLS, reasoning: true },
        )
        expect((await sendResultsOf(session, await session.send('go'))).text).toBe('Done.')
        expect(bodies[1]!.messages.find(({ role }) => role === 'assistant')!.reasoning_content).toBe('Where?')
      },
    )
})
