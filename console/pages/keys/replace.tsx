import { Button, Modal, Select } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useState } from 'react'
import type { Key, NewKey } from '../../api/answers.ts'
import { useChange } from '../../api/queries.ts'
import { Fault } from '../../parts/fault.tsx'

const GRACES = [
  { value: '0', label: 'at once' },
  { value: '3600', label: 'in an hour' },
  { value: '86400', label: 'in a day' },
  { value: '604800', label: 'in a week' },
]

/** A new text for the same key; the old one goes on for a while. */
export function RotateKey({ row, onCreated }: { row: Key; onCreated: (key: NewKey) => void }) {
  const [opened, { open, close }] = useDisclosure(false)
  const [grace, setGrace] = useState('3600')
  const rotate = useChange<void, NewKey>(
    'POST',
    () => `/keys/${encodeURIComponent(row.id)}/rotate`,
    ['/keys'],
    () => ({ body: { grace_seconds: Number(grace) } }),
  )
  return (
    <>
      <Button variant="default" onClick={open}>
        Rotate
      </Button>
      <Modal opened={opened} onClose={close} title="Rotate the key">
        <p className="dialog-text">A new key with the same settings is created, and its text is shown once.</p>
        <Select label="The old one ends" data={GRACES} value={grace} onChange={(value) => setGrace(value ?? '0')} />
        {rotate.error !== null && <Fault error={rotate.error} />}
        <Button
          fullWidth
          mt="lg"
          loading={rotate.isPending}
          onClick={() => rotate.mutate(undefined, { onSuccess: onCreated })}
        >
          Rotate
        </Button>
      </Modal>
    </>
  )
}

export function RevokeKey({ row, onDone }: { row: Key; onDone: () => void }) {
  const [opened, { open, close }] = useDisclosure(false)
  const revoke = useChange<void>('DELETE', () => `/keys/${encodeURIComponent(row.id)}`, ['/keys'])
  return (
    <>
      <Button variant="default" className="danger" onClick={open}>
        Revoke
      </Button>
      <Modal opened={opened} onClose={close} title="Revoke the key?">
        <p className="dialog-text">
          Clients with it are refused within two seconds. A revoked key cannot be used again; its requests stay.
        </p>
        {revoke.error !== null && <Fault error={revoke.error} />}
        <Button
          fullWidth
          mt="lg"
          color="red.8"
          loading={revoke.isPending}
          onClick={() => revoke.mutate(undefined, { onSuccess: onDone })}
        >
          Revoke it
        </Button>
      </Modal>
    </>
  )
}
