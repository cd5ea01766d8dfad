import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { aiOpenaiChat } from './ai.ts'
import type { Client, Options } from './client.ts'
import { CLIENTS, TIME, WEATHER } from './clients.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

const MODELS = ['chat', 'responses', 'messages', 'gemini'] as const

/** A schema with only those keywords that structured output of every protocol enforces. */
const PLACE = {
  type: 'object',
  additionalProperties: false,
  required: ['city', 'kind', 'inhabitants', 'tags'],
  properties: {
    city: { type: 'string' },
    kind: { type: 'string', enum: ['town', 'village'] },
    inhabitants: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
}

/** The finish reasons of each protocol. */
const FINISH = {
  'chat.completions': { stop: 'stop', length: 'length', calls: 'tool_calls' },
  responses: { stop: 'completed', length: 'max_output_tokens', calls: 'completed' },
  messages: { stop: 'end_turn', length: 'max_tokens', calls: 'tool_use' },
  generateContent: { stop: 'STOP', length: 'MAX_TOKENS', calls: 'STOP' },
} as const
const AI_FINISH = { stop: 'stop', length: 'length', calls: 'tool-calls' } as const

/** The AI SDK's chat provider neither returns reasoning nor sends its signature back. */
const supportsReasoning = (client: Client): boolean => client !== aiOpenaiChat

const PARALLEL_CALLS = '[[call: get_weather {"city":"Paris","days":3}]] [[call: get_time {"zone":"UTC"}]]'
const SIGNED_LOOP = `[[strict]] [[strict-signatures]]
  [[think: Where?]] [[call: get_weather {"city":"Oslo","days":2}]]
  [[then]] [[think: When?]] [[call: get_time {"zone":"CET"}]]
  [[then]] [[reply: done]]`

describe.each(CLIENTS.map((client) => [client.name, client] as const))('model changes of %s', (_name, client) => {
  for (const from of MODELS)
    for (const to of MODELS)
      if (from !== to)
        test(`a tool loop goes on if its model changes from sandbox/${from} to sandbox/${to}`, async () => {
          const at = { url: gateway.url, key: gateway.key, model: `sandbox/${from}` }
          const session = client.open(at, { stream: false, tools: [WEATHER, TIME], reasoning: true })
          const first = await session.send(`[[strict]] [[think: Where?]] [[reply: Looking.]] ${PARALLEL_CALLS}`)
          at.model = `sandbox/${to}`
          expect(
            (
              await session.sendResults([
                { call: first.calls[0]!, output: 'cold' },
                { call: first.calls[1]!, output: 'late' },
              ])
            ).text,
          ).toMatch(/get_weather returned: .*cold.* get_time returned: .*late/)
          at.model = `sandbox/${from}`
          expect((await session.send('thanks')).text).toBe('You said: "thanks".')
        })
})

for (const client of CLIENTS)
  for (const model of MODELS)
    for (const stream of [false, true])
      describe(`${client.name} > sandbox/${model} > ${stream ? 'streamed' : 'whole'}`, () => {
        const finish = client.name.startsWith('ai ') ? AI_FINISH : FINISH[client.protocol]
        const open = (options: Partial<Options> = {}) =>
          client.open({ url: gateway.url, key: gateway.key, model: `sandbox/${model}` }, { stream, ...options })
        const fails = async (text: string) =>
          client.failure(
            await open()
              .send(text)
              .then(
                () => {
                  throw new Error('did not fail')
                },
                (error: unknown) => error,
              ),
          )

        test('text, finish reason and usage of a turn are read, and a second turn follows', async () => {
          const session = open({ system: 'Be brief.' })
          const first = await session.send('[[strict]] [[reply: Grüße, 世界 🎉]] [[usage: in=10 out=20 cached=5]]')
          expect(first).toMatchObject({
            text: 'Grüße, 世界 🎉',
            finish: finish.stop,
            usage: { input: 15, output: 20, cached: 5 },
          })
          expect(first.id).not.toBe('')
          expect((await session.send('and now?')).text).toBe('You said: "and now?".')
        })

        test('an answer ends at the token limit with its finish reason', async () => {
          expect(await open({ maxTokens: 16 }).send('[[length: 30]]')).toMatchObject({
            finish: finish.length,
            usage: { output: 16 },
          })
        })

        test('a tool loop with two parallel calls is completed', async () => {
          const session = open({ tools: [WEATHER, TIME] })
          const first = await session.send(`[[strict]] [[reply: Let me look.]] ${PARALLEL_CALLS}`)
          expect(first).toMatchObject({
            text: 'Let me look.',
            finish: finish.calls,
            calls: [
              { name: 'get_weather', input: { city: 'Paris', days: 3 } },
              { name: 'get_time', input: { zone: 'UTC' } },
            ],
          })
          const last = await session.sendResults([
            { call: first.calls[0]!, output: '18 degrees' },
            { call: first.calls[1]!, output: 'noon' },
          ])
          expect(last).toMatchObject({ finish: finish.stop, calls: [] })
          expect(last.text).toMatch(/get_weather returned: .*18 degrees.* get_time returned: .*noon/)
          expect((await session.send('thanks')).text).toBe('You said: "thanks".')
        })

        test('a forced tool is called', async () => {
          expect((await open({ tools: [WEATHER, TIME], force: 'get_time' }).send('[[strict]]')).calls).toMatchObject([
            { name: 'get_time', input: { zone: 'UTC' } },
          ])
        })

        if (supportsReasoning(client))
          test('signed reasoning is sent back unchanged in a tool loop of three rounds', async () => {
            const session = open({ tools: [WEATHER, TIME], reasoning: true })
            const first = await session.send(SIGNED_LOOP)
            expect(first).toMatchObject({ reasoning: 'Where?', calls: [{ name: 'get_weather' }] })
            const second = await session.sendResults([{ call: first.calls[0]!, output: 'cold' }])
            expect(second).toMatchObject({ reasoning: 'When?', calls: [{ name: 'get_time' }] })
            expect((await session.sendResults([{ call: second.calls[0]!, output: 'late' }])).text).toBe('done')
          })

        test('structured output matches its schema', async () => {
          expect(JSON.parse((await open({ schema: PLACE }).send('[[strict]]')).text)).toEqual({
            city: 'example city',
            kind: 'town',
            inhabitants: 1,
            tags: ['example tags'],
          })
        })

        test('an error keeps its status and message', async () => {
          expect(await fails('[[error: 400 the prompt is odd]]')).toMatchObject({
            status: 400,
            message: expect.stringContaining('the prompt is odd'),
          })
          expect(await fails('[[error: 429 retry-after=1 slow down]]')).toMatchObject({
            status: 429,
            message: expect.stringContaining('slow down'),
          })
        })

        test('a 401 of the provider is a 502', async () => {
          expect(await fails('[[error: 401 who are you]]')).toMatchObject({ status: 502 })
        })

        test('an error in mid-stream is reported', async () => {
          // Frames of the client's own protocol are passed on unchanged. Of an error frame of these two the AI SDK only
          // reports that the answer did not finish normally.
          if (['ai openai chat chat', 'ai google gemini'].includes(`${client.name} ${model}`) && stream) {
            return expect(
              (
                await open()
                  .send('[[length: 12]] [[pace: 15ms]] [[error-after: 3 529 too busy]]')
                  .catch(() => ({ finish: 'error' }))
              ).finish,
            ).not.toBe(finish.stop)
          }
          expect((await fails('[[length: 12]] [[pace: 15ms]] [[error-after: 3 529 too busy]]')).message).toContain(
            'too busy',
          )
        })

        test.each(['[[cut-after: 3]]', '[[end-after: 3]]'])(
          'a stream that breaks off is an error: %s',
          async (directive) => {
            await fails(`[[length: 12]] ${directive}`)
          },
        )
      })

test.each(CLIENTS.map((client) => [client.name, client] as const))(
  '%s reports a wrong key and an unknown model with their status',
  async (_name, client) => {
    for (const stream of [false, true]) {
      const failure = (at: { key?: string; model?: string }) =>
        client
          .open({ url: gateway.url, key: gateway.key, model: 'sandbox/chat', ...at }, { stream })
          .send('hi')
          .then(() => undefined, client.failure)
      expect(await failure({ key: 'sk-ai-v1-unknown' })).toMatchObject({ status: 401 })
      expect(await failure({ model: 'sandbox/cat' })).toMatchObject({
        status: 404,
        message: expect.stringContaining('sandbox/chat'),
      })
    }
  },
)
