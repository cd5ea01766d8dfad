import { type ChoiceColumns, conditionsOf } from '../../choices.ts'
import type { RequestFilter, Scope } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'

/** Conditions on columns that hold ids of names. Ids are numbers of ours, so that they can be a part of a statement. */
export const choiceConditions = (
  names: NameCache,
  filter: Scope & Pick<RequestFilter, 'choices'>,
  columns: ChoiceColumns,
): string[] => conditionsOf((column, texts) => `${column} IN (${names.ids(texts).join(', ')})`, filter, columns)
