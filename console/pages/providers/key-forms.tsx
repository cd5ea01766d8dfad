import { Button, Modal, PasswordInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { Provider, ProviderTest } from '../../api/answers.ts'
import { useChange } from '../../api/queries.ts'
import { Fault } from '../../parts/fault.tsx'
import { visible } from '../../parts/visible.ts'
import { duration } from '../../parts/when.ts'

const pathOf = ({ id }: Provider): string => `/providers/${encodeURIComponent(id)}`
/** The answers that change with a provider that is switched on or off. */
const TOUCHED = ['/providers', '/health', '/models']

/** Sets the key of a built-in provider, which switches it on. The key is never read back. */
export function SetKey({ provider, onClose }: { provider: Provider; onClose: () => void }) {
  const [key, setKey] = useState('')
  const set = useChange<void>(
    'PUT',
    () => `${pathOf(provider)}/key`,
    TOUCHED,
    () => ({ body: { key: key.trim() } }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    set.mutate(undefined, { onSuccess: onClose })
  }
  return (
    <Modal opened onClose={onClose} title={`The key of ${provider.name}`}>
      <form onSubmit={submit} className="stack" aria-label="Set the key">
        <PasswordInput
          label="Key"
          description="It is stored encrypted, holds on all servers at once, and is never shown again."
          autoComplete="off"
          required
          data-autofocus
          value={key}
          onChange={({ currentTarget: { value } }) => setKey(value)}
        />
        {set.error !== null && <Fault error={set.error} />}
        <Button type="submit" loading={set.isPending}>
          Switch it on
        </Button>
      </form>
    </Modal>
  )
}

/** One small call of a provider, and what came of it. */
export function TestProvider({ provider }: { provider: Provider }) {
  const test = useChange<void, ProviderTest>(
    'POST',
    () => `${pathOf(provider)}/test`,
    [],
    () => ({ body: {} }),
  )
  return (
    <>
      <Button size="compact-sm" variant="default" loading={test.isPending} onClick={() => test.mutate()}>
        Test
      </Button>
      {test.error !== null && <Fault error={test.error} />}
      {test.data !== undefined && <Tested test={test.data} />}
    </>
  )
}

function Tested({ test: { model, status, total_ms, error } }: { test: ProviderTest }) {
  return (
    <p className="card-result" role="status">
      {error === null ? (
        <>
          {visible(model)} answered in {duration(total_ms)}
        </>
      ) : (
        <span className="failed">
          {status === null ? '' : `${status}: `}
          {visible(error)}
        </span>
      )}
    </p>
  )
}

/** Switches a provider off whose key was set here. */
export function RemoveKey({ provider }: { provider: Provider }) {
  const remove = useChange<void>('DELETE', () => `${pathOf(provider)}/key`, TOUCHED)
  return (
    <>
      <Button
        size="compact-sm"
        variant="default"
        className="danger"
        loading={remove.isPending}
        onClick={() => remove.mutate()}
      >
        Remove the key
      </Button>
      {remove.error !== null && <Fault error={remove.error} />}
    </>
  )
}
