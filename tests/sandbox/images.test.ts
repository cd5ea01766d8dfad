import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI, type GenerateContentResponse } from '@google/genai'
import OpenAI from 'openai'
import { eventsOf } from '../../src/providers/sandbox/events.ts'
import { sandbox, serveSandbox } from '../../src/providers/sandbox/server.ts'
import { decodePng, type Decoded } from './png.ts'

type Json = Record<string, any>

let server: ReturnType<typeof serveSandbox>
beforeAll(() => {
  server = serveSandbox({ host: '127.0.0.1', port: 0 })
})
afterAll(() => server.stop())

const openai = (): OpenAI => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0 })
const decode = (base64: string | null | undefined): Decoded => decodePng(Buffer.from(base64 ?? '', 'base64'))
const sizeOf = (base64: string | null | undefined): string => `${decode(base64).width}x${decode(base64).height}`
const imagesOf = ({ candidates }: GenerateContentResponse): string[] =>
  candidates?.[0]?.content?.parts?.flatMap(({ inlineData }) => inlineData?.data ?? []) ?? []
const post = (path: string, body: object): Promise<Response> =>
  sandbox(new Request(`http://sandbox${path}`, { method: 'POST', body: JSON.stringify(body) }))
const generate = (body: object): Promise<Response> => post('/v1/images/generations', { model: 'image', ...body })
const errorOf = async (response: Response): Promise<unknown[]> => [
  response.status,
  ((await response.json()) as Json).error.param,
]

describe('images/generations', () => {
  test('the official client gets images of the requested number and size', async () => {
    const answer = await openai().images.generate({
      model: 'image',
      prompt: 'a red fox',
      n: 2,
      size: '256x256',
      response_format: 'b64_json',
    })
    expect(answer.data?.map(({ b64_json }) => sizeOf(b64_json))).toEqual(['256x256', '256x256'])
    expect(answer.data?.[0]?.b64_json).not.toBe(answer.data?.[1]?.b64_json)
    expect(answer.usage).toMatchObject({
      input_tokens: 3,
      output_tokens: 128,
      total_tokens: 131,
      input_tokens_details: { text_tokens: 3, image_tokens: 0 },
    })
    const again = await openai().images.generate({ model: 'image', prompt: 'a red fox', size: '256x256' })
    expect(again.data?.[0]?.b64_json).toBe(answer.data![0]!.b64_json!)
  })

  test('the official client gets one completed event in a stream', async () => {
    const events: Json[] = []
    for await (const event of await openai().images.generate({
      model: 'image',
      prompt: 'a red fox',
      size: '256x256',
      stream: true,
    }))
      events.push(event)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.completed'])
    expect(sizeOf(events[0]!.b64_json)).toBe('256x256')
  })

  test('an image is 1024x1024 unless the request has another size', async () => {
    for (const size of [undefined, 'auto', '16x9']) {
      const {
        data: [image],
      } = (await (await generate({ prompt: 'x', size })).json()) as { data: [Json] }
      expect(sizeOf(image.b64_json)).toBe(size === '16x9' ? '16x9' : '1024x1024')
    }
  })

  test('a transparent background gives transparent pixels', async () => {
    const [clear, opaque] = await Promise.all(
      ['transparent', 'opaque'].map(
        async (background) =>
          decode(((await (await generate({ prompt: 'x', size: '64x64', background })).json()) as Json).data[0].b64_json)
            .rgba[3],
      ),
    )
    expect([clear, opaque]).toEqual([0, 255])
  })

  test('unsupported options are refused with a 400 that names the parameter', async () => {
    for (const [body, param] of [
      [{ size: '4097x1' }, 'size'],
      [{ size: '0x5' }, 'size'],
      [{ size: '1x' }, 'size'],
      [{ size: 7 }, 'size'],
      [{ size: '4096x4096', n: 2 }, 'size'],
      [{ n: 0 }, 'n'],
      [{ n: 11 }, 'n'],
      [{ output_format: 'webp' }, 'output_format'],
      [{ response_format: 'url' }, 'response_format'],
      [{ prompt: '' }, 'prompt'],
      [{ prompt: undefined }, 'prompt'],
    ] as const)
      expect([body, await errorOf(await generate({ prompt: 'x', ...body }))]).toEqual([body, [400, param]])
    expect((await generate({ prompt: 'x', model: 'missing' })).status).toBe(404)
  })

  test('directives in the prompt apply and are not part of the prompt', async () => {
    const plain = (await (await generate({ prompt: 'a fox', size: '200x200' })).json()) as Json
    expect(await (await generate({ prompt: '[[usage: in=7 image=9]] a fox', size: '200x200' })).json()).toMatchObject({
      data: plain.data,
      usage: { input_tokens: 7, output_tokens: 9 },
    })
    expect(await (await generate({ prompt: '[[no-usage]] a fox', size: '20x20' })).json()).not.toHaveProperty('usage')
    const slow = await generate({ prompt: '[[error: 429 retry-after=2 slow down]]' })
    expect([slow.status, slow.headers.get('retry-after')]).toEqual([429, '2'])
    expect(await errorOf(await generate({ prompt: '[[refuse: I must not.]]' }))).toEqual([400, 'prompt'])
    expect(await (await generate({ prompt: '[[raw: {"data":[]}]]' })).text()).toBe('{"data":[]}')
    await expect((await generate({ prompt: '[[cut-after: 0]]', size: '20x20' })).text()).rejects.toThrow(
      'break the connection',
    )
    const half = await (await generate({ prompt: '[[end-after: 0]]', size: '20x20' })).text()
    expect(() => JSON.parse(half)).toThrow()
    expect(
      await (await generate({ prompt: '[[error-after: 0 500 broke]]', size: '20x20', stream: true })).text(),
    ).toMatch(/^event: error\ndata: .*broke/)
  })
})

