import { UnstyledButton } from '@mantine/core'
import { copy } from './copy.ts'
import { Icon } from './icons.tsx'

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
