import { SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { User } from '../../api/answers.ts'
import { useAccounts, useUsers } from '../../api/queries.ts'
import { useOpened } from '../../app/opened.ts'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { Ago } from '../../parts/when.tsx'
import { ChangeLog } from './change-log.tsx'
import { Invite } from './invite.tsx'
import { roleText } from './roles.ts'
import { PersonSheet } from './sheet.tsx'

const SHOWN = ['people', 'changes'] as const

/** Who has access, and what was changed by whom. */
export function People() {
  const { may } = useSigned()
  const [params, setParams] = useSearchParams()
  const [inviting, setInviting] = useState(false)
  const set = (name: string, value: string | null): void =>
    setParams((before) => {
      const next = new URLSearchParams(before)
      if (value === null) next.delete(name)
      else next.set(name, value)
      return next
    })
  const shown = may.seeChanges && params.get('show') === 'changes' ? 'changes' : 'people'
  const { id: opened, open } = useOpened('/people')
  return (
    <PageFrame
      title="People"
      actions={may.managePeople && <AddButton onClick={() => setInviting(true)}>Invite</AddButton>}
    >
      {may.seeChanges && (
        <div className="toolbar">
          <SegmentedControl
            size="xs"
            aria-label="Shown"
            value={shown}
            onChange={(value) => set('show', value === 'people' ? null : value)}
            data={SHOWN.map((value) => ({ value, label: value === 'people' ? 'People' : 'Change log' }))}
          />
        </div>
      )}
      {shown === 'changes' ? <ChangeLog /> : <PeopleList onOpen={open} />}
      {opened !== undefined && <PersonSheet key={opened} id={opened} onClose={() => open(undefined)} />}
      <Invite opened={inviting} onClose={() => setInviting(false)} />
    </PageFrame>
  )
}

function PeopleList({ onOpen }: { onOpen: (id: string) => void }) {
  const users = useUsers()
  return (
    <Panel flush>
      <Loaded asked={users} height={200} lines={4}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty icon="people" title="Only you" />
          ) : (
            <TableScroll label="People">
              <table className="table">
                <thead>
                  <tr>
                    <th>Name</th>
                    <th className="wide">E-mail</th>
                    <th>Roles</th>
                    <th className="wide">Password</th>
                    <th>Seen</th>
                  </tr>
                </thead>
                <tbody>
                  {data.map((user) => (
                    <PersonRow key={user.id} user={user} onOpen={onOpen} />
                  ))}
                </tbody>
              </table>
            </TableScroll>
          )
        }
      </Loaded>
    </Panel>
  )
}

function PersonRow({ user, onOpen }: { user: User; onOpen: (id: string) => void }) {
  const accounts = useAccounts().data?.data ?? []
  const { session } = useSigned()
  const { id, name, email, roles, last_seen_at, has_password } = user
  return (
    <tr className="opens" onClick={() => onOpen(id)}>
      <td className="cut">
        <button type="button" className="row-name">
          {visible(name)}
          {id === session.user.id && <span className="dim">, you</span>}
        </button>
      </td>
      <td className="wide cut">{email === null ? <span className="dim">none</span> : visible(email)}</td>
      <td className="cut">{roles.map((role) => roleText(role, accounts)).join(', ') || 'none'}</td>
      <td className="wide dim">{has_password ? 'set' : 'none'}</td>
      <td>
        <Ago at={last_seen_at} />
      </td>
    </tr>
  )
}
