import { Button, PasswordInput, Stack, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { ask } from '../../api/ask.ts'
import type { LinkPreview, Session } from '../../api/answers.ts'
import { Fault } from '../../parts/fault.tsx'

const SHORTEST_PASSWORD = 12
const LONGEST_PASSWORD = 200

const useSignIn = (onDone: (session: Session) => void) =>
  useMutation<Session, Error, Record<string, string>>({
    mutationFn: (body) => ask<Session>('POST', '/session', { body, isSignIn: true }),
    onSuccess: onDone,
  })

/** Sign-in by e-mail and password. */
export function PasswordForm({ onDone }: { onDone: (session: Session) => void }) {
  const [given, setGiven] = useState({ email: '', password: '' })
  const signIn = useSignIn(onDone)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    signIn.mutate(given)
  }
  return (
    <form onSubmit={submit} aria-label="Sign in">
      <Stack gap="md">
        <TextInput
          label="E-mail"
          name="email"
          type="email"
          autoComplete="username"
          required
          data-autofocus
          value={given.email}
          onChange={({ currentTarget: { value } }) => setGiven((before) => ({ ...before, email: value }))}
        />
        <PasswordInput
          label="Password"
          name="password"
          autoComplete="current-password"
          required
          value={given.password}
          onChange={({ currentTarget: { value } }) => setGiven((before) => ({ ...before, password: value }))}
        />
        {signIn.error !== null && <Fault error={signIn.error} />}
        <Button type="submit" loading={signIn.isPending} fullWidth>
          Sign in
        </Button>
      </Stack>
    </form>
  )
}

const BUTTON = { first: 'Become the owner', invite: 'Join', return: 'Sign in' } as const

/** The fields of a link: a name, and a password if one is wanted. */
export function LinkForm({
  link,
  preview,
  onDone,
}: {
  link: string
  preview: LinkPreview
  onDone: (session: Session) => void
}) {
  const [name, setName] = useState(preview.user?.name ?? '')
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const signIn = useSignIn(onDone)
  const isNew = preview.kind !== 'return'
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const typed = isNew ? { name, email, password } : {}
    signIn.mutate({ link, ...Object.fromEntries(Object.entries(typed).filter(([, value]) => value !== '')) })
  }
  return (
    <form onSubmit={submit} aria-label={BUTTON[preview.kind]}>
      <Stack gap="md">
        {isNew && (
          <>
            <TextInput
              label="Your name"
              name="name"
              autoComplete="name"
              required
              autoFocus
              maxLength={100}
              value={name}
              onChange={({ currentTarget: { value } }) => setName(value)}
            />
            <TextInput
              label="E-mail"
              description="Optional. With it and a password you sign in without a link."
              name="email"
              type="email"
              autoComplete="username"
              value={email}
              onChange={({ currentTarget: { value } }) => setEmail(value)}
            />
            <PasswordInput
              label="Password"
              description={`Optional, ${SHORTEST_PASSWORD} characters or more.`}
              name="password"
              autoComplete="new-password"
              minLength={SHORTEST_PASSWORD}
              maxLength={LONGEST_PASSWORD}
              value={password}
              onChange={({ currentTarget: { value } }) => setPassword(value)}
            />
          </>
        )}
        {signIn.error !== null && <Fault error={signIn.error} />}
        <Button type="submit" loading={signIn.isPending} fullWidth>
          {BUTTON[preview.kind]}
        </Button>
      </Stack>
    </form>
  )
}
