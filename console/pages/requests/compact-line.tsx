import { memo } from 'react'
import type { RequestRow } from '../../api/answers.ts'
import { NO_AMOUNT } from '../../parts/money.ts'
import type { Zone } from '../../parts/when.ts'
import { COLUMNS, type ColumnName } from './columns.tsx'

type Props = {
  index: number
  row: RequestRow | undefined
  columns: readonly ColumnName[]
  zone: Zone
  now: number
  isSelected: boolean
  isOpen: boolean
}

/** One request in two lines, for narrow screens. */
export const CompactLine = memo(
  function CompactLine({ index, row, zone, now, isSelected, isOpen }: Props) {
    if (row === undefined)
      return (
        <div className="request-line request-compact request-wait" role="row" aria-busy="true">
          <span role="gridcell">reading...</span>
        </div>
      )
    const { time, model, key, outcome, total, cost } = COLUMNS
    const amount = cost.cell(row)
    return (
      <div
        className="request-line request-compact"
        role="row"
        aria-selected={isSelected}
        data-index={index}
        data-outcome={row.outcome}
        data-opened={isOpen || undefined}
        tabIndex={isSelected ? 0 : -1}
      >
        <span role="gridcell" className="compact-pair">
          <b className="cut">{model.cell(row)}</b>
          <span className="number">{amount === NO_AMOUNT ? amount : `${amount} USD`}</span>
        </span>
        <span role="gridcell" className="compact-pair dim">
          <span className="cut">
            <span className="number">{time.cell(row, zone, now)}</span> {outcome.cell(row)} {key.cell(row)}
          </span>
          <span className="number">{total.cell(row)}</span>
        </span>
      </div>
    )
  },
  (a, b) =>
    a.row === b.row &&
    a.index === b.index &&
    a.zone === b.zone &&
    a.isSelected === b.isSelected &&
    a.isOpen === b.isOpen,
)
