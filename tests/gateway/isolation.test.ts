import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { KeyKind } from '../../src/config/terms.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { topUp } from '../../src/ledger/book.ts'
import { routes, type Route } from '../../src/routes.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ask } from './asking.ts'
import { BILL, gatedProvider, type Gated } from './gated.ts'
import { storeOf } from '../stores.ts'
import { KINDS, TABLE, turn } from './requests-by-route.ts'

/** For every route: the keys that may use it, and that it reveals nothing about other accounts. */

const nameOf = ({ method, name, errorFormat }: Route): string => `${method} ${name} ${errorFormat}`
const methodOf = (name: string): string => name.split(' ')[0]!
/** Requests without the headers of an SDK get OpenAI's format where the client decides. */
function shapeOf(name: string): ProtocolName {
  const format = name.split(' ')[2] as Route['errorFormat']
  return format === 'client' ? 'chat.completions' : format
}

const KIND_PREFIX = { 'pay-as-you-go': 'ai', subscription: 'ss', management: 'mg' }
const keyOf = (account: string, kind: KeyKind): string =>
  `sk-${KIND_PREFIX[kind]}-v1-of-account-${account}-0123456789abcdef`

let gateway: Gateway
let provider: Gated
beforeAll(async () => {
  provider = gatedProvider()
  const keys = ['mine', 'theirs', 'stopped'].flatMap((account) =>
    KINDS.map((kind) => `{ key: ${keyOf(account, kind)}, kind: ${kind}, account: ${account} }`),
  )
  gateway = await startGateway({
    config: `
limits: { requestsPerMinute: 100000 }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
billing: { unpriced: free }
keys: [${keys.join(', ')}]
providers: { up: { protocol: messages, baseUrl: '${provider.url}', apiKey: none, unlisted: true } }
models:
  priced: { endpoints: [{ provider: up, model: m }], price: { prompt: 1, completion: 2 } }
  drawn: { endpoints: [{ provider: sandbox, model: image }], price: { image: 0 } }
`,
  })
  const store = await storeOf(gateway)
  for (const { id, name } of await store.accounts.list()) {
    if (name === 'stopped') await store.accounts.setStatus(id, 'suspended')
    else await store.ledger.post(topUp({ reference: name, at: 1, accountId: id, amount: CREDIT, bonus: false }))
  }
  await store.close()
  const seen = async (): Promise<boolean> =>
    (await send('GET', '/v1/models', keyOf('stopped', 'subscription'))).status === 403 && (await creditOf('theirs')) > 0
  while (!(await seen())) await Bun.sleep(50)
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
})

/** The starting credit of an account, in nano-USD. */
const CREDIT = 10_000_000n

async function creditOf(account: string): Promise<number> {
  const { text } = await send('GET', '/v1/management/payg/balance', keyOf(account, 'management'))
  return (JSON.parse(text) as { data: { total_credits: number } }).data.total_credits
}

type Got = { status: number; headers: Headers; text: string }

