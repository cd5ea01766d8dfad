import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type {
  AuditAnswer,
  BalanceAnswer,
  FileAnswer,
  Page,
  ProviderHealthAnswer,
  RequestAnswer,
  SpeedAnswer,
  TransferAnswer,
  UsageAnswer,
} from '../../src/endpoints/management/answers.ts'
import { nanoOf } from '../../src/money.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ownerOf, signedIn, type Browser } from './browser.ts'

const CONFIG = `
billing: { delay: 0s, startingCredit: 100 }
models:
  acme/large: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 2, completion: 8 } }
`

let gateway: Gateway
let owner: Browser

beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
  owner = await ownerOf(gateway)
  for (const text of ['Hello', 'Hello again', '[[error: 400]]']) await generate(text)
  await generate('Hello', { stream: true })
})
afterAll(() => gateway.stop())

const post = async (path: string, body: object): Promise<string> => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return response.text()
}
const generate = (text: string, over: object = {}): Promise<string> =>
  post('/v1/chat/completions', { model: 'acme/large', messages: [{ role: 'user', content: text }], ...over })

const get = async <T>(path: string, browser = owner): Promise<T> => (await browser.get<T>(path)).json

/** All pages of a list. */
async function all<T>(path: string, limit: number): Promise<T[]> {
  const rows: T[] = []
  for (let cursor = ''; ; ) {
    const page = await get<Page<T>>(`${path}${path.includes('?') ? '&' : '?'}limit=${limit}${cursor}`)
    rows.push(...page.data)
    if (page.next === null) return rows
    cursor = `&cursor=${page.next}`
  }
}

describe('the book', () => {
  test('balances add up to 0, and transfers to the balances', async () => {
    const balances = await all<BalanceAnswer>('/book/balances', 2)
    const total = balances.reduce((sum, { balance_usd }) => sum + nanoOf(balance_usd), 0n)
    expect([total, balances.length > 2]).toEqual([0n, true])
    const transfers = await all<TransferAnswer>('/book/transfers', 2)
    expect(transfers.map(({ kind }) => kind).sort()).toContain('credit')
    expect(new Set(transfers.map(({ reference, kind }) => `${reference} ${kind}`)).size).toBe(transfers.length)
    for (const { kind, owner: own, balance_usd } of balances) {
      const of = (side: 'debit' | 'credit'): bigint =>
        transfers
          .filter((one) => one[side].kind === kind && one[side].owner === own)
          .reduce((sum, { amount_usd }) => sum + nanoOf(amount_usd), 0n)
      expect([kind, of('credit') - of('debit')]).toEqual([kind, nanoOf(balance_usd)])
    }
    const times = transfers.map(({ at }) => at)
    expect(times).toEqual(times.toSorted().toReversed())
  })

  test('what usage says was spent is what the book says was earned', async () => {
    const usage = await get<UsageAnswer>('/usage?from=-1h&group=model&group=outcome')
    const revenue = (await all<BalanceAnswer>('/book/balances', 50)).find(({ kind }) => kind === 'revenue')
    expect(usage.total).toMatchObject({ requests: 4, failed: 1, cost_usd: revenue!.balance_usd })
    expect(usage.groups.map(({ key, label }) => [key, label])).toEqual([
      [['acme/large', 'completed'], 'acme/large, completed'],
      [['acme/large', 'failed'], 'acme/large, failed'],
    ])
    const csv = await owner.text('/usage?from=-1h&group=outcome&format=csv')
    expect(csv.split('\r\n')[1]).toStartWith(`completed,3,0,0,${revenue!.balance_usd},`)
  })

  test('an audit is a job with progress and a sentence', async () => {
    let { json: audit, status } = await owner.post<AuditAnswer>('/book/audit', {})
    expect(status).toBe(202)
    for (const end = Date.now() + 30_000; audit.state === 'running' && Date.now() < end; await Bun.sleep(20))
      audit = await get(`/book/audit/${audit.id}`)
    expect(audit).toMatchObject({ state: 'done', read: 4, total: 4, wrong: 0, first: null })
    expect(audit.sentence).toStartWith('The ledger is consistent: 4 generations')
    expect((await owner.get('/book/audit/none')).status).toBe(404)
  }, 60_000)

  test('an account admin sees the balances and postings of the account alone', async () => {
    const [credit] = (await all<BalanceAnswer>('/book/balances', 50)).filter(({ kind }) => kind === 'credit')
    const admin = await signedIn(gateway, 'Ada', [{ scope: credit!.owner!, role: 'admin' }])
    const seen = (await get<Page<BalanceAnswer>>('/book/balances', admin)).data
    expect(seen.map(({ account }) => account?.id)).toEqual(seen.map(() => credit!.owner!))
    expect((await owner.get('/book/transfers?from=-1h&to=-2h')).code).toBe('invalid_request')
    expect((await owner.get('/book/transfers?kind=refund')).json).toMatchObject({
      error: { param: 'kind', message: expect.stringContaining('must be one of top-up, grant, withdrawal, bonus') },
    })
    const kinds = (await get<Page<TransferAnswer>>('/book/transfers', admin)).data.map(({ kind }) => kind)
    expect([kinds.includes('credit'), kinds.includes('cost')]).toEqual([true, false])
    expect((await admin.post('/book/audit', {})).code).toBe('role_required')
  })
})

