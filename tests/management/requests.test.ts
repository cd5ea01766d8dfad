import { describe, expect, test } from 'bun:test'
import type {
  Page,
  ProviderHealthAnswer,
  RequestAnswer,
  RequestDetailAnswer,
} from '../../src/endpoints/management/answers.ts'
import { signedIn, type Browser } from './browser.ts'
import { account, gateway, generate, list, owner, useRequests } from './listed-requests.ts'

useRequests()

const outcomes = async (query: string): Promise<string[]> => (await list(query)).data.map(({ outcome }) => outcome)

describe('the list of requests', () => {
  test('a request is listed with all that a line shows', async () => {
    const { data } = await list('?outcome=completed')
    expect(data).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f]{32}$/),
        public_id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
        at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
        account: { id: expect.stringMatching(/^acct_/), name: 'default' },
        key: { id: expect.stringMatching(/^key_/), name: 'first' },
        api: 'chat.completions',
        model: 'acme/large',
        provider: 'sandbox',
        client: 'a-client/1.0',
        outcome: 'completed',
        finish_reason: 'stop',
        error: null,
        streamed: false,
        first_token_ms: null,
        total_ms: expect.any(Number),
        tries: 1,
        losses: 0,
        estimated: false,
        tokens: { input: expect.any(Number), cache_read: 0, cache_write: 0, output: expect.any(Number), reasoning: 0 },
        cost_usd: expect.stringMatching(/^0\.000\d+$/),
        flows: null,
        bodies: false,
      },
    ])
  })

  test('refusals and failures are in one list with what succeeded, the newest first', async () => {
    expect(await outcomes('')).toEqual(['refused', 'failed', 'completed'])
    const [refused, failed] = (await list()).data
    expect(refused).toMatchObject({ error: { code: 'model_not_found' }, cost_usd: null, model: 'no/such', tries: 0 })
    expect(failed).toMatchObject({ error: { code: expect.any(String) }, cost_usd: '0' })
  })

  test('filters choose, exclude and search', async () => {
    expect(await outcomes('?not_outcome=refused')).toEqual(['failed', 'completed'])
    expect(await outcomes('?model=acme/large&outcome=failed&outcome=refused')).toEqual(['failed'])
    expect(await outcomes('?key=first&client=a-client/1.0&provider=sandbox&api=chat.completions')).toEqual([
      'failed',
      'completed',
    ])
    expect(await outcomes(`?account=${account.name}&q=not available`)).toEqual(['refused'])
    expect(await outcomes('?q=00000000000')).toEqual([])
    expect(await outcomes('?from=-1h&streamed=false&estimated=false&lossy=false&min_tokens=1')).toEqual(['completed'])
    expect(await outcomes('?to=-1m')).toEqual([])
  })

  test('pages follow each other by cursor, which belongs to its filters', async () => {
    const first = await list('?limit=1')
    const second = await list(`?limit=1&cursor=${first.next}`)
    const third = await list(`?limit=1&cursor=${second.next}`)
    expect([first, second, third].map(({ data }) => data.map(({ outcome }) => outcome))).toEqual([
      ['refused'],
      ['failed'],
      ['completed'],
    ])
    expect((await owner.get(`/requests?limit=1&cursor=${first.next}&model=x`)).code).toBe('invalid_request')
  })

  test.each([
    'q=ab',
    'from=yesterday',
    'from=-1h&to=-2h',
    'streamed=maybe',
    'min_cost_usd=x',
    'min_tokens=-1',
    'limit=0',
    'cursor=x',
    'outcome=success',
    'outcome=open&not_outcome=success',
  ])('a wrong filter is refused: %s', async (query) => {
    const { status, code } = await owner.get(`/requests?${query}`)
    expect([status, code]).toEqual([400, 'invalid_request'])
  })
})

