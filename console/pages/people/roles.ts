import type { Account, Role, RoleOn } from '../../api/answers.ts'

export const INSTALLATION = 'installation'

/** Roles of a scope, with what they allow. */
export const rolesIn = (scope: string): readonly (readonly [Role, string])[] =>
  scope === INSTALLATION
    ? [
        ['viewer', 'sees everything'],
        ['admin', 'changes everything but owners'],
        ['owner', 'may do everything'],
      ]
    : [
        ['viewer', 'sees requests, usage and keys'],
        ['member', 'has keys of their own'],
        ['admin', 'manages keys and people'],
      ]

type Names = readonly Pick<Account, 'id' | 'name'>[]

const scopeText = (scope: string, accounts: Names): string =>
  scope === INSTALLATION ? 'installation' : (accounts.find(({ id }) => id === scope)?.name ?? scope)

export const roleText = ({ scope, role }: RoleOn, accounts: Names): string =>
  scope === INSTALLATION ? role : `${role} of ${scopeText(scope, accounts)}`
