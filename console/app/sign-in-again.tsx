import { Modal, Text } from '@mantine/core'
import { useEffect, useState } from 'react'
import { onSignInNeeded, signedInAgain } from '../api/ask.ts'
import { PasswordForm } from '../pages/enter/forms.tsx'

/** The dialog whose request waits stays open below this one. */
const ABOVE_DIALOGS = 400

/** Asks over the page for a session that has ended. The page and unsent forms stay; what was asked goes on. */
export function SignInAgain() {
  const [needed, setNeeded] = useState(false)
  useEffect(() => onSignInNeeded(setNeeded), [])
  return (
    <Modal
      opened={needed}
      onClose={() => {}}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
      zIndex={ABOVE_DIALOGS}
      title="Sign in again"
    >
      <Text size="sm" mb="md">
        Your session has ended. This page and what you typed are still here and go on afterwards.
      </Text>
      <PasswordForm onDone={signedInAgain} />
      <Text size="xs" c="dimmed" mt="md">
        Without a password: run <code>npx sluice console</code> on the server, open its link in another tab, then{' '}
        <button type="button" className="link" onClick={signedInAgain}>
          continue
        </button>
        .
      </Text>
    </Modal>
  )
}
