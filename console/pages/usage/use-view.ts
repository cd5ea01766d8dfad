import { useMemo } from 'react'
import { useSearchParams } from 'wouter'
import { bucketOf, type Range } from '../../parts/range.ts'
import type { Bucket } from '../../parts/when.ts'
import { isGroup, isMetric, type Group, type Metric } from './measures.ts'

export const BUCKETS: readonly Bucket[] = ['minute', 'hour', 'day', 'week', 'month']

export type UsageView = {
  metric: Metric
  by: Group
  then: Group | undefined
  bucket: Bucket
  /** The bucket was chosen, not derived from the range. */
  isOwnBucket: boolean
  set(name: 'metric' | 'by' | 'then' | 'bucket', value: string | undefined): void
}

/** The shown part of the usage, in the URL. */
export function useUsageView(range: Range): UsageView {
  const [params, setParams] = useSearchParams()
  const text = String(params)
  return useMemo(() => {
    const search = new URLSearchParams(text)
    const [metric, by, then, bucket] = ['metric', 'by', 'then', 'bucket'].map((name) => search.get(name)) as [
      string | null,
      string | null,
      string | null,
      string | null,
    ]
    const first = isGroup(by) ? by : 'model'
    const own = BUCKETS.find((name) => name === bucket)
    return {
      metric: isMetric(metric) ? metric : 'cost',
      by: first,
      then: isGroup(then) && then !== first ? then : undefined,
      bucket: own ?? bucketOf(range, Date.now()),
      isOwnBucket: own !== undefined,
      set: (name, value) =>
        setParams((before) => {
          const next = new URLSearchParams(before)
          if (value === undefined) next.delete(name)
          else next.set(name, value)
          return next
        }),
    }
  }, [text, range, setParams])
}
