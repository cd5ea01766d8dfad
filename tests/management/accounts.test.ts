import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { AccountAnswer, CreditAnswer, Page } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { type Browser, ownerOf, signedIn } from './browser.ts'

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

const make = async (name: string): Promise<AccountAnswer> =>
  (await owner.post<AccountAnswer>('/accounts', { name })).json

test('an account is made with plan and discount, and shown with balance and windows', async () => {
  const { status, json } = await owner.post<AccountAnswer>('/accounts', {
    name: 'team',
    discount: 12.5,
    plan: { tier: 'pro' },
  })
  expect([status, json]).toMatchObject([
    201,
    { name: 'team', status: 'healthy', discount: 12.5, plan: { tier: 'pro', renews: true }, balance_usd: '0' },
  ])
  expect(json.windows.map(({ name, used, resets_at }) => [name, used, resets_at])).toEqual([
    ['5_hour', 0, null],
    ['7_day', 0, null],
    ['monthly', 0, null],
  ])
  expect((await owner.get<AccountAnswer>('/accounts/team')).json).toEqual(json)
  expect((await owner.post('/accounts', { name: 'team' })).code).toBe('conflict')
  expect((await owner.post('/accounts', { name: 'acct_x' })).json).toMatchObject({ error: { param: 'name' } })
  expect((await owner.post('/accounts', { name: 'y', plan: { tier: 'none' } })).json).toMatchObject({
    error: { param: 'plan.tier' },
  })
})

test('a credit is posted once for a reference, and spendable at once', async () => {
  const { id } = await make('paying')
  const credit = (body: object) => owner.post<CreditAnswer>(`/accounts/${id}/credits`, body)
  const first = await credit({ amount_usd: '5.000000001', reference: 'invoice-1', note: 'paid' })
  expect([first.status, first.json]).toEqual([
    201,
    { posted: true, reference: 'invoice-1', balance_usd: '5.000000001' },
  ])
  const again = await credit({ amount_usd: '5.000000001', reference: 'invoice-1' })
  expect([again.status, again.json]).toEqual([200, { ...first.json, posted: false }])
  for (const other of [{ amount_usd: '5' }, { amount_usd: '5.000000001', bonus: true }]) {
    const refused = await credit({ ...other, reference: 'invoice-1' })
    expect([refused.code, refused.json]).toMatchObject(['conflict', { error: { param: 'reference' } }])
  }
  expect((await credit({ amount_usd: '2', bonus: true })).json.balance_usd).toBe('7.000000001')
  expect((await credit({ amount_usd: '-6' })).json).toMatchObject({
    error: { param: 'amount_usd', message: expect.stringContaining('has only 5.000000001 USD of credit') },
  })
  expect((await credit({ amount_usd: '-5.000000001' })).json.balance_usd).toBe('2')
  for (const body of [{ amount_usd: 5 }, { amount_usd: '0' }, { amount_usd: '1e3' }, { amount_usd: '0.0000000001' }])
    expect([body, (await credit(body)).status]).toEqual([body, 400])
})

test('a credit beyond what the book can hold is refused, and changes nothing', async () => {
  const { id } = await make('immense')
  const credit = () => owner.post<CreditAnswer>(`/accounts/${id}/credits`, { amount_usd: '999999999' })
  const answers = []
  for (let at = 0; at < 10; at++) answers.push(await credit())
  const refused = answers.at(-1)!
  expect([refused.status, refused.json]).toMatchObject([
    400,
    { error: { param: 'amount_usd', message: expect.stringContaining('would exceed 9223372036 USD') } },
  ])
  const posted = answers.filter(({ status }) => status === 201)
  const { balance_usd } = (await owner.get<AccountAnswer>(`/accounts/${id}`)).json
  expect(balance_usd).toBe(posted.at(-1)!.json.balance_usd)
  for (const _ of posted) await owner.post(`/accounts/${id}/credits`, { amount_usd: '-999999999' })
})

test('a status counts at once; a change needs the version that was read', async () => {
  const { id } = await make('suspect')
  const made = await owner.post<{ text: string }>('/keys', { kind: 'pay-as-you-go', account: id })
  const use = () =>
    fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${made.json.text}` } }).then(
      ({ status }) => status,
    )
  expect(await use()).toBe(200)
  expect((await owner.ask('PATCH', `/accounts/${id}`, { status: 'suspended' })).status).toBe(428)
  const stale = (await owner.get(`/accounts/${id}`)).headers.get('etag')!
  expect((await owner.change('PATCH', `/accounts/${id}`, { status: 'suspended' })).status).toBe(200)
  expect(await use()).toBe(403)
  expect((await owner.ask('PATCH', `/accounts/${id}`, { discount: 5 }, { 'if-match': stale })).code).toBe('conflict')
  const plan = await owner.change<AccountAnswer>('PATCH', `/accounts/${id}`, {
    plan: { tier: 'pro', now: true, renews: false },
  })
  expect(plan.json.plan).toMatchObject({ tier: 'pro', renews: false })
})

test('a credit posted meanwhile makes no conflict, and is not in the line of a change', async () => {
  const { id } = await make('busy')
  const { headers } = await owner.get(`/accounts/${id}`)
  await owner.post(`/accounts/${id}/credits`, { amount_usd: '5' })
  const tag = { 'if-match': headers.get('etag')! }
  expect((await owner.ask('PATCH', `/accounts/${id}`, { discount: 5 }, tag)).status).toBe(200)
  const path = `/changes?target=${id}&action=account.change`
  const [line] = (await owner.get<Page<{ before: object; after: object }>>(path)).json.data
  expect(line).toMatchObject({ before: { discount: 0 }, after: { discount: 5 } })
  expect(Object.keys(line!.before).sort()).toEqual(Object.keys(line!.after).sort())
})

test('an admin of an account sees that account only, and cannot change it', async () => {
  const { id } = await make('mine')
  const admin = await signedIn(gateway, 'admin', [{ scope: id, role: 'admin' }])
  expect((await admin.get<Page<AccountAnswer>>('/accounts')).json.data.map((account) => account.id)).toEqual([id])
  expect((await admin.get('/accounts/team')).text).toContain('No such account.')
  expect((await admin.get('/accounts?account=team')).status).toBe(404)
  expect((await admin.change('PATCH', `/accounts/${id}`, { discount: 99 })).code).toBe('role_required')
  expect((await admin.post(`/accounts/${id}/credits`, { amount_usd: '1' })).code).toBe('role_required')
  expect((await admin.post('/accounts/team/credits', { amount_usd: '1' })).code).toBe('role_required')
})

test('pages of accounts follow one another', async () => {
  const all: string[] = []
  for (let cursor = ''; ; ) {
    const { data, next } = (await owner.get<Page<AccountAnswer>>(`/accounts?limit=2${cursor}`)).json
    all.push(...data.map(({ name }) => name))
    if (next === null) break
    cursor = `&cursor=${next}`
  }
  expect(all.toSorted()).toEqual(['busy', 'default', 'immense', 'mine', 'paying', 'suspect', 'team'])
})

test('of accounts that are made with one name at the same time one is made, and the others are conflicts', async () => {
  const made = await Promise.all(Array.from({ length: 5 }, () => owner.post('/accounts', { name: 'raced' })))
  expect(made.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409])
  const { code, json } = made.find(({ status }) => status === 409)!
  expect([code, json]).toMatchObject(['conflict', { error: { param: 'name' } }])
})
