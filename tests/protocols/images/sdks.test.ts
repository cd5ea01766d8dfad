import { describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { generateImage } from 'ai'
import OpenAI, { APIError } from 'openai'
import { fetched, gateway, type Json, provider, useImageGateway } from './image-gateway.ts'
import { PNG } from './image-provider.ts'

/** The images API with the official SDKs. */

useImageGateway()

describe('the official openai SDK', () => {
  const client = (): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })

  test('receives images in base64', async () => {
    const { data, usage, created } = await client().images.generate({
      model: 'images/p',
      prompt: 'A lighthouse',
      n: 3,
      response_format: 'b64_json',
    })
    expect([data!.map(({ b64_json }) => b64_json), usage?.output_tokens, created]).toEqual([[PNG, PNG, PNG], 400, 5])
    expect(provider.received.map(({ body }) => body)).toEqual([
      { model: 'p', prompt: 'A lighthouse', n: 3, response_format: 'b64_json' },
    ])
  })

  test('receives URLs that need no key', async () => {
    const { data } = await client().images.generate({
      model: 'images/p',
      prompt: 'A lighthouse',
      n: 2,
      response_format: 'url',
    })
    expect(
      data!.map(({ url, b64_json, revised_prompt }) => [
        url!.startsWith(`${gateway.url}/v1/outputs/`),
        b64_json,
        revised_prompt,
      ]),
    ).toEqual([
      [true, undefined, 'A grey wall'],
      [true, undefined, 'A grey wall'],
    ])
    expect(new Set(data!.map(({ url }) => url)).size).toBe(2)
    expect(await fetched(data![0]!.url!)).toEqual({ status: 200, type: 'image/png', base64: PNG })
    const { status } = await fetched(`${data![0]!.url!.slice(0, -1)}${data![0]!.url!.endsWith('A') ? 'B' : 'A'}`)
    expect(status).toBe(404)
  })

  test('receives a stream', async () => {
    const events: Json[] = []
    for await (const event of await client().images.generate({
      model: 'images/p',
      prompt: 'A lighthouse',
      stream: true,
      partial_images: 1,
    }))
      events.push(event)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.partial_image', 'image_generation.completed'])
    expect(events.map(({ id }) => /^img_[0-9a-f]{32}$/.test(id))).toEqual([true, true])
    expect([events[1]!.b64_json, events[1]!.usage.output_tokens]).toEqual([PNG, 400])
  })

  test('throws the error of a stream without an image', async () => {
    const failed = await (async (): Promise<unknown> => {
      for await (const event of await client().images.generate({
        model: 'gem/text-only',
        prompt: 'A lighthouse',
        stream: true,
      }))
        return event
      return undefined
    })().catch((error: unknown) => error)
    expect([failed instanceof APIError, (failed as APIError).message]).toEqual([
      true,
      'The model made no image of this prompt. It answered: I would rather not draw this.',
    ])
  })

  test('receives an image of the sandbox', async () => {
    const { data, size } = (await client().images.generate({
      model: 'sandbox/image',
      prompt: 'A lighthouse',
      size: '64x48' as never,
    })) as Json
    expect([Buffer.from(data[0].b64_json, 'base64').readUInt32BE(16), size]).toEqual([64, '64x48'])
  })

  test.each<[string, Json, number, string | null, string | null]>([
    ['a missing prompt', { model: 'gem/p', prompt: undefined }, 400, 'invalid_request', 'prompt'],
    ['too many images', { model: 'gem/p', n: 11 }, 400, 'invalid_request', 'n'],
    ['no images', { model: 'images/p', n: 0 }, 400, 'invalid_request', 'n'],
    ['an invalid size', { model: 'gem/p', size: 'big' }, 400, 'invalid_request', 'size'],
    [
      'an unknown response_format',
      { model: 'images/p', response_format: 'jpeg' },
      400,
      'invalid_request',
      'response_format',
    ],
    ['an unknown model', { model: 'unknown/model' }, 404, 'model_not_found', 'model'],
    ['a model without image output', { model: 'writer' }, 400, 'invalid_request', 'model'],
    ['a refusal of the provider', { model: 'images/refuses-400' }, 400, 'moderation_blocked', null],
    ['a provider that responds without images', { model: 'images/no-images' }, 200, null, null],
  ])('receives the error of %s', async (_, more, status, code, param) => {
    const failed = await client()
      .images.generate({ prompt: 'A lighthouse', ...more } as never)
      .then(
        () => undefined,
        (error: unknown) => error as APIError,
      )
    expect([failed?.status ?? 200, failed?.code ?? null, failed?.param ?? null]).toEqual([status, code, param])
  })
})

describe('the AI SDK', () => {
  const model = (name: string) => createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key }).image(name)

  test.each(['images/p', 'base64-only', 'gem/p', 'router/p', 'sandbox/image'])(
    'generates images with %s',
    async (name) => {
      const { images } = await generateImage({ model: model(name), prompt: 'A lighthouse', n: 2, maxRetries: 0 })
      expect(images.map(({ mediaType, base64 }) => [mediaType, base64.startsWith('iVBORw0KGgo')])).toEqual([
        ['image/png', true],
        ['image/png', true],
      ])
    },
  )

  test('receives the refusal of the provider', async () => {
    const failed = await generateImage({
      model: model('images/refuses-400'),
      prompt: 'A lighthouse',
      maxRetries: 0,
    }).then(
      () => undefined,
      (error: Error) => error,
    )
    expect(failed?.message).toBe('Not this one')
  })
})
