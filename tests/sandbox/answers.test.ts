import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { serveSandbox } from '../../src/providers/sandbox/server.ts'
import { anthropic } from '../sdk/anthropic.ts'
import type { Client, Heard, Options } from '../sdk/client.ts'
import { genaiGemini, genaiVertex } from '../sdk/genai.ts'
import { openaiChat } from '../sdk/openai-chat.ts'
import { openaiResponses } from '../sdk/openai-responses.ts'

let server: ReturnType<typeof serveSandbox>
beforeAll(() => {
  server = serveSandbox({ host: '127.0.0.1', port: 0 })
})
afterAll(() => server.stop())

const CLIENTS: Client[] = [openaiChat, openaiResponses, anthropic, genaiGemini, genaiVertex]

const WEATHER = {
  name: 'get_weather',
  description: 'Weather of a city',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
    required: ['city', 'days'],
    additionalProperties: false,
  },
}
const TIME = {
  name: 'get_time',
  description: 'Time in a zone',
  schema: {
    type: 'object',
    properties: { zone: { type: 'string', enum: ['UTC', 'CET'] } },
    required: ['zone'],
    additionalProperties: false,
  },
}

/** How each protocol spells an ending. */
const WORDS = {
  'chat.completions': {
    stop: 'stop',
    length: 'length',
    calls: 'tool_calls',
    sequence: 'stop',
    refused: 'stop',
    filtered: 'content_filter',
  },
  responses: {
    stop: 'completed',
    length: 'max_output_tokens',
    calls: 'completed',
    sequence: 'completed',
    refused: 'completed',
    filtered: 'content_filter',
  },
  messages: {
    stop: 'end_turn',
    length: 'max_tokens',
    calls: 'tool_use',
    sequence: 'stop_sequence',
    refused: 'refusal',
    filtered: 'refusal',
  },
  generateContent: {
    stop: 'STOP',
    length: 'MAX_TOKENS',
    calls: 'STOP',
    sequence: 'STOP',
    refused: 'SAFETY',
    filtered: 'SAFETY',
  },
} as const

const at = (key = 'any') => ({ url: server.url, key, model: 'gemini' })

