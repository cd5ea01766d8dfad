import { Button, Popover, Select, TextInput } from '@mantine/core'
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks'
import { useEffect, useState } from 'react'
import type { Query } from '../../api/ask.ts'
import { FILTER_FIELDS, fieldOf, type Filters, filterText, hasFilters, withValues } from '../../parts/filters.ts'
import { idIn } from '../../parts/id.ts'
import { Icon } from '../../parts/icons.tsx'
import { oneLine } from '../../parts/visible.ts'
import { FilterMenu } from './filter-menu.tsx'

type Props = {
  filters: Filters
  setFilters(filters: Filters): void
  scope: Query
  /** Names of values that are ids. */
  labelOf(field: string, value: string): string
  onId(id: string): void
}

const MENUS = ['model', 'key', 'outcome']
const IN_MENUS = new Set([...MENUS, 'q'])

/** The filters of the list. */
export function FilterBar(props: Props) {
  const { filters, setFilters, scope, labelOf } = props
  const chips = Object.entries(filters).filter(([name]) => name !== 'q')
  return (
    <div className="filters">
      <div className="filters-row">
        <Search {...props} />
        {MENUS.map((field) => (
          <FilterMenu key={field} field={field} filters={filters} setFilters={setFilters} scope={scope} />
        ))}
        <MoreFilters {...props} />
      </div>
      {chips.length > 0 && (
        <div className="filters-row chips">
          {chips.map(([name, values]) => {
            const text = oneLine(
              filterText(name, values, (value) => labelOf(fieldOf(name).field, value)),
              80,
            )
            return (
              <button
                key={name}
                type="button"
                className="chip"
                aria-label={`Remove the filter ${text}`}
                onClick={() => setFilters(withValues(filters, name, []))}
              >
                <span className="chip-text">{text}</span>
                <Icon name="close" size={11} />
              </button>
            )
          })}
          {hasFilters(filters) && (
            <button type="button" className="link chips-clear" onClick={() => setFilters({})}>
              Clear all
            </button>
          )}
        </div>
      )}
    </div>
  )
}

const SEARCH_MS = 300

/** An id is opened; any other text is looked for in errors. */
function Search({ filters, setFilters, onId }: Props) {
  const current = filters['q']?.[0] ?? ''
  const [text, setText] = useState(current)
  useEffect(() => setText(current), [current])
  const isShort = text.trim().length > 0 && text.trim().length < 3
  const search = useDebouncedCallback((value: string) => {
    const id = idIn(value)
    if (id !== undefined) return onId(id)
    const wanted = value.trim()
    if (wanted.length === 0 || wanted.length >= 3) setFilters(withValues(filters, 'q', [wanted]))
  }, SEARCH_MS)
  return (
    <TextInput
      className="filters-search"
      size="xs"
      data-filter
      leftSection={<Icon name="search" size={14} />}
      rightSection={text === '' ? <kbd>/</kbd> : undefined}
      placeholder="Id, or text of an error"
      aria-label="Find by id or error"
      description={isShort ? 'Three characters or more' : undefined}
      inputWrapperOrder={['input', 'description']}
      value={text}
      onChange={({ target }) => {
        setText(target.value)
        search(target.value)
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur()
        if (event.key === 'Enter') search.flush()
      }}
    />
  )
}

/** Filters that are needed less often: the field first, then its value. */
function MoreFilters({ filters, setFilters, scope }: Props) {
  const [opened, { close, toggle }] = useDisclosure(false)
  const fields = Object.entries(FILTER_FIELDS).filter(([name]) => !IN_MENUS.has(name))
  const [field, setField] = useState(fields[0]![0])
  return (
    <Popover opened={opened} onChange={close} width={280} position="bottom-start" trapFocus returnFocus>
      <Popover.Target>
        <button type="button" className="filter-button filter-more" aria-expanded={opened} onClick={toggle}>
          <Icon name="plus" size={12} />
          Filter
        </button>
      </Popover.Target>
      <Popover.Dropdown className="filter-menu">
        <Select
          size="xs"
          label="Field"
          value={field}
          comboboxProps={{ withinPortal: false }}
          onChange={(value) => setField(value ?? field)}
          data={fields.map(([value, { label }]) => ({ value, label }))}
        />
        <FieldValue key={field} {...{ field, filters, setFilters, scope }} onDone={close} />
      </Popover.Dropdown>
    </Popover>
  )
}

type FieldProps = Pick<Props, 'filters' | 'setFilters' | 'scope'> & { field: string; onDone(): void }

function FieldValue({ field, filters, setFilters, scope, onDone }: FieldProps) {
  const { kind, unit, label } = FILTER_FIELDS[field]!
  const [value, setValue] = useState(filters[field]?.[0] ?? '')
  const set = (text: string): void => {
    setFilters(withValues(filters, field, [text]))
    onDone()
  }
  if (kind === 'choice') return <FilterMenu {...{ field, filters, setFilters, scope }} label="Choose values" />
  if (kind === 'flag')
    return (
      <div className="filter-flag">
        {(['true', 'false'] as const).map((one) => (
          <Button key={one} size="compact-sm" variant="default" onClick={() => set(one)}>
            {one === 'true' ? 'Yes' : 'No'}
          </Button>
        ))}
      </div>
    )
  return (
    <form
      className="filter-number-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (/^\d+(\.\d+)?$/.test(value.trim())) set(value.trim())
      }}
    >
      <TextInput
        size="xs"
        label={`${label}${unit === undefined ? '' : `, ${unit}`}`}
        inputMode="decimal"
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
      <Button size="compact-sm" type="submit">
        Apply
      </Button>
    </form>
  )
}
