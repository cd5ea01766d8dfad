import { TextInput } from '@mantine/core'
import { Icon } from './icons.tsx'

type FilterInputProps = { label: string; placeholder: string; value: string; onChange: (value: string) => void }

/** The filter of a page by text, which a key of the keyboard leads to. */
export const FilterInput = ({ label, placeholder, value, onChange }: FilterInputProps) => (
  <TextInput
    data-filter
    aria-label={label}
    placeholder={placeholder}
    leftSection={<Icon name="search" />}
    value={value}
    onChange={({ currentTarget }) => onChange(currentTarget.value)}
  />
)
