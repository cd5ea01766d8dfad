import { Button, Modal } from '@mantine/core'
import type { NewKey } from '../../api/answers.ts'
import { useRequests } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { Icon } from '../../parts/icons.tsx'
import { Code } from '../../parts/snippet.tsx'
import { SnippetChooser } from '../../parts/snippet-chooser.tsx'
import { visible } from '../../parts/visible.ts'

const ASK_EVERY_MS = 2_000

/** The only time that a key's text is shown, with the settings of a client beside it. */
export function CreatedKey({ created, onClose }: { created: NewKey; onClose: () => void }) {
  return (
    <Modal
      opened
      onClose={onClose}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
      title={created.name === null ? 'The new key' : `The key "${visible(created.name)}"`}
      size="lg"
    >
      <p className="dialog-text">
        Copy it now. Only a hash is stored: the text is <strong>never shown again</strong>.
      </p>
      <Code text={created.text} name="key" />
      {created.kind !== 'management' && (
        <>
          <h3 className="dialog-head">Settings of your client</h3>
          <SnippetChooser keyText={created.text} />
          <FirstRequest id={created.id} />
        </>
      )}
      <Button fullWidth mt="xl" onClick={onClose}>
        I have copied it
      </Button>
    </Modal>
  )
}

/** Waits for the first request of a key, and says what came of it. */
function FirstRequest({ id }: { id: string }) {
  const asked = useRequests({ key: id, limit: 1 }, { refetchInterval: ASK_EVERY_MS })
  const row = asked.data?.data[0]
  if (row === undefined)
    return (
      <p className="waiting" role="status">
        <span className="running running-pulse" aria-hidden="true" />
        Waiting for the first request of this key
      </p>
    )
  const state = { open: 'is running', completed: 'was answered', refused: 'was refused' }[row.outcome as string]
  const isWrong = row.outcome !== 'open' && row.outcome !== 'completed'
  return (
    <p className={isWrong ? 'waiting waiting-failed' : 'waiting waiting-done'} role="status">
      <Icon name={isWrong ? 'alert' : 'check'} />
      <span>
        The first request {state ?? `ended as ${row.outcome}`}: {visible(row.model ?? 'no model')}
        {row.error !== null && <>. {visible(row.error.message ?? row.error.code)}</>}{' '}
        <To path={`/requests?request=${row.id}`} className="link">
          Open it
        </To>
      </span>
    </p>
  )
}
