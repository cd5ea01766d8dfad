import { Button, Progress } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ask } from '../../api/ask.ts'
import { Fault } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { Panel } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'
import { When } from '../../parts/when.tsx'
import type { Audit } from './shapes.ts'

const AGAIN_MS = 500

/** Reads the whole book and says if it is right. It goes on in the server when the page is left. */
export function AuditPanel() {
  const [id, setId] = useState<string>()
  const begin = useMutation<Audit, Error>({
    mutationFn: () => ask('POST', '/book/audit', { body: {} }),
    onSuccess: (audit) => setId(audit.id),
  })
  const asked = useQuery<Audit, Error>({
    queryKey: ['/book/audit', id],
    queryFn: ({ signal }) => ask('GET', `/book/audit/${encodeURIComponent(id!)}`, { signal }),
    enabled: id !== undefined,
    refetchInterval: ({ state }) => (state.data === undefined || state.data.state === 'running' ? AGAIN_MS : false),
  })
  const audit = asked.data ?? begin.data
  const isRunning = begin.isPending || audit?.state === 'running'
  return (
    <Panel
      title="Audit"
      actions={
        <Button size="compact-sm" loading={isRunning} onClick={() => begin.mutate()}>
          Audit now
        </Button>
      }
    >
      {begin.error !== null && <Fault error={begin.error} retry={begin.mutate} />}
      {asked.error !== null && <Fault error={asked.error} retry={asked.refetch} />}
      {audit === undefined ? (
        <div className="audit-idle">
          <p className="dim">
            Reads every record, transfer and balance, computes all of them again, and names the first that is wrong. In
            a terminal:
          </p>
          <Code text="npx sluice ledger audit" name="command" />
        </div>
      ) : (
        <Outcome audit={audit} />
      )}
    </Panel>
  )
}

function Outcome({ audit }: { audit: Audit }) {
  const { state, read, total, wrong, first, sentence, ended_at } = audit
  if (state === 'running')
    return (
      <div role="status">
        <Progress
          value={total === 0 ? 100 : Math.min(100, Math.round((read / total) * 100))}
          animated
          aria-label="Progress of the audit"
        />
        <p className="dim audit-text number">
          {count(read)} of {count(total)} records read
        </p>
      </div>
    )
  const isRight = state === 'done' && wrong === 0
  return (
    <div className="verdict" data-tone={isRight ? 'good' : 'failed'} role="status">
      <p className={isRight ? 'audit-right' : 'audit-wrong'}>
        <Icon name={isRight ? 'check' : 'alert'} size={16} />
        {visible(sentence)}
      </p>
      {first !== null && (
        <p className="audit-text">
          The first is <code>{visible(first.id)}</code> of {first.table}: {visible(first.found)} instead of{' '}
          {visible(first.expected)}.
        </p>
      )}
      {ended_at !== null && (
        <p className="dim audit-text">
          As of <When at={ended_at} />
        </p>
      )}
    </div>
  )
}
