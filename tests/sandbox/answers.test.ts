import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { serveSandbox } from '../../src/providers/sandbox/server.ts'
import { anthropic } from '../sdk/anthropic.ts'
import type { Client, Answer, Options } from '../sdk/client.ts'
import { TIME, WEATHER } from '../sdk/clients.ts'
import { genaiGemini, genaiVertex } from '../sdk/genai.ts'
import { openaiChat } from '../sdk/openai-chat.ts'
import { openaiResponses } from '../sdk/openai-responses.ts'

let server: ReturnType<typeof serveSandbox>
beforeAll(() => {
  server = serveSandbox({ host: '127.0.0.1', port: 0 })
})
afterAll(() => server.stop())

const CLIENTS: Client[] = [openaiChat, openaiResponses, anthropic, genaiGemini, genaiVertex]

/** The finish reasons of each protocol. */
const FINISH_REASONS = {
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
    describe(`${client.name}, ${stream ? 'streamed' : 'not streamed'}`, () => {
      const finishReasons = FINISH_REASONS[client.protocol]
      const open = (options: Partial<Options> = {}) => client.open(at(), { stream, ...options })
      const say = (text: string, options: Partial<Options> = {}): Promise<Answer> => open(options).send(text)
      const fails = async (text: string, options: Partial<Options> = {}) =>
        client.failure(
          await say(text, options).then(
            () => {
              throw new Error('did not fail')
            },
            (error: unknown) => error,
          ),
        )

      test('the first response quotes the user and introduces the sandbox', async () => {
        const response = await say('hello there')
        expect(response).toMatchObject({
          text: 'You said: "hello there". This is Sluice\'s sandbox, a simulator: no model was asked.',
          finish: finishReasons.stop,
          calls: [],
          model: 'gemini',
        })
        expect(response.id).not.toBe('')
        expect(response.usage).toMatchObject({ input: 2, output: 23 })
      })

      test('a later response does not repeat the introduction', async () => {
        const session = open()
        await session.send('one')
        expect((await session.send('two')).text).toBe('You said: "two".')
      })

      test('[[reply]] sets the text', async () => {
        expect(await say('[[reply: Grüße, 世界 🎉]] [[chunk: 1]]')).toMatchObject({
          text: 'Grüße, 世界 🎉',
          finish: finishReasons.stop,
        })
      })

      test('[[length]] sets the number of words', async () => {
        const response = await say('[[length: 50]]')
        expect([response.text.split(' ').length, response.usage.output]).toEqual([50, 50])
      })

      test('[[think]] sets the reasoning text', async () => {
        const response = await say('[[think: First, I add.]] [[reply: Five]]', { reasoning: true })
        expect(response).toMatchObject({ reasoning: 'First, I add.', text: 'Five' })
        if (client.protocol !== 'messages') expect(response.usage.reasoning).toBe(5)
      })

      test('a request for reasoning gets some without a directive', async () => {
        expect((await say('hello', { reasoning: true })).reasoning).toContain('The user said 1 tokens')
      })

      test('parallel calls accept their results together with the signature', async () => {
        const session = open({ tools: [WEATHER, TIME], reasoning: true })
        const first = await session.send(
          '[[think: Two things.]] [[call: get_weather {"city":"Paris","days":3}]] ' +
            '[[call: get_time {"zone":"UTC"}]] [[strict-signatures]]',
        )
        expect(first).toMatchObject({
          finish: finishReasons.calls,
          calls: [
            { name: 'get_weather', input: { city: 'Paris', days: 3 } },
            { name: 'get_time', input: { zone: 'UTC' } },
          ],
        })
        const last = await session.sendResults([
          { call: first.calls[0]!, output: '18 degrees' },
          { call: first.calls[1]!, output: 'noon' },
        ])
        expect(last.finish).toBe(finishReasons.stop)
        expect(last.text).toMatch(/get_weather returned: .*18 degrees.* get_time returned: .*noon/)
      })

      test('[[then]] scripts each response of a tool loop', async () => {
        const session = open({ tools: [WEATHER, TIME] })
        const first = await session.send(
          '[[call: get_weather {"city":"Oslo","days":2}]] [[then]] [[call: get_time {"zone":"CET"}]] ' +
            '[[then]] [[reply: done]]',
        )
        const second = await session.sendResults([{ call: first.calls[0]!, output: 'cold' }])
        expect(second.calls.map((call) => call.name)).toEqual(['get_time'])
        expect((await session.sendResults([{ call: second.calls[0]!, output: 'late' }])).text).toBe('done')
        expect((await session.send('and now?')).text).toBe('You said: "and now?".')
      })

      test('a tool is not called unless a directive or the tool choice says so', async () => {
        expect((await say('hi', { tools: [WEATHER] })).calls).toEqual([])
      })

      test.each([
        ['required', 'get_weather'],
        ['get_time', 'get_time'],
      ])('tool choice %s calls %s once, with sample arguments', async (force, name) => {
        const session = open({ tools: [WEATHER, TIME], force })
        const first = await session.send('hi')
        expect(first.calls).toMatchObject([
          { name, input: name === 'get_time' ? { zone: 'UTC' } : { city: 'example city', days: 2 } },
        ])
        expect((await session.sendResults([{ call: first.calls[0]!, output: 'ok' }])).calls).toEqual([])
      })

      test('structured output is valid for the schema', async () => {
        expect(JSON.parse((await say('hi', { schema: WEATHER.schema })).text)).toEqual({
          city: 'example city',
          days: 2,
        })
        expect(JSON.parse((await say('[[json]]', { schema: TIME.schema })).text)).toEqual({ zone: 'UTC' })
      })

      test('[[refuse]] sends a refusal', async () => {
        const response = await say('[[refuse: I must not.]]')
        expect(response.finish).toBe(finishReasons.refused)
        if (client.protocol !== 'generateContent') expect(response.refusal).toBe('I must not.')
      })

      test('[[finish]] sets the finish reason', async () => {
        expect((await say('[[reply: cut]] [[finish: length]]')).finish).toBe(finishReasons.length)
        if (!(stream && client.protocol === 'chat.completions'))
          expect((await say('[[reply: bad]] [[finish: content-filter]]')).finish).toBe(finishReasons.filtered)
      })

      test('[[empty]] sends a response without content', async () => {
        expect(await say('[[empty]]')).toMatchObject({ text: '', calls: [] })
      })

      test('the token limit cuts the text', async () => {
        expect(
          await say('[[reply: one two three four]]', { maxTokens: client.protocol === 'responses' ? 16 : 2 }),
        ).toMatchObject(
          client.protocol === 'responses'
            ? { finish: finishReasons.stop }
            : { text: 'one two', finish: finishReasons.length },
        )
        expect(await say('[[length: 30]]', { maxTokens: 16 })).toMatchObject({
          finish: finishReasons.length,
          usage: { output: 16 },
        })
      })

      if (client.protocol !== 'responses')
        test('a stop sequence cuts the text', async () => {
          expect(await say('[[reply: one END two]]', { stop: ['END'] })).toMatchObject({
            text: 'one ',
            finish: finishReasons.sequence,
          })
        })

      test('[[usage]] sets the token counts', async () => {
        expect((await say('[[reply: x]] [[usage: in=10 out=20 cached=5]]')).usage).toMatchObject({
          input: 15,
          output: 20,
          cached: 5,
        })
      })

      test('[[no-usage]] leaves usage out', async () => {
        expect((await say('[[reply: x]] [[no-usage]]')).usage).toEqual({ input: 0, output: 0, cached: 0, reasoning: 0 })
      })

      test('[[echo]] returns the request', async () => {
        const response = JSON.parse(
          (await say('[[echo]]', { system: 'be brief', tools: [WEATHER], maxTokens: 500 })).text,
        ) as Record<string, unknown>
        expect(response).toMatchObject({
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

      test('directives in the system prompt apply unless the user turn has its own', async () => {
        expect((await say('hi', { system: '[[reply: from above]]' })).text).toBe('from above')
        expect((await say('[[reply: from below]]', { system: '[[reply: from above]]' })).text).toBe('from below')
      })

      test('[[error]] sends that status and message', async () => {
        const failed = await fails('[[error: 429 retry-after=2 slow down]]')
        expect(failed.status).toBe(429)
        expect(failed.message).toContain('slow down')
      })

      test('a key that contains "wrong" is refused with 401', async () => {
        const failed = client.failure(
          await client
            .open(at('a-wrong-key'), { stream })
            .send('hi')
            .catch((error: unknown) => error),
        )
        expect(failed.status).toBe(401)
      })

      test('an invalid directive is refused with 400', async () => {
        const failed = await fails('[[delay: banana]]')
        expect(failed.status).toBe(400)
        expect(failed.message).toContain('must be a time')
      })

      test('a model name that contains "missing" is refused with 404', async () => {
        const failed = client.failure(
          await client
            .open({ ...at(), model: 'missing-1' }, { stream })
            .send('hi')
            .catch((error: unknown) => error),
        )
        expect(failed.status).toBe(404)
      })

      test('[[error-after]] fails in mid-stream with that message', async () => {
        expect((await fails('[[length: 30]] [[pace: 20ms]] [[error-after: 3 529 too busy]]')).message).toContain(
          'too busy',
        )
      })

      test('[[cut-after]] fails in mid-stream', async () => {
        await fails('[[length: 3000]] [[cut-after: 3]]')
      })

      test('the same request gets the same response', async () => {
        const twice = [await say('[[think]] [[call: f]]'), await say('[[think]] [[call: f]]')]
        expect(twice[0]).toEqual(twice[1]!)
      })
    })
