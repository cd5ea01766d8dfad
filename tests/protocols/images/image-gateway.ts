import { afterAll, beforeAll, beforeEach, expect } from 'bun:test'
import { startGateway, type Gateway } from '../../server.ts'
import { type ImageProvider, startImageProvider } from './image-provider.ts'

/** A running gateway in front of a provider of images. */

export type Json = Record<string, any>

export const LIMITED_KEY = 'sk-ai-v1-limited-0123456789abcdef0123456789abcdef'

export let gateway: Gateway
export let provider: ImageProvider

/** Starts both for the tests of a file, and clears the requests that the provider received before each test. */
export function useImageGateway(): void {
  beforeAll(async () => {
    provider = startImageProvider()
    gateway = await startGateway({ config: configOf(provider.url) })
  })
  afterAll(async () => {
    await gateway?.stop()
    await provider?.stop()
  })
  beforeEach(() => {
    provider.received.length = 0
  })
}

const TOKEN_PRICE = { prompt: 5, completion: 10, output_image: 40 }

const configOf = (url: string): string => `
limits: { requestsPerMinute: 100000 }
billing: { unpriced: free, delay: 0s }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
keys: [{ key: ${LIMITED_KEY}, limit: 0.05 }]
providers:
  images: { protocol: images, baseUrl: '${url}/v1', apiKey: none, unlisted: true }
  gem: { protocol: generateContent, baseUrl: '${url}/v1beta', apiKey: none, unlisted: true }
  router: { protocol: chat.completions, baseUrl: '${url}/v1', apiKey: none, unlisted: true }
  down: { protocol: images, baseUrl: 'http://127.0.0.1:9', apiKey: none, unlisted: true }
models:
  base64-only: { endpoints: [{ provider: images, model: p }], capabilities: { base64Only: true } }
  writer: { endpoints: [{ provider: images, model: p }], capabilities: { output: [text] } }
${modelRow('by-token', TOKEN_PRICE, ['images', 'p'])}
${modelRow('by-image', { image: 0.04 }, ['images', 'unmetered'])}
${modelRow('by-image-text', { image: 0.04 }, ['images', 'text'])}
${modelRow('by-image-flood', { image: 0.04 }, ['images', 'flood'])}
${modelRow('by-image-gem', { image: 0.04 }, ['gem', 'p'])}
${modelRow('gem-by-token', { prompt: 0.3, completion: 2.5, output_image: 30 }, ['gem', 'p'])}
${modelRow('slow', { image: 0.04 }, ['images', 'slow'])}
${modelRow('slow-gem', { image: 0.04 }, ['gem', 'slow'])}
${modelRow('text-only', { prompt: 1, completion: 2 }, ['gem', 'text-only'])}
${modelRow('across', { image: 0.04 }, ['images', 'refuses-503'], ['gem', 'p'])}
${modelRow('twice', { image: 0.04 }, ['down', 'p'], ['images', 'refuses-503'], ['images', 'p'])}
`

function modelRow(name: string, price: object, ...endpoints: [provider: string, model: string][]): string {
  const rows = endpoints.map(([id, model]) => `{ provider: ${id}, model: ${model} }`)
  return `  ${name}: { endpoints: [${rows.join(', ')}], price: ${JSON.stringify(price)} }`
}

export const post = (path: string, body: Json, key = gateway.key): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
export const generate = (body: Json, key?: string): Promise<Response> =>
  post('/v1/images/generations', { prompt: 'A lighthouse', ...body }, key)
/** `code path` of each loss in the header of a response. */
export const losses = (response: Response): string[] =>
  (JSON.parse(response.headers.get('x-sluice-translation') ?? '[]') as { code: string; path: string }[]).map(
    ({ code, path }) => `${code} ${path}`,
  )

/** The generation record of a response. */
export async function record(response: Response | string): Promise<Json> {
  const id = typeof response === 'string' ? response : response.headers.get('x-generation-id')!
  const found = await fetch(`${gateway.url}/v1/management/generation?id=${id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  expect(found.status).toBe(200)
  return (await found.json()) as Json
}
/** Fee item, quantity and amount of each line of a bill. */
export const billOf = ({ ratingResponses }: Json): [string, number, number][] =>
  ratingResponses.ratingDetails.map(({ feeItemCode, quantity, billAmount }: Json) => [
    feeItemCode,
    quantity,
    billAmount,
  ])

export async function balance(): Promise<number> {
  const found = await fetch(`${gateway.url}/v1/management/payg/balance`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return ((await found.json()) as Json).data.total_credits
}

/** The response of a URL without a key. */
export async function fetched(url: string): Promise<{ status: number; type: string | null; base64: string }> {
  const response = await fetch(url)
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    base64: Buffer.from(await response.arrayBuffer()).toString('base64'),
  }
}
