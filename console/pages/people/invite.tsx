import { Button, Modal, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { NewLink, RoleOn, User } from '../../api/answers.ts'
import { useAccounts, useChange } from '../../api/queries.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { usualAccount } from '../../parts/accounts.ts'
import { Fault } from '../../parts/fault.tsx'
import { Code } from '../../parts/snippet.tsx'
import { Ago } from '../../parts/when.tsx'
import { RolesField } from './roles-field.tsx'

type Invited = { user: User; link: NewLink }

/** Makes a person and their link, which is shown once: no mail is sent. */
export function Invite({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [invited, setInvited] = useState<Invited>()
  const close = (): void => {
    setInvited(undefined)
    onClose()
  }
  return (
    <Modal
      opened={opened}
      onClose={close}
      closeOnClickOutside={invited === undefined}
      title={invited === undefined ? 'Invite a person' : `The link for ${invited.user.name}`}
      size="lg"
    >
      {invited === undefined ? <InviteForm onInvited={setInvited} /> : <Link link={invited.link} onClose={close} />}
    </Modal>
  )
}

export function Link({ link, onClose }: { link: NewLink; onClose: () => void }) {
  return (
    <div className="stack">
      <p className="dialog-text">
        Send it over a channel that you trust. It works once, ends <Ago at={link.expires_at} />, and is{' '}
        <strong>never shown again</strong>.
      </p>
      <Code text={link.url} name="link" />
      <Button onClick={onClose}>I have copied it</Button>
    </div>
  )
}

function InviteForm({ onInvited }: { onInvited: (invited: Invited) => void }) {
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [chosen, setChosen] = useState<RoleOn[]>()
  const { account } = useScope()
  const { may } = useSigned()
  const managed = (useAccounts().data?.data ?? []).filter(({ id }) => may.manageAccount(id))
  const usual = usualAccount(managed, account)
  const roles = chosen ?? (usual === undefined ? [] : [{ scope: usual.id, role: 'member' as const }])
  const create = useChange<void, User>(
    'POST',
    () => '/users',
    ['/users'],
    () => ({ body: { name: name.trim(), ...(email === '' ? {} : { email: email.trim() }), roles } }),
  )
  const link = useChange<User, NewLink>(
    'POST',
    ({ id }) => `/users/${encodeURIComponent(id)}/links`,
    ['/users'],
    () => ({ body: {} }),
  )
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault()
    const user = await create.mutateAsync().catch(() => undefined)
    const made = user && (await link.mutateAsync(user).catch(() => undefined))
    if (user !== undefined && made !== undefined) onInvited({ user, link: made })
  }
  const error = create.error ?? link.error
  return (
    <form onSubmit={(event) => void submit(event)} className="stack" aria-label="Invite a person">
      <TextInput
        label="Name"
        required
        maxLength={100}
        data-autofocus
        value={name}
        onChange={({ currentTarget: { value } }) => setName(value)}
      />
      <TextInput
        label="E-mail"
        description="Optional. No mail is sent: it is what they sign in with."
        type="email"
        value={email}
        onChange={({ currentTarget: { value } }) => setEmail(value)}
      />
      <RolesField roles={roles} onChange={setChosen} />
      {error !== null && <Fault error={error} />}
      <Button type="submit" loading={create.isPending || link.isPending} disabled={roles.length === 0}>
        Create the link
      </Button>
    </form>
  )
}
