import { type ReactNode, useEffect, useState } from 'react'
import type { Named, RequestRow } from '../../api/answers.ts'
import { exactUsd, listUsd } from '../../parts/money.ts'
import { oneLine } from '../../parts/visible.ts'
import { count, duration, elapsed, whenText, type Zone } from '../../parts/when.ts'
import { outcomeWords } from '../request/sentence.ts'

export type ColumnName = keyof typeof COLUMNS

type Column = {
  title: string
  /** A track of the grid. */
  width: string
  isNumber?: boolean
  /** Shown unless the user chose others. */
  isUsual?: boolean
  /** The filter that a click on the cell sets, and its value. */
  filter?: { field: string; valueOf(row: RequestRow): string | null }
  cell(row: RequestRow, zone: Zone, now: number): ReactNode
  hint?(row: RequestRow): string | undefined
}

const text = (value: string | null): string => (value === null || value === '' ? '-' : oneLine(value, 120))
const named = (one: Named | null): string | null => one && (one.name ?? one.id)
const tokensIn = ({ tokens }: RequestRow): number => tokens.input + tokens.cache_read + tokens.cache_write
const tokensOut = ({ tokens }: RequestRow): number => tokens.output + tokens.reasoning
const isEmpty = (row: RequestRow): boolean => row.outcome === 'refused' || row.outcome === 'open'

export const COLUMNS = {
  time: {
    title: 'Time',
    width: 'minmax(104px, max-content)',
    isUsual: true,
    cell: ({ at }, zone, now) => whenText(Date.parse(at), zone, now),
    hint: ({ at }) => at,
  },
  model: {
    title: 'Model',
    width: 'minmax(110px, 1.7fr)',
    isUsual: true,
    filter: { field: 'model', valueOf: ({ model }) => model },
    cell: ({ model }) => text(model),
    hint: ({ model }) => model ?? undefined,
  },
  provider: {
    title: 'Provider',
    width: 'minmax(70px, 0.8fr)',
    filter: { field: 'provider', valueOf: ({ provider }) => provider },
    cell: ({ provider }) => text(provider),
  },
  account: {
    title: 'Account',
    width: 'minmax(70px, 0.8fr)',
    filter: { field: 'account', valueOf: ({ account }) => account?.id ?? null },
    cell: ({ account }) => text(named(account)),
  },
  key: {
    title: 'Key',
    width: 'minmax(76px, 0.7fr)',
    isUsual: true,
    filter: { field: 'key', valueOf: ({ key }) => key?.id ?? null },
    cell: ({ key }) => text(named(key)),
    hint: ({ key }) => named(key) ?? undefined,
  },
  client: {
    title: 'Client',
    width: 'minmax(72px, 1.2fr)',
    isUsual: true,
    filter: { field: 'client', valueOf: ({ client }) => client },
    cell: ({ client }) => text(client),
    hint: ({ client }) => client ?? undefined,
  },
  api: {
    title: 'Protocol',
    width: 'minmax(96px, 0.8fr)',
    filter: { field: 'api', valueOf: ({ api }) => api },
    cell: ({ api }) => text(api),
  },
  outcome: {
    title: 'Outcome',
    // That of the longest code with its outcome.
    width: 'minmax(220px, 2.4fr)',
    isUsual: true,
    cell: (row) => <Outcome row={row} />,
    hint: ({ error }) => (error === null ? undefined : oneLine(error.message ?? error.code, 300)),
  },
  first: {
    title: 'First',
    width: '58px',
    isNumber: true,
    isUsual: true,
    cell: ({ first_token_ms }) => duration(first_token_ms),
  },
  total: {
    title: 'Total',
    width: '72px',
    isNumber: true,
    isUsual: true,
    cell: (row) => (row.outcome === 'open' ? <Elapsed since={row.at} /> : duration(row.total_ms)),
  },
  in: {
    title: 'In',
    width: '64px',
    isNumber: true,
    isUsual: true,
    cell: (row) => (isEmpty(row) ? '-' : count(tokensIn(row))),
    hint: ({ tokens }) => `${count(tokens.input)} new, ${count(tokens.cache_read)} from the cache`,
  },
  out: {
    title: 'Out',
    width: '58px',
    isNumber: true,
    isUsual: true,
    cell: (row) => (isEmpty(row) ? '-' : count(tokensOut(row))),
    hint: ({ tokens }) => `${count(tokens.reasoning)} of reasoning`,
  },
  cost: {
    title: 'Cost, USD',
    width: '88px',
    isNumber: true,
    isUsual: true,
    cell: ({ cost_usd, outcome }) => (outcome === 'open' ? '-' : listUsd(cost_usd)),
    hint: ({ cost_usd, flows }) =>
      cost_usd === null ? (flows === null ? 'no cost is known' : `${flows} flows`) : exactUsd(cost_usd),
  },
  flows: { title: 'Flows', width: '60px', isNumber: true, cell: ({ flows }) => count(flows) },
  tries: { title: 'Attempts', width: '72px', isNumber: true, cell: ({ tries }) => count(tries) },
  finish: { title: 'Finish', width: 'minmax(70px, 0.6fr)', cell: ({ finish_reason }) => text(finish_reason) },
} as const satisfies Record<string, Column>

export const columnOf = (name: ColumnName): Column => COLUMNS[name]
export const ALL_COLUMNS = Object.keys(COLUMNS) as ColumnName[]
const USUAL_COLUMNS = ALL_COLUMNS.filter((name) => columnOf(name).isUsual === true)

/** Shown where nothing was chosen: the first set that fits, the widest first. */
export const COLUMN_SETS: readonly (readonly ColumnName[])[] = [
  USUAL_COLUMNS,
  USUAL_COLUMNS.filter((name) => name !== 'client'),
  ['time', 'model', 'key', 'outcome', 'total', 'cost'],
]
/** Between columns, and at both ends, as in the sheet. */
const GAP = 14
const ENDS = 34

/** The columns that a URL names, in the order of all columns; without any, `usual`. */
export function readColumns(names: string | null, usual: readonly ColumnName[]): readonly ColumnName[] {
  const named = names?.split(',') ?? []
  const chosen = ALL_COLUMNS.filter((name) => named.includes(name))
  return chosen.length > 0 ? chosen : usual
}

/** The pixels that the columns take at least: the first number of each track. */
export const leastWidth = (columns: readonly ColumnName[]): number =>
  columns.reduce(
    (sum, name) => sum + GAP + Number.parseInt(columnOf(name).width.replace('minmax(', ''), 10),
    ENDS - GAP,
  )

function Outcome({ row }: { row: RequestRow }) {
  return outcomeWords(row).map(({ text: words, tone, filter: { field, value } }) => (
    <span key={field} className={`tone-${tone} cell-value`} data-field={field} data-value={value}>
      {words}
    </span>
  ))
}

const TICK_MS = 1000

/** A running clock. It draws itself alone. */
function Elapsed({ since }: { since: string }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS)
    return () => clearInterval(timer)
  }, [])
  return elapsed(now - Date.parse(since))
}