test('files are listed, and removed by an admin', async () => {
  const form = new FormData()
  form.append('purpose', 'user_data')
  form.append('file', new Blob(['hello']), 'hello.txt')
  const headers = { authorization: `Bearer ${gateway.key}` }
  for (let count = 0; count < 2; count++)
    await (await fetch(`${gateway.url}/v1/files`, { method: 'POST', headers, body: form })).text()
  const [file, ...others] = await all<FileAnswer>('/files', 1)
  expect([file?.filename, file?.bytes, others.length]).toEqual(['hello.txt', 5, 1])
  const viewer = await signedIn(gateway, 'Vi', [{ scope: 'installation', role: 'viewer' }])
  expect((await viewer.ask('DELETE', `/files/${file!.id}`)).status).toBe(403)
  expect((await owner.ask('DELETE', `/files/${file!.id}`)).status).toBe(204)
  expect((await owner.ask('DELETE', `/files/${file!.id}`)).status).toBe(404)
})

test('the health of a provider counts its calls and errors by the minute', async () => {
  const { minutes, failures, open, errors } = await get<ProviderHealthAnswer>('/providers/sandbox/health')
  const sum = (name: 'requests' | 'failed' | 'wrong_requests'): number =>
    minutes.reduce((total, minute) => total + minute[name], 0)
  // A request that the provider refused with 400 is no failure of it.
  expect([sum('requests') >= 4, sum('failed'), sum('wrong_requests'), open]).toEqual([true, 0, 1, 0])
  expect(failures.map(({ requests }) => requests)).toEqual([1])
  expect(errors).toMatchObject([{ model: 'acme/large', code: failures[0]!.code }])
  expect((await owner.get('/providers/none/health')).status).toBe(404)
  const each = await get<Page<ProviderHealthAnswer>>('/health/providers')
  expect(each.data.map(({ provider }) => provider)).toEqual(['sandbox'])
  expect(each.data[0]).toMatchObject({ failures, errors })
})

test.each(['account=default', 'key=x', 'models=acme/large'])(
  'speeds refuse the filter %s by its name',
  async (filter) => {
    const { status, text } = await owner.get(`/speed?from=-24h&${filter}`)
    expect([status, text]).toEqual([400, expect.stringContaining(`"param":"${filter.split('=')[0]}"`)])
  },
)

test('speeds have percentiles of the first token and tokens a second', async () => {
  const { data } = await get<SpeedAnswer>('/speed?from=-24h&model=acme/large&bucket=hour&tz=Asia/Kolkata')
  expect(data).toMatchObject([{ provider: 'sandbox', model: 'acme/large', total: { requests: 1 } }])
  const { p50, p99 } = data[0]!.total.first_token_ms
  expect([p50 === p99, p50 > 0, data[0]!.points.length]).toEqual([true, true, 1])
})

test.each(['/usage', '/speed'])('%s says that all records are counted', async (path) => {
  expect(await get<object>(path)).toHaveProperty('counted_from', null)
})

test('speeds are those of the range that was asked, to the millisecond', async () => {
  const { data: rows } = await get<Page<RequestAnswer>>('/requests?streamed=true')
  const at = Date.parse(rows[0]!.at)
  const speedFrom = (from: number, to: number): Promise<SpeedAnswer> =>
    get(`/speed?from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`)
  const requestsIn = async (from: number, to: number): Promise<number[]> =>
    (await speedFrom(from, to)).data.map(({ total }) => total.requests)
  expect(await requestsIn(at, at + 1)).toEqual([1])
  expect(await requestsIn(at - 60_000, at)).toEqual([])
  expect(await requestsIn(at + 1, at + 60_000)).toEqual([])
})
