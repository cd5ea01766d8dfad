import { Button, Modal, Radio, Select, Stack } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { KeyKind, NewKey } from '../../api/answers.ts'
import { useAccounts, useChange } from '../../api/queries.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { usualAccount } from '../../parts/accounts.ts'
import { Fault } from '../../parts/fault.tsx'
import { KIND_NAMES } from './list.tsx'
import { bodyOf, LimitFields, ModelsField, NameField, NO_OPTIONS, RateField } from './options.tsx'

const KINDS: readonly (readonly [KeyKind, string])[] = [
  ['pay-as-you-go', 'For clients. Each request is charged to the balance of the account.'],
  ['subscription', 'For clients of an account with a plan. Requests count against the windows of the plan.'],
  ['management', 'For scripts that use the management API. It cannot use models.'],
]

const LIFETIMES = [
  { value: '', label: 'never' },
  { value: '7', label: 'in 7 days' },
  { value: '30', label: 'in 30 days' },
  { value: '90', label: 'in 90 days' },
  { value: '365', label: 'in a year' },
]
const DAY_MS = 86_400_000

type Body = ReturnType<typeof bodyOf> & { kind: KeyKind; account?: string; expires_at: string | null }

/** Members that were left empty are left out. */
const given = (body: Body): Partial<Body> =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null && value !== undefined))

type Props = { opened: boolean; onClose: () => void; onCreated: (key: NewKey) => void }

export function CreateKey({ opened, onClose, onCreated }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title="Create a key" size="lg">
      <CreateForm onCreated={onCreated} />
    </Modal>
  )
}

function CreateForm({ onCreated }: { onCreated: (key: NewKey) => void }) {
  const { account: scoped } = useScope()
  const { may } = useSigned()
  const accounts = (useAccounts().data?.data ?? []).filter(({ id }) => may.createKeysIn(id))
  const [kind, setKind] = useState<KeyKind>('pay-as-you-go')
  const [chosen, setChosen] = useState<string | null>(null)
  const [lifetime, setLifetime] = useState('')
  const [options, setOptions] = useState(NO_OPTIONS)
  const account = chosen ?? usualAccount(accounts, scoped)?.id ?? scoped
  const create = useChange<Body, NewKey>(
    'POST',
    () => '/keys',
    ['/keys'],
    (body) => ({ body: given(body) }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const expires = lifetime === '' ? null : new Date(Date.now() + Number(lifetime) * DAY_MS).toISOString()
    create.mutate(
      { ...bodyOf(options), kind, ...(account === undefined ? {} : { account }), expires_at: expires },
      {
        onSuccess: onCreated,
      },
    )
  }
  const fields = {
    options,
    error: create.error,
    onChange: (change: Partial<typeof options>) => setOptions((before) => ({ ...before, ...change })),
  }
  return (
    <form onSubmit={submit} aria-label="Create a key">
      <Stack gap="lg">
        <NameField {...fields} focus="name" />
        <KindField kind={kind} onChange={setKind} />
        {accounts.length > 1 && (
          <Select
            label="Account"
            data={accounts.map(({ id, name }) => ({ value: id, label: name }))}
            value={account ?? null}
            onChange={setChosen}
          />
        )}
        <details className="more">
          <summary>Limits, models, expiry</summary>
          <Stack gap="lg" mt="md">
            {kind !== 'management' && <LimitFields {...fields} />}
            {kind !== 'management' && <ModelsField {...fields} />}
            <div className="field-pair">
              <RateField {...fields} />
              <Select
                label="Expires"
                description="A key can also be revoked."
                data={LIFETIMES}
                value={lifetime}
                onChange={(value) => setLifetime(value ?? '')}
              />
            </div>
          </Stack>
        </details>
        {create.error !== null && <Fault error={create.error} />}
        <Button type="submit" loading={create.isPending}>
          Create the key
        </Button>
      </Stack>
    </form>
  )
}

function KindField({ kind, onChange }: { kind: KeyKind; onChange: (kind: KeyKind) => void }) {
  return (
    <Radio.Group label="Kind" value={kind} onChange={(value) => onChange(value as KeyKind)}>
      <Stack gap="sm" mt="xs">
        {KINDS.map(([value, description]) => (
          <Radio key={value} value={value} label={KIND_NAMES[value]} description={description} />
        ))}
      </Stack>
    </Radio.Group>
  )
}
