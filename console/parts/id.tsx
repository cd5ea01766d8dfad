import { UnstyledButton } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { Icon } from './icons.tsx'

/** Puts `text` on the clipboard, and says so. */
export async function copy(text: string, name: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    notifications.show({ id: 'copied', message: `${name} copied`, autoClose: 2000 })
  } catch {
    notifications.show({ id: 'copied', color: 'red', message: 'The browser refused the clipboard: select and copy it' })
  }
}

/** An id in its fixed-width form, which copies it. `short`: its beginning alone is shown. */
export function Id({ id, short = 0, name = 'Id' }: { id: string; short?: number; name?: string }) {
  const shown = short > 0 && id.length > short + 1 ? `${id.slice(0, short)}…` : id
  return (
    <UnstyledButton className="id" title={id} aria-label={`Copy ${id}`} onClick={() => void copy(id, name)}>
      <code>{shown}</code>
      <Icon name="copy" size={13} />
    </UnstyledButton>
  )
}
