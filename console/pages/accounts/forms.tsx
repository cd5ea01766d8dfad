import { Button, Checkbox, Select, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { Answer } from '../../api/ask.ts'
import type { Account, Posted } from '../../api/answers.ts'
import { useChange, usePlans } from '../../api/queries.ts'
import { Fault } from '../../parts/fault.tsx'
import { headUsd } from '../../parts/money.ts'

const AMOUNT = {
  inputMode: 'decimal',
  pattern: '-?\\d+(\\.\\d{1,9})?',
  title: 'An amount of USD, such as 12.5',
} as const

/** Posts credit once: its reference makes a second click harmless. */
export function AddCredit({ id }: { id: string }) {
  const [amount, setAmount] = useState('')
  const [bonus, setBonus] = useState(false)
  const [note, setNote] = useState('')
  const [reference, setReference] = useState(() => crypto.randomUUID())
  const post = useChange<void, Posted>(
    'POST',
    () => `/accounts/${encodeURIComponent(id)}/credits`,
    ['/accounts', '/book'],
    () => ({ body: { amount_usd: amount.trim(), bonus, reference, ...(note === '' ? {} : { note }) } }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    post.mutate(undefined, {
      onSuccess: () => {
        setAmount('')
        setNote('')
        setReference(crypto.randomUUID())
      },
    })
  }
  return (
    <form onSubmit={submit} className="stack" aria-label="Add credit">
      <h3>Add credit</h3>
      <div className="field-pair">
        <TextInput
          {...AMOUNT}
          label="Amount, USD"
          required
          value={amount}
          onChange={({ currentTarget: { value } }) => setAmount(value)}
        />
        <TextInput
          label="Note"
          maxLength={200}
          value={note}
          onChange={({ currentTarget: { value } }) => setNote(value)}
        />
      </div>
      <Checkbox
        label="As bonus, which is spent first"
        checked={bonus}
        onChange={({ currentTarget: { checked } }) => setBonus(checked)}
      />
      {post.error !== null && <Fault error={post.error} />}
      {post.data !== undefined && amount === '' && (
        <p className="note" role="status">
          Posted {headUsd(post.data.posted_usd)} USD.
        </p>
      )}
      <Button type="submit" variant="default" loading={post.isPending}>
        Post it
      </Button>
    </form>
  )
}

const STATUSES = ['normal', 'watched', 'abusive', 'suspended', 'banned']
const NO_PLAN = ''

/** Status, discount and plan. */
export function ChangeAccount({ answer }: { answer: Answer<Account> }) {
  const { data: account, etag } = answer
  const plans = usePlans()
  const [status, setStatus] = useState(account.status)
  const [discount, setDiscount] = useState(account.discount ?? '')
  const [tier, setTier] = useState(account.plan?.tier ?? NO_PLAN)
  const save = useChange<Record<string, unknown>>(
    'PATCH',
    () => `/accounts/${encodeURIComponent(account.id)}`,
    ['/accounts'],
    (body) => ({ body, ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  const changes = {
    ...(status === account.status ? {} : { status }),
    ...(discount === (account.discount ?? '') ? {} : { discount: discount === '' ? null : discount }),
    ...(tier === (account.plan?.tier ?? NO_PLAN) ? {} : { plan: tier === NO_PLAN ? null : { tier } }),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    save.mutate(changes)
  }
  const tiers = [
    ...new Set([...(plans.data?.data ?? []).map((plan) => plan.tier), ...(tier === NO_PLAN ? [] : [tier])]),
  ]
  return (
    <form onSubmit={submit} className="stack" aria-label="Change the account">
      <h3>Change</h3>
      <div className="field-pair">
        <Select
          label="Status"
          data={[...new Set([...STATUSES, account.status])]}
          value={status}
          onChange={(value) => setStatus(value ?? status)}
        />
        <TextInput
          label="Discount"
          description="A factor of list prices: 0.9"
          inputMode="decimal"
          value={discount}
          onChange={({ currentTarget: { value } }) => setDiscount(value)}
        />
      </div>
      <Select
        label="Plan"
        data={[{ value: NO_PLAN, label: 'none' }, ...tiers.map((value) => ({ value, label: value }))]}
        value={tier}
        onChange={(value) => setTier(value ?? NO_PLAN)}
      />
      {save.error !== null && <Fault error={save.error} />}
      <Button type="submit" loading={save.isPending} disabled={Object.keys(changes).length === 0}>
        Save
      </Button>
    </form>
  )
}
