import { Button, Drawer, Modal, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { Account } from '../../api/answers.ts'
import { useAccounts, useChange, useTagged } from '../../api/queries.ts'
import { useOpened } from '../../app/opened.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { Meter } from '../../parts/meter.tsx'
import { Money } from '../../parts/money.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { AccountSheet } from './sheet.tsx'

/** Accounts with what they have left. The address names the opened one. */
export function Accounts() {
  const { account: scoped } = useScope()
  const { may } = useSigned()
  const [creating, setCreating] = useState(false)
  const accounts = useAccounts()
  const { id: opened, open } = useOpened('/accounts')
  return (
    <PageFrame
      title="Accounts"
      actions={may.changeInstallation && <AddButton onClick={() => setCreating(true)}>Create an account</AddButton>}
    >
      <Panel flush>
        <Loaded asked={accounts} height={200} lines={4}>
          {({ data }) => (
            <AccountList
              accounts={data.filter(({ id, name }) => scoped === undefined || scoped === id || scoped === name)}
              onOpen={open}
            />
          )}
        </Loaded>
      </Panel>
      {opened !== undefined && <OpenAccount key={opened} id={opened} onClose={() => open(undefined)} />}
      <CreateAccount opened={creating} onClose={() => setCreating(false)} onCreated={open} />
    </PageFrame>
  )
}

function OpenAccount({ id, onClose }: { id: string; onClose: () => void }) {
  const asked = useTagged<Account>(`/accounts/${encodeURIComponent(id)}`)
  return (
    <Drawer opened onClose={onClose} title={visible(asked.data?.data.name ?? 'Account')} size={520}>
      <Loaded asked={asked} height={400} lines={8}>
        {(answer) => <AccountSheet answer={answer} />}
      </Loaded>
    </Drawer>
  )
}

function AccountList({ accounts, onOpen }: { accounts: readonly Account[]; onOpen: (id: string) => void }) {
  if (accounts.length === 0) return <Empty icon="account" title="No account that you may see" />
  return (
    <TableScroll label="Accounts">
      <table className="table">
        <thead>
          <tr>
            <th>Name</th>
            <th>Status</th>
            <th className="right">Balance, USD</th>
            <th className="right wide wider">Bonus in it</th>
            <th className="right wide wider">Held</th>
            <th className="wide">Plan</th>
            <th className="wide">Windows of the plan</th>
          </tr>
        </thead>
        <tbody>
          {accounts.map(({ id, name, status, balance_usd, bonus_usd, held_usd, plan, windows }) => (
            <tr key={id} className="opens" onClick={() => onOpen(id)}>
              <td className="cut">
                <button type="button" className="row-name">
                  {visible(name)}
                </button>
              </td>
              <td className={status === 'healthy' ? 'dim' : 'failed'}>{status}</td>
              <td className="right">
                <Money usd={balance_usd} />
              </td>
              <td className="right wide wider dim">
                <Money usd={bonus_usd} />
              </td>
              <td className="right wide wider dim">
                <Money usd={held_usd} />
              </td>
              <td className="wide">{plan.tier}</td>
              <td className="wide">
                <span className="account-windows">
                  {windows.map((window) => (
                    <Meter key={window.name} {...window} resets_at={null} />
                  ))}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}

type CreateProps = { opened: boolean; onClose: () => void; onCreated: (id: string) => void }

function CreateAccount({ opened, onClose, onCreated }: CreateProps) {
  const [name, setName] = useState('')
  const create = useChange<void, Account>(
    'POST',
    () => '/accounts',
    ['/accounts'],
    () => ({ body: { name: name.trim() } }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    create.mutate(undefined, {
      onSuccess: ({ id }) => {
        onClose()
        setName('')
        onCreated(id)
      },
    })
  }
  return (
    <Modal opened={opened} onClose={onClose} title="Create an account">
      <form onSubmit={submit} className="stack">
        <TextInput
          label="Name"
          description="Keys, balance and plan belong to an account."
          required
          maxLength={100}
          data-autofocus
          value={name}
          onChange={({ currentTarget: { value } }) => setName(value)}
        />
        {create.error !== null && <Fault error={create.error} />}
        <Button type="submit" loading={create.isPending}>
          Create the account
        </Button>
      </form>
    </Modal>
  )
}