describe('images in conversations', () => {
  const GEMINI = '/v1beta/models/gemini:generateContent'
  const contents = [{ role: 'user', parts: [{ text: 'a red fox' }] }]

  test('generateContent returns an image if the response modalities include IMAGE, streamed or not', async () => {
    const google = new GoogleGenAI({ apiKey: 'any', httpOptions: { baseUrl: server.url } })
    const params = { model: 'gemini', contents: 'a red fox', config: { responseModalities: ['TEXT', 'IMAGE'] } }
    const whole = await google.models.generateContent(params)
    expect(whole.candidates?.[0]?.content?.parts?.[0]?.text).toContain('a red fox')
    expect(imagesOf(whole).map(sizeOf)).toEqual(['1024x1024'])
    expect(whole.usageMetadata).toMatchObject({
      candidatesTokenCount: 24 + 1024,
      candidatesTokensDetails: [
        { modality: 'TEXT', tokenCount: 24 },
        { modality: 'IMAGE', tokenCount: 1024 },
      ],
    })
    const streamed: string[] = []
    for await (const chunk of await google.models.generateContentStream(params)) streamed.push(...imagesOf(chunk))
    expect(streamed).toEqual(imagesOf(whole))
  })

  test('chat completions returns an image if the modalities include image', async () => {
    const body = { model: 'chat', modalities: ['text', 'image'], messages: [{ role: 'user', content: 'a red fox' }] }
    const answer = (await (await post('/v1/chat/completions', body)).json()) as Json
    expect(sizeOf(answer.choices[0].message.images[0].image_url.url.replace('data:image/png;base64,', ''))).toBe(
      '1024x1024',
    )
    expect(answer.usage).toMatchObject({
      completion_tokens: 24 + 1024,
      completion_tokens_details: { image_tokens: 1024 },
    })
    expect(await (await post('/v1/chat/completions', { ...body, stream: true })).text()).toContain(
      answer.choices[0].message.images[0].image_url.url,
    )
  })

  test('an aspect ratio gives about as many pixels as a square', async () => {
    for (const [imageConfig, size] of [
      [{ aspectRatio: '16:9' }, '1344x768'],
      [{ aspectRatio: '2:3' }, '832x1248'],
      [{ aspectRatio: '1:1', imageSize: '2K' }, '2048x2048'],
      [{ aspectRatio: '21:9', imageSize: '4K' }, '6240x2656'],
      [{ aspectRatio: '99:1' }, '10176x96'],
      [{ aspectRatio: '0:0' }, '1024x1024'],
      [{}, '1024x1024'],
    ] as const) {
      const answer = (await (
        await post(GEMINI, { contents, generationConfig: { responseModalities: ['TEXT', 'IMAGE'], imageConfig } })
      ).json()) as Json
      const header = Buffer.from(answer.candidates[0].content.parts[1].inlineData.data.slice(0, 32), 'base64')
      expect([imageConfig, `${header.readUInt32BE(16)}x${header.readUInt32BE(20)}`]).toEqual([imageConfig, size])
    }
    const chat = (await (
      await post('/v1/chat/completions', {
        model: 'chat',
        modalities: ['text', 'image'],
        image_config: { aspect_ratio: '3:2' },
        messages: [{ role: 'user', content: 'x' }],
      })
    ).json()) as Json
    expect(sizeOf(chat.choices[0].message.images[0].image_url.url.replace('data:image/png;base64,', ''))).toBe(
      '1248x832',
    )
  })

  test('responses returns the images of [[image]] directives', async () => {
    const answer = (await (
      await post('/v1/responses', {
        model: 'responses',
        input: '[[reply: Here.]] [[image: 64x32 a fox]] [[image]] a cat',
      })
    ).json()) as Json
    expect(answer.output.map(({ type }: Json) => type)).toEqual([
      'message',
      'image_generation_call',
      'image_generation_call',
    ])
    expect(answer.output.slice(1).map(({ result }: Json) => sizeOf(result))).toEqual(['64x32', '1024x1024'])
    const streamed = await (
      await post('/v1/responses', { model: 'responses', input: '[[image: 64x32 a fox]]', stream: true })
    ).text()
    expect(streamed).toContain('response.image_generation_call.completed')
    expect(streamed).toContain(answer.output[1].result)
  })

  test('image tokens are reported at the end, with the other output tokens', () => {
    const usage = { inputTokens: 3, outputTokens: 1, reasoningTokens: 2, outputImageTokens: 4 }
    const reported = [...eventsOf({ parts: [], finish: { reason: 'stop' } }, 'id', 'model', usage)].filter(
      (event) => event.type === 'usage',
    )
    expect(reported).toEqual([
      { type: 'usage', usage: { inputTokens: 3 } },
      { type: 'usage', usage },
    ])
  })

  test('messages cannot represent an image and gets none', async () => {
    const answer = (await (
      await post('/v1/messages', {
        model: 'messages',
        max_tokens: 2000,
        messages: [{ role: 'user', content: '[[image]] [[reply: Here.]]' }],
      })
    ).json()) as Json
    expect([answer.content, answer.usage.output_tokens]).toEqual([[{ type: 'text', text: 'Here.' }], 2])
  })

  test('an image beyond the token limit is left out', async () => {
    const answer = (await (
      await post(GEMINI, {
        contents,
        generationConfig: { responseModalities: ['TEXT', 'IMAGE'], maxOutputTokens: 100 },
      })
    ).json()) as Json
    expect([answer.candidates[0].finishReason, answer.candidates[0].content.parts.length]).toEqual(['MAX_TOKENS', 1])
  })

  test('unsupported images of [[image]] are refused with a 400', async () => {
    for (const prompt of [
      '[[image: 5000x1]]',
      '[[image: 0x1]]',
      '[[image]]'.repeat(11),
      '[[image: 4096x4096]] [[image: 1x1]]',
    ]) {
      expect([
        prompt,
        (await post(GEMINI, { contents: [{ role: 'user', parts: [{ text: prompt }] }] })).status,
      ]).toEqual([prompt, 400])
    }
  })
})
