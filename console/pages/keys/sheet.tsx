import { Button, Drawer, Stack } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { Answer } from '../../api/ask.ts'
import type { Key, NewKey } from '../../api/answers.ts'
import { useChange, useTagged } from '../../api/queries.ts'
import { useSigned } from '../../app/session.tsx'
import { CaptureSwitch } from '../../parts/capture-switch.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { Id } from '../../parts/id.tsx'
import { visible } from '../../parts/visible.ts'
import { Ago, When } from '../../parts/when.tsx'
import { LimitMeter } from './limit-meter.tsx'
import { keyText, KIND_NAMES, SOURCE_NAMES } from './list.tsx'
import { bodyOf, LimitFields, ModelsField, NameField, optionsOf, RateField } from './options.tsx'
import { KeyMonth } from './month.tsx'
import { RevokeKey, RotateKey } from './replace.tsx'

type Props = { id: string; change: string | null; onClose: () => void; onCreated: (key: NewKey) => void }

/** One key: what it is, what can be changed of it. */
export function KeySheet({ id, change, onClose, onCreated }: Props) {
  const asked = useTagged<Key>(`/keys/${encodeURIComponent(id)}`)
  return (
    <Drawer opened onClose={onClose} title={visible(asked.data?.data.name ?? 'Key')} size={520}>
      <Loaded asked={asked} height={400} lines={8}>
        {(answer) => <Sheet answer={answer} change={change} onClose={onClose} onCreated={onCreated} />}
      </Loaded>
    </Drawer>
  )
}

function Sheet({ answer, change, onClose, onCreated }: Omit<Props, 'id'> & { answer: Answer<Key> }) {
  const { may } = useSigned()
  const { data: row } = answer
  const isFile = row.source === 'sluice.yaml'
  const canChange = may.createKeys && row.revoked_at === null && !isFile
  return (
    <Stack gap="xl">
      <Facts>
        <Fact name="Key">
          <code className="small">{keyText(row)}</code>
        </Fact>
        <Fact name="Kind">{KIND_NAMES[row.kind]}</Fact>
        <Fact name="Account">{visible(row.account.name ?? row.account.id)}</Fact>
        <Fact name="Limit">
          <LimitMeter row={row} />
        </Fact>
        {row.period_ends_at !== null && (
          <Fact name="Begins again">
            <Ago at={row.period_ends_at} />
          </Fact>
        )}
        <Fact name="Last used">
          <Ago at={row.last_used_at} />
        </Fact>
        <Fact name="Made">
          <When at={row.created_at} />
        </Fact>
        <Fact name="Expires">
          <Ago at={row.expires_at} />
        </Fact>
        <Fact name="From">{SOURCE_NAMES[row.source] ?? row.source}</Fact>
        <Fact name="Id">
          <Id id={row.id} />
        </Fact>
      </Facts>
      {row.kind !== 'management' && <KeyMonth id={row.id} />}
      {isFile && <p className="note">This key is set up in sluice.yaml: change it there.</p>}
      {row.revoked_at !== null && <p className="note failed">Revoked. Requests with it get 401.</p>}
      {canChange && row.kind !== 'management' && (
        <CaptureSwitch path={`/keys/${encodeURIComponent(row.id)}`} answer={answer} />
      )}
      {canChange && <ChangeForm answer={answer} focus={change} />}
      {canChange && (
        <div className="sheet-foot">
          <RotateKey row={row} onCreated={onCreated} />
          <RevokeKey row={row} onDone={onClose} />
        </div>
      )}
    </Stack>
  )
}

function ChangeForm({ answer, focus }: { answer: Answer<Key>; focus: string | null }) {
  const { data: row, etag } = answer
  const [options, setOptions] = useState(() => optionsOf(row))
  const save = useChange<ReturnType<typeof bodyOf>>(
    'PATCH',
    () => `/keys/${encodeURIComponent(row.id)}`,
    ['/keys'],
    (body) => ({ body, ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    save.mutate(bodyOf(options))
  }
  const fields = {
    options,
    focus,
    error: save.error,
    onChange: (change: Partial<typeof options>) => setOptions((before) => ({ ...before, ...change })),
  }
  const isSame = JSON.stringify(bodyOf(options)) === JSON.stringify(bodyOf(optionsOf(row)))
  return (
    <form onSubmit={submit} aria-label="Change the key">
      <Stack gap="md">
        <h3>Change</h3>
        <NameField {...fields} />
        {row.kind !== 'management' && <LimitFields {...fields} />}
        {row.kind !== 'management' && <ModelsField {...fields} />}
        <RateField {...fields} />
        {save.error !== null && <Fault error={save.error} />}
        <Button type="submit" loading={save.isPending} disabled={isSame}>
          {save.isSuccess && isSame ? 'Saved' : 'Save'}
        </Button>
      </Stack>
    </form>
  )
}
