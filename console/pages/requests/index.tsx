import { Switch, VisuallyHidden } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import { useMemo, useRef } from 'react'
import { useSearchParams } from 'wouter'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { urlOf } from '../../api/ask.ts'
import { useKeys } from '../../api/queries.ts'
import { COUNTED_FIELDS, countedOf, fieldOf, FILTER_FIELDS, hasFilters, type Filters } from '../../parts/filters.ts'
import type { ListHandle } from '../../parts/list.tsx'
import { outcomeText } from '../../parts/outcomes.ts'
import { PageFrame } from '../../parts/page.tsx'
import { customRange, isOpenEnded } from '../../parts/range.ts'
import { useZone } from '../../parts/when.tsx'
import { RequestSheet } from '../request/sheet.tsx'
import { Bars } from './bars.tsx'
import { COLUMN_SETS, type ColumnName, leastWidth, readColumns } from './columns.tsx'
import { ColumnMenu, RowExport } from './menus.tsx'
import { FilterBar } from './filter-bar.tsx'
import { RequestList } from './request-list.tsx'
import { useListKeys } from './shortcuts.ts'
import { queryOf, useFilters } from './use-filters.ts'
import { useRows, useRowsState, type Rows } from './use-rows.ts'
import { useSelection } from './use-selection.ts'

/** The pixels beside the list: navigation, margins and a scroll bar. */
const BESIDE = 272
const [WIDE, MIDDLE, NARROW] = COLUMN_SETS as [ColumnName[], ColumnName[], ColumnName[]]

const useFits = (columns: readonly ColumnName[]): boolean =>
  useMediaQuery(`(min-width: ${leastWidth(columns) + BESIDE}px)`, undefined, { getInitialValueInEffect: false }) ?? true

/** All requests of the range, as they happen. */
export function Requests() {
  const { account, range, setRange } = useScope()
  const [filters, setFilters] = useFilters()
  const zone = useZone()
  const [params, setParams] = useSearchParams()
  const [fitsWide, fitsMiddle, compact] = [useFits(WIDE), useFits(MIDDLE), !useFits(NARROW)]
  const usual = fitsWide ? WIDE : fitsMiddle ? MIDDLE : NARROW
  const columns = useMemo(() => readColumns(params.get('columns'), usual), [params.get('columns'), usual])
  const isLive = params.get('live') !== 'off' && isOpenEnded(range)
  const scope = useMemo(() => ({ account, ...queryOf(filters) }), [account, filters])
  const counted = useMemo(() => ({ account, ...queryOf(countedOf(filters)) }), [account, filters])
  const span = useMemo(() => ({ from: range.from, to: range.to }), [range])
  const rows = useRows(scope, span, isLive)
  const list = useRef<ListHandle>(null)
  const selection = useSelection(rows, list)
  const labelOf = useLabels(filters)
  useListKeys(selection.keys)
  return (
    <PageFrame
      title="Requests"
      http={[urlOf('/requests', { ...scope, ...span })]}
      actions={
        <>
          <LiveSwitch
            rows={rows}
            isLive={isLive}
            canBe={isOpenEnded(range)}
            onChange={(live) => setParams(withParam('live', live ? undefined : 'off'))}
          />
          {!compact && (
            <ColumnMenu columns={columns} usual={usual} onChange={(names) => setParams(withParam('columns', names))} />
          )}
          <RowExport query={{ ...scope, ...span }} />
        </>
      }
    >
      <FilterBar
        {...{ filters, setFilters, labelOf }}
        scope={{ account, ...span, tz: zone }}
        onId={(id) => selection.openId(id)}
      />
      <section className="panel bars" aria-label="Requests over time">
        <Bars
          {...{ range, zone, isLive }}
          query={counted}
          onRange={(from, to) => setRange(customRange(from, to))}
          onBack={() => window.history.back()}
        />
        <Uncounted filters={filters} />
      </section>
      <RequestList
        {...{ rows, columns, zone, compact, list, filters, setFilters, selection, isLive }}
        isNarrowed={hasFilters(filters)}
      />
      {selection.opened !== undefined && (
        <RequestSheet id={selection.opened} onClose={selection.keys.close} onStep={selection.keys.step} />
      )}
      <LiveText rows={rows} />
    </PageFrame>
  )
}

const withParam = (name: string, value: string | undefined) => (before: URLSearchParams) => {
  const next = new URLSearchParams(before)
  if (value === undefined) next.delete(name)
  else next.set(name, value)
  return next
}

/** Names of keys, whose filter has ids, and the words of outcomes. */
function useLabels(filters: Filters): (field: string, value: string) => string {
  const isNeeded = 'key' in filters || 'not_key' in filters
  const keys = useKeys({}, { enabled: isNeeded })
  return (field, value) =>
    field === 'key' ? (keys.data?.data.find(({ id }) => id === value)?.name ?? value) : outcomeText(value)
}

/** The bars are sums, which know few of the filters. */
function Uncounted({ filters }: { filters: Filters }) {
  const { may } = useSigned()
  const fields = Object.keys(filters).flatMap((name) => {
    const { field } = fieldOf(name)
    return COUNTED_FIELDS.has(field) ? [] : [FILTER_FIELDS[field]!.label.toLowerCase()]
  })
  if (fields.length === 0 && may.seeOthers) return null
  return (
    <p className="dim bars-note">
      {!may.seeOthers && 'The bars count all keys of the account, the list has requests of your own keys. '}
      {fields.length > 0 && `The bars are not narrowed by: ${fields.join(', ')}.`}
    </p>
  )
}

function LiveText({ rows }: { rows: Rows }) {
  const { waiting } = useRowsState(rows)
  return (
    <VisuallyHidden aria-live="polite">
      {rows.stream === 'waiting' ? 'Not connected. It is tried again.' : waiting > 0 ? `${waiting} new requests` : ''}
    </VisuallyHidden>
  )
}

type LiveProps = { rows: Rows; isLive: boolean; canBe: boolean; onChange(isLive: boolean): void }

function LiveSwitch({ rows: { stream }, isLive, canBe, onChange }: LiveProps) {
  const state = !canBe ? 'off' : isLive ? (stream ?? 'connecting') : 'off'
  return (
    <div className="live" data-state={state} title={canBe ? undefined : 'A range that ended has no new requests'}>
      {state === 'waiting' && <span className="failed">not connected</span>}
      <span className="live-dot" />
      <Switch
        size="xs"
        label="Live"
        labelPosition="left"
        checked={isLive}
        disabled={!canBe}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </div>
  )
}