describe('one request', () => {
  test('a request is found by any form of its id, with its rating and postings', async () => {
    const [line] = (await list('?outcome=completed')).data
    for (const id of [line!.id, line!.public_id, `req_${line!.id}`]) {
      const detail = (await owner.get(`/requests/${id}`)).json as unknown as RequestDetailAnswer
      expect({ ...detail, bodies: false }).toMatchObject({ ...line! })
      expect(detail.attempts).toMatchObject([{ provider: 'sandbox', protocol: null, error: null }])
      expect(detail.rating?.bill_usd).toBe(line!.cost_usd!)
      expect(detail.postings).toMatchObject([{ kind: 'credit', credit: 'revenue', amount_usd: line!.cost_usd! }])
      expect(detail.hold?.settled_usd).toBe(line!.cost_usd!)
    }
    expect((await owner.get('/requests/req_00000000000000000000000000000000')).status).toBe(404)
    expect((await owner.get('/requests/nothing')).status).toBe(404)
  })

  test('a good first try has the model of its provider, unless the name is one of sluice.yaml', async () => {
    const tried = async (model: string): Promise<unknown> => {
      await generate('tried once', { model })
      const [line] = (await list(`?model=${model}&outcome=completed`)).data
      const { json } = await owner.get<RequestDetailAnswer>(`/requests/${line!.id}`)
      return json.attempts
    }
    expect(await tried('sandbox/chat')).toMatchObject([{ provider: 'sandbox', model: 'chat', protocol: null }])
    const own = { provider: 'sandbox', model: 'chat', protocol: 'chat.completions' }
    expect(await tried('sandbox/own')).toMatchObject([own])
    expect(await tried('acme/large')).toMatchObject([{ provider: 'sandbox', model: null }])
  })

  test('a stream that broke off in its midst has the error, also in the health of its provider', async () => {
    const response = await generate('[[length: 60]] [[error-after: 3 529 too busy]]', { stream: true })
    expect(response.status).toBe(200)
    const [line] = (await list('?outcome=failed&streamed=true')).data
    expect(line).toMatchObject({
      error: { code: 'overloaded', message: expect.stringContaining('too busy') },
      tries: 1,
    })
    const detail = (await owner.get(`/requests/${line!.id}`)).json as unknown as RequestDetailAnswer
    expect(detail.attempts).toMatchObject([{ provider: 'sandbox', model: 'chat', error: { code: 'overloaded' } }])
    const health = (await owner.get('/providers/sandbox/health')).json as unknown as ProviderHealthAnswer
    expect(health.failures.map(({ code }) => code)).toContain('overloaded')
  }, 30_000)

  test('a request that a provider refuses as wrong is no failure of it', async () => {
    const counts = async (): Promise<{ failed: number; wrong: number }> => {
      const { minutes } = (await owner.get('/providers/sandbox/health')).json as unknown as ProviderHealthAnswer
      const sum = (name: 'failed' | 'wrong_requests'): number => minutes.reduce((all, one) => all + one[name], 0)
      return { failed: sum('failed'), wrong: sum('wrong_requests') }
    }
    const before = await counts()
    await generate('[[error: 400 no such field]]')
    await generate('[[error: 500]]')
    expect(await counts()).toEqual({ failed: before.failed + 1, wrong: before.wrong + 1 })
  })

  test('a generation for which no endpoint was asked says why', async () => {
    const model = 'two/endpoints'
    for (const status of [429, 429, 429]) {
      const response = await generate('[[error: 429 retry-after=60]]', { model })
      expect(response.status).toBe(status)
    }
    const { data } = await list(`?model=${model}&code=upstream_rate_limited`)
    expect(data.map(({ tries, outcome }) => [tries, outcome])).toEqual([
      [0, 'failed'],
      [0, 'failed'],
      [2, 'failed'],
    ])
    const [line] = data
    const message = expect.stringContaining('All endpoints of this model are at their limits')
    expect(line).toMatchObject({ provider: null, error: { code: 'upstream_rate_limited', message } })
    expect((await list(`?model=${model}&q=at their limits`)).data.map(({ id }) => id)).toContain(line!.id)
    const detail = (await owner.get(`/requests/${line!.id}`)).json as unknown as RequestDetailAnswer
    expect(detail).toMatchObject({ attempts: [], error: line!.error, cost_usd: '0' })
    const { failures } = (await owner.get('/providers/sandbox/health')).json as unknown as ProviderHealthAnswer
    expect(failures.find(({ code }) => code === 'upstream_rate_limited')?.requests).toBe(2)
  })

  test('a prediction that failed at its provider has the error', async () => {
    const response = await fetch(`${gateway.url}/v1/predictions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', prefer: 'wait=20' },
      body: JSON.stringify({ model: 'sandbox/prediction', input: { prompt: 'x', duration: 0, fail: 'out of memory' } }),
    })
    expect(await response.json()).toMatchObject({ status: 'failed', error: 'out of memory' })
    const [line] = (await list('?api=predictions&q=out of memory')).data
    const error = { code: 'upstream_error', message: 'out of memory' }
    expect(line).toMatchObject({ outcome: 'failed', tries: 1, error })
    expect((await owner.get(`/requests/${line!.id}`)).json).toMatchObject({
      attempts: [{ provider: 'sandbox', error }],
    })
  }, 30_000)

  test('a refusal says which status and parameter', async () => {
    const [line] = (await list('?outcome=refused')).data
    const detail = (await owner.get(`/requests/${line!.public_id}`)).json as unknown as RequestDetailAnswer
    expect(detail).toMatchObject({ refusal: { status: 404, param: 'model' }, attempts: [], rating: null })
  })
})

describe('an export', () => {
  test('an export has every line of the list, and no formula', async () => {
    const sent = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        'user-agent': '=cmd(),"x"',
      },
      body: JSON.stringify({ model: 'acme/large', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await sent.text()
    const expected = (await list('?limit=200')).data.map(({ id }) => id)
    const lines = (await owner.text('/requests/export?format=jsonl')).trim().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as RequestAnswer).id)).toEqual(expected)
    const csv = (await owner.text('/requests/export?format=csv')).trim().split('\r\n')
    expect(csv[0]).toStartWith('id,public_id,at,account,')
    expect(csv.slice(1).map((line) => line.split(',')[0]!)).toEqual(expected)
    expect(csv[1]).toContain(`"'=cmd(),""x"""`)
    expect((await owner.get('/requests/export?format=xml')).status).toBe(400)
  })
})

test.each(['tool-calls', 'content-filter', 'stop-sequence', 'length', 'refusal', undefined])(
  'the finish reason of lists is that of the generation record: %s',
  async (reason) => {
    await generate(reason === undefined ? '[[error: 500]]' : `[[finish: ${reason}]]`)
    const [line] = (await list('?limit=1')).data
    const headers = { authorization: `Bearer ${gateway.key}` }
    const response = await fetch(`${gateway.url}/v1/management/generation?id=${line!.id}`, { headers })
    const { finishReason } = (await response.json()) as { finishReason: string }
    expect(line!.finish_reason).toBe(finishReason)
    expect(finishReason).toMatch(/^[a-z_]+$/)
    expect((await owner.get(`/requests/${line!.id}`)).json).toMatchObject({ finish_reason: finishReason })
  },
)

describe('roles', () => {
  test('a member sees the requests of own keys only, a viewer of another account none', async () => {
    const member = await signedIn(gateway, 'Mia', [{ scope: account.id, role: 'member' }])
    const viewer = await signedIn(gateway, 'Vic', [{ scope: account.id, role: 'viewer' }])
    expect((await list('', member)).data).toEqual([])
    expect((await list('', viewer)).data).toEqual((await list()).data)
    const [line] = (await list('?outcome=completed')).data
    expect((await member.get(`/requests/${line!.id}`)).status).toBe(404)
    expect((await viewer.get(`/requests/${line!.id}`)).status).toBe(200)
    expect((await member.get('/requests?account=nobody')).status).toBe(404)
  })

  test('an account admin shows the members the requests of all keys, and nothing else', async () => {
    const admin = await signedIn(gateway, 'Ada', [{ scope: account.id, role: 'admin' }])
    const member = await signedIn(gateway, 'Moe', [{ scope: account.id, role: 'member' }])
    const { text } = (await member.post<{ text: string }>('/keys', { kind: 'management', role: 'member' })).json
    const withKey = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${text}` }
      const response = await fetch(`${gateway.url}/v1/management/requests`, { headers })
      return ((await response.json()) as Page<RequestAnswer>).data.length
    }
    const open = (browser: Browser, body: object) => browser.change('PATCH', `/accounts/${account.id}`, body)
    const [line] = (await list('?outcome=completed')).data
    expect([(await list('', member)).data, await withKey()]).toEqual([[], 0])
    expect((await open(member, { member_requests: 'all' })).code).toBe('role_required')
    expect((await open(admin, { member_requests: 'all', discount: 50 })).code).toBe('role_required')
    expect((await open(admin, {})).code).toBe('role_required')
    expect((await open(admin, { member_requests: 'all' })).json).toMatchObject({ member_requests: 'all', discount: 0 })
    expect((await member.get('/session')).json).toMatchObject({
      roles: [{ scope: account.id, role: 'member', requests: 'all' }],
    })
    expect((await list('', member)).data).toEqual((await list('', admin)).data)
    expect(await withKey()).toBeGreaterThan(0)
    expect((await member.get(`/requests/${line!.id}`)).status).toBe(200)
    expect((await member.get(`/requests/${line!.id}/bodies`)).status).toBe(404)
    expect((await member.get<Page<unknown>>('/keys')).json.data).toHaveLength(1)
    const [change] = (await owner.get<Page<object>>('/changes?action=account.change')).json.data
    expect(change).toMatchObject({ before: { member_requests: 'own' }, after: { member_requests: 'all' } })
    expect((await open(admin, { member_requests: 'own' })).status).toBe(200)
    expect([(await list('', member)).data, await withKey()]).toEqual([[], 0])
  })

  test('the list price of what a subscription used is for roles of the installation', async () => {
    await generate('Hello', {}, gateway.createdKeys['subscription'])
    const viewer = await signedIn(gateway, 'Val', [{ scope: account.id, role: 'viewer' }])
    const one = async (browser: Browser) =>
      (await list('?outcome=completed', browser)).data.find(({ flows }) => flows !== null)
    expect(await one(owner)).toMatchObject({ cost_usd: expect.stringMatching(/^0\.0/), flows: expect.any(Number) })
    expect(await one(viewer)).toMatchObject({ cost_usd: null, flows: expect.any(Number) })
    const seen = (await viewer.get(`/requests/${(await one(viewer))!.id}`)).json as unknown as RequestDetailAnswer
    expect([seen.rating, seen.hold]).toEqual([null, null])
  })
})

test('a request of a key that was just made has its name', async () => {
  await list()
  const { json } = await owner.post<{ id: string; text: string }>('/keys', { kind: 'pay-as-you-go', name: 'new' })
  await generate('first', { model: 'sandbox/chat' }, json.text)
  expect((await list(`?key=${json.id}`)).data.map(({ key }) => key)).toEqual([{ id: json.id, name: 'new' }])
})
