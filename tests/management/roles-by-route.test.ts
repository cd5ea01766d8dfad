import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Caller } from '../../src/accounts/caller.ts'
import { managementRoutes } from '../../src/endpoints/management/routes.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Every row of the management API with every kind of caller, from the table of roles. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())

async function ask(method: string, template: string, headers: Record<string, string> = {}): Promise<[number, string]> {
  const response = await fetch(gateway.url + template.replace(/\{\w+\}/g, 'none'), { method, headers })
  return [response.status, /"code":"(\w+)"/.exec(await response.text())?.[1] ?? '']
}
const bearer = (kind: string) => ({ authorization: `Bearer ${gateway.createdKeys[kind]}` })

const rows = managementRoutes.map((route) => [`${route.method} ${route.template}`, route] as const)

test('each route has its own name and its own path', () => {
  expect(new Set(managementRoutes.map(({ name }) => name)).size).toBe(managementRoutes.length)
  expect(new Set(rows.map(([name]) => name)).size).toBe(managementRoutes.length)
})

describe('a route', () => {
  test.each(rows)('%s takes a session or a management key', async (_, { method, template, action }) => {
    if (action === 'public') return
    expect(await ask(method, template)).toEqual([401, 'sign_in_required'])
    expect(await ask(method, template, { authorization: 'Bearer sk-mg-v1-unknown' })).toEqual([401, 'invalid_api_key'])
    expect(await ask(method, template, bearer('pay-as-you-go'))).toEqual([403, 'permission_denied'])
    expect(await ask(method, template, bearer('subscription'))).toEqual([403, 'permission_denied'])
  })

  test.each(rows)('%s asks for the role of its action', async (_, { method, template, action }) => {
    const viewer = Caller.ofUser({ id: 'u', name: 'u', email: null, sessionId: 's', sessionEndsAt: 0 }, [
      { scope: 'acct_1', role: 'viewer' },
    ])
    const [status, code] = await ask(method, template, bearer('management'))
    const refused = action !== 'public' && action !== 'signed-in' && !viewer.mayAnywhere(action)
    if (refused) expect([status, code]).toEqual([403, 'role_required'])
    else expect([status === 401, code]).not.toEqual([false, 'role_required'])
  })
})
