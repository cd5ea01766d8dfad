import { Button, Modal } from '@mantine/core'
import { useChange } from '../../api/queries.ts'
import { Fault } from '../../parts/fault.tsx'
import { visible } from '../../parts/visible.ts'
import type { Job } from './job.ts'

/** Asks before a job is ended: what it has made so far is lost. */
export function CancelJob({ job, onClose }: { job: Job; onClose: () => void }) {
  const cancel = useChange<void>('POST', () => `/jobs/${encodeURIComponent(job.id)}/cancel`, ['/jobs', '/requests'])
  return (
    <Modal opened onClose={onClose} title="Cancel the job?">
      <p className="dialog-text">
        {job.status === 'waiting'
          ? 'It has not begun, and costs nothing.'
          : 'Its provider is asked to stop. What it has used so far is charged, and a fee in any case.'}{' '}
        Its client finds it canceled.
      </p>
      <p className="dialog-text">
        <code>{job.public_id}</code> of {visible(job.model ?? 'an unknown model')}
      </p>
      {cancel.error !== null && <Fault error={cancel.error} />}
      <Button
        fullWidth
        mt="lg"
        color="red.8"
        loading={cancel.isPending}
        onClick={() => cancel.mutate(undefined, { onSuccess: onClose })}
      >
        Cancel it
      </Button>
    </Modal>
  )
}
