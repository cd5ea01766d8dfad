import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Caller } from '../../src/accounts/caller.ts'
import { rolesOf, type Role } from '../../src/accounts/roles.ts'
import { managementRoutes } from '../../src/endpoints/management/routes.ts'
import { startGateway, type Gateway } from '../server.ts'
import { type Browser, signedIn } from './browser.ts'

/** Every row of the management API with every kind of caller, from the table of roles. */

const ROLES: Role[] = [
  ...rolesOf('installation').map((role): Role => ({ scope: 'installation', role })),
  ...rolesOf('acct_1').map((role): Role => ({ scope: 'acct_1', role })),
]

let gateway: Gateway
const browsers = new Map<Role, Browser>()
beforeAll(async () => {
  gateway = await startGateway()
  for (const role of ROLES) browsers.set(role, await signedIn(gateway, role.role, [role]))
})
afterAll(() => gateway.stop())

async function ask(method: string, template: string, headers: Record<string, string> = {}): Promise<[number, string]> {
  const response = await fetch(gateway.url + template.replace(/\{\w+\}/g, 'none'), { method, headers })
  // A stream has no end.
  if (response.ok) {
    await response.body?.cancel()
    return [response.status, '']
  }
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
    // It would end the session that the next rows need.
    if (template === '/v1/management/session' || action === 'public') return
    for (const role of ROLES) {
      const caller = Caller.ofUser({ id: 'u', name: 'u', email: null, sessionId: 's', sessionEndsAt: 0 }, [role])
      const path = template.replace('/v1/management', '').replace(/\{\w+\}/g, 'none')
      const { code } = await browsers.get(role)!.ask(method, path, method === 'GET' ? undefined : { unknown: 1 })
      const isRefused = action !== 'signed-in' && !caller.mayAnywhere(action)
      expect([role, code === 'role_required']).toEqual([role, isRefused])
    }
    const [status] = await ask(method, template, bearer('management'))
    expect(status).not.toBe(401)
  })
})
