import { Button, Modal, Tabs } from '@mantine/core'
import { useState } from 'react'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { useAccounts } from '../../api/queries.ts'
import { usualAccount } from '../../parts/accounts.ts'
import { Icon } from '../../parts/icons.tsx'
import { copy } from '../../parts/copy.ts'
import { PageFrame } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { pathOf, type Body } from './bodies.ts'
import { codeOf } from './code.ts'
import { Columns } from './columns.tsx'
import { type Draft, useDraft, writtenBody } from './draft.ts'
import { Explain } from './explain.tsx'
import { Form } from './form.tsx'
import { Run, type RunState } from './run.ts'
import { writeShared } from './share.ts'

/** A client in the page: any protocol, any model, with the wire. */
export function Playground() {
  const draft = useDraft()
  const { runs, send, stop } = useRuns(draft)
  const [shown, setShown] = useState<'code' | 'explain'>()
  const close = (): void => setShown(undefined)
  const canShare = writeShared(draft)
  return (
    <PageFrame
      title="Playground"
      actions={
        <>
          <Button variant="default" size="compact-sm" onClick={draft.reset}>
            New
          </Button>
          <Button
            variant="default"
            size="compact-sm"
            leftSection={<Icon name="reference" size={14} />}
            onClick={() => setShown('code')}
          >
            Code
          </Button>
          <Button variant="default" size="compact-sm" onClick={() => setShown('explain')}>
            Explain
          </Button>
          <Button
            variant="default"
            size="compact-sm"
            disabled={canShare === undefined}
            title={canShare === undefined ? 'The request is too long for a link' : 'A link with the request, no key'}
            onClick={() => void copy(`${window.location.origin}/console/playground#${canShare}`, 'Link')}
          >
            Share
          </Button>
        </>
      }
    >
      <div className="playground">
        <Form draft={draft} isRunning={isRunning(runs)} onSend={send} onStop={stop} />
        <Columns draft={draft} runs={runs} />
      </div>
      <Modal opened={shown === 'code'} onClose={close} title="The request as code" size="xl">
        {shown === 'code' && <CodeOf draft={draft} />}
      </Modal>
      <Modal opened={shown === 'explain'} onClose={close} title="What would be sent" size="xl">
        {shown === 'explain' && <Explain draft={draft} />}
      </Modal>
    </PageFrame>
  )
}

/** A run has no state before its first one. */
const isRunning = (runs: readonly (RunState | undefined)[]): boolean =>
  runs.some((run) => run === undefined || run.status === 'running')

function useRuns(draft: Draft) {
  const { account } = useScope()
  const { may } = useSigned()
  const usable = (useAccounts().data?.data ?? []).filter(({ id }) => may.createKeysIn(id))
  const [runs, setRuns] = useState<(RunState | undefined)[]>([])
  const [running, setRunning] = useState<Run[]>([])
  const send = (): void => {
    const { models, protocol, form } = draft
    const payer = account ?? usualAccount(usable, undefined)?.id ?? ''
    const bodies = models.map((model) => writtenBody(draft, model))
    if (bodies.some(({ error }) => error !== undefined)) return
    for (const run of running) run.stop()
    setRuns(models.map(() => undefined))
    const start = (model: string, index: number): Run => {
      const path = pathOf(protocol, model, form.stream)
      const body = withModel(bodies[index]!.text, protocol === 'generateContent' ? undefined : model)
      const show = (state: RunState): void => setRuns((before) => before.map((one, at) => (at === index ? state : one)))
      return new Run({ protocol, path, body, account: payer }, show)
    }
    setRunning(models.map(start))
  }
  const stop = (): void => {
    for (const run of running) run.stop()
  }
  return { runs, send, stop }
}

/** An edited body is sent to each column under the model of the column. */
function withModel(text: string, model: string | undefined): string {
  const body = JSON.parse(text) as Body
  return model === undefined || body['model'] === model ? text : JSON.stringify({ ...body, model }, null, 2)
}

function CodeOf({ draft }: { draft: Draft }) {
  const { models, protocol, form } = draft
  const model = models[0] ?? ''
  const { text, error } = writtenBody(draft, model)
  if (error !== undefined) return <p className="failed">{error}</p>
  const body = JSON.parse(text) as Body
  const code = codeOf({ protocol, model, stream: form.stream, body, origin: window.location.origin })
  return (
    <Tabs defaultValue={code[0]?.name} keepMounted={false}>
      <Tabs.List>
        {code.map(({ name }) => (
          <Tabs.Tab key={name} value={name}>
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {code.map(({ name, text: shown }) => (
        <Tabs.Panel key={name} value={name} className="playground-code">
          <Code text={shown} name={name} />
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}
