import { ActionIcon, Button, Select } from '@mantine/core'
import type { RoleOn } from '../../api/answers.ts'
import { useAccounts } from '../../api/queries.ts'
import { useSigned } from '../../app/session.tsx'
import { Icon } from '../../parts/icons.tsx'
import { INSTALLATION, rolesIn } from './roles.ts'

type Props = { roles: readonly RoleOn[]; onChange: (roles: RoleOn[]) => void }

/** The roles of a person: any number, one for the installation or an account each. */
export function RolesField({ roles, onChange }: Props) {
  const { may } = useSigned()
  const accounts = (useAccounts().data?.data ?? []).filter(({ id }) => may.manageAccount(id))
  const scopes = [
    ...(may.changeInstallation ? [{ value: INSTALLATION, label: 'The installation' }] : []),
    ...accounts.map(({ id, name }) => ({ value: id, label: name })),
  ]
  const replace = (index: number, role: RoleOn | undefined): void =>
    onChange(roles.flatMap((one, at) => (at === index ? (role === undefined ? [] : [role]) : [one])))
  const free = scopes.find(({ value }) => !roles.some(({ scope }) => scope === value))
  return (
    <fieldset className="roles">
      <legend>Roles</legend>
      {roles.map((one, index) => (
        <div key={`${one.scope} ${index}`} className="role">
          <Select
            aria-label="Where"
            data={scopes.some(({ value }) => value === one.scope) ? scopes : [...scopes, one.scope]}
            value={one.scope}
            onChange={(scope) => replace(index, { scope: scope ?? one.scope, role: 'viewer' })}
          />
          <Select
            className="role-what"
            aria-label="Role"
            data={rolesIn(one.scope).map(([value, text]) => ({ value, label: `${value}: ${text}` }))}
            value={one.role}
            onChange={(role) => replace(index, { ...one, role: (role ?? one.role) as RoleOn['role'] })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label="Remove the role"
            onClick={() => replace(index, undefined)}
          >
            <Icon name="close" />
          </ActionIcon>
        </div>
      ))}
      {free !== undefined && (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => onChange([...roles, { scope: free.value, role: 'viewer' }])}
        >
          Add a role
        </Button>
      )}
    </fieldset>
  )
}
