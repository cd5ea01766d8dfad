import { useCallback, useMemo } from 'react'
import { useSearchParams } from 'wouter'
import type { Query } from '../../api/ask.ts'
import { filterQuery, readFilters, writeFilters, type Filters } from '../../parts/filters.ts'

/** The filters of the URL. A change of them closes what was opened from the list. */
export function useFilters(): [Filters, (filters: Filters) => void] {
  const [params, setParams] = useSearchParams()
  const text = String(writeFilters(new URLSearchParams(), readFilters(params)))
  const filters = useMemo(() => readFilters(new URLSearchParams(text)), [text])
  const setFilters = useCallback((next: Filters) => setParams((before) => writeFilters(before, next)), [setParams])
  return [filters, setFilters]
}

/** Filters as the parameters of a question. */
export function queryOf(filters: Filters): Query {
  const query: Record<string, string[]> = {}
  for (const [name, value] of filterQuery(filters)) (query[name] ??= []).push(value)
  return query
}
