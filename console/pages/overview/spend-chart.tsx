import { useMemo } from 'react'
import type { Usage } from '../../api/answers.ts'
import { useScope } from '../../app/scope.tsx'
import { Chart } from '../../parts/chart.tsx'
import { chartUsd, headUsd } from '../../parts/money.ts'
import { bucketAt, bucketStarts, customRange, endOf } from '../../parts/range.ts'
import type { ChartSeries } from '../../parts/time-chart.tsx'
import { visible } from '../../parts/visible.ts'
import type { Zone } from '../../parts/when.ts'
import { useZone } from '../../parts/when.tsx'
import { axisTextOf } from '../usage/measures.ts'

const HEIGHT = 248
const COLORS = 8

type Priced = { starts: number[]; end: number; series: ChartSeries[]; amounts: (string | null)[][] }

/** Cost by model over the range, as stacked bars. Each bar's amounts are exact beside the pointer. */
export function SpendChart({ usage }: { usage: Usage }) {
  const { setRange } = useScope()
  const zone = useZone()
  const { starts, end, series, amounts } = useMemo(() => pricedBy(usage, zone), [usage, zone])
  const priced = usage.groups.filter(({ total }) => chartUsd(total.cost_usd) > 0)
  const words = priced.map(({ label, total }) => `${label} ${headUsd(total.cost_usd)}`)
  return (
    <Chart
      {...{ starts, end, series, zone }}
      bucket={usage.bucket}
      height={HEIGHT}
      empty={usage.total.requests > 0 ? 'Nothing was charged in this range' : 'No requests in this range'}
      label={`Cost by model in USD: ${words.join(', ') || 'none'}`}
      format={(_, one, at) => headUsd(amounts[one]?.[at] ?? null)}
      formatAxis={(value) => axisTextOf('cost', value)}
      onRange={(from, to) => setRange(customRange(from, to))}
    />
  )
}

function pricedBy({ groups, bucket, from, to }: Usage, zone: Zone): Priced {
  const starts = bucketStarts(Date.parse(from), Date.parse(to), bucket, zone)
  const end = endOf(starts.at(-1) ?? Date.parse(from), bucket, zone)
  const priced = groups.filter(({ total }) => chartUsd(total.cost_usd) > 0)
  const amounts = priced.map(({ points }) => {
    const row = new Array<string | null>(starts.length).fill(null)
    for (const [at, { cost_usd }] of points) {
      const index = bucketAt(starts, Date.parse(at))
      if (index >= 0) row[index] = cost_usd
    }
    return row
  })
  const series = priced.map(({ key, label }, index) => ({
    label: visible(label),
    tone: key === 'other' || index >= COLORS ? 'chart-rest' : `chart-${index + 1}`,
    values: (amounts[index] ?? []).map(chartUsd),
  }))
  return { starts, end, series, amounts }
}
