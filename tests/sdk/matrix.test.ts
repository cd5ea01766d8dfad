import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { aiAnthropic, aiGoogle, aiOpenai, aiOpenaiChat } from './ai.ts'
import { anthropic } from './anthropic.ts'
import type { Client, Options, ToolSpec } from './client.ts'
import { genaiGemini, genaiVertex } from './genai.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

const CLIENTS: Client[] = [
  openaiChat,
  openaiResponses,
  anthropic,
  genaiGemini,
  genaiVertex,
  aiOpenai,
  aiOpenaiChat,
  aiAnthropic,
  aiGoogle,
]
const MODELS = ['chat', 'responses', 'messages', 'gemini'] as const

const WEATHER: ToolSpec = {
  name: 'get_weather',
  description: 'Weather of a city',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
    required: ['city', 'days'],
    additionalProperties: false,
  },
}
const TIME: ToolSpec = {
  name: 'get_time',
  description: 'Time in a zone',
  schema: {
    type: 'object',
    properties: { zone: { type: 'string', enum: ['UTC', 'CET'] } },
    required: ['zone'],
    additionalProperties: false,
  },
}

/** Only what every protocol's structured output can promise. */
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

/** The words for an ending: each protocol's, and the AI SDK's own. */
const WORDS = {
  'chat.completions': { stop: 'stop', length: 'length', calls: 'tool_calls' },
  responses: { stop: 'completed', length: 'max_output_tokens', calls: 'completed' },
  messages: { stop: 'end_turn', length: 'max_tokens', calls: 'tool_use' },
  generateContent: { stop: 'STOP', length: 'MAX_TOKENS', calls: 'STOP' },
} as const
const AI_WORDS = { stop: 'stop', length: 'length', calls: 'tool-calls' } as const

/** Whether the SDK shows reasoning, and sends its signature back: the AI SDK's chat provider knows neither. */
const reasons = (client: Client): boolean => client !== aiOpenaiChat

describe.each(CLIENTS.map((client) => [client.name, client] as const))('%s changes the model', (_name, client) => {
  for (const from of MODELS)
    for (const to of MODELS)
      if (from !== to)
        test(`in the middle of a tool loop, from sandbox/${from} to sandbox/${to}`, async () => {
          const at = { url: gateway.url, key: gateway.key, model: `sandbox/${from}` }
          const talk = client.open(at, { stream: false, tools: [WEATHER, TIME], reasoning: true })
          const first = await talk.say(
            '[[strict]] [[think: Where?]] [[reply: Looking.]] [[call: get_weather {"city":"Oslo","days":2}]] [[call: get_time {"zone":"CET"}]]',
          )
          at.model = `sandbox/${to}`
          expect(
            (
              await talk.answer([
                { call: first.calls[0]!, output: 'cold' },
                { call: first.calls[1]!, output: 'late' },
              ])
            ).text,
          ).toMatch(/get_weather returned: .*cold.* get_time returned: .*late/)
          at.model = `sandbox/${from}`
          expect((await talk.say('thanks')).text).toBe('You said: "thanks".')
        })
})

