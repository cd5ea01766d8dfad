import { NumberInput, Select, TagsInput, TextInput } from '@mantine/core'
import { useModels } from '../../api/queries.ts'
import { ApiError } from '../../api/ask.ts'
import type { Key, LimitPeriod } from '../../api/answers.ts'

/** The options of a key, as typed. */
export type KeyOptions = {
  name: string
  models: string[]
  limit_usd: string
  limit_period: LimitPeriod | 'never'
  requests_per_minute: number | ''
}

export const NO_OPTIONS: KeyOptions = {
  name: '',
  models: [],
  limit_usd: '',
  limit_period: 'month',
  requests_per_minute: '',
}

export const optionsOf = (key: Key): KeyOptions => ({
  name: key.name ?? '',
  models: key.models ?? [],
  limit_usd: key.limit_usd ?? '',
  limit_period: key.limit_period ?? 'never',
  requests_per_minute: key.requests_per_minute ?? '',
})

/** As the API takes them; `null` takes a limit away. */
export const bodyOf = (options: KeyOptions) => ({
  name: options.name.trim() === '' ? null : options.name.trim(),
  models: options.models.length === 0 ? null : options.models,
  limit_usd: options.limit_usd.trim() === '' ? null : options.limit_usd.trim(),
  limit_period: options.limit_usd.trim() === '' || options.limit_period === 'never' ? null : options.limit_period,
  requests_per_minute: options.requests_per_minute === '' ? null : options.requests_per_minute,
})

const PERIODS = [
  { value: 'never', label: 'in total' },
  { value: 'day', label: 'a day' },
  { value: 'week', label: 'a week' },
  { value: 'month', label: 'a month' },
]

type Change = (change: Partial<KeyOptions>) => void
type Props = { options: KeyOptions; onChange: Change; error?: Error | null; focus?: string | null }

/** The refusal of one field, below that field. */
const refusalOf = (error: Error | null | undefined, field: string): string | undefined =>
  error instanceof ApiError &&
  error.param
    ?.replace(/\[\d+\]$/, '')
    .split('.')
    .at(-1) === field
    ? error.message
    : undefined

export function NameField({ options, onChange, error, focus }: Props) {
  return (
    <TextInput
      label="Name"
      description="Shown with each request."
      maxLength={100}
      data-autofocus={focus === 'name' || undefined}
      value={options.name}
      error={refusalOf(error, 'name')}
      onChange={({ currentTarget: { value } }) => onChange({ name: value })}
    />
  )
}

export function LimitFields({ options, onChange, error, focus }: Props) {
  return (
    <div className="field-pair">
      <TextInput
        label="Spending limit, USD"
        description="Empty: only the account's balance limits it."
        inputMode="decimal"
        pattern="\d+(\.\d{1,9})?"
        title="An amount of USD, such as 12.5"
        // The form may be drawn after its drawer has opened and chosen what has the focus.
        autoFocus={focus === 'limit'}
        data-autofocus={focus === 'limit' || undefined}
        value={options.limit_usd}
        error={refusalOf(error, 'limit_usd')}
        onChange={({ currentTarget: { value } }) => onChange({ limit_usd: value })}
      />
      <Select
        label="Period"
        description="It begins again in UTC."
        data={PERIODS}
        disabled={options.limit_usd === ''}
        value={options.limit_period}
        onChange={(value) => onChange({ limit_period: (value ?? 'never') as KeyOptions['limit_period'] })}
      />
    </div>
  )
}

export function ModelsField({ options, onChange, error }: Props) {
  const models = useModels()
  return (
    <TagsInput
      label="Models"
      description="Names, or patterns such as openai/*. Empty: all."
      placeholder={options.models.length === 0 ? 'all' : ''}
      data={(models.data?.data ?? []).map(({ id }) => id)}
      limit={20}
      splitChars={[',', ' ']}
      acceptValueOnBlur
      value={options.models}
      error={refusalOf(error, 'models')}
      onChange={(value) => onChange({ models: value })}
    />
  )
}

export function RateField({ options, onChange, error }: Props) {
  return (
    <NumberInput
      label="Requests per minute"
      description="For each route. Empty: the limit of the server."
      min={1}
      allowDecimal={false}
      value={options.requests_per_minute}
      error={refusalOf(error, 'requests_per_minute')}
      onChange={(value) => onChange({ requests_per_minute: value === '' ? '' : Number(value) })}
    />
  )
}
