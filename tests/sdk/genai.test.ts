import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI } from '@google/genai'
import { GENAI_MODES } from './genai.ts'
import { startGateway, type Gateway } from '../server.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']

describe.each(Object.entries(GENAI_MODES))('%s', (_mode, options) => {
  const client = () => new GoogleGenAI({ apiKey: gateway.key, ...options(gateway.url) })

  test.each(MODELS)('%s answers a chat of three turns, streamed and not', async (model) => {
    const chat = client().chats.create({ model })
    expect((await chat.sendMessage({ message: '[[reply: one]]' })).text).toBe('one')
    let text = ''
    for await (const chunk of await chat.sendMessageStream({ message: '[[reply: two, three and four]]' }))
      text += chunk.text ?? ''
    expect(text).toBe('two, three and four')
    expect((await chat.sendMessage({ message: 'three' })).text).toBe('You said: "three".')
  })

  test.each(MODELS)('the tokens of a request to %s are counted', async (model) => {
    expect(
      (await client().models.countTokens({ model, contents: 'one two three' })).totalTokens,
    ).toBeGreaterThanOrEqual(3)
  })

  test.each(MODELS)("%s accepts tools and schemas with Google's own type names", async (model) => {
    const parameters = { type: 'OBJECT', properties: { city: { type: 'STRING' } }, required: ['city'] } as never
    const called = await client().models.generateContent({
      model,
      contents: 'hi',
      config: {
        tools: [{ functionDeclarations: [{ name: 'get_weather', parameters }] }],
        toolConfig: { functionCallingConfig: { mode: 'ANY' as never } },
      },
    })
    expect(called.functionCalls).toMatchObject([{ name: 'get_weather', args: { city: 'example city' } }])
    const structured = await client().models.generateContent({
      model,
      contents: 'hi',
      config: { responseMimeType: 'application/json', responseSchema: parameters },
    })
    expect(JSON.parse(structured.text!)).toEqual({ city: 'example city' })
  })
})

test('totalTokenCount is the sum of the token counts', async () => {
  const ai = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } })
  for (const model of MODELS) {
    const { usageMetadata: usage } = await ai.models.generateContent({
      model,
      contents: '[[think: hm]] [[reply: x]] [[usage: in=10 out=20 cached=5 reasoning=3]]',
      config: { thinkingConfig: { includeThoughts: true } },
    })
    // Anthropic includes thinking in the output tokens and reports no count of its own for it.
    expect(usage).toMatchObject(
      model === 'sandbox/messages'
        ? { promptTokenCount: 15, cachedContentTokenCount: 5, totalTokenCount: 38 }
        : {
            promptTokenCount: 15,
            candidatesTokenCount: 20,
            thoughtsTokenCount: 3,
            cachedContentTokenCount: 5,
            totalTokenCount: 38,
          },
    )
  }
})

test("an error has Google's status name and code", async () => {
  const ai = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } })
  for (const model of MODELS) {
    const ask = (contents: string) =>
      ai.models.generateContent({ model, contents }).then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(await ask('[[error: 429 slow down]]')).toMatchObject({
      status: 429,
      message: expect.stringContaining('RESOURCE_EXHAUSTED'),
    })
    expect(await ask('[[error: 400 odd]]')).toMatchObject({
      status: 400,
      message: expect.stringContaining('INVALID_ARGUMENT'),
    })
  }
})
