import { useMemo } from 'react'
import { useScope } from '../../app/scope.tsx'
import type { Outcome, Usage, UsageGroup } from '../../api/answers.ts'
import { OUTCOME_TONES } from '../../parts/outcomes.ts'
import { customRange } from '../../parts/range.ts'
import { TimeChart } from '../../parts/time-chart.tsx'
import type { Zone } from '../../parts/when.ts'
import { axisTextOf, byBucket, groupName, GROUPS, heightOf, isRest, METRICS, textOf } from './measures.ts'
import type { Group, Metric } from './measures.ts'

type Props = {
  usage: Usage
  starts: readonly number[]
  end: number
  groups: readonly UsageGroup[]
  metric: Metric
  zone: Zone
  by: Group
  then: Group | undefined
}

const HEIGHT = 260

/** The metric over time; shares as lines, all others stacked. */
export function UsageChart({ usage, starts, end, groups, metric, zone, by, then }: Props) {
  const { setRange } = useScope()
  const values = useMemo(() => groups.map((group) => byBucket(group, starts)), [groups, starts])
  const series = useMemo(
    () =>
      groups.map((group, index) => ({
        label: groupName(group, by, then),
        tone: toneOf(group, by, then, index),
        values: values[index]!.map((measures) =>
          measures === undefined ? (metric === 'cache' ? null : 0) : heightOf(metric, measures),
        ),
      })),
    [groups, values, metric, by, then],
  )
  const grouped = `${GROUPS[by].toLowerCase()}${then === undefined ? '' : ` and ${GROUPS[then].toLowerCase()}`}`
  return (
    <TimeChart
      label={`${METRICS[metric]} by ${grouped}, one value each ${usage.bucket}. The table below has the numbers.`}
      {...{ starts, end, zone, series }}
      kind={metric === 'cache' ? 'lines' : 'bars'}
      bucket={usage.bucket}
      height={HEIGHT}
      format={(_, group, index) => textOf(metric, values[group]?.[index])}
      formatAxis={(value) => axisTextOf(metric, value)}
      onRange={(from, to) => setRange(customRange(from, to))}
      onBack={() => window.history.back()}
    />
  )
}

function toneOf(group: UsageGroup, by: Group, then: Group | undefined, index: number): string {
  if (isRest(group)) return 'chart-rest'
  const own = by === 'outcome' && then === undefined ? OUTCOME_TONES[group.key as Outcome] : undefined
  return own ?? `chart-${(index % 8) + 1}`
}
