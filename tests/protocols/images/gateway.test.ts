import { describe, expect, test } from 'bun:test'
import {
  fetched,
  gateway,
  generate,
  type Json,
  losses,
  post,
  provider,
  record,
  useImageGateway,
} from './image-gateway.ts'
import { PNG, USAGE } from './image-provider.ts'

/** `POST /v1/images/generations` of a running gateway in front of providers with different APIs. */

useImageGateway()

describe('a provider of images', () => {
  test('receives the client’s own body, and its response is passed through', async () => {
    const response = await generate({ model: 'images/p', quality: 'high', seed: 1, brand_new: { deep: [1] } })
    expect(provider.received[0]).toEqual({
      path: '/v1/images/generations',
      body: {
        model: 'p',
        prompt: 'A lighthouse',
        quality: 'high',
        seed: 1,
        brand_new: { deep: [1] },
        response_format: 'b64_json',
      },
    })
    const id = response.headers.get('x-generation-id')!
    expect(await response.json()).toEqual({
      created: 5,
      id,
      model: 'images/p',
      data: [{ b64_json: PNG, revised_prompt: 'A grey wall' }],
      size: '3x2',
      quality: 'high',
      usage: USAGE,
    })
    expect([id, losses(response)]).toEqual([expect.stringMatching(/^img_[0-9a-f]{32}$/), []])
  })

  test.each([[['A lighthouse', 'A boat']], [5], ['']])(
    'receives a prompt of its own kind unchanged: %p',
    async (prompt) => {
      const response = await generate({ model: 'images/p', prompt })
      expect([response.status, provider.received[0]!.body.prompt]).toEqual([200, prompt])
    },
  )

  test('receives no response_format for a model that refuses it', async () => {
    expect([
      (await generate({ model: 'base64-only', response_format: 'b64_json' })).status,
      provider.received[0]!.body,
    ]).toEqual([200, { model: 'p', prompt: 'A lighthouse' }])
  })

  test.each(['b64_json', 'url'])('with URLs in its response has them fetched, for %s', async (response_format) => {
    const { data } = (await (await generate({ model: 'images/urls', n: 2, response_format })).json()) as Json
    const base64 =
      response_format === 'url'
        ? await Promise.all(data.map(async ({ url }: Json) => (await fetched(url)).base64))
        : data.map(({ b64_json }: Json) => b64_json)
    expect([base64, JSON.stringify(data).includes(provider.url), data[0].revised_prompt]).toEqual([
      [PNG, PNG],
      false,
      'A grey wall',
    ])
  })

  test.each(['b64_json', 'url'])(
    'with base64 and URLs in its response is not visible to the client, for %s',
    async (response_format) => {
      const response = await generate({ model: 'images/base64-and-urls', n: 3, response_format })
      const { data } = (await response.json()) as Json
      if (response_format === 'b64_json')
        expect(data).toEqual([{ b64_json: PNG }, { b64_json: PNG }, { b64_json: PNG }])
      else
        expect(
          await Promise.all(
            data.map(async ({ url, b64_json }: Json) => [
              b64_json,
              url.startsWith(`${gateway.url}/v1/outputs/`),
              (await fetched(url)).base64,
            ]),
          ),
        ).toEqual([
          [undefined, true, PNG],
          [undefined, true, PNG],
          [undefined, true, PNG],
        ])
    },
  )

  test('has its images published with the media type of their bytes', async () => {
    const { data } = (await (await generate({ model: 'images/svg', response_format: 'url' })).json()) as Json
    expect((await fetched(data[0].url)).type).toBe('image/svg+xml')
  })

  test.each([
    'by-image-text',
    'by-image-flood',
    'images/flood-of-urls',
    'images/no-images',
    'images/web-page-inline',
    'router/web-page',
  ])('without an image in its response has none published or billed: %s', async (model) => {
    const response = await generate({ model, response_format: 'url' })
    expect([response.status < 400, ((await response.json()) as Json).error?.message]).toEqual([
      false,
      expect.stringMatching(/no image|not an image|without an image|1000 images/),
    ])
    expect((await record(response)).usage).toBe(0)
  })

  test.each([
    ['private-url', /could not be fetched: it must be a public/],
    ['web-page', /a URL without an image/],
  ])('with an unusable URL is upstream_error: %s', async (script, message) => {
    const response = await generate({ model: `images/${script}` })
    expect([response.status, ((await response.json()) as Json).error.message]).toEqual([
      502,
      expect.stringMatching(message),
    ])
  })

  test('receives the last user turn of a conversation, and its image is part of the response', async () => {
    const turns = [
      { role: 'user', content: 'A cat' },
      { role: 'assistant', content: 'Red?' },
      { role: 'user', content: 'A red one' },
    ]
    const chat = await post('/v1/chat/completions', { model: 'images/p', messages: turns, temperature: 1 })
    expect(((await chat.json()) as Json).choices[0].message.images).toEqual([
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
    ])
    expect(losses(chat)).toEqual([
      'content_dropped messages[0].content',
      'content_dropped messages[1].content',
      'unsupported_field temperature',
    ])
    expect(
      losses(
        await post('/v1/chat/completions', { model: 'images/p', messages: [{ role: 'user', content: 'A red cat' }] }),
      ),
    ).toEqual([])
    const responses = (await (await post('/v1/responses', { model: 'images/p', input: 'A red cat' })).json()) as Json
    expect(responses.output.map(({ type, result, output_format }: Json) => [type, result, output_format])).toEqual([
      ['image_generation_call', PNG, 'png'],
    ])
    const google = (await (
      await post('/v1beta/models/images/p:generateContent', {
        contents: [{ role: 'user', parts: [{ text: 'A red cat' }] }],
      })
    ).json()) as Json
    expect(google.candidates[0].content.parts).toEqual([{ inlineData: { mimeType: 'image/png', data: PNG } }])
    const messages = (await (
      await post('/v1/messages', {
        model: 'images/p',
        max_tokens: 9,
        messages: [{ role: 'user', content: 'A red cat' }],
      })
    ).json()) as Json
    expect(messages.content).toEqual([
      { type: 'text', text: '[image: image/png, which an answer of the messages API cannot carry]' },
    ])
    expect(provider.received.map(({ body }) => [body.model, body.prompt])).toEqual(
      [1, 2, 3, 4, 5].map((n) => ['p', n === 1 ? 'A red one' : 'A red cat']),
    )
  })

  test('can be streamed to a client of a conversation', async () => {
    const text = await (
      await post('/v1/chat/completions', {
        model: 'images/p',
        stream: true,
        messages: [{ role: 'user', content: 'A cat' }],
      })
    ).text()
    expect([text.includes(`"url":"data:image/png;base64,${PNG}"`), text.endsWith('data: [DONE]\n\n')]).toEqual([
      true,
      true,
    ])
  })
})

