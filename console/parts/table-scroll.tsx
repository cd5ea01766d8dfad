import type { ReactNode } from 'react'

/** A table that may be wider than its place: it scrolls without the page, by keyboard too. */
export function TableScroll({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="table-scroll" role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  )
}
