import { Popover, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { type ComponentProps, useState } from 'react'
import type { Query } from '../../api/ask.ts'
import { useAsk } from '../../api/queries.ts'
import type { Usage } from '../../api/answers.ts'
import { COUNTED_FIELDS, FILTER_FIELDS, type Filters, toggled, withValues } from '../../parts/filters.ts'
import { Loaded } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { OUTCOMES, outcomeText } from '../../parts/outcomes.ts'
import { API_NAMES } from '../../parts/protocols.ts'
import { oneLine } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'

type Props = { field: string; label?: string; filters: Filters; setFilters(filters: Filters): void; scope: Query }

const FIXED: Record<string, readonly string[]> = {
  outcome: OUTCOMES,
  api: API_NAMES,
}
const MOST_VALUES = 100

/** A button with the values of one filter, those of the range with their numbers of requests. */
export function FilterMenu({ field, label, filters, setFilters, scope }: Props) {
  const [opened, { close, toggle }] = useDisclosure(false)
  const chosen = filters[field] ?? []
  return (
    <Popover opened={opened} onChange={close} width={280} position="bottom-start" trapFocus returnFocus>
      <Popover.Target>
        <FilterButton isOpen={opened} number={chosen.length} onClick={toggle}>
          {label ?? FILTER_FIELDS[field]?.label}
        </FilterButton>
      </Popover.Target>
      <Popover.Dropdown className="filter-menu">
        {opened && (
          <Values
            field={field}
            chosen={chosen}
            scope={scope}
            onToggle={(value) => setFilters(toggled(filters, field, value))}
            onClear={() => setFilters(withValues(filters, field, []))}
          />
        )}
      </Popover.Dropdown>
    </Popover>
  )
}

type ButtonProps = ComponentProps<'button'> & { isOpen: boolean; number: number }

/** The popover gives it attributes of its own. */
function FilterButton({ isOpen, number, children, className = '', ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`filter-button ${className}`}
      data-chosen={number > 0 || undefined}
      aria-expanded={isOpen}
    >
      {children}
      {number > 0 && <span className="filter-number">{number}</span>}
      <Icon name="down" size={12} />
    </button>
  )
}

type Value = { value: string; label: string; requests: number | undefined }
type ValuesProps = {
  field: string
  chosen: readonly string[]
  scope: Query
  onToggle(value: string): void
  onClear(): void
}

function Values({ field, chosen, scope, onToggle, onClear }: ValuesProps) {
  const [search, setSearch] = useState('')
  const isCounted = COUNTED_FIELDS.has(field)
  const usage = useAsk<Usage>(
    '/usage',
    { ...scope, group: field, bucket: 'none', top: MOST_VALUES },
    { enabled: isCounted },
  )
  const known = valuesOf(field, isCounted ? usage.data : undefined, chosen)
  const wanted = search.trim().toLowerCase()
  const shown = known.filter(({ label }) => label.toLowerCase().includes(wanted))
  const isNew = wanted !== '' && !known.some(({ label }) => label.toLowerCase() === wanted) && !(field in FIXED)
  const asked = isCounted ? usage : { data: true, error: null, refetch: () => {} }
  return (
    <>
      {!(field in FIXED) && (
        <TextInput
          size="xs"
          placeholder={`Find or write a ${FILTER_FIELDS[field]?.label.toLowerCase()}`}
          aria-label="Find a value"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      )}
      <Loaded<unknown> asked={asked} height={120} lines={4}>
        {() => (
          <ul className="filter-values">
            {isNew && (
              <Choice value={search.trim()} label={`is ${search.trim()}`} requests={undefined} onToggle={onToggle} />
            )}
            {shown.map((one) => (
              <Choice key={one.value} {...one} isChosen={chosen.includes(one.value)} onToggle={onToggle} />
            ))}
            {shown.length === 0 && !isNew && <li className="dim filter-none">No request in this range has one</li>}
          </ul>
        )}
      </Loaded>
      {chosen.length > 0 && (
        <button type="button" className="link filter-clear" onClick={onClear}>
          Clear
        </button>
      )}
    </>
  )
}

function Choice({
  value,
  label,
  requests,
  isChosen = false,
  onToggle,
}: Value & { isChosen?: boolean; onToggle(value: string): void }) {
  return (
    <li>
      <label className="filter-value">
        <input type="checkbox" checked={isChosen} onChange={() => onToggle(value)} />
        <span className="cut" title={label}>
          {oneLine(label, 80)}
        </span>
        {requests !== undefined && <span className="number dim">{count(requests)}</span>}
      </label>
    </li>
  )
}

/** The values in the range, those that are always possible, and those that are chosen already. */
function valuesOf(field: string, usage: Usage | undefined, chosen: readonly string[]): Value[] {
  const values = new Map<string, Value>()
  for (const { key, label, total } of usage?.groups ?? [])
    if (typeof key === 'string' && key !== '' && !(key === 'other' && label === 'other'))
      values.set(key, { value: key, label: label ?? key, requests: total.requests })
  for (const value of [...(FIXED[field] ?? []), ...chosen])
    if (!values.has(value)) values.set(value, { value, label: value, requests: usage === undefined ? undefined : 0 })
  return [...values.values()].map((one) => (field === 'outcome' ? { ...one, label: outcomeText(one.value) } : one))
}
