import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react'

/** Moves the list so that a row is seen. */
export type ListHandle = { reveal(index: number): void; toTop(): void }

type Props = {
  label: string
  count: number
  rowHeight: number
  /** An element with `role="row"` that is drawn again only when its own row has changed. */
  row(index: number): ReactNode
  onSeen(first: number, last: number): void
  handle?: Ref<ListHandle>
}

const BEYOND = 8
/** Above the first row: bar and heads, which stay. */
const COVERED = 88

/** A list that scrolls with the page and has only the rows that are seen. Nothing around it is drawn by scrolling. */
export function List({ label, count, rowHeight, row, onSeen, handle }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const rows = useWindowVirtualizer({
    count,
    estimateSize: () => rowHeight,
    overscan: BEYOND,
    scrollMargin: top,
    scrollPaddingStart: COVERED,
    scrollPaddingEnd: 16,
    useFlushSync: false,
  })
  useLayoutEffect(() => rows.measure(), [rowHeight, rows])
  useTop(host, setTop)
  useImperativeHandle(handle, () => ({
    reveal: (index) => rows.scrollToIndex(index, { align: 'auto' }),
    toTop: () => window.scrollTo({ top: 0 }),
  }))
  const shown = rows.getVirtualItems()
  const first = shown[0]?.index ?? 0
  const last = shown.at(-1)?.index ?? 0
  useEffect(() => onSeen(first, last), [first, last, onSeen])
  return (
    <div
      ref={host}
      className="list"
      role="rowgroup"
      aria-label={label}
      style={{ height: rows.getTotalSize(), '--list-row': `${rowHeight}px` } as React.CSSProperties}
    >
      <div className="list-shift" style={{ transform: `translateY(${(shown[0]?.start ?? top) - top}px)` }}>
        {shown.map(({ index }) => row(index))}
      </div>
    </div>
  )
}

/** Keeps the distance from the top of the page: what is above the list can grow. */
function useTop(host: React.RefObject<HTMLDivElement | null>, setTop: (top: number) => void): void {
  useLayoutEffect(() => {
    const measure = (): void => {
      const box = host.current?.getBoundingClientRect()
      if (box !== undefined) setTop(Math.round(box.top + window.scrollY))
    }
    measure()
    const watched = new ResizeObserver(measure)
    watched.observe(document.body)
    return () => watched.disconnect()
  }, [host, setTop])
}
