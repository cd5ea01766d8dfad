import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { ask } from '../../api/ask.ts'
import { changeSession } from '../../api/session-change.ts'
import type { LinkPreview, Session } from '../../api/answers.ts'
import { Fault, Loading } from '../../parts/fault.tsx'
import { Code } from '../../parts/snippet.tsx'
import { LinkForm, PasswordForm } from './forms.tsx'

const GREETING = {
  first: ['Welcome to Sluice', 'This installation has no owner yet. You become it.'],
  invite: ['You are invited', 'Choose the name under which others see you.'],
  return: ['Welcome back', 'This link signs you in once.'],
} as const

/** The link's secret. It leaves the address bar and the history before anything is asked. */
function takeLink(): string | undefined {
  const link = window.location.hash.slice(1)
  if (link !== '') window.history.replaceState(null, '', window.location.pathname)
  return link === '' ? undefined : link
}

export function Enter({ session }: { session: Session | null }) {
  const [link] = useState(takeLink)
  const [, navigate] = useLocation()
  const client = useQueryClient()
  useEffect(() => {
    document.title = 'Sign in · Sluice'
  }, [])
  useEffect(() => {
    if (session !== null && link === undefined) navigate('/', { replace: true })
  }, [session, link, navigate])
  const enter = (signed: Session): void => {
    changeSession(client, signed)
    navigate('/', { replace: true })
  }
  return (
    <main className="enter">
      <div className="enter-box">
        <Brand />
        {link === undefined ? <WithPassword onDone={enter} /> : <WithLink link={link} onDone={enter} />}
      </div>
    </main>
  )
}

export function Brand() {
  return (
    <span className="brand">
      <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="7" fill="#087f5b" />
        <path d="M8 9h16M8 16h10M8 23h16M22 12.5v7" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
      </svg>
      Sluice
    </span>
  )
}

function WithLink({ link, onDone }: { link: string; onDone: (session: Session) => void }) {
  const asked = useQuery<LinkPreview, Error>({
    queryKey: ['preview'],
    queryFn: () => ask<LinkPreview>('POST', '/session/preview', { body: { link }, isSignIn: true }),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })
  if (asked.error !== null)
    return (
      <Message title="This link does not open anything">
        <Fault error={asked.error} />
        <HowToGetALink />
      </Message>
    )
  if (asked.data === undefined) return <Loading height={240} lines={3} />
  const [title, text] = GREETING[asked.data.kind]
  const { user } = asked.data
  return (
    <Message title={user === null ? title : `${title}, ${user.name}`}>
      <p className="dim">{text}</p>
      <LinkForm link={link} preview={asked.data} onDone={onDone} />
    </Message>
  )
}

function WithPassword({ onDone }: { onDone: (session: Session) => void }) {
  return (
    <Message title="Sign in">
      <PasswordForm onDone={onDone} />
      <HowToGetALink />
    </Message>
  )
}

function HowToGetALink() {
  return (
    <div className="enter-help">
      <p>No password, or the first time here? Run this on the server and open the link that it prints:</p>
      <Code text="npx sluice console" name="command" />
    </div>
  )
}

function Message({ title, children }: { title: string; children: ReactNode }) {
  return (
    <>
      <h1>{title}</h1>
      {children}
    </>
  )
}
