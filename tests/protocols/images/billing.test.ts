import { describe, expect, test } from 'bun:test'
import {
  balance,
  billOf,
  gateway,
  generate,
  type Json,
  LIMITED_KEY,
  post,
  provider,
  record,
  useImageGateway,
} from './image-gateway.ts'

/** Bills and limits of image requests. */

useImageGateway()

describe('the bill of an image request', () => {
  test('has text and image tokens for a model with token prices', async () => {
    const shown = await record(await generate({ model: 'by-token' }))
    expect(shown).toMatchObject({
      api: 'images',
      model: 'by-token',
      provider: 'images',
      streamed: false,
      finishReason: 'stop',
      ending: 'completed',
      estimated: false,
    })
    expect(shown.generationId).toMatch(/^img_/)
    expect(billOf(shown)).toEqual([
      ['prompt', 11, 0.000055],
      ['output_image', 400, 0.016],
      ['image', 1, 0],
    ])
  })

  test('has the number of images for a model with image prices, even without reported usage', async () => {
    const shown = await record(await generate({ model: 'by-image', n: 3 }))
    expect([billOf(shown).at(-1), shown.usage, shown.estimated, shown.nativeTokens.completion_tokens]).toEqual([
      ['image', 3, 0.12],
      0.12,
      true,
      0,
    ])
  })

  test('is zero if the provider returns far too many images, which the client does not get', async () => {
    const response = await generate({ model: 'by-image-flood', n: 2 })
    expect([response.status, (await record(response)).usage]).toEqual([502, 0])
    expect(await response.text()).toContain('1000 images; at most 100 are accepted')
  })

  test('is the sum of several calls', async () => {
    expect((await record(await generate({ model: 'by-image-gem', n: 3 }))).usage).toBe(0.12)
    expect(billOf(await record(await generate({ model: 'gem-by-token', n: 2 })))).toEqual([
      ['prompt', 14, 0.0000042],
      ['completion', 20, 0.00005],
      ['output_image', 2580, 0.0774],
      ['image', 2, 0],
    ])
  })

  test('is the same for a stream', async () => {
    const response = await generate({ model: 'by-token', stream: true })
    await response.text()
    expect(billOf(await record(response))).toEqual([
      ['prompt', 11, 0.000055],
      ['output_image', 400, 0.016],
      ['image', 1, 0],
    ])
  })

  test('has the images of a conversation, too', async () => {
    const shown = await record(
      await post('/v1/chat/completions', { model: 'by-image', messages: [{ role: 'user', content: 'A cat' }] }),
    )
    expect([shown.api, shown.usage]).toEqual(['chat.completions', 0.04])
  })

  test('has the image price of the sandbox', async () => {
    const response = await generate({ model: 'sandbox/image', n: 2, size: '16x16' })
    expect(billOf(await record(response)).find(([item]) => item === 'image')).toEqual(['image', 2, 0.02])
  })

  test('has the text tokens of a response without an image', async () => {
    const response = await generate({ model: 'text-only' })
    const shown = await record(response)
    expect([response.status, shown.ending, shown.usage]).toEqual([400, 'failed', 0.000007 + 0.0026])
  })

  test('is of the provider that succeeded after two failures', async () => {
    const response = await generate({ model: 'twice' })
    expect([response.status, response.headers.get('x-sluice-attempts')]).toEqual([200, '3'])
    expect(await record(response)).toMatchObject({ requestRetryTimes: 2, provider: 'images', usage: 0.04 })
  })

  test.each([
    ['slow', {}],
    ['slow', { stream: true }],
    ['slow', { n: 2 }],
    ['slow-gem', {}],
    ['slow-gem', { stream: true }],
  ])('has all requested images if the client disconnects: %s %j', async (model, more) => {
    const before = await balance()
    const abort = new AbortController()
    const response = fetch(`${gateway.url}/v1/images/generations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model, prompt: 'A lighthouse', ...more }),
      signal: abort.signal,
    })
    while (provider.received.length === 0) await Bun.sleep(5)
    abort.abort()
    await response.catch(() => {})
    for (let polls = 0; polls < 100 && (await balance()) === before; polls++) await Bun.sleep(20)
    expect(before - (await balance())).toBeCloseTo(0.04 * ((more as Json).n ?? 1), 9)
  })

  test('is the same if a provider with another API takes over', async () => {
    const response = await generate({ model: 'across', n: 2, size: '1024x1024' })
    expect([
      response.status,
      ((await response.json()) as Json).data.length,
      provider.received.map(({ path }) => path.split('/')[1]),
    ]).toEqual([200, 2, ['v1', 'v1beta', 'v1beta']])
    expect(await record(response)).toMatchObject({ requestRetryTimes: 1, provider: 'gem', usage: 0.08 })
  })

  test('does not exist for a request that reached no provider', async () => {
    const response = await generate({ model: 'by-image', n: 0 })
    expect([response.status, response.headers.get('x-generation-id'), provider.received.length]).toEqual([400, null, 0])
  })
})

describe('the limit of a key', () => {
  test('includes all requested images', async () => {
    const refused = await generate({ model: 'by-image', n: 2 }, LIMITED_KEY)
    expect([refused.status, provider.received.length]).toEqual([402, 0])
    expect((await generate({ model: 'by-image' }, LIMITED_KEY)).status).toBe(200)
    expect((await generate({ model: 'by-image' }, LIMITED_KEY)).status).toBe(402)
  })

  test('includes images of a conversation', async () => {
    const refused = await post(
      '/v1/chat/completions',
      { model: 'by-image', messages: [{ role: 'user', content: 'A cat' }] },
      LIMITED_KEY,
    )
    expect([refused.status, provider.received.length]).toEqual([402, 0])
  })
})
