import { Button } from '@mantine/core'
import { type ReactNode, useEffect } from 'react'
import { AsHttp } from './as-http.tsx'
import { Icon } from './icons.tsx'

/** A page: its title, what can be done on it, its content. `http`: addresses that it asks for beside its questions. */
export function PageFrame({
  title,
  note,
  actions,
  http,
  children,
}: {
  title: string
  note?: ReactNode
  actions?: ReactNode
  http?: readonly string[]
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>{title}</h1>
          {note !== undefined && <p className="page-note">{note}</p>}
        </div>
        <div className="page-actions">
          {actions}
          <AsHttp more={http ?? []} />
        </div>
      </header>
      {children}
    </div>
  )
}

/** The button of a page that makes what the page is about. */
export const AddButton = ({ onClick, children }: { onClick: () => void; children: ReactNode }) => (
  <Button leftSection={<Icon name="plus" />} onClick={onClick}>
    {children}
  </Button>
)

/** A box with a heading of its own. */
export function Panel({
  title,
  actions,
  children,
  flush = false,
}: {
  title?: ReactNode
  actions?: ReactNode
  children: ReactNode
  /** A table or list that reaches the border. */
  flush?: boolean
}) {
  return (
    <section className={flush ? 'panel panel-flush' : 'panel'}>
      {title !== undefined && (
        <header className="panel-head">
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  )
}
