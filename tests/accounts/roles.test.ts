import { describe, expect, test } from 'bun:test'
import { Caller } from '../../src/accounts/caller.ts'
import { ACTIONS, covers, INSTALLATION, leastRole, ROLE_NAMES, rolesOf, type Role } from '../../src/accounts/roles.ts'
import type { GatewayError } from '../../src/error.ts'

const someone = { id: 'usr_1', name: 'Ann', email: null, sessionId: 'ses_1', sessionEndsAt: 0 }
const callerWith = (...roles: Role[]): Caller => Caller.ofUser(someone, roles)
const on = (scope: string, role: Role['role']): Role => ({ scope, role })

describe('roles', () => {
  test('an owner may do everything everywhere, and a request without a role nothing', () => {
    const owner = callerWith(on(INSTALLATION, 'owner'))
    for (const action of ACTIONS) {
      expect([action, owner.may(action), owner.may(action, 'acct_1')]).toEqual([action, true, true])
      expect([action, callerWith().mayAnywhere(action)]).toEqual([action, false])
    }
  })

  test('a role on an account allows nothing elsewhere', () => {
    for (const role of rolesOf('acct_1')) {
      const caller = callerWith(on('acct_1', role))
      for (const action of ACTIONS)
        expect([role, action, caller.may(action), caller.may(action, 'acct_2', true)]).toEqual([
          role,
          action,
          false,
          false,
        ])
    }
  })

  test('a member of an account may do to its own keys what its admin may do to all', () => {
    const member = callerWith(on('acct_1', 'member'))
    expect([member.may('keys.change', 'acct_1'), member.may('keys.change', 'acct_1', true)]).toEqual([false, true])
    expect(callerWith(on('acct_1', 'admin')).may('keys.change', 'acct_1')).toBe(true)
    expect(callerWith(on('acct_1', 'viewer')).may('keys.change', 'acct_1', true)).toBe(false)
    expect(member.owns({ id: 'key_1', createdBy: 'usr_1' })).toBe(true)
    expect(member.owns({ id: 'key_1', createdBy: null })).toBe(false)
  })

  test('a viewer of the installation changes nothing and sees no bodies', () => {
    const viewer = callerWith(on(INSTALLATION, 'viewer'))
    const denied = ACTIONS.filter((action) => !viewer.mayAnywhere(action))
    expect(denied).toEqual([
      'bodies.read',
      'keys.change',
      'playground.use',
      'jobs.change',
      'files.change',
      'accounts.change',
      'settings.change',
      'people.change',
    ])
  })

  test('the error for a missing role names the least one that is enough', () => {
    expect([leastRole('keys.change'), leastRole('settings.change'), leastRole('book.audit')]).toEqual([
      'account member',
      'admin of the installation',
      'viewer of the installation',
    ])
    const refused = (caller: Caller): unknown[] => {
      try {
        return [caller.require('settings.change')]
      } catch (error) {
        const { status, code, message } = error as GatewayError
        return [status, code, message]
      }
    }
    expect(refused(callerWith(on('acct_1', 'admin')))).toEqual([
      403,
      'role_required',
      'This takes the role admin of the installation, for settings.change. You are admin of acct_1.',
    ])
    expect(refused(Caller.anonymous).slice(0, 2)).toEqual([401, 'sign_in_required'])
    expect(refused(callerWith(on(INSTALLATION, 'admin')))).toEqual([undefined])
  })

  test('a role covers those that allow no more', () => {
    const admin = [on('acct_1', 'admin')]
    expect(ROLE_NAMES.map((role) => covers(admin, on('acct_1', role)))).toEqual([false, true, true, true])
    expect(covers(admin, on('acct_2', 'viewer'))).toBe(false)
    expect(covers(admin, on(INSTALLATION, 'viewer'))).toBe(false)
    expect(covers([on(INSTALLATION, 'admin')], on(INSTALLATION, 'owner'))).toBe(false)
    expect(covers([on(INSTALLATION, 'viewer')], on('acct_1', 'member'))).toBe(false)
    expect(covers([on(INSTALLATION, 'viewer')], on('acct_1', 'viewer'))).toBe(true)
  })
})
