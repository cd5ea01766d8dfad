import { useMemo } from 'react'
import { useAsk } from '../../api/queries.ts'
import type { Query } from '../../api/ask.ts'
import type { Usage } from '../../api/answers.ts'
import { Loaded } from '../../parts/fault.tsx'
import { OUTCOME_TONES, OUTCOME_WORDS, OUTCOMES } from '../../parts/outcomes.ts'
import { bucketAt, bucketOf, bucketStarts, endOf, instantsOf, isOpenEnded, type Range } from '../../parts/range.ts'
import { TimeChart, type ChartSeries } from '../../parts/time-chart.tsx'
import { count, shortCount, type Zone } from '../../parts/when.ts'

const HEIGHT = 104
const AGAIN_MS = 5000

type Props = {
  query: Query
  range: Range
  zone: Zone
  isLive: boolean
  onRange(from: number, to: number): void
  onBack(): void
}

/** Requests by outcome over the range. */
export function Bars({ query, range, zone, isLive, onRange, onBack }: Props) {
  const bucket = bucketOf(range, Date.now())
  const usage = useAsk<Usage>(
    '/usage',
    { ...query, from: range.from, to: range.to, tz: zone, bucket, group: 'outcome' },
    { refetchInterval: isLive && isOpenEnded(range) ? AGAIN_MS : false },
  )
  const chart = useMemo(() => {
    if (usage.data === undefined) return undefined
    const { from, to } = spanOf(usage.data, range)
    const starts = bucketStarts(from, to, bucket, zone)
    return { starts, end: endOf(starts.at(-1) ?? from, bucket, zone), series: seriesOf(usage.data, starts) }
  }, [usage.data, bucket, zone, range])
  const total = usage.data?.total
  const label =
    total === undefined
      ? 'Requests by outcome'
      : `Requests by outcome: ${count(total.requests)}, ${count(total.failed)} failed, ${count(total.refused)} refused`
  return (
    <Loaded asked={{ ...usage, data: chart }} height={HEIGHT + 22}>
      {({ starts, end, series }) => (
        <TimeChart
          {...{ label, starts, end, bucket, zone, series, onRange, onBack }}
          height={HEIGHT}
          format={(value) => count(value)}
          formatAxis={(value) => (Number.isInteger(value) ? shortCount(value) : '')}
        />
      )}
    </Loaded>
  )
}

/** The range that was answered, which for one that ends now is that of the answer. */
function spanOf(usage: Usage, range: Range): { from: number; to: number } {
  const now = Date.parse(usage.to)
  return Number.isNaN(now) ? instantsOf(range, Date.now()) : { from: Date.parse(usage.from), to: now }
}

function seriesOf({ groups }: Usage, starts: readonly number[]): ChartSeries[] {
  return OUTCOMES.flatMap((outcome) => {
    const group = groups.find(({ key }) => key === outcome)
    if (group === undefined) return []
    const values = new Array<number>(starts.length).fill(0)
    for (const [at, { requests, refused }] of group.points) {
      const index = bucketAt(starts, Date.parse(at))
      if (index >= 0)
        values[index] = (values[index] ?? 0) + (outcome === 'refused' ? Math.max(requests, refused) : requests)
    }
    return [{ label: OUTCOME_WORDS[outcome], tone: OUTCOME_TONES[outcome], values }]
  })
}
