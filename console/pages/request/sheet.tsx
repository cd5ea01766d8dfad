import { ActionIcon, Tooltip } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { To } from '../../app/scope.tsx'
import { Icon } from '../../parts/icons.tsx'
import { RequestHead } from './head.tsx'
import { RequestView, useRequest } from './view.tsx'

type Props = { id: string; onClose(): void; onStep(by: number): void }

/** One request beside the list, which can still be used. */
export function RequestSheet({ id, onClose, onStep }: Props) {
  const asked = useRequest(id)
  const host = useRef<HTMLElement>(null)
  useEffect(() => host.current?.scrollTo({ top: 0 }), [id])
  // The next Tab is in the sheet, not behind the rows of the list; the keys of the list go on.
  useEffect(() => {
    if (document.activeElement?.matches('input, textarea') !== true) host.current?.focus({ preventScroll: true })
  }, [])
  return (
    <aside ref={host} className="sheet" tabIndex={-1} aria-label="Request">
      <header className="sheet-bar">
        <SheetButton label="Previous request" keys="[" icon="up" onClick={() => onStep(-1)} />
        <SheetButton label="Next request" keys="]" icon="down" onClick={() => onStep(1)} />
        <To path={`/requests/${encodeURIComponent(id)}`} className="link sheet-full">
          Full page
        </To>
        <SheetButton label="Close" keys="esc" icon="close" onClick={onClose} />
      </header>
      <div className="sheet-content">
        <RequestHead id={id} request={asked.data} />
        <RequestView asked={asked} />
      </div>
    </aside>
  )
}

type ButtonProps = { label: string; keys: string; icon: 'up' | 'down' | 'close'; onClick(): void }

function SheetButton({ label, keys, icon, onClick }: ButtonProps) {
  return (
    <Tooltip label={`${label} (${keys})`}>
      <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={onClick}>
        <span className={icon === 'up' ? 'turned' : undefined}>
          <Icon name={icon === 'up' ? 'down' : icon} size={15} />
        </span>
      </ActionIcon>
    </Tooltip>
  )
}