describe('a conversation model with image output', () => {
  test('over generateContent receives modalities and a ratio, in one call per image', async () => {
    const response = await generate({
      model: 'gem/p',
      n: 3,
      size: '1920x1080',
      quality: 'high',
      user: 'u',
      style: 'vivid',
    })
    const { data, usage, text, size, output_format } = (await response.json()) as Json
    expect(provider.received).toEqual(
      Array.from({ length: 3 }, () => ({
        path: '/v1beta/models/p:generateContent',
        body: {
          contents: [{ role: 'user', parts: [{ text: 'A lighthouse' }] }],
          generationConfig: { responseModalities: ['TEXT', 'IMAGE'], imageConfig: { aspectRatio: '16:9' } },
        },
      })),
    )
    expect([new Set(data.map(({ b64_json }: Json) => b64_json)).size, size, output_format, text]).toEqual([
      3,
      '3x2',
      'png',
      'Here it is.\nHere it is.\nHere it is.',
    ])
    expect([usage.input_tokens, usage.output_tokens, usage.output_tokens_details]).toEqual([
      21,
      3900,
      { text_tokens: 30, image_tokens: 3870 },
    ])
    expect(losses(response)).toEqual([
      'unsupported_field quality',
      'value_adjusted size',
      'unsupported_field user',
      'native_field style',
    ])
  })

  test('over chat completions receives modalities and a ratio', async () => {
    const response = await generate({ model: 'router/p', size: '2048x2048', response_format: 'url' })
    const { data } = (await response.json()) as Json
    expect(provider.received[0]).toEqual({
      path: '/v1/chat/completions',
      body: {
        model: 'p',
        messages: [{ role: 'user', content: 'A lighthouse' }],
        modalities: ['text', 'image'],
        image_config: { aspect_ratio: '1:1', image_size: '2K' },
      },
    })
    expect([(await fetched(data[0].url)).base64, losses(response)]).toEqual([PNG, []])
  })

  test('streams one image to a client of the images API; more are refused', async () => {
    const text = await (await generate({ model: 'gem/p', stream: true })).text()
    expect(text).toMatch(
      /^event: image_generation\.completed\ndata: \{"type":"image_generation\.completed","id":"img_[0-9a-f]{32}"/,
    )
    const refused = await generate({ model: 'gem/p', stream: true, n: 2 })
    expect([refused.status, ((await refused.json()) as Json).error.param]).toEqual([400, 'n'])
  })

  test('that fails for some images returns the others and reports it', async () => {
    const response = await generate({ model: 'gem/every-other', n: 4 })
    expect([response.status, ((await response.json()) as Json).data.length, losses(response)]).toEqual([
      200,
      2,
      ['response_images_missing response.images'],
    ])
    expect(response.headers.get('x-sluice-translation')).toContain(
      '2 of 4 images: another call failed (upstream_error)',
    )
  })

  test.each([
    ['text-only', 2, 1],
    ['blocked', 10, 1],
    ['pair', 2, 1],
    ['pair', 4, 3],
  ])('that responds with %s to a request for %d images is called %d times', async (script, n, calls) => {
    await generate({ model: `gem/${script}`, n })
    expect(provider.received.length).toBe(calls)
  })

  test.each([
    ['text-only', 400, /It answered: I would rather not draw this\./],
    ['blocked', 400, /refused to make an image of this prompt \(IMAGE_SAFETY\)/],
  ])('without an image is an error: %s', async (script, status, message) => {
    for (const response_format of ['b64_json', 'url']) {
      const response = await generate({ model: `gem/${script}`, n: 2, response_format })
      expect([response.status, ((await response.json()) as Json).error.message]).toEqual([
        status,
        expect.stringMatching(message),
      ])
    }
    const streamed = await (await generate({ model: `gem/${script}`, stream: true })).text()
    expect([
      streamed.startsWith('event: error\n'),
      message.test((JSON.parse(/^data: (.*)$/m.exec(streamed)![1]!) as Json).error.message),
    ]).toEqual([true, true])
  })
})
