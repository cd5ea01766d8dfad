import { Button, Drawer, Modal, PasswordInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { type FormEvent, useState } from 'react'
import type { Answer } from '../../api/ask.ts'
import type { NewLink, RoleOn, User } from '../../api/answers.ts'
import { useChange, useTagged } from '../../api/queries.ts'
import { useSigned } from '../../app/session.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { visible } from '../../parts/visible.ts'
import { Ago, When } from '../../parts/when.tsx'
import { Link } from './invite.tsx'
import { RolesField } from './roles-field.tsx'
import { Sessions } from './sessions.tsx'

/** One person: roles, sessions, links. */
export function PersonSheet({ id, onClose }: { id: string; onClose: () => void }) {
  const asked = useTagged<User>(`/users/${encodeURIComponent(id)}`)
  return (
    <Drawer opened onClose={onClose} title={visible(asked.data?.data.name ?? 'Person')} size={520}>
      <Loaded asked={asked} height={400} lines={8}>
        {(answer) => <Person answer={answer} onClose={onClose} />}
      </Loaded>
    </Drawer>
  )
}

function Person({ answer, onClose }: { answer: Answer<User>; onClose: () => void }) {
  const { session, may } = useSigned()
  const { data: user } = answer
  const isSelf = user.id === session.user.id
  return (
    <div className="stack-wide">
      <Facts>
        <Fact name="E-mail">{user.email === null ? <span className="dim">none</span> : visible(user.email)}</Fact>
        <Fact name="Password">{user.has_password ? 'set' : <span className="dim">none</span>}</Fact>
        <Fact name="Since">
          <When at={user.created_at} />
        </Fact>
        <Fact name="Seen">
          <Ago at={user.last_seen_at} />
        </Fact>
      </Facts>
      {may.managePeople && <ChangeRoles answer={answer} />}
      {isSelf && <OwnPassword user={user} />}
      {(isSelf || may.managePeople) && <Sessions id={user.id} />}
      {may.managePeople && !isSelf && (
        <div className="sheet-foot">
          <SignInLink user={user} />
          <RemovePerson user={user} onDone={onClose} />
        </div>
      )}
    </div>
  )
}

function ChangeRoles({ answer }: { answer: Answer<User> }) {
  const { data: user, etag } = answer
  const [roles, setRoles] = useState<RoleOn[]>([...user.roles])
  const save = useChange<void>(
    'PATCH',
    () => `/users/${encodeURIComponent(user.id)}`,
    ['/users', '/session'],
    () => ({ body: { roles }, ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  const isSame = JSON.stringify(roles) === JSON.stringify(user.roles)
  return (
    <div className="stack">
      <RolesField roles={roles} onChange={setRoles} />
      {save.error !== null && <Fault error={save.error} />}
      {!isSame && (
        <Button loading={save.isPending} onClick={() => save.mutate()}>
          Save the roles
        </Button>
      )}
    </div>
  )
}

function OwnPassword({ user: { id, has_password } }: { user: User }) {
  const [old, setOld] = useState('')
  const [password, setPassword] = useState('')
  const save = useChange<void>(
    'PUT',
    () => `/users/${encodeURIComponent(id)}/password`,
    ['/users'],
    () => ({ body: { password, ...(has_password ? { old_password: old } : {}) } }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    save.mutate(undefined, { onSuccess: () => setPassword('') })
  }
  return (
    <form onSubmit={submit} className="stack" aria-label="Your password">
      <h3>Your password</h3>
      {has_password && (
        <PasswordInput
          label="Old password"
          autoComplete="current-password"
          required
          value={old}
          onChange={({ currentTarget: { value } }) => setOld(value)}
        />
      )}
      <PasswordInput
        label="New password"
        description="12 characters or more"
        autoComplete="new-password"
        required
        minLength={12}
        maxLength={200}
        value={password}
        onChange={({ currentTarget: { value } }) => setPassword(value)}
      />
      {save.error !== null && <Fault error={save.error} />}
      <Button type="submit" variant="default" loading={save.isPending}>
        {save.isSuccess && password === '' ? 'Saved' : 'Set the password'}
      </Button>
    </form>
  )
}

function SignInLink({ user }: { user: User }) {
  const [link, setLink] = useState<NewLink>()
  const create = useChange<void, NewLink>(
    'POST',
    () => `/users/${encodeURIComponent(user.id)}/links`,
    [],
    () => ({ body: {} }),
  )
  const close = (): void => setLink(undefined)
  return (
    <>
      <Button
        variant="default"
        loading={create.isPending}
        onClick={() => create.mutate(undefined, { onSuccess: setLink })}
      >
        Create a sign-in link
      </Button>
      {create.error !== null && <Fault error={create.error} />}
      <Modal opened={link !== undefined} onClose={close} title={`The link for ${visible(user.name)}`} size="lg">
        {link !== undefined && <Link link={link} onClose={close} />}
      </Modal>
    </>
  )
}

function RemovePerson({ user, onDone }: { user: User; onDone: () => void }) {
  const [opened, { open, close }] = useDisclosure(false)
  const remove = useChange<void>('DELETE', () => `/users/${encodeURIComponent(user.id)}`, ['/users'])
  return (
    <>
      <Button variant="default" className="danger" onClick={open}>
        Remove
      </Button>
      <Modal opened={opened} onClose={close} title={`Remove ${visible(user.name)}?`}>
        <p className="dialog-text">Their sessions end at once. Keys that they created stay: revoke them, too.</p>
        {remove.error !== null && <Fault error={remove.error} />}
        <Button
          fullWidth
          color="red.8"
          loading={remove.isPending}
          onClick={() => remove.mutate(undefined, { onSuccess: onDone })}
        >
          Remove the person
        </Button>
      </Modal>
    </>
  )
}
