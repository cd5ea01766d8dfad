import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CLIENTS, requestIn, send, startUpstreams } from './route-upstreams.ts'

/** Preferences of requests, over real HTTP providers. */

setDefaultTimeout(60_000)

const upstreams = startUpstreams(({ model }) =>
  model === 'down' ? Response.json({ error: { message: 'down' } }, { status: 503 }) : undefined,
)
const { calls } = upstreams
let gateway: Gateway
beforeAll(async () => {
  const provider = (id: string, protocol: string, rest = ''): string =>
    `  ${id}: { name: "The ${id}", protocol: ${protocol}, baseUrl: "${upstreams.url}/${id}", unlisted: true${rest} }\n`
  gateway = await startGateway({
    config:
      'providers:\n' +
      provider('first', 'chat.completions', ', dataPolicy: { retains: false, trains: false }, region: eu') +
      provider(
        'second',
        'chat.completions',
        ', apiKeys: [{ name: k1, key: secret-1 }, { name: k2, key: secret-2 }], zdr: true',
      ) +
      provider('third', 'messages', ', dataPolicy: { retains: true, trains: false }') +
      provider('router', 'chat.completions', ', quirks: { routesItself: true }') +
      provider('vague', 'chat.completions') +
      provider('answers', 'responses') +
      provider('painter', 'images', ', zdr: true') +
      provider('drawer', 'images') +
      `models:
  many:
    endpoints:
      - { provider: first, model: a, tags: [near] }
      - { provider: second, model: b, quantization: fp8, region: us }
      - { provider: third, model: c }
    price: { prompt: [1, { over: 200000, rate: 2 }], completion: 4 }
  other: { endpoints: [{ provider: third, model: o }], price: { prompt: 0.5, completion: 1 } }
  falls: { endpoints: [{ provider: first, model: f }], fallbacks: [other, missing/model] }
  routed: { endpoints: [{ provider: router, model: x/y }] }
  falls-from-router: { endpoints: [{ provider: router, model: down }], fallbacks: [other, routed] }
  mixed: { endpoints: [{ provider: router, model: x/y }, { provider: first, model: a }] }
  pictures: { endpoints: [{ provider: drawer, model: d }, { provider: painter, model: p }], price: { image: 0.01 } }
  plain: { endpoints: [{ provider: first, model: plain-model }] }
  odd:floor: { endpoints: [{ provider: third, model: literal }] }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstreams.stop()
})
beforeEach(() => {
  calls.length = 0
})

type Json = Record<string, unknown>
type Asked = { status: number; asked: string[]; error: { message?: string; param?: string; code?: string } }

async function chat(body: Json, headers: Record<string, string> = {}): Promise<Asked> {
  const answer = await send(
    gateway,
    '/v1/chat/completions',
    { ...requestIn('chat.completions', 'many').body, ...body },
    headers,
  )
  const { error = {} } = (await answer.json()) as { error?: Asked['error'] }
  return {
    status: answer.status,
    asked: calls.map(({ provider, key }) => (key === '' ? provider : `${provider} ${key}`)),
    error,
  }
}

describe('preferences in the body', () => {
  const cases: [string, Json, string][] = [
    ['only', { provider: { only: ['third'] } }, 'third'],
    ['only by display name', { provider: { only: ['THE THIRD'] } }, 'third'],
    ['only by key', { provider: { only: ['second/k2'] } }, 'second secret-2'],
    ['only by tag', { provider: { only: ['near'] } }, 'first'],
    ['ignore', { provider: { ignore: ['first', 'second/k1'] } }, 'second secret-2'],
    ['data_collection', { provider: { data_collection: 'deny', ignore: ['near'] } }, ''],
    ['data_collection allow', { provider: { data_collection: 'allow' } }, 'first'],
    ['zdr', { provider: { zdr: true, ignore: ['first'] } }, 'second'],
    ['quantizations', { provider: { quantizations: ['fp8', 'bf16'] } }, 'second'],
    ['quantizations that are not known', { provider: { quantizations: ['unknown'], order: ['second'] } }, 'first'],
    ['regions', { provider: { regions: ['us'] } }, 'second'],
    ['max_price', { provider: { max_price: { prompt: 2, completion: '4' } } }, 'first'],
    ['max_price of the highest rate', { provider: { max_price: { prompt: 1.5 } } }, ''],
    ['require_parameters', { provider: { require_parameters: true, ignore: ['second'] }, seed: 5 }, 'first'],
    ['order', { provider: { order: ['third', 'first'] } }, 'third'],
    ['order by tag', { provider: { order: ['near', 'third'], ignore: ['second'] } }, 'first'],
    ['an order without fallbacks', { provider: { order: ['third'], allow_fallbacks: false } }, 'third'],
    ['empty lists', { provider: { only: [], ignore: [], order: [] }, models: [] }, 'first'],
    ['nothing', { provider: null, models: null, route: null, session_id: null }, 'first'],
    ['a session', { session_id: 'conversation-1' }, 'first'],
    ['a provider behind the model', { model: 'many@third' }, 'third'],
    ['a key behind the model', { model: 'many@second/k2:floor' }, 'second secret-2'],
    ['a suffix', { model: 'plain:nitro' }, 'first'],
    ['a listed name with a suffix', { model: 'odd:floor' }, 'third'],
    ['a name with a colon', { model: 'third/qwen3:8b' }, 'third'],
    ['a name with another @', { model: 'third/cf@v2' }, 'third'],
  ]
  for (const [name, body, expected] of cases)
    test(`${name}: ${JSON.stringify(body)} asks ${expected || 'none'}`, async () => {
      const { status, asked, error } = await chat(body)
      // Chance decides which of several keys is asked.
      const named = expected.includes(' ') ? asked : asked.map((one) => one.split(' ')[0])
      expect([named, status, error]).toEqual(expected === '' ? [[], 404, expect.anything()] : [[expected], 200, {}])
    })

  test('they do not travel to the provider, and a suffix does not, either', async () => {
    const { body } = requestIn('chat.completions', 'first/plain-model:floor')
    await chat({
      ...body,
      provider: { ignore: ['third'] },
      models: ['first/plain-model'],
      route: 'fallback',
      session_id: 's',
    })
    expect(calls[0]!.body).toEqual({ ...body, model: 'plain-model' })
    calls.length = 0
    await send(gateway, '/v1/responses', { ...requestIn('responses', 'answers/m').body, provider: {}, session_id: 's' })
    expect(Object.keys(calls[0]!.body).sort()).toEqual(['input', 'model', 'store', 'stream'])
  })

  test('the response has the name that was asked for, the record that of the model', async () => {
    const answer = await send(gateway, '/v1/chat/completions', requestIn('chat.completions', 'plain:floor').body)
    expect((await answer.json()) as Json).toMatchObject({ model: 'plain:floor' })
    const record = await fetch(`${gateway.url}/v1/generation?id=${answer.headers.get('x-generation-id')}`, {
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    expect((await record.json()) as Json).toMatchObject({ model: 'plain' })
  })
})

describe('a provider that routes itself', () => {
  const own = { provider: { only: ['Unknown Cloud'], experimental: 1 }, models: ['a', 'b'], session_id: 's' }

  test('is sent the members unread where it is the only one', async () => {
    expect((await chat({ model: 'routed', ...own })).status).toBe(200)
    expect(calls[0]!.body).toMatchObject(own)
  })

  test('no other provider is asked instead, by a fallback of the file, of which they are not known', async () => {
    const model = 'falls-from-router'
    expect((await chat({ model })).asked).toContain('third')
    calls.length = 0
    const { asked } = await chat({ model, provider: { zdr: true } })
    expect(asked).not.toContain('third')
    expect(asked).toContain('router')
  })

  test('is sent them in addition where there are others', async () => {
    expect((await chat({ model: 'mixed', ...own })).status).toBe(400)
    expect(await chat({ model: 'mixed', provider: { ignore: ['first'] } })).toMatchObject({ asked: ['router'] })
    expect(calls[0]!.body).toMatchObject({ provider: { ignore: ['first'] } })
    calls.length = 0
    expect(await chat({ model: 'mixed', provider: { data_collection: 'deny' } })).toMatchObject({ asked: ['first'] })
    expect(calls[0]!.body).not.toHaveProperty('provider')
  })
})

describe('an order of providers that are not on this server', () => {
  const own = { provider: { order: ['OpenAI', 'azure'], allow_fallbacks: false } }

  test('is for the only provider of the protocol, which gets it', async () => {
    expect(await chat({ model: 'plain', ...own })).toMatchObject({ status: 200, asked: ['first'] })
    expect(calls[0]!.body).toMatchObject(own)
  })

  test('keeps the promises beside it', async () => {
    for (const promise of [
      { zdr: true },
      { data_collection: 'deny' },
      { regions: ['eu'] },
      { max_price: { prompt: 1 } },
    ])
      expect(await chat({ model: 'vague/x', provider: { order: ['OpenAI'], ...promise } })).toMatchObject({ asked: [] })
    const asked = await chat({ model: 'plain', provider: { order: ['OpenAI', 'azure'], regions: ['mars'] } })
    expect(asked).toMatchObject({ asked: [] })
  })

  test('is refused where Sluice has a choice to make, would have to translate, or does not know a name', async () => {
    expect((await chat({ model: 'many', ...own })).status).toBe(404)
    expect((await chat({ model: 'other', ...own })).status).toBe(404)
    expect((await chat({ model: 'plain', provider: { ...own.provider, only: ['third'] } })).status).toBe(404)
    expect((await chat({ model: 'plain', provider: { order: ['OpenAI', 'Unknown Cloud'] } })).status).toBe(400)
    expect(calls).toEqual([])
  })
})

describe('wrong preferences are a 400 that names what is allowed', () => {
  const cases: [Json, string, string][] = [
    [{ provider: 'first' }, 'provider', 'must be an object, not a string'],
    [{ provider: { onyl: ['first'] } }, 'provider.onyl', 'is not supported; provider has order, only, ignore, sort'],
    [{ provider: { preferred_min_throughput: 50 } }, 'provider.preferred_min_throughput', 'is not supported'],
    [{ provider: { only: 'first' } }, 'provider.only', 'must be an array, not a string'],
    [{ provider: { order: [1] } }, 'provider.order[0]', 'must be a string, not a number'],
    [{ provider: { order: [{}] } }, 'provider.order[0]', 'must be a string, not an object'],
    [{ provider: { only: ['frist'] } }, 'provider.only[0]', "not 'frist'; did you mean first"],
    [{ provider: { order: ['second/k9'] } }, 'provider.order[0]', 'must be a provider, a key of one or a tag'],
    [{ provider: { sort: 'cheapest' } }, 'provider.sort', "must be one of 'order', 'weights', 'price'"],
    [{ provider: { sort: { by: 'price', partition: 'none' } } }, 'provider.sort.partition', 'provider.sort has by'],
    [{ provider: { data_collection: 'never' } }, 'provider.data_collection', "must be one of 'allow', 'deny'"],
    [{ provider: { zdr: 'yes' } }, 'provider.zdr', 'must be true or false, not a string'],
    [{ provider: { allow_fallbacks: 1 } }, 'provider.allow_fallbacks', 'must be true or false, not a number'],
    [{ provider: { max_price: { prompt: -1 } } }, 'provider.max_price.prompt', 'from 0 to 1000000'],
    [{ provider: { max_price: { image: 1 } } }, 'provider.max_price.image', 'has prompt, completion'],
    [{ provider: { quantizations: ['q4'] } }, 'provider.quantizations[0]', "must be one of 'int4'"],
    [{ models: 'x' }, 'models', 'must be an array, not a string'],
    [{ models: Array.from({ length: 11 }, (_, at) => `m${at}`) }, 'models', 'must have at most 10'],
    [{ route: 'sort' }, 'route', "must be one of 'fallback'"],
    [{ session_id: 5 }, 'session_id', 'must be a string, not a number'],
    [{ session_id: 'x'.repeat(257) }, 'session_id', 'must have at most 256 characters'],
  ]
  for (const [body, param, message] of cases)
    test(`${JSON.stringify(body).slice(0, 100)}: ${param}`, async () => {
      const { status, asked, error } = await chat(body)
      expect({ status, asked, error }).toMatchObject({ status: 400, asked: [], error: { param } })
      expect(error.message).toContain(message)
    })

  test('in headers, too, and where header and body have the same one', async () => {
    expect(await chat({}, { 'x-sluice-provider-only': 'first, frist' })).toMatchObject({
      status: 400,
      error: { param: 'x-sluice-provider-only[1]' },
    })
    expect(await chat({}, { 'x-sluice-provider-max-price': 'prompt' })).toMatchObject({ status: 400 })
    expect(await chat({ provider: { zdr: false } }, { 'x-sluice-provider-zdr': 'true' })).toMatchObject({
      status: 400,
      error: { param: 'provider.zdr' },
    })
  })

  test('a prediction refuses them by the name of the header', async () => {
    const body = { model: 'sandbox/prediction', input: { prompt: 'Hi' } }
    const answer = await send(gateway, '/v1/predictions', body, { 'x-sluice-provider-zdr': 'true' })
    expect([answer.status, await answer.text()]).toEqual([
      400,
      expect.stringContaining('x-sluice-provider-zdr: is not supported for predictions'),
    ])
  })
})

test('nothing left is a 404 with a reason for each endpoint', async () => {
  const { status, error } = await chat({ provider: { data_collection: 'deny', ignore: ['first'] } })
  expect([status, error.code, error.param]).toEqual([404, 'model_not_found', 'provider'])
  expect(error.message).toBe(
    'No endpoint of many keeps the routing preferences of this request. first: among ignore; ' +
      'second/k1: its data policy is not known; second/k2: its data policy is not known; ' +
      'third: its provider stores data.',
  )
  expect(error).toHaveProperty('metadata.endpoints', [
    { endpoint: 'first', reason: 'among ignore' },
    { endpoint: 'second/k1', reason: 'its data policy is not known' },
    { endpoint: 'second/k2', reason: 'its data policy is not known' },
    { endpoint: 'third', reason: 'its provider stores data' },
  ])
})

describe('preferences in headers', () => {
  for (const client of CLIENTS)
    for (const stream of [false, true])
      test(`${client}${stream ? ', streamed' : ''}: only these endpoints are asked`, async () => {
        const { path, body } = requestIn(client, 'many', { stream })
        const ask = async (headers: Record<string, string>): Promise<[number, string[]]> => {
          calls.length = 0
          const answer = await send(gateway, path, body, headers)
          await answer.text()
          return [answer.status, calls.map(({ provider }) => provider)]
        }
        expect(await ask({ 'x-sluice-provider-only': 'third' })).toEqual([200, ['third']])
        expect(await ask({ 'x-sluice-provider-ignore': 'first, third' })).toEqual([200, ['second']])
        expect(await ask({ 'x-sluice-provider-zdr': 'true', 'x-sluice-provider-ignore': 'near' })).toEqual([
          200,
          ['second'],
        ])
        expect(await ask({ 'x-sluice-provider-max-price': 'prompt=0.1' })).toEqual([404, []])
        expect(await ask({ 'x-sluice-provider-data-collection': 'deny' })).toEqual([200, ['first']])
        expect(await ask({ 'x-sluice-provider-regions': 'mars' })).toEqual([404, []])
        expect(await ask({ 'x-sluice-provider-sort': 'fastest' })).toEqual([400, []])
      })

  test('counted tokens are not counted by an endpoint that is excluded', async () => {
    const { body } = requestIn('messages', 'third/c')
    const ask = (headers: Record<string, string>): Promise<Response> =>
      send(gateway, '/v1/messages/count_tokens', body, headers)
    expect((await ask({ 'x-sluice-provider-ignore': 'third' })).status).toBe(404)
    const excluding = { ...body, provider: { ignore: ['third'] } }
    expect((await send(gateway, '/v1/messages/count_tokens', excluding, {})).status).toBe(404)
    expect(calls).toEqual([])
  })

  test('messages have them in the body, which no provider gets', async () => {
    const ask = async (model: string, provider: Json): Promise<[number, string[]]> => {
      calls.length = 0
      const { path, body } = requestIn('messages', model)
      const { status } = await send(gateway, path, { ...body, provider, models: ['other'] })
      return [status, calls.map(({ provider: id }) => id)]
    }
    expect(await ask('many', { zdr: true, ignore: ['first'] })).toEqual([200, ['second']])
    expect(await ask('third/c', { data_collection: 'allow' })).toEqual([200, ['third']])
    expect(calls[0]!.body).not.toContainAnyKeys(['provider', 'models'])
    expect(await ask('third/c', { zdr: true })).toEqual([404, []])
    expect(await ask('third/c', { sorted: true })).toEqual([400, []])
  })

  test('images have them in the body, which no provider gets', async () => {
    const ask = async (members: Json): Promise<[number, string[]]> => {
      calls.length = 0
      const { status } = await send(gateway, '/v1/images/generations', { model: 'pictures', prompt: 'Hi', ...members })
      return [status, calls.map(({ provider: id }) => id)]
    }
    expect(await ask({ provider: { zdr: true }, models: ['other'], session_id: 's' })).toEqual([200, ['painter']])
    expect(calls[0]!.body).toEqual({ model: 'p', prompt: 'Hi', response_format: 'b64_json' })
    expect(await ask({ provider: { ignore: ['drawer'] } })).toEqual([200, ['painter']])
    expect(await ask({ provider: { regions: ['mars'] } })).toEqual([404, []])
    expect(await ask({ provider: { sorted: true } })).toEqual([400, []])
  })
})

describe('fallback models', () => {
  test('their endpoints keep the preferences, too, and may be the only ones', async () => {
    expect(await chat({ model: 'plain', models: ['plain', 'other'], provider: { only: ['third'] } })).toMatchObject({
      status: 200,
      asked: ['third'],
    })
    expect(calls[0]!.body.model).toBe('o')
    calls.length = 0
    expect(await chat({ model: 'falls', provider: { ignore: ['first'] } })).toMatchObject({ asked: ['third'] })
  })

  test('one that does not exist is named by its path', async () => {
    expect(await chat({ models: ['other', 'missing/model'] })).toMatchObject({
      status: 404,
      asked: [],
      error: { param: 'models[1]' },
    })
    expect(await chat({}, { 'x-sluice-fallback-models': 'missing/model' })).toMatchObject({ status: 404, asked: [] })
  })
})
