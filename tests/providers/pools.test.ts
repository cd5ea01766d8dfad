import { expect, test } from 'bun:test'
import { heldBy } from '../../src/providers/names.ts'
import { catalogueOf } from './catalogues.ts'

const POOL = `providers:
  acme:
    protocol: messages
    baseUrl: http://127.0.0.1:9/v1
    apiKeys:
      - { name: key-1, key: first-secret, weight: 3 }
      - { name: key-2, key: second-secret, limits: { requestsPerMinute: 5 } }
    region: eu
    unlisted: true
    dataPolicy: { retains: true, trains: false }
  plain: { protocol: messages, baseUrl: "http://127.0.0.1:9/v1", apiKey: third-secret, unlisted: true }
models:
  large:
    endpoints:
      - provider: acme
        model: large-2026
        weight: 2
        limits: { requestsPerMinute: 9, concurrency: 4 }
        zdr: true
        tags: [gpu]
      - { provider: plain, model: large, priority: 2, region: us, quantization: fp8 }
    contextLength: 1000
`

test('each key of a provider is an endpoint of its own, with one target for all', () => {
  const [one, two, plain] = catalogueOf({}, POOL).endpoints('large', 'messages')
  expect([one!.name, two!.name, plain!.name]).toEqual(['acme/key-1', 'acme/key-2', 'plain'])
  expect([one!.credential, plain!.credential]).toEqual(['key-1', undefined])
  expect([one!.credentials, two!.credentials, plain!.credentials]).toEqual([
    { 'x-api-key': 'first-secret' },
    { 'x-api-key': 'second-secret' },
    { 'x-api-key': 'third-secret' },
  ])
  expect(two!.target).toBe(one!.target)
  expect(plain!.contextLength).toBe(1000)
})

test('an endpoint has the facts of its provider, its own and those of its key', () => {
  const facts = catalogueOf({}, POOL)
    .endpoints('large', 'messages')
    .map(({ routing }) => routing)
  expect(facts).toEqual([
    {
      weight: 6,
      priority: 0,
      region: 'eu',
      tags: ['gpu'],
      dataPolicy: { retains: false, trains: false },
      zdr: true,
      limits: { requestsPerMinute: 9, concurrency: 4 },
    },
    {
      weight: 2,
      priority: 0,
      region: 'eu',
      tags: ['gpu'],
      dataPolicy: { retains: false, trains: false },
      zdr: true,
      limits: { requestsPerMinute: 5, concurrency: 4 },
    },
    { weight: 1, priority: 2, region: 'us', tags: [], dataPolicy: {}, quantization: 'fp8', limits: {} },
  ])
})

test('what a provider does with data is unknown, unless it is set or the provider is in this process', () => {
  const catalogue = catalogueOf({}, POOL)
  const policyOf = (model: string): unknown => {
    const { dataPolicy, zdr } = catalogue.endpoints(model, 'messages')[0]!.routing
    return { ...dataPolicy, zdr }
  }
  expect(policyOf('plain/any')).toEqual({ zdr: undefined })
  expect(policyOf('acme/any')).toEqual({ retains: true, trains: false, zdr: false })
  expect(policyOf('sandbox/chat')).toEqual({ retains: false, trains: false, zdr: true })
})

test('a built-in provider takes its keys from the file in place of the environment', () => {
  const text = 'providers: { openai: { apiKeys: [{ name: a, key: one }, { name: b, key: "${SECOND}" }] } }'
  const catalogue = catalogueOf({ OPENAI_API_KEY: 'unused', SECOND: 'two' }, text)
  expect(catalogue.endpoints('openai/gpt-5', 'responses').map(({ credentials }) => credentials)).toEqual([
    { authorization: 'Bearer one' },
    { authorization: 'Bearer two' },
  ])
})

test('an object is held by the key that made it, or by the provider of before it had several', () => {
  const endpoints = catalogueOf({}, POOL).endpoints('large', 'messages')
  expect(heldBy(endpoints, 'acme/key-2')).toBe(endpoints[1])
  expect(heldBy(endpoints, 'acme')).toBe(endpoints[0])
  expect(heldBy(endpoints, 'acme/key-9')).toBeUndefined()
})
