import type { Choice, ChoiceName, RequestFilter, Scope } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'

/** Columns of a table that hold ids of names, by the choice that is about them. */
type ChoiceColumns = Partial<Record<ChoiceName, string>>

/**
 * Conditions of SQL for what a filter chooses among the columns of a table; none of them leaves out a row that the
 * filter accepts. Ids are numbers of ours, so that they can be a part of the statement.
 */
export function choiceConditions(
  names: NameCache,
  { accountIds, keyIds, choices }: Scope & Pick<RequestFilter, 'choices'>,
  columns: ChoiceColumns,
): string[] {
  const conditions: string[] = []
  const isIn = (column: string, texts: readonly string[]): string => `${column} IN (${names.ids(texts).join(', ')})`
  if (accountIds !== undefined) conditions.push(`(${isIn('account', accountIds)} OR ${isIn('key', keyIds ?? [])})`)
  for (const [name, column] of Object.entries(columns)) {
    const { only, not }: Choice = choices[name as ChoiceName] ?? {}
    if (only !== undefined) conditions.push(isIn(column, only))
    if (not !== undefined) conditions.push(`NOT coalesce(${isIn(column, not)}, 0)`)
  }
  return conditions
}

export const where = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` AND ${conditions.join(' AND ')}`
