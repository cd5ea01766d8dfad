import { Button, Checkbox, NumberInput, Select, Switch, TextInput } from '@mantine/core'
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

const newReference = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/** Posts credit once: its reference makes a second click harmless. */
export function AddCredit({ id }: { id: string }) {
  const [amount, setAmount] = useState('')
  const [bonus, setBonus] = useState(false)
  const [note, setNote] = useState('')
  const [reference, setReference] = useState(() => newReference())
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
        setReference(newReference())
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
          Posted. The balance is {headUsd(post.data.balance_usd)} USD.
        </p>
      )}
      <Button type="submit" variant="default" loading={post.isPending}>
        Add the credit
      </Button>
    </form>
  )
}

/** The switch that opens the requests of all keys to the members of the account. */
export function MemberRequests({ answer: { data: account, etag } }: { answer: Answer<Account> }) {
  const save = useChange<boolean>(
    'PATCH',
    () => `/accounts/${encodeURIComponent(account.id)}`,
    ['/accounts', '/session', '/requests'],
    (isOpen) => ({
      body: { member_requests: isOpen ? 'all' : 'own' },
      ...(etag === null ? {} : { ifMatch: etag }),
    }),
  )
  return (
    <section className="stack" aria-label="Members">
      <h3>Members</h3>
      <Switch
        label="Members see the requests of all keys"
        description="Otherwise they see those of their own keys. Bodies stay with the owner of a key and with admins."
        checked={account.member_requests === 'all'}
        disabled={save.isPending}
        onChange={({ currentTarget: { checked } }) => save.mutate(checked)}
      />
      {save.error !== null && <Fault error={save.error} />}
    </section>
  )
}

const STATUSES = ['healthy', 'monitored', 'abusive', 'suspended', 'banned']

/** Status, discount and plan. */
export function ChangeAccount({ answer }: { answer: Answer<Account> }) {
  const { data: account, etag } = answer
  const plans = usePlans()
  const [status, setStatus] = useState(account.status)
  const [discount, setDiscount] = useState<number | string>(account.discount)
  const [tier, setTier] = useState(account.plan.tier)
  const [renews, setRenews] = useState(account.plan.renews)
  const save = useChange<Record<string, unknown>>(
    'PATCH',
    () => `/accounts/${encodeURIComponent(account.id)}`,
    ['/accounts'],
    (body) => ({ body, ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  const plan = {
    ...(tier === account.plan.tier ? {} : { tier }),
    ...(renews === account.plan.renews ? {} : { renews }),
  }
  const changes = {
    ...(status === account.status ? {} : { status }),
    ...(Number(discount) === account.discount ? {} : { discount: Number(discount) }),
    ...(Object.keys(plan).length === 0 ? {} : { plan }),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    save.mutate(changes)
  }
  const tiers = [...new Set([account.plan.tier, ...(plans.data?.data ?? []).map((one) => one.tier)])]
  return (
    <form onSubmit={submit} className="stack" aria-label="Change the account">
      <h3>Change</h3>
      <div className="field-pair">
        <Select label="Status" data={STATUSES} value={status} onChange={(value) => setStatus(value ?? status)} />
        <NumberInput
          label="Discount, percent"
          min={0}
          max={100}
          decimalScale={2}
          value={discount}
          onChange={setDiscount}
        />
      </div>
      <Select label="Plan" data={tiers} value={tier} onChange={(value) => setTier(value ?? tier)} />
      <Checkbox
        label="The plan renews at the end of its period"
        checked={renews}
        onChange={({ currentTarget: { checked } }) => setRenews(checked)}
      />
      {save.error !== null && <Fault error={save.error} />}
      <Button type="submit" loading={save.isPending} disabled={Object.keys(changes).length === 0}>
        Save
      </Button>
    </form>
  )
}
