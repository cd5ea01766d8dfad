import { memo } from 'react'
import type { RequestRow } from '../../api/answers.ts'
import { type Zone, dateText } from '../../parts/when.ts'
import { columnOf, type ColumnName } from './columns.tsx'

type Props = {
  index: number
  row: RequestRow | undefined
  columns: readonly ColumnName[]
  zone: Zone
  now: number
  isSelected: boolean
  isOpen: boolean
}

/** One request: plain elements, drawn again only when it has changed. The list listens to clicks for all of them. */
export const Line = memo(
  function Line({ index, row, columns, zone, now, isSelected, isOpen }: Props) {
    if (row === undefined)
      return (
        <div className="request-line request-wait" role="row" aria-busy="true">
          <span role="gridcell">reading...</span>
        </div>
      )
    return (
      <div
        className="request-line"
        role="row"
        aria-rowindex={index + 2}
        aria-selected={isSelected}
        data-index={index}
        data-outcome={row.outcome}
        data-opened={isOpen || undefined}
        tabIndex={isSelected ? 0 : -1}
      >
        {columns.map((name) => {
          const { cell, hint, isNumber, filter } = columnOf(name)
          const value = filter?.valueOf(row) ?? null
          return (
            <span
              key={name}
              role="gridcell"
              className={isNumber === true ? 'number right' : 'cut'}
              data-column={name}
              title={hint?.(row)}
            >
              {filter === undefined || value === null ? (
                cell(row, zone, now)
              ) : (
                <span className="cell-value" data-field={filter.field} data-value={value}>
                  {cell(row, zone, now)}
                </span>
              )}
            </span>
          )
        })}
      </div>
    )
  },
  (a, b) =>
    a.row === b.row &&
    a.index === b.index &&
    a.columns === b.columns &&
    a.zone === b.zone &&
    a.isSelected === b.isSelected &&
    a.isOpen === b.isOpen &&
    dateText(a.now, a.zone) === dateText(b.now, b.zone),
)
