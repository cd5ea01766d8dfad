import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { type Browser, ownerOf } from './browser.ts'

let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
})
afterAll(() => gateway.stop())

test.each([
  ['/usage?acount=team', 'acount'],
  ['/usage?client=codex', 'client'],
  ['/requests?modle=a', 'modle'],
  ['/requests/export?form=csv', 'form'],
  ['/speed?key=ci', 'key'],
  ['/keys?page=2', 'page'],
  ['/system?x=1', 'x'],
  ['/keys?revoked=yes', 'revoked'],
  ['/models?on=1', 'on'],
])('a parameter that is not known, or has another value, is refused: %s', async (path, param) => {
  expect((await owner.get(path)).json).toMatchObject({ error: { code: 'invalid_request', param } })
})

test('the error names the parameters that there are', async () => {
  const { text } = await owner.get('/keys?page=2')
  expect(text).toContain('page: is not a parameter of this route, which takes limit, cursor, account, revoked')
})

test('every list takes a limit, also one that is always whole', async () => {
  for (const path of ['/keys', '/accounts', '/users', '/providers', '/plans', '/models', '/book/balances'])
    expect((await owner.get(`${path}?limit=200`)).status).toBe(200)
})
