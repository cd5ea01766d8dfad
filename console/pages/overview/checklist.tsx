import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Key, Page } from '../../api/answers.ts'
import { useAsk, useProviders } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Icon } from '../../parts/icons.tsx'
import { Panel } from '../../parts/page.tsx'

/** Kept for as long as the page is open: the list returns with a new one until there are requests. */
let wasDismissed = false

/** The first steps, shown while there are no requests. `hasRequests`: undefined while that is not known. */
export function Checklist({ hasRequests }: { hasRequests: boolean | undefined }) {
  const [dismissed, setDismissed] = useState(wasDismissed)
  if (hasRequests !== false || dismissed) return null
  const dismiss = (): void => {
    wasDismissed = true
    setDismissed(true)
  }
  return (
    <Panel
      title="First steps"
      actions={
        <Button size="compact-sm" variant="subtle" color="gray" onClick={dismiss}>
          Dismiss
        </Button>
      }
    >
      <Steps />
    </Panel>
  )
}

function Steps() {
  const { may } = useSigned()
  const keys = useAsk<Page<Key>>('/keys', { limit: 1 })
  const providers = useProviders({ enabled: may.readInstallation })
  const hasKey = (keys.data?.data.length ?? 0) > 0
  const hasProvider = providers.data?.data.some(({ id, on }) => on && id !== 'sandbox') ?? false
  return (
    <ol className="checklist">
      <Step number={1} name="See an answer" done={false} path="/playground" action="Open the playground">
        The sandbox answers every protocol, without a provider and without a cent.
      </Step>
      <Step number={2} name="Create a key" done={hasKey} path="/keys?create=1" action="Create a key">
        A client needs one. It can have a limit, and models of its own.
      </Step>
      <Step number={3} name="Connect a client" done={false} path="/keys?connect=1" action="Choose a client">
        Settings to copy for Claude Code, Codex, Gemini CLI, SDKs and others.
      </Step>
      {may.readInstallation && (
        <Step number={4} name="Add a provider" done={hasProvider} path="/providers" action="See providers">
          Its key switches it on: here, in the environment, or in sluice.yaml.
        </Step>
      )}
    </ol>
  )
}

type StepProps = { number: number; name: string; done: boolean; path: string; action: string; children: string }

function Step({ number, name, done, path, action, children }: StepProps) {
  return (
    <li className={done ? 'step step-done' : 'step'}>
      <span className="step-mark">{done ? <Icon name="check" size={14} /> : number}</span>
      <span className="step-name">
        {name}
        {done && <span className="dim">, done</span>}
      </span>
      <span className="dim">{children}</span>
      <To path={path} className="link">
        {action}
      </To>
    </li>
  )
}
