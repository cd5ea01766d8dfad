import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { generateImage } from 'ai'
import OpenAI, { APIError } from 'openai'
import { startGateway, type Gateway } from '../../server.ts'
import { PNG, startPainter, USAGE, type Painter } from './painter.ts'

/** `POST /v1/images/generations` against a running server: SDKs in front, a provider of images behind. */

type Json = Record<string, any>

const LIMITED = 'sk-ai-v1-limited-0123456789abcdef0123456789abcdef'

let gateway: Gateway
let painter: Painter
beforeAll(async () => {
  painter = startPainter()
  const painted = (name: string, price: object, ...endpoints: [string, string][]): string =>
    `  ${name}: { endpoints: [${endpoints.map(([provider, model]) => `{ provider: ${provider}, model: ${model} }`).join(', ')}], price: ${JSON.stringify(price)} }`
  const TOKENS = { prompt: 5, completion: 10, output_image: 40 }
  gateway = await startGateway({
    config: `
limits: { requestsPerMinute: 100000 }
billing: { unpriced: free, delay: 0s }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
keys: [{ key: ${LIMITED}, limit: 0.05 }]
providers:
  painter: { protocol: images, baseUrl: '${painter.url}/v1', apiKey: none, unlisted: true }
  gem: { protocol: generateContent, baseUrl: '${painter.url}/v1beta', apiKey: none, unlisted: true }
  router: { protocol: chat.completions, baseUrl: '${painter.url}/v1', apiKey: none, unlisted: true }
  down: { protocol: images, baseUrl: 'http://127.0.0.1:9', apiKey: none, unlisted: true }
models:
  base64-only: { endpoints: [{ provider: painter, model: p }], capabilities: { base64Only: true } }
  writer: { endpoints: [{ provider: painter, model: p }], capabilities: { output: [text] } }
${painted('by-token', TOKENS, ['painter', 'p'])}
${painted('by-image', { image: 0.04 }, ['painter', 'unmetered'])}
${painted('by-image-text', { image: 0.04 }, ['painter', 'text'])}
${painted('by-image-flood', { image: 0.04 }, ['painter', 'flood'])}
${painted('by-image-gem', { image: 0.04 }, ['gem', 'p'])}
${painted('gem-by-token', { prompt: 0.3, completion: 2.5, output_image: 30 }, ['gem', 'p'])}
${painted('slow', { image: 0.04 }, ['painter', 'slow'])}
${painted('slow-gem', { image: 0.04 }, ['gem', 'slow'])}
${painted('talks', { prompt: 1, completion: 2 }, ['gem', 'talks'])}
${painted('across', { image: 0.04 }, ['painter', 'refuses-503'], ['gem', 'p'])}
${painted('twice', { image: 0.04 }, ['down', 'p'], ['painter', 'refuses-503'], ['painter', 'p'])}
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await painter?.stop()
})
beforeEach(() => {
  painter.heard.length = 0
})

const post = (path: string, body: Json, key = gateway.key): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const draw = (body: Json, key?: string): Promise<Response> =>
  post('/v1/images/generations', { prompt: 'A lighthouse', ...body }, key)
const losses = (response: Response): string[] =>
  (JSON.parse(response.headers.get('x-sluice-translation') ?? '[]') as { field: string; what: string }[]).map(
    ({ field, what }) => `${field} ${what}`,
  )

async function record(response: Response | string): Promise<Json> {
  const id = typeof response === 'string' ? response : response.headers.get('x-generation-id')!
  const found = await fetch(`${gateway.url}/v1/management/generation?id=${id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  expect(found.status).toBe(200)
  return (await found.json()) as Json
}
const detailsOf = ({ ratingResponses }: Json): [string, number, number][] =>
  ratingResponses.ratingDetails.map(({ feeItemCode, quantity, billAmount }: Json) => [
    feeItemCode,
    quantity,
    billAmount,
  ])

async function balance(): Promise<number> {
  const found = await fetch(`${gateway.url}/v1/management/payg/balance`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return ((await found.json()) as Json).data.total_credits
}

/** What an address gives to somebody without a key. */
async function fetched(url: string): Promise<{ status: number; type: string | null; base64: string }> {
  const response = await fetch(url)
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    base64: Buffer.from(await response.arrayBuffer()).toString('base64'),
  }
}

describe('the official openai SDK', () => {
  const client = (): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })

  test('gets images in base64', async () => {
    const { data, usage, created } = await client().images.generate({
      model: 'painter/p',
      prompt: 'A lighthouse',
      n: 3,
      response_format: 'b64_json',
    })
    expect([data!.map(({ b64_json }) => b64_json), usage?.output_tokens, created]).toEqual([[PNG, PNG, PNG], 400, 5])
    expect(painter.heard.map(({ body }) => body)).toEqual([
      { model: 'p', prompt: 'A lighthouse', n: 3, response_format: 'b64_json' },
    ])
  })

  test('gets addresses that need no key', async () => {
    const { data } = await client().images.generate({
      model: 'painter/p',
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

  test('streams', async () => {
    const events: Json[] = []
    for await (const event of await client().images.generate({
      model: 'painter/p',
      prompt: 'A lighthouse',
      stream: true,
      partial_images: 1,
    }))
      events.push(event)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.partial_image', 'image_generation.completed'])
    expect([events[1]!.b64_json, events[1]!.usage.output_tokens]).toEqual([PNG, 400])
  })

  test('throws what a stream ends with instead of an image', async () => {
    const failed = await (async (): Promise<unknown> => {
      for await (const event of await client().images.generate({
        model: 'gem/talks',
        prompt: 'A lighthouse',
        stream: true,
      }))
        return event
      return undefined
    })().catch((error: unknown) => error)
    expect([failed instanceof APIError, (failed as APIError).message]).toEqual([
      true,
      'The model made no image of this prompt. It said: I would rather not draw this.',
    ])
  })

  test('gets a picture of the sandbox', async () => {
    const { data, size } = (await client().images.generate({
      model: 'sandbox/image',
      prompt: 'A lighthouse',
      size: '64x48' as never,
    })) as Json
    expect([Buffer.from(data[0].b64_json, 'base64').readUInt32BE(16), size]).toEqual([64, '64x48'])
  })

  test.each<[string, Json, number, string | null, string | null]>([
    ['a missing prompt', { model: 'painter/p', prompt: undefined }, 400, 'invalid_request', 'prompt'],
    ['too many', { model: 'painter/p', n: 11 }, 400, 'invalid_request', 'n'],
    ['none', { model: 'painter/p', n: 0 }, 400, 'invalid_request', 'n'],
    ['no size', { model: 'painter/p', size: 'big' }, 400, 'invalid_request', 'size'],
    ['another form', { model: 'painter/p', response_format: 'jpeg' }, 400, 'invalid_request', 'response_format'],
    ['no model', { model: 'nobody/knows' }, 404, 'model_not_found', 'model'],
    ['a model that makes texts', { model: 'writer' }, 400, 'invalid_request', 'model'],
    ['a refusal', { model: 'painter/refuses-400' }, 400, 'moderation_blocked', null],
    ['a provider without images', { model: 'painter/nothing' }, 200, null, null],
  ])('hears of %s', async (_, more, status, code, param) => {
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

  test.each(['painter/p', 'base64-only', 'gem/p', 'router/p', 'sandbox/image'])(
    'makes images with %s',
    async (name) => {
      const { images } = await generateImage({ model: model(name), prompt: 'A lighthouse', n: 2, maxRetries: 0 })
      expect(images.map(({ mediaType, base64 }) => [mediaType, base64.startsWith('iVBORw0KGgo')])).toEqual([
        ['image/png', true],
        ['image/png', true],
      ])
    },
  )

  test('hears the provider’s refusal', async () => {
    const failed = await generateImage({
      model: model('painter/refuses-400'),
      prompt: 'A lighthouse',
      maxRetries: 0,
    }).then(
      () => undefined,
      (error: Error) => error,
    )
    expect(failed?.message).toBe('Not this one')
  })
})

describe('a provider of images', () => {
  test('gets the client’s own body, and its answer comes back whole', async () => {
    const response = await draw({ model: 'painter/p', quality: 'high', seed: 1, brand_new: { deep: [1] } })
    expect(painter.heard[0]).toEqual({
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
      model: 'painter/p',
      data: [{ b64_json: PNG, revised_prompt: 'A grey wall' }],
      size: '3x2',
      quality: 'high',
      usage: USAGE,
    })
    expect([id, losses(response)]).toEqual([expect.stringMatching(/^img_[0-9a-f]{32}$/), []])
  })

  test('is not asked for a form where its model refuses that', async () => {
    expect([
      (await draw({ model: 'base64-only', response_format: 'b64_json' })).status,
      painter.heard[0]!.body,
    ]).toEqual([200, { model: 'p', prompt: 'A lighthouse' }])
  })

  test.each(['b64_json', 'url'])(
    'that answers with addresses of its own is fetched from, for %s',
    async (response_format) => {
      const { data } = (await (await draw({ model: 'painter/addresses', n: 2, response_format })).json()) as Json
      const base64 =
        response_format === 'url'
          ? await Promise.all(data.map(async ({ url }: Json) => (await fetched(url)).base64))
          : data.map(({ b64_json }: Json) => b64_json)
      expect([base64, JSON.stringify(data).includes(painter.url), data[0].revised_prompt]).toEqual([
        [PNG, PNG],
        false,
        'A grey wall',
      ])
    },
  )

  test.each(['b64_json', 'url'])('that answers in both ways is not named, for %s', async (response_format) => {
    const response = await draw({ model: 'painter/both-ways', n: 3, response_format })
    const { data } = (await response.json()) as Json
    if (response_format === 'b64_json') expect(data).toEqual([{ b64_json: PNG }, { b64_json: PNG }, { b64_json: PNG }])
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
  })

  test('has its images published as what they are', async () => {
    const { data } = (await (await draw({ model: 'painter/drawing', response_format: 'url' })).json()) as Json
    expect((await fetched(data[0].url)).type).toBe('image/svg+xml')
  })

  test.each([
    'by-image-text',
    'by-image-flood',
    'painter/flood-of-addresses',
    'painter/nothing',
    'painter/page-inline',
    'router/page',
  ])('that sends no image gets none published, and is not paid: %s', async (model) => {
    const response = await draw({ model, response_format: 'url' })
    expect([response.status < 400, ((await response.json()) as Json).error?.message]).toEqual([
      false,
      expect.stringMatching(/no image|not an image|without an image|1000 images/),
    ])
    expect((await record(response)).usage).toBe(0)
  })

  test.each([
    ['elsewhere', /could not be fetched: it must be a public/],
    ['page', /there is no image/],
  ])('that names an address %s fails', async (script, message) => {
    const response = await draw({ model: `painter/${script}` })
    expect([response.status, ((await response.json()) as Json).error.message]).toEqual([
      502,
      expect.stringMatching(message),
    ])
  })

  test('is asked by any other client with the last words, and its image is part of the answer', async () => {
    const turns = [
      { role: 'user', content: 'A cat' },
      { role: 'assistant', content: 'Red?' },
      { role: 'user', content: 'A red one' },
    ]
    const chat = await post('/v1/chat/completions', { model: 'painter/p', messages: turns, temperature: 1 })
    expect(((await chat.json()) as Json).choices[0].message.images).toEqual([
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
    ])
    expect(losses(chat)).toEqual(['messages left out', 'temperature left out'])
    expect(
      losses(
        await post('/v1/chat/completions', { model: 'painter/p', messages: [{ role: 'user', content: 'A red cat' }] }),
      ),
    ).toEqual([])
    const responses = (await (await post('/v1/responses', { model: 'painter/p', input: 'A red cat' })).json()) as Json
    expect(responses.output.map(({ type, result, output_format }: Json) => [type, result, output_format])).toEqual([
      ['image_generation_call', PNG, 'png'],
    ])
    const google = (await (
      await post('/v1beta/models/painter/p:generateContent', {
        contents: [{ role: 'user', parts: [{ text: 'A red cat' }] }],
      })
    ).json()) as Json
    expect(google.candidates[0].content.parts).toEqual([{ inlineData: { mimeType: 'image/png', data: PNG } }])
    const messages = (await (
      await post('/v1/messages', {
        model: 'painter/p',
        max_tokens: 9,
        messages: [{ role: 'user', content: 'A red cat' }],
      })
    ).json()) as Json
    expect(messages.content).toEqual([
      { type: 'text', text: '[image: image/png, which an answer of the messages API cannot carry]' },
    ])
    expect(painter.heard.map(({ body }) => [body.model, body.prompt])).toEqual(
      [1, 2, 3, 4, 5].map((n) => ['p', n === 1 ? 'A red one' : 'A red cat']),
    )
  })

  test('streams to any other client', async () => {
    const text = await (
      await post('/v1/chat/completions', {
        model: 'painter/p',
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

describe('a provider that draws within a conversation', () => {
  test('over generateContent is told modalities and a ratio, once for each image', async () => {
    const response = await draw({ model: 'gem/p', n: 3, size: '1920x1080', quality: 'high', user: 'u', style: 'vivid' })
    const { data, usage, text, size, output_format } = (await response.json()) as Json
    expect(painter.heard).toEqual(
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
    expect(losses(response)).toEqual(['quality left out', 'size approximated', 'user left out', 'style left out'])
  })

  test('over chat completions is told modalities and a ratio', async () => {
    const response = await draw({ model: 'router/p', size: '2048x2048', response_format: 'url' })
    const { data } = (await response.json()) as Json
    expect(painter.heard[0]).toEqual({
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

  test('streams one image to a client of the images API, and no more', async () => {
    const text = await (await draw({ model: 'gem/p', stream: true })).text()
    expect(text).toMatch(
      /^event: image_generation\.completed\ndata: \{"type":"image_generation\.completed","id":"img_[0-9a-f]{32}"/,
    )
    const refused = await draw({ model: 'gem/p', stream: true, n: 2 })
    expect([refused.status, ((await refused.json()) as Json).error.param]).toEqual([400, 'n'])
  })

  test('that fails at some of them gives the others, and says so', async () => {
    const response = await draw({ model: 'gem/every-other', n: 4 })
    expect([response.status, ((await response.json()) as Json).data.length, losses(response)]).toEqual([
      200,
      2,
      ['n approximated'],
    ])
    expect(response.headers.get('x-sluice-translation')).toContain(
      '2 of 4 images: another call failed (upstream_error)',
    )
  })

  test.each([
    ['talks', 2, 1],
    ['blocked', 10, 1],
    ['pair', 2, 1],
    ['pair', 4, 3],
  ])('that answers with %s is asked for %d no oftener than can help', async (script, n, calls) => {
    await draw({ model: `gem/${script}`, n })
    expect(painter.heard.length).toBe(calls)
  })

  test.each([
    ['talks', 400, /It said: I would rather not draw this\./],
    ['blocked', 400, /refused to make an image of this prompt \(IMAGE_SAFETY\)/],
  ])('and %s is an error', async (script, status, message) => {
    for (const response_format of ['b64_json', 'url']) {
      const response = await draw({ model: `gem/${script}`, n: 2, response_format })
      expect([response.status, ((await response.json()) as Json).error.message]).toEqual([
        status,
        expect.stringMatching(message),
      ])
    }
    const streamed = await (await draw({ model: `gem/${script}`, stream: true })).text()
    expect([
      streamed.startsWith('event: error\n'),
      message.test((JSON.parse(/^data: (.*)$/m.exec(streamed)![1]!) as Json).error.message),
    ]).toEqual([true, true])
  })
})

describe('the bill', () => {
  test('of a model by the token counts tokens of text and of images apart', async () => {
    const shown = await record(await draw({ model: 'by-token' }))
    expect(shown).toMatchObject({
      api: 'images',
      model: 'by-token',
      provider: 'painter',
      streamed: false,
      finishReason: 'stop',
      ending: 'completed',
      estimated: false,
    })
    expect(shown.generationId).toMatch(/^img_/)
    expect(detailsOf(shown)).toEqual([
      ['prompt', 11, 0.000055],
      ['output_image', 400, 0.016],
      ['image', 1, 0],
    ])
  })

  test('of a model by the image counts images, though nobody reports anything', async () => {
    const shown = await record(await draw({ model: 'by-image', n: 3 }))
    expect([detailsOf(shown).at(-1), shown.usage, shown.estimated, shown.nativeTokens.completion_tokens]).toEqual([
      ['image', 3, 0.12],
      0.12,
      true,
      0,
    ])
  })

  test('of more images than anybody asks for is not paid', async () => {
    const response = await draw({ model: 'by-image-flood', n: 2 })
    expect([response.status, (await record(response)).usage]).toEqual([200, 0])
  })

  test('of several calls is their sum', async () => {
    expect((await record(await draw({ model: 'by-image-gem', n: 3 }))).usage).toBe(0.12)
    expect(detailsOf(await record(await draw({ model: 'gem-by-token', n: 2 })))).toEqual([
      ['prompt', 14, 0.0000042],
      ['completion', 20, 0.00005],
      ['output_image', 2580, 0.0774],
      ['image', 2, 0],
    ])
  })

  test('of a stream is the same', async () => {
    const response = await draw({ model: 'by-token', stream: true })
    await response.text()
    expect(detailsOf(await record(response))).toEqual([
      ['prompt', 11, 0.000055],
      ['output_image', 400, 0.016],
      ['image', 1, 0],
    ])
  })

  test('of another client counts its images, too', async () => {
    const shown = await record(
      await post('/v1/chat/completions', { model: 'by-image', messages: [{ role: 'user', content: 'A cat' }] }),
    )
    expect([shown.api, shown.usage]).toEqual(['chat.completions', 0.04])
  })

  test('of the sandbox is a price by the image', async () => {
    const response = await draw({ model: 'sandbox/image', n: 2, size: '16x16' })
    expect(detailsOf(await record(response)).find(([item]) => item === 'image')).toEqual(['image', 2, 0.02])
  })

  test('of words without an image is for the words', async () => {
    const response = await draw({ model: 'talks' })
    const shown = await record(response)
    expect([response.status, shown.ending, shown.usage]).toEqual([400, 'failed', 0.000007 + 0.0026])
  })

  test('of a provider after two that failed names it and them', async () => {
    const response = await draw({ model: 'twice' })
    expect([response.status, response.headers.get('x-sluice-attempts')]).toEqual([200, '3'])
    expect(await record(response)).toMatchObject({ requestRetryTimes: 2, provider: 'painter', usage: 0.04 })
  })

  test.each([
    ['slow', {}],
    ['slow', { stream: true }],
    ['slow', { n: 2 }],
    ['slow-gem', {}],
    ['slow-gem', { stream: true }],
  ])('of a client that leaves is for what it asked for: %s %j', async (model, more) => {
    const before = await balance()
    const leaving = new AbortController()
    const asked = fetch(`${gateway.url}/v1/images/generations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model, prompt: 'A lighthouse', ...more }),
      signal: leaving.signal,
    })
    while (painter.heard.length === 0) await Bun.sleep(5)
    leaving.abort()
    await asked.catch(() => {})
    for (let looks = 0; looks < 100 && (await balance()) === before; looks++) await Bun.sleep(20)
    expect(before - (await balance())).toBeCloseTo(0.04 * ((more as Json).n ?? 1), 9)
  })

  test('is the same where another kind of provider takes over', async () => {
    const response = await draw({ model: 'across', n: 2, size: '1024x1024' })
    expect([
      response.status,
      ((await response.json()) as Json).data.length,
      painter.heard.map(({ path }) => path.split('/')[1]),
    ]).toEqual([200, 2, ['v1', 'v1beta', 'v1beta']])
    expect(await record(response)).toMatchObject({ requestRetryTimes: 1, provider: 'gem', usage: 0.08 })
  })

  test('of what no provider was asked for has no record', async () => {
    const response = await draw({ model: 'by-image', n: 11 })
    expect([response.status, response.headers.get('x-generation-id'), painter.heard.length]).toEqual([400, null, 0])
  })
})

describe('a limit', () => {
  test('of a key holds for as many images as are asked for', async () => {
    const refused = await draw({ model: 'by-image', n: 2 }, LIMITED)
    expect([refused.status, painter.heard.length]).toEqual([402, 0])
    expect((await draw({ model: 'by-image' }, LIMITED)).status).toBe(200)
    expect((await draw({ model: 'by-image' }, LIMITED)).status).toBe(402)
  })

  test('of a key counts images that another client asks for', async () => {
    const refused = await post(
      '/v1/chat/completions',
      { model: 'by-image', messages: [{ role: 'user', content: 'A cat' }] },
      LIMITED,
    )
    expect([refused.status, painter.heard.length]).toEqual([402, 0])
  })
})
