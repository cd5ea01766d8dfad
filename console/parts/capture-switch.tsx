import { Button, Select } from '@mantine/core'
import { useState } from 'react'
import type { Answer } from '../api/ask.ts'
import type { Capture, CaptureMode } from '../api/answers.ts'
import { useChange } from '../api/queries.ts'
import { useSigned } from '../app/session.tsx'
import { Fault } from './fault.tsx'
import { Ago } from './when.tsx'

const MINUTE_MS = 60_000
const TIMES = [
  { value: '15', label: 'for 15 minutes' },
  { value: '60', label: 'for an hour' },
  { value: '1440', label: 'for a day' },
  { value: 'good', label: 'for good' },
]
const MODES: readonly { value: CaptureMode; label: string }[] = [
  { value: 'errors', label: 'failed or lossy requests' },
  { value: 'all', label: 'all requests' },
]

type Props = { path: string; answer: Answer<{ capture: Capture | null }> }

/** Switches the capture of bodies of a key, an account or the installation, for a time; for good is a second click. */
export function CaptureSwitch({ path, answer: { data, etag } }: Props) {
  const { capture } = useSigned().session
  const change = useChange<Capture | null>(
    'PATCH',
    () => path,
    ['/keys', '/accounts', '/settings', '/session'],
    (to) => ({ body: { capture: to }, ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  return (
    <section className="stack" aria-label="Bodies">
      <h3>Bodies</h3>
      {capture.most === 'off' ? (
        <p className="dim small">
          Bodies are not captured: <code>capture.most</code> in sluice.yaml is <code>off</code>.
        </p>
      ) : (
        <>
          <State capture={data.capture} />
          {data.capture === null ? (
            <Choice most={capture.most} isPending={change.isPending} onChoose={(to) => change.mutate(to)} />
          ) : (
            <Button variant="default" loading={change.isPending} onClick={() => change.mutate(null)}>
              {data.capture.mode === 'off' ? 'Remove this switch' : 'Stop capturing'}
            </Button>
          )}
        </>
      )}
      {change.error !== null && <Fault error={change.error} />}
    </section>
  )
}

function State({ capture }: { capture: Capture | null }) {
  if (capture === null)
    return <p className="dim small">Requests and answers can be captured, to be seen under Requests.</p>
  const until = capture.until === null ? 'for good' : <Ago at={capture.until} />
  return (
    <p className="note">
      {capture.mode === 'off'
        ? 'Nothing is captured, '
        : capture.mode === 'errors'
          ? 'Failed and lossy requests are captured, '
          : 'All requests are captured, '}
      {capture.until === null ? '' : 'it ends '}
      {until}.
    </p>
  )
}

type ChoiceProps = { most: CaptureMode; isPending: boolean; onChoose: (to: Capture) => void }

function Choice({ most, isPending, onChoose }: ChoiceProps) {
  const modes = most === 'all' ? MODES : MODES.filter(({ value }) => value === 'errors')
  const [mode, setMode] = useState<string>('errors')
  const [time, setTime] = useState('60')
  const [isSure, setSure] = useState(false)
  const isForGood = time === 'good'
  const choose = (): void => {
    if (isForGood && !isSure) return setSure(true)
    const until = isForGood ? null : new Date(Date.now() + Number(time) * MINUTE_MS).toISOString()
    onChoose({ mode: mode as CaptureMode, until })
  }
  return (
    <>
      <div className="field-pair">
        <Select label="Capture" data={modes} value={mode} onChange={(value) => setMode(value ?? mode)} />
        <Select
          label="Time"
          data={TIMES}
          value={time}
          onChange={(value) => {
            setTime(value ?? time)
            setSure(false)
          }}
        />
      </div>
      <Button variant="default" loading={isPending} onClick={choose}>
        {isForGood && isSure ? 'Yes, until somebody stops it' : 'Capture'}
      </Button>
    </>
  )
}
