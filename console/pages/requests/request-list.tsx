import { type MouseEvent, type RefObject, useCallback, useEffect, useState } from 'react'
import { To, useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Fault, Loading } from '../../parts/fault.tsx'
import { toggled, type Filters } from '../../parts/filters.ts'
import { List, type ListHandle } from '../../parts/list.tsx'
import { count, shortWhenText, type Zone } from '../../parts/when.ts'
import { columnOf, type ColumnName, leastWidth } from './columns.tsx'
import { CompactLine } from './compact-line.tsx'
import { Line } from './line.tsx'
import type { RowsState, RowStore } from './row-store.ts'
import { useRowsState, type Rows } from './use-rows.ts'
import type { Selection } from './use-selection.ts'

const ROW = 36
const COMPACT_ROW = 60

type Props = {
  rows: Rows
  columns: readonly ColumnName[]
  zone: Zone
  compact: boolean
  list: RefObject<ListHandle | null>
  filters: Filters
  setFilters(filters: Filters): void
  selection: Selection
  isLive: boolean
  isNarrowed: boolean
}

export function RequestList(props: Props) {
  const { rows, columns, zone, compact, list, selection, isNarrowed, setFilters } = props
  const { store } = rows
  const state = useRowsState(rows)
  const onClick = useRowClicks(props)
  const onSeen = useCallback((first: number, last: number) => store.show(first, last), [store])
  useTop(rows)
  const now = Date.now()
  const tracks = columns.map((name) => columnOf(name).width).join(' ')
  const RowLine = compact ? CompactLine : Line
  if (state.count === 0 && state.error === undefined && state.isEnd)
    return <NoRows isNarrowed={isNarrowed} onClear={() => setFilters({})} />
  return (
    <div
      className="requests panel"
      role="grid"
      aria-label="Requests"
      aria-rowcount={state.isEnd ? state.count + 1 : -1}
      style={{ '--tracks': tracks, minWidth: compact ? undefined : leastWidth(columns) } as React.CSSProperties}
      data-compact={compact || undefined}
      onClick={onClick}
    >
      <Waiting state={state} list={list} />
      {!compact && <Heads columns={columns} />}
      {state.count === 0 && state.isLoading && !state.isStopped ? (
        <Loading height={420} lines={10} />
      ) : (
        <List
          label="Rows"
          count={state.count}
          rowHeight={compact ? COMPACT_ROW : ROW}
          onSeen={onSeen}
          handle={list}
          row={(index) => {
            const row = store.rowAt(index)
            return (
              <RowLine
                key={row?.id ?? `place ${index}`}
                {...{ index, row, columns, zone, now }}
                isSelected={row !== undefined && row.id === selection.selected}
                isOpen={row !== undefined && row.id === selection.opened}
              />
            )
          }}
        />
      )}
      <Foot store={store} state={state} zone={zone} />
    </div>
  )
}

function Heads({ columns }: { columns: readonly ColumnName[] }) {
  return (
    <div role="rowgroup" className="request-heads">
      <div role="row" className="request-head">
        {columns.map((name) => (
          <span key={name} role="columnheader" className={columnOf(name).isNumber === true ? 'right' : undefined}>
            {columnOf(name).title}
          </span>
        ))}
      </div>
    </div>
  )
}

/** The number of rows that came while the list was scrolled down, or were not sent one by one. */
function Waiting({ state, list }: { state: RowsState; list: RefObject<ListHandle | null> }) {
  const number = state.waiting + state.dropped
  if (number === 0) return null
  return (
    <div className="new-rows" role="presentation">
      <button type="button" className="new-rows-pill" onClick={() => list.current?.toTop()}>
        {count(number)} new
      </button>
    </div>
  )
}

/** The instant back to which the list goes, and why it ends. */
function Foot({ store, state, zone }: { store: RowStore; state: RowsState; zone: Zone }) {
  if (state.error !== undefined)
    return (
      <div className="requests-foot">
        <Fault error={state.error} retry={() => store.resume()} />
      </div>
    )
  const reached = state.scannedTo === undefined ? undefined : Date.parse(state.scannedTo)
  const where = reached === undefined ? '' : `searched back to ${shortWhenText(reached, zone, Date.now())}`
  if (state.isEnd)
    return <p className="requests-foot dim">{state.count > 0 ? 'All requests of the range are above' : ''}</p>
  if (state.isStopped)
    return (
      <p className="requests-foot dim">
        Stopped, {where}.{' '}
        <button type="button" className="link" onClick={() => store.resume()}>
          Go on
        </button>
      </p>
    )
  if (!state.isLoading || where === '')
    return <p className="requests-foot dim">{state.isLoading ? 'reading...' : ''}</p>
  return (
    <p className="requests-foot dim" aria-live="off">
      {where} ...{' '}
      <button type="button" className="link" onClick={() => store.stop()}>
        Stop
      </button>
    </p>
  )
}

function NoRows({ isNarrowed, onClear }: { isNarrowed: boolean; onClear(): void }) {
  const { range, preset } = useScope()
  const { may } = useSigned()
  return (
    <section className="panel">
      {isNarrowed ? (
        <Empty
          icon="filter"
          title="No request in this range fits the filters"
          action={
            <button type="button" className="link" onClick={onClear}>
              Clear the filters
            </button>
          }
        >
          Widen the range, or take a filter away.
        </Empty>
      ) : (
        <Empty
          icon="requests"
          title={may.seeOthers ? 'No requests in this range' : 'No requests of your keys in this range'}
          action={
            <To path="/playground" className="link">
              Open the playground
            </To>
          }
        >
          {preset === undefined || range.to !== undefined
            ? 'Choose another range above.'
            : 'They appear here as they happen. Send one from a client with a key, or from the playground.'}
        </Empty>
      )}
    </section>
  )
}

/** A click on a value filters by it, with Alt it is left out; anywhere else on a row it opens the request. */
function useRowClicks({ rows, compact, filters, setFilters, selection }: Props): (event: MouseEvent) => void {
  const { setAccount } = useScope()
  return (event) => {
    const target = event.target as HTMLElement
    const line = target.closest<HTMLElement>('[data-index]')
    const row = line === null ? undefined : rows.store.rowAt(Number(line.dataset['index']))
    if (row === undefined || String(window.getSelection()) !== '') return
    const { field, value } = (compact ? null : target.closest<HTMLElement>('.cell-value'))?.dataset ?? {}
    selection.select(row)
    if (field === undefined || value === undefined) selection.openId(row.id)
    else if (field === 'account') setAccount(value)
    else setFilters(toggled(filters, field, value, event.altKey))
  }
}

const TOP = 40

/** New rows come in at the top of the list, and wait while it is scrolled down. */
function useTop({ store }: Rows): void {
  const [element] = useState(() => document.documentElement)
  useEffect(() => {
    const onScroll = (): void => {
      const isAtTop = element.scrollTop < TOP
      if (isAtTop !== store.isAtTop) store.setAtTop(isAtTop)
    }
    onScroll()
    window.addEventListener('scroll', onScroll, { passive: true })
    return () => window.removeEventListener('scroll', onScroll)
  }, [store, element])
}