for (const client of CLIENTS)
  for (const model of MODELS)
    for (const stream of [false, true])
      describe(`${client.name} > sandbox/${model} > ${stream ? 'streamed' : 'whole'}`, () => {
        const words = client.name.startsWith('ai ') ? AI_WORDS : WORDS[client.protocol]
        const open = (options: Partial<Options> = {}) =>
          client.open({ url: gateway.url, key: gateway.key, model: `sandbox/${model}` }, { stream, ...options })
        const fails = async (text: string) =>
          client.failure(
            await open()
              .say(text)
              .then(
                () => {
                  throw new Error('did not fail')
                },
                (error: unknown) => error,
              ),
          )

        test('text, and a second turn', async () => {
          const talk = open({ system: 'Be brief.' })
          const first = await talk.say('[[strict]] [[reply: Grüße, 世界 🎉]] [[usage: in=10 out=20 cached=5]]')
          expect(first).toMatchObject({
            text: 'Grüße, 世界 🎉',
            finish: words.stop,
            usage: { input: 15, output: 20, cached: 5 },
          })
          expect(first.id).not.toBe('')
          expect((await talk.say('and now?')).text).toBe('You said: "and now?".')
        })

        test('the limit of tokens', async () => {
          expect(await open({ maxTokens: 16 }).say('[[length: 30]]')).toMatchObject({
            finish: words.length,
            usage: { output: 16 },
          })
        })

        test('a tool loop with two calls at once', async () => {
          const talk = open({ tools: [WEATHER, TIME] })
          const first = await talk.say(
            '[[strict]] [[reply: Let me look.]] [[call: get_weather {"city":"Paris","days":3}]] [[call: get_time {"zone":"UTC"}]]',
          )
          expect(first).toMatchObject({
            text: 'Let me look.',
            finish: words.calls,
            calls: [
              { name: 'get_weather', input: { city: 'Paris', days: 3 } },
              { name: 'get_time', input: { zone: 'UTC' } },
            ],
          })
          const last = await talk.answer([
            { call: first.calls[0]!, output: '18 degrees' },
            { call: first.calls[1]!, output: 'noon' },
          ])
          expect(last).toMatchObject({ finish: words.stop, calls: [] })
          expect(last.text).toMatch(/get_weather returned: .*18 degrees.* get_time returned: .*noon/)
          expect((await talk.say('thanks')).text).toBe('You said: "thanks".')
        })

        test('a forced tool', async () => {
          expect((await open({ tools: [WEATHER, TIME], force: 'get_time' }).say('[[strict]]')).calls).toMatchObject([
            { name: 'get_time', input: { zone: 'UTC' } },
          ])
        })

        if (reasons(client))
          test('reasoning whose signature survives a tool loop of three rounds', async () => {
            const talk = open({ tools: [WEATHER, TIME], reasoning: true })
            const first = await talk.say(
              '[[strict]] [[strict-signatures]] [[think: Where?]] [[call: get_weather {"city":"Oslo","days":2}]] [[then]] [[think: When?]] [[call: get_time {"zone":"CET"}]] [[then]] [[reply: done]]',
            )
            expect(first).toMatchObject({ reasoning: 'Where?', calls: [{ name: 'get_weather' }] })
            const second = await talk.answer([{ call: first.calls[0]!, output: 'cold' }])
            expect(second).toMatchObject({ reasoning: 'When?', calls: [{ name: 'get_time' }] })
            expect((await talk.answer([{ call: second.calls[0]!, output: 'late' }])).text).toBe('done')
          })

        test('structured output', async () => {
          expect(JSON.parse((await open({ schema: PLACE }).say('[[strict]]')).text)).toEqual({
            city: 'example city',
            kind: 'town',
            inhabitants: 1,
            tags: ['example tags'],
          })
        })

        test('an error keeps its meaning', async () => {
          expect(await fails('[[error: 400 the prompt is odd]]')).toMatchObject({
            status: 400,
            message: expect.stringContaining('the prompt is odd'),
          })
          expect(await fails('[[error: 429 retry-after=1 slow down]]')).toMatchObject({
            status: 429,
            message: expect.stringContaining('slow down'),
          })
        })

        test('a provider that refuses our key is quoted to a client of its protocol; another does not hear a refusal of its own key', async () => {
          const same =
            { 'chat.completions': 'chat', responses: 'responses', messages: 'messages', generateContent: 'gemini' }[
              client.protocol
            ] === model
          expect(await fails('[[error: 401 who are you]]')).toMatchObject({ status: same ? 401 : 502 })
        })

        test('an error in mid-stream is heard', async () => {
          // A provider's own frame is passed on as it is, and of those two the AI SDK hears only that the answer did
          // not end well.
          if (['ai openai chat chat', 'ai google gemini'].includes(`${client.name} ${model}`) && stream) {
            return expect(
              (
                await open()
                  .say('[[length: 12]] [[pace: 15ms]] [[error-after: 3 529 too busy]]')
                  .catch(() => ({ finish: 'error' }))
              ).finish,
            ).not.toBe(words.stop)
          }
          expect((await fails('[[length: 12]] [[pace: 15ms]] [[error-after: 3 529 too busy]]')).message).toContain(
            'too busy',
          )
        })

        test.each(['[[cut-after: 3]]', '[[end-after: 3]]'])(
          'a stream that breaks off is no success: %s',
          async (how) => {
            await fails(`[[length: 12]] ${how}`)
          },
        )
      })

test.each(CLIENTS.map((client) => [client.name, client] as const))(
  '%s hears of a wrong key and of a model that is not there',
  async (_name, client) => {
    for (const stream of [false, true]) {
      const say = (at: { key?: string; model?: string }) =>
        client
          .open({ url: gateway.url, key: gateway.key, model: 'sandbox/chat', ...at }, { stream })
          .say('hi')
          .then(() => undefined, client.failure)
      expect(await say({ key: 'sk-ai-v1-nobody' })).toMatchObject({ status: 401 })
      expect(await say({ model: 'sandbox/cat' })).toMatchObject({
        status: 404,
        message: expect.stringContaining('sandbox/chat'),
      })
    }
  },
)
