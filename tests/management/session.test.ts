import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/management${path}`, { headers })
const withKey = (kind: string) => ({ authorization: `Bearer ${gateway.createdKeys[kind]}` })

test('a management key is a viewer of its account', async () => {
  const response = await get('/session', withKey('management'))
  expect([response.status, await response.json()]).toEqual([
    200,
    {
      user: null,
      roles: [{ scope: expect.stringMatching(/^acct_/), role: 'viewer' }],
      expires_at: null,
      version: expect.any(String),
    },
  ])
})

test('other requests are refused: without a key, with a wrong one, and with one for inference', async () => {
  const refused = async (headers: Record<string, string>) => {
    const response = await get('/session', headers)
    return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
  }
  expect(await refused({})).toEqual([401, 'sign_in_required'])
  expect(await refused({ authorization: 'Bearer sk-mg-v1-wrong' })).toEqual([401, 'invalid_api_key'])
  expect(await refused(withKey('pay-as-you-go'))).toEqual([403, 'permission_denied'])
})
