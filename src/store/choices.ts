import type { Choice, ChoiceName, RequestFilter, Scope } from './reports.ts'

/** Columns of a table by the choice that is about them. */
export type ChoiceColumns = Partial<Record<ChoiceName, string>>

export const SPEED_CHOICES: ChoiceColumns = { model: 'model', provider: 'provider' }
/** Columns of the roll-ups of generations. */
export const USAGE_CHOICES: ChoiceColumns = { account: 'account', key: 'key', ...SPEED_CHOICES, outcome: 'ending' }
export const GENERATION_CHOICES: ChoiceColumns = { ...USAGE_CHOICES, api: 'api', client: 'client' }
/** Columns of the roll-ups of refusals. */
export const REFUSED_CHOICES: ChoiceColumns = { account: 'account', key: 'key', code: 'code' }
export const REFUSAL_CHOICES: ChoiceColumns = { ...REFUSED_CHOICES, model: 'model', api: 'route', client: 'client' }

/**
 * Conditions of SQL for what a filter chooses; none of them leaves out a row that the filter accepts. `isIn`: the
 * condition that a column has one of these texts.
 */
export function conditionsOf(
  isIn: (column: string, texts: readonly string[]) => string,
  { accountIds, keyIds, choices }: Scope & Pick<RequestFilter, 'choices'>,
  columns: ChoiceColumns,
): string[] {
  const conditions: string[] = []
  if (accountIds !== undefined) conditions.push(`(${isIn('account', accountIds)} OR ${isIn('key', keyIds ?? [])})`)
  for (const [name, column] of Object.entries(columns)) {
    const { only, not }: Choice = choices[name as ChoiceName] ?? {}
    if (only !== undefined) conditions.push(isIn(column, only))
    if (not !== undefined) conditions.push(`NOT coalesce(${isIn(column, not)}, false)`)
  }
  return conditions
}

export const where = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` AND ${conditions.join(' AND ')}`
