import { Button, Switch } from '@mantine/core'
import { useState } from 'react'
import type { Page } from '../../api/answers.ts'
import { useAsk } from '../../api/queries.ts'
import { useParam } from '../../app/param.ts'
import { To, useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { Pager, useCursors } from '../../parts/pager.tsx'
import { Code } from '../../parts/snippet.tsx'
import { CancelJob } from './cancel.tsx'
import { JobFiles } from './files.tsx'
import { JobList } from './list.tsx'
import type { Job } from './job.ts'
import { Quota } from './quota.tsx'

const ROWS = 50
const AGAIN_MS = 2_000

/** Work that goes on after its request, as it proceeds. */
export function Jobs() {
  const { account } = useScope()
  const [open, setOpen] = useParam('open')
  const question = { account, ...(open === '' ? {} : { open: true }) }
  const [cursors, setCursors] = useCursors(question)
  const [canceled, setCanceled] = useState<Job>()
  const [shown, setShown] = useState<Job>()
  const jobs = useAsk<Page<Job>>(
    '/jobs',
    { ...question, limit: ROWS, cursor: cursors.at(-1) },
    { refetchInterval: AGAIN_MS },
  )
  return (
    <PageFrame title="Jobs" note="Predictions, such as images and video, and responses in the background.">
      <div className="toolbar">
        <Switch
          label="Only those under way"
          checked={open !== ''}
          onChange={({ currentTarget: { checked } }) => setOpen(checked ? 'true' : '')}
        />
        <Quota account={account} againMs={AGAIN_MS} />
      </div>
      <Panel flush>
        <Loaded asked={jobs} height={300} lines={8}>
          {({ data, next }) =>
            data.length > 0 || cursors.length > 0 || next !== null ? (
              <>
                <JobList jobs={data} onCancel={setCanceled} onFiles={setShown} />
                <Pager next={next} cursors={cursors} onTurn={setCursors} />
              </>
            ) : open === '' ? (
              <NoJobs />
            ) : (
              <Empty
                icon="jobs"
                title="Nothing is under way"
                action={
                  <Button variant="default" onClick={() => setOpen('')}>
                    Show all jobs
                  </Button>
                }
              >
                A job appears here when it is made, and leaves when it has ended.
              </Empty>
            )
          }
        </Loaded>
      </Panel>
      {shown !== undefined && <JobFiles job={shown} onClose={() => setShown(undefined)} />}
      {canceled !== undefined && <CancelJob job={canceled} onClose={() => setCanceled(undefined)} />}
    </PageFrame>
  )
}

const commandFor = (origin: string): string => `curl ${origin}/v1/predictions \\
  -H "authorization: Bearer $SLUICE_KEY" -H 'content-type: application/json' \\
  -d '{"model": "sandbox/prediction", "input": {"prompt": "a red fox", "duration": 20}}'`

function NoJobs() {
  const { may } = useSigned()
  return (
    <Empty icon="jobs" title={may.seeOthers ? 'No jobs yet' : 'No jobs of your keys yet'}>
      <p>
        A client makes one by <code>POST /v1/predictions</code>, or by a response with <code>"background": true</code>.
        It goes on after its request, and stays here for some days after its end. Try it with a{' '}
        <To path="/keys" className="link">
          key
        </To>{' '}
        and the sandbox, which needs no provider:
      </p>
      <Code name="command" text={commandFor(window.location.origin)} />
    </Empty>
  )
}
