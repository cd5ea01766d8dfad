import { Button, Menu, Popover } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { urlOf, type Query } from '../../api/ask.ts'
import { ExportMenu } from '../../parts/export-menu.tsx'
import { ALL_COLUMNS, columnOf, type ColumnName } from './columns.tsx'

/** The columns of the list, which are in the URL, too. */
export function ColumnMenu({
  columns,
  usual,
  onChange,
}: {
  columns: readonly ColumnName[]
  /** Those without a choice. */
  usual: readonly ColumnName[]
  onChange(names: string | undefined): void
}) {
  const [opened, { close, toggle }] = useDisclosure(false)
  const set = (next: readonly ColumnName[]): void => {
    const isUsual = next.length === 0 || String(next) === String(usual)
    onChange(isUsual ? undefined : next.join(','))
  }
  return (
    <Popover opened={opened} onChange={close} width={220} position="bottom-end" trapFocus returnFocus>
      <Popover.Target>
        <Button variant="default" size="compact-sm" aria-expanded={opened} onClick={toggle}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown className="filter-menu">
        <ul className="filter-values">
          {ALL_COLUMNS.map((name) => (
            <li key={name}>
              <label className="filter-value">
                <input
                  type="checkbox"
                  checked={columns.includes(name)}
                  onChange={({ target }) =>
                    set(ALL_COLUMNS.filter((one) => (one === name ? target.checked : columns.includes(one))))
                  }
                />
                <span>{columnOf(name).title}</span>
              </label>
            </li>
          ))}
        </ul>
        <button type="button" className="link filter-clear" onClick={() => onChange(undefined)}>
          Usual columns
        </button>
      </Popover.Dropdown>
    </Popover>
  )
}

/** All rows of the filters as a file, written by the server as it reads them. */
export function RowExport({ query }: { query: Query }) {
  const file = (format: string): string => urlOf('/requests/export', { ...query, format })
  return (
    <ExportMenu>
      <Menu.Item component="a" href={file('csv')} download>
        CSV, all rows of the filters
      </Menu.Item>
      <Menu.Item component="a" href={file('jsonl')} download>
        JSON lines, all rows of the filters
      </Menu.Item>
    </ExportMenu>
  )
}
