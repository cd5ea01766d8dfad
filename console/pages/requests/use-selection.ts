import { type RefObject, useCallback, useState } from 'react'
import { useLocation, useSearchParams } from 'wouter'
import { useScope } from '../../app/scope.tsx'
import type { RequestRow } from '../../api/answers.ts'
import { copy } from '../../parts/copy.ts'
import type { ListHandle } from '../../parts/list.tsx'
import type { ListKeys } from './shortcuts.ts'
import type { Rows } from './use-rows.ts'

export type Selection = {
  /** Id of the row that the keys act on. */
  selected: string | undefined
  /** Id of the request in the side sheet. */
  opened: string | undefined
  openId(id: string): void
  select(row: RequestRow): void
  keys: ListKeys
}

/** The selected row is of this view; the opened request is in the URL. */
export function useSelection({ store }: Rows, list: RefObject<ListHandle | null>): Selection {
  const [selected, setSelected] = useState<string>()
  const [params, setParams] = useSearchParams()
  const [, navigate] = useLocation()
  const { to } = useScope()
  const opened = params.get('request') ?? undefined
  const openId = useCallback(
    (id: string | undefined) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before)
          if (id === undefined) next.delete('request')
          else next.set('request', id)
          return next
        },
        // Going back closes the sheet, however many were looked at in it.
        { replace: id === undefined || opened !== undefined },
      ),
    [setParams, opened],
  )
  const goTo = (index: number): RequestRow | undefined => {
    const row = store.rowAt(index)
    if (row === undefined) return undefined
    setSelected(row.id)
    list.current?.reveal(index)
    requestAnimationFrame(() =>
      document.querySelector<HTMLElement>(`.request-line[data-index="${index}"]`)?.focus({ preventScroll: true }),
    )
    return row
  }
  const indexOf = (id: string | undefined): number => (id === undefined ? -1 : store.indexOf(id))
  const keys: ListKeys = {
    move: (by) => {
      const now = indexOf(selected)
      goTo(now < 0 ? 0 : now + by)
    },
    open: () => {
      if (selected === undefined) return
      if (opened === selected) navigate(to(`/requests/${selected}`))
      else openId(selected)
    },
    copy: () => {
      const row = store.rowAt(indexOf(opened ?? selected))
      if (row !== undefined) void copy(row.public_id ?? row.id, 'Id')
    },
    close: () => {
      if (opened !== undefined) openId(undefined)
    },
    step: (by) => {
      const now = indexOf(opened)
      const row = opened === undefined || now < 0 ? undefined : goTo(now + by)
      if (row !== undefined) openId(row.id)
    },
  }
  return { selected, opened, openId, select: ({ id }) => setSelected(id), keys }
}