for (const client of CLIENTS)
  for (const stream of [false, true])
    describe(`${client.name}, ${stream ? 'streamed' : 'whole'}`, () => {
      const words = WORDS[client.protocol]
      const open = (options: Partial<Options> = {}) => client.open(at(), { stream, ...options })
      const say = (text: string, options: Partial<Options> = {}): Promise<Heard> => open(options).say(text)
      const fails = async (text: string, options: Partial<Options> = {}) =>
        client.failure(
          await say(text, options).then(
            () => {
              throw new Error('did not fail')
            },
            (error: unknown) => error,
          ),
        )

      test('says what it is and quotes the user', async () => {
        const heard = await say('hello there')
        expect(heard).toMatchObject({
          text: 'You said: "hello there". This is Sluice\'s sandbox, a simulator: no model was asked.',
          finish: words.stop,
          calls: [],
          model: 'gemini',
        })
        expect(heard.id).not.toBe('')
        expect(heard.usage).toMatchObject({ input: 2, output: 23 })
      })

      test('says it once in a conversation', async () => {
        const talk = open()
        await talk.say('one')
        expect((await talk.say('two')).text).toBe('You said: "two".')
      })

      test('[[reply]]', async () => {
        expect(await say('[[reply: Grüße, 世界 🎉]] [[chunk: 1]]')).toMatchObject({
          text: 'Grüße, 世界 🎉',
          finish: words.stop,
        })
      })

      test('[[length]]', async () => {
        const heard = await say('[[length: 50]]')
        expect([heard.text.split(' ').length, heard.usage.output]).toEqual([50, 50])
      })

      test('[[think]]', async () => {
        const heard = await say('[[think: First, I add.]] [[reply: Five]]', { reasoning: true })
        expect(heard).toMatchObject({ reasoning: 'First, I add.', text: 'Five' })
        if (client.protocol !== 'messages') expect(heard.usage.reasoning).toBe(5)
      })

      test('reasoning that was only asked for', async () => {
        expect((await say('hello', { reasoning: true })).reasoning).toContain('The user said 1 tokens')
      })

      test('parallel calls, results, and the signature on the way back', async () => {
        const talk = open({ tools: [WEATHER, TIME], reasoning: true })
        const first = await talk.say(
          '[[think: Two things.]] [[call: get_weather {"city":"Paris","days":3}]] [[call: get_time {"zone":"UTC"}]] [[strict-signatures]]',
        )
        expect(first).toMatchObject({
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
        expect(last.finish).toBe(words.stop)
        expect(last.text).toMatch(/get_weather returned: .*18 degrees.* get_time returned: .*noon/)
      })

      test('[[then]] leads through a loop', async () => {
        const talk = open({ tools: [WEATHER, TIME] })
        const first = await talk.say(
          '[[call: get_weather {"city":"Oslo","days":2}]] [[then]] [[call: get_time {"zone":"CET"}]] [[then]] [[reply: done]]',
        )
        const second = await talk.answer([{ call: first.calls[0]!, output: 'cold' }])
        expect(second.calls.map((call) => call.name)).toEqual(['get_time'])
        expect((await talk.answer([{ call: second.calls[0]!, output: 'late' }])).text).toBe('done')
        expect((await talk.say('and now?')).text).toBe('You said: "and now?".')
      })

      test('tools that are merely offered are not called', async () => {
        expect((await say('hi', { tools: [WEATHER] })).calls).toEqual([])
      })

      test.each([
        ['required', 'get_weather'],
        ['get_time', 'get_time'],
      ])('a choice of %s calls %s with made-up arguments, once', async (force, name) => {
        const talk = open({ tools: [WEATHER, TIME], force })
        const first = await talk.say('hi')
        expect(first.calls).toMatchObject([
          { name, input: name === 'get_time' ? { zone: 'UTC' } : { city: 'example city', days: 2 } },
        ])
        expect((await talk.answer([{ call: first.calls[0]!, output: 'ok' }])).calls).toEqual([])
      })

      test('structured output', async () => {
        expect(JSON.parse((await say('hi', { schema: WEATHER.schema })).text)).toEqual({
          city: 'example city',
          days: 2,
        })
        expect(JSON.parse((await say('[[json]]', { schema: TIME.schema })).text)).toEqual({ zone: 'UTC' })
      })

      test('[[refuse]]', async () => {
        const heard = await say('[[refuse: I must not.]]')
        expect(heard.finish).toBe(words.refused)
        if (client.protocol !== 'generateContent') expect(heard.refusal).toBe('I must not.')
      })

      test('[[finish]]', async () => {
        expect((await say('[[reply: cut]] [[finish: length]]')).finish).toBe(words.length)
        if (!(stream && client.protocol === 'chat.completions'))
          expect((await say('[[reply: bad]] [[finish: content-filter]]')).finish).toBe(words.filtered)
      })

      test('[[empty]]', async () => {
        expect(await say('[[empty]]')).toMatchObject({ text: '', calls: [] })
      })

      test('the token limit', async () => {
        expect(
          await say('[[reply: one two three four]]', { maxTokens: client.protocol === 'responses' ? 16 : 2 }),
        ).toMatchObject(
          client.protocol === 'responses' ? { finish: words.stop } : { text: 'one two', finish: words.length },
        )
        expect(await say('[[length: 30]]', { maxTokens: 16 })).toMatchObject({
          finish: words.length,
          usage: { output: 16 },
        })
      })

      if (client.protocol !== 'responses')
        test('stop sequences', async () => {
          expect(await say('[[reply: one END two]]', { stop: ['END'] })).toMatchObject({
            text: 'one ',
            finish: words.sequence,
          })
        })

      test('[[usage]]', async () => {
        expect((await say('[[reply: x]] [[usage: in=10 out=20 cached=5]]')).usage).toMatchObject({
          input: 15,
          output: 20,
          cached: 5,
        })
      })

      test('[[no-usage]]', async () => {
        expect((await say('[[reply: x]] [[no-usage]]')).usage).toEqual({ input: 0, output: 0, cached: 0, reasoning: 0 })
      })

      test('[[echo]]', async () => {
        const heard = JSON.parse(
          (await say('[[echo]]', { system: 'be brief', tools: [WEATHER], maxTokens: 500 })).text,
        ) as Record<string, unknown>
        expect(heard).toMatchObject({
          model: 'gemini',
          system: 'be brief',
          stream,
          maxOutputTokens: 500,
          tools: ['get_weather'],
          turns: [{ role: 'user', parts: ['text'] }],
        })
        expect(JSON.parse((await say('[[echo: headers]]')).text)).not.toHaveProperty('authorization')
        expect((await say('[[echo: body]]')).text).toContain('[[echo: body]]')
      })

      test('directives in the system prompt', async () => {
        expect((await say('hi', { system: '[[reply: from above]]' })).text).toBe('from above')
        expect((await say('[[reply: from below]]', { system: '[[reply: from above]]' })).text).toBe('from below')
      })

      test('[[error]]', async () => {
        const failed = await fails('[[error: 429 retry-after=2 slow down]]')
        expect(failed.status).toBe(429)
        expect(failed.message).toContain('slow down')
      })

      test('a key that says it is wrong', async () => {
        const failed = client.failure(
          await client
            .open(at('a-wrong-key'), { stream })
            .say('hi')
            .catch((error: unknown) => error),
        )
        expect(failed.status).toBe(401)
      })

      test('a wrong directive', async () => {
        const failed = await fails('[[delay: banana]]')
        expect(failed.status).toBe(400)
        expect(failed.message).toContain('must be a time')
      })

      test('a model that is missing', async () => {
        const failed = client.failure(
          await client
            .open({ ...at(), model: 'missing-1' }, { stream })
            .say('hi')
            .catch((error: unknown) => error),
        )
        expect(failed.status).toBe(404)
      })

      test('[[error-after]]', async () => {
        expect((await fails('[[length: 30]] [[pace: 20ms]] [[error-after: 3 529 too busy]]')).message).toContain(
          'too busy',
        )
      })

      test('[[cut-after]]', async () => {
        await fails('[[length: 3000]] [[cut-after: 3]]')
      })

      test('the same request gets the same answer', async () => {
        const twice = [await say('[[think]] [[call: f]]'), await say('[[think]] [[call: f]]')]
        expect(twice[0]).toEqual(twice[1]!)
      })
    })