async function send(method: string, path: string, key?: string, body?: object): Promise<Got> {
  const response = await fetch(gateway.url + path, {
    method,
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** Everything by which a client could distinguish two responses. `id`: the id in its own request. */
const visible = ({ status, headers, text }: Got, id = ''): unknown => [
  status,
  [...headers]
    .filter(([name]) => !['date', 'x-request-id', 'request-id', 'content-length'].includes(name))
    .map(([name, value]) => `${name}: ${id === '' ? value : value.replaceAll(id, 'ID')}`),
  (id === '' ? text : text.replaceAll(id, 'ID')).replace(/req_[0-9a-f]{32}/, 'req_'),
]

/** The refusals in each error format. */
const REFUSALS: Record<ProtocolName, { 401: string; 403: string; stopped: string }> = {
  'chat.completions': {
    401: '"code":"invalid_api_key"',
    403: '"code":"permission_denied"',
    stopped: '"code":"account_suspended"',
  },
  responses: {
    401: '"code":"invalid_api_key"',
    403: '"code":"permission_denied"',
    stopped: '"code":"account_suspended"',
  },
  messages: {
    401: '"type":"error","error":{"type":"authentication_error"',
    403: '"type":"error","error":{"type":"permission_error"',
    stopped: '"type":"error","error":{"type":"permission_error"',
  },
  generateContent: {
    401: '"status":"UNAUTHENTICATED"',
    403: '"status":"PERMISSION_DENIED"',
    stopped: '"status":"PERMISSION_DENIED"',
  },
  images: { 401: '"code":"invalid_api_key"', 403: '"code":"permission_denied"', stopped: '"code":"account_suspended"' },
}

test('every route is in the table of this test, and every row is a route', () => {
  // Those that ask for roles are in tests/management/roles-by-route.test.ts.
  const byKey = routes.filter(({ keys }) => keys !== 'by role')
  expect(byKey.map(nameOf).toSorted()).toEqual(Object.keys(TABLE).toSorted())
})

describe('a key', () => {
  test.each(Object.entries(TABLE))(
    'a key of the right kind is required by %s',
    async (name, { path, body, keys, answers = 200 }) => {
      const [method, refusal] = [methodOf(name), REFUSALS[shapeOf(name)]]
      if (keys === 'public') {
        for (const key of [undefined, 'sk-ai-v1-unknown', keyOf('stopped', 'management')])
          expect((await send(method, path, key, body)).status).toBe(answers)
        return
      }
      for (const kind of KINDS) {
        const { status, text } = await send(method, path, keyOf('mine', kind), body)
        if (keys.includes(kind)) expect([kind, [200, 400, 404, 415, 426].includes(status)]).toEqual([kind, true])
        else expect([kind, status, text]).toEqual([kind, 403, expect.stringContaining(refusal[403])])
      }
      const withoutKey = await send(method, path, undefined, body)
      expect([withoutKey.status, withoutKey.text]).toEqual([401, expect.stringContaining(refusal[401])])
      // The response to an unknown key does not reveal its kind.
      const unknown = await send(method, path, 'sk-ai-v1-unknown', body)
      expect([unknown.status, unknown.text]).toEqual([401, expect.stringContaining(refusal[401])])
      for (const key of ['sk-mg-v1-unknown', `${keyOf('mine', 'management')}x`, 'null', '"'])
        expect(visible(await send(method, path, key, body))).toEqual(visible(unknown))
      for (const kind of keys) {
        const { status, text } = await send(method, path, keyOf('stopped', kind), body)
        // Management endpoints stay readable.
        if (keys.includes('management')) {
          expect([path, [200, 404].includes(status)]).toEqual([path, true])
          continue
        }
        expect([status, text]).toEqual([403, expect.stringContaining(refusal.stopped)])
        expect(text).toContain('suspended')
      }
    },
  )
})

describe('an id', () => {
  /** Creates an object of each kind for this account. Returns their ids. */
  async function made(account: string): Promise<string[]> {
    const key = keyOf(account, 'pay-as-you-go')
    const response = await send('POST', '/v1/responses', key, { model: 'sandbox/responses', input: 'Hello' })
    const { id, output } = JSON.parse(response.text) as { id: string; output: { id: string }[] }
    const items = JSON.parse((await send('GET', `/v1/responses/${id}/input_items`, key)).text) as {
      data: { id: string }[]
    }
    const form = new FormData()
    form.append('file', new File(['x'], 'x.txt'))
    const file = (await (
      await fetch(`${gateway.url}/v1/files`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: form,
      })
    ).json()) as { id: string }
    const message = await send('POST', '/v1/messages', key, { model: 'sandbox/messages', max_tokens: 9, ...turn })
    const prediction = await send('POST', '/v1/predictions', key, { model: 'sandbox/chat', input: { prompt: 'Hello' } })
    return [
      id,
      output[0]!.id,
      items.data[0]!.id,
      message.headers.get('x-generation-id')!,
      prediction.headers.get('x-generation-id')!,
      file.id,
    ]
  }

  const withIds = Object.entries(TABLE).filter(([, { ids }]) => ids !== undefined)
  const MALFORMED = ['xyzzy', '0000000000', 'resp_', `resp_${'Z'.repeat(32)}`, 'null', `a${'b'.repeat(500)}`]

  test.each(withIds)('an id of another account is answered by %s like an unknown one', async (name, { ids, keys }) => {
    const method = methodOf(name)
    const [own, theirs] = [await made('mine'), await made('theirs')]
    const unknown = own.map((id) => id.replace(/[0-9a-f]{12}(?=(_0)?$)/, '0123456789ab'))
    let worked = 0
    for (const kind of keys as KeyKind[]) {
      const key = keyOf('mine', kind)
      for (const [at, example] of ids!('ID').entries()) {
        const visibleFor = async (id: string): Promise<unknown> => {
          const { path, body } = ids!(id)[at]!
          return visible(await send(method, path, key, body), id)
        }
        const never = await visibleFor(unknown[0]!)
        expect([name, example, never]).toEqual([
          name,
          example,
          [404, expect.any(Array), expect.stringContaining('"not_found"')],
        ])
        for (const id of [...unknown, ...theirs, ...MALFORMED]) expect([id, await visibleFor(id)]).toEqual([id, never])
      }
    }
    // The same requests with its own ids succeed, or the comparison above would prove nothing.
    for (const id of own)
      for (const { path, body } of ids!(id))
        worked += (await send(method, path, keyOf('mine', 'pay-as-you-go'), body)).status === 404 ? 0 : 1
    expect(worked).toBeGreaterThan(0)
    // The objects of the other account are unchanged.
    for (const path of [`/v1/responses/${theirs[0]}`, `/v1/files/${theirs.at(-1)}`])
      expect((await send('GET', path, keyOf('theirs', 'subscription'))).status).toBe(200)
  })

  test('a deleted id is answered like one that never existed', async () => {
    const key = keyOf('mine', 'pay-as-you-go')
    const [id] = await made('mine')
    expect((await send('DELETE', `/v1/responses/${id}`, key)).status).toBe(200)
    const never = visible(await send('GET', '/v1/responses/never', key), 'never')
    for (const method of ['GET', 'DELETE'])
      expect(visible(await send(method, `/v1/responses/${id}`, key), id)).toEqual(never)
  })
})

describe('an account', () => {
  const CLAIMS = {
    account_id: 'theirs',
    accountId: 'theirs',
    account: 'theirs',
    role: 'admin',
    kind: 'management',
    balance: 1e9,
    credit: 1e9,
    priceVersion: 'x',
    createdAt: 1,
    created_at: 1,
    bill: 0,
    discount: 10_000,
    estimated: true,
  }

  test('the account is the one of the key, even if a request names another', async () => {
    const query = new URLSearchParams(
      Object.fromEntries(Object.entries(CLAIMS).map(([name, value]) => [name, String(value)])),
    ).toString()
    const key = keyOf('mine', 'management')
    for (const path of ['/v1/management/payg/balance', '/v1/management/subscription/detail']) {
      expect(JSON.parse((await send('GET', `${path}?${query}`, key)).text)).toEqual(
        JSON.parse((await send('GET', path, key)).text),
      )
    }
    const { headers, status } = await send('POST', `/v1/chat/completions?${query}`, keyOf('mine', 'pay-as-you-go'), {
      model: 'sandbox/chat',
      ...turn,
      ...CLAIMS,
    })
    expect(status).toBe(200)
    const path = `/v1/management/generation?id=${headers.get('x-generation-id')}&${query}`
    expect((await send('GET', path, keyOf('theirs', 'management'))).status).toBe(404)
    const shown = JSON.parse((await send('GET', path, key)).text) as Record<string, unknown>
    expect(shown).toMatchObject({ model: 'sandbox/chat', estimated: false, ending: 'completed' })
    expect(
      Object.keys(shown).filter((name) =>
        ['account_id', 'accountId', 'keyId', 'held', 'discount', 'account'].includes(name),
      ),
    ).toEqual([])
  })

  test('responses about an account contain the declared fields only', async () => {
    const key = keyOf('mine', 'management')
    const data = async (path: string): Promise<Record<string, object>> =>
      (JSON.parse((await send('GET', path, key)).text) as { data: Record<string, object> }).data
    expect(Object.keys(await data('/v1/management/payg/balance'))).toEqual([
      'currency',
      'total_credits',
      'top_up_credits',
      'bonus_credits',
    ])
    const detail = await data('/v1/management/subscription/detail')
    expect(Object.keys(detail)).toEqual([
      'plan',
      'currency',
      'base_usd_per_flow',
      'effective_usd_per_flow',
      'account_status',
      'quota_5_hour',
      'quota_7_day',
      'quota_monthly',
    ])
    expect(Object.keys(detail.plan!)).toEqual(['tier', 'amount_usd', 'interval', 'expires_at'])
  })

  test('an account with its whole balance reserved does not limit other accounts', async () => {
    const begin = (account: string): Promise<Response> =>
      ask({
        url: gateway.url,
        key: keyOf(account, 'pay-as-you-go'),
        protocol: 'chat.completions',
        model: 'priced',
        stream: true,
        limit: 4_000,
        // All of the output is held for a client that accepts no loss.
        headers: { 'x-sluice-strict': 'true' },
      })
    const answers: Response[] = []
    for (const account of ['mine', 'theirs']) {
      answers.push(await begin(account))
      const refused = await begin(account)
      expect([account, refused.status, await refused.text()]).toEqual([
        account,
        402,
        expect.stringContaining('is held by requests in flight'),
      ])
    }
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(await Promise.all(['mine', 'theirs'].map(creditOf))).toEqual([0.01, 0.01])
    provider.open()
    for (const answer of answers) expect(await answer.text()).toContain('[DONE]')
    const left = Number(CREDIT - BILL) / 1e9
    expect(await Promise.all(['mine', 'theirs'].map(creditOf))).toEqual([left, left])
    expect((await begin('mine')).status).toBe(200)
    expect(await creditOf('theirs')).toBe(left)
  })
})
