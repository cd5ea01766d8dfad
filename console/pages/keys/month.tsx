import { useMemo } from 'react'
import type { Measures, Usage } from '../../api/answers.ts'
import { useUsage } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { Chart } from '../../parts/chart.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Money } from '../../parts/money.tsx'
import { bucketAt, bucketStarts, endOf } from '../../parts/range.ts'
import type { Zone } from '../../parts/when.ts'
import { count, shortCount } from '../../parts/when.ts'
import { useZone } from '../../parts/when.tsx'

const HEIGHT = 150

const SERIES: readonly { label: string; tone: string; of(measures: Measures): number }[] = [
  { label: 'answered', tone: 'chart-completed', of: ({ requests, failed }) => requests - failed },
  { label: 'failed', tone: 'chart-failed', of: ({ failed }) => failed },
  { label: 'refused', tone: 'chart-refused', of: ({ refused }) => refused },
]

/** The last 30 days of a key: its requests by day, and what they cost. */
export function KeyMonth({ id }: { id: string }) {
  const zone = useZone()
  const asked = useUsage({ key: id, from: '-30d', bucket: 'day', tz: zone })
  return (
    <section className="stack" aria-label="30 days">
      <h3>30 days</h3>
      <Loaded asked={asked} height={HEIGHT + 60}>
        {(usage) => (
          <>
            <p className="number">
              <Money usd={usage.total.cost_usd} as="head" why="Your role does not see list prices." /> USD,{' '}
              {count(usage.total.requests)} {usage.total.requests === 1 ? 'request' : 'requests'},{' '}
              {count(usage.total.failed)} of them failed; {count(usage.total.refused)} refused besides
            </p>
            <Days usage={usage} zone={zone} />
          </>
        )}
      </Loaded>
      <div className="links">
        <To path={`/requests?key=${encodeURIComponent(id)}&from=-30d`} className="link">
          Requests of this key
        </To>
        <To path={`/usage?key=${encodeURIComponent(id)}&from=-30d`} className="link">
          Usage of this key
        </To>
      </div>
    </section>
  )
}

function Days({ usage, zone }: { usage: Usage; zone: Zone }) {
  const { starts, series } = useMemo(() => coursesOf(usage, zone), [usage, zone])
  return (
    <Chart
      {...{ starts, series, zone }}
      end={endOf(starts.at(-1) ?? 0, 'day', zone)}
      bucket="day"
      height={HEIGHT}
      label={`Requests by day: ${count(usage.total.requests)} in 30 days`}
      format={(value) => count(value)}
      formatAxis={shortCount}
    />
  )
}

function coursesOf({ from, to, groups }: Usage, zone: Zone) {
  const starts = bucketStarts(Date.parse(from), Date.parse(to), 'day', zone)
  const series = SERIES.map(({ label, tone, of }) => {
    const values = new Array<number>(starts.length).fill(0)
    for (const [at, measures] of groups.flatMap(({ points }) => points)) {
      const index = bucketAt(starts, Date.parse(at))
      if (index >= 0) values[index] = (values[index] ?? 0) + of(measures)
    }
    return { label, tone, values }
  })
  return { starts, series: series.filter(({ values }) => values.some((value) => value > 0)) }
}
